"""What a process of ours leaves behind when it is killed: commands, private folders, control groups, containers.

Nothing of a process that lives is touched, nor anything of another user's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading

from homarus.sandbox import cgroups, docker, scratch
from homarus.sandbox.marks import all_marked, is_orphan
from homarus.sandbox.spec import SandboxSpec


def end_orphans() -> list[int]:
    """End commands of processes that are gone, remove what was theirs, and return the ids. For a start-up."""
    ended = []
    for pid, value in all_marked():
        if is_orphan(value):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                ended.append(pid)
    scratch.sweep()
    cgroups.sweep()
    return ended


def sweep_folders() -> None:
    """Remove folders that were left behind, beside what is going on, and once in a process. For the first that is made."""
    if _first(os.getpid(), "folders"):
        threading.Thread(target=scratch.sweep).start()


async def end_containers(spec: SandboxSpec) -> None:
    """Remove containers that were left behind, once in a process. For the first that is made."""
    if _first(os.getpid(), spec.binary):
        listed = await called(docker.list_command(spec))
        if names := docker.left(listed.decode("utf-8", "replace")):
            await called(docker.stop_command(spec, *names))


async def called(line: list[str]) -> bytes:
    """Run a program of ours and return what it prints; nothing when it cannot be run."""
    try:
        process = await asyncio.create_subprocess_exec(
            *line, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, stdin=asyncio.subprocess.DEVNULL
        )
    except OSError:
        return b""
    return (await process.communicate())[0]


_done: set[tuple[int, str]] = set()


def _first(pid: int, what: str) -> bool:
    seen = (pid, what) in _done
    _done.add((pid, what))
    return not seen
