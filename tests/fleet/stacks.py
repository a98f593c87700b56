"""On SIGUSR1 a process of a test tells what each of its tasks and threads waits for; a hang is found by asking, not by guessing."""

from __future__ import annotations

import asyncio
import faulthandler
import signal
import sys
from typing import TextIO


def tell_on_signal(out: TextIO = sys.stderr) -> None:
    """Have SIGUSR1 write the stacks of all threads, then those of all tasks of the running loop."""
    faulthandler.register(signal.SIGUSR1, file=out, all_threads=True, chain=True)
    loop = asyncio.get_running_loop()

    def tell() -> None:
        for task in asyncio.all_tasks(loop):
            print(f"--- {task.get_name()} {task.get_coro()!r}", file=out)
            for line in _chain(task):
                print(f"    {line}", file=out)
        out.flush()

    loop.add_signal_handler(signal.SIGUSR1, tell)


def _chain(task: asyncio.Task) -> list[str]:
    """Return where a task stands, from its own coroutine down to what is awaited last."""
    found, each = [], task.get_coro()
    while each is not None:
        frame = getattr(each, "cr_frame", None) or getattr(each, "gi_frame", None) or getattr(each, "ag_frame", None)
        found.append(
            f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}" if frame else repr(each)[:200]
        )
        each = getattr(each, "cr_await", None) or getattr(each, "gi_yieldfrom", None) or getattr(each, "ag_await", None)
    return found
