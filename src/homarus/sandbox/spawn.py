"""Start a process and learn of its end: by a descriptor that the kernel gives for it, and by a thread only where it has none."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence


def _watched(pid: int) -> int:
    return os.pidfd_open(pid)


class Process:
    """A child of ours. Until it is reaped, its number and its group's belong to nobody else."""

    def __init__(self, pid: int, reap: Callable[[], int], watched: Callable[[int], int] = _watched) -> None:
        self.pid = pid
        self.ended = asyncio.Event()
        self._reap = reap
        self._code: int | None = None
        self._then: list[Callable[[], object]] = []
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        try:
            watch = watched(pid)
        except (AttributeError, OSError):  # macOS, an old kernel, or no descriptor is left
            threading.Thread(target=self._outwait, daemon=True).start()
        else:
            self._loop.add_reader(watch, self._readable, watch)

    @property
    def age(self) -> float:
        return self._loop.time() - self._began

    def then(self, call: Callable[[], object]) -> None:
        """Call this at the end, at once if that was already."""
        if self.ended.is_set():
            call()
        else:
            self._then.append(call)

    def reap(self) -> int:
        """Return the exit code, or the negative number of a signal. Only for a process that has ended."""
        if self._code is None:
            self._code = self._reap()
        return self._code

    def _readable(self, watch: int) -> None:
        self._loop.remove_reader(watch)
        os.close(watch)
        self._gone()

    def _gone(self) -> None:
        self.ended.set()
        calls, self._then = self._then, []
        for call in calls:
            call()

    def _outwait(self) -> None:
        self._code = self._reap()
        try:
            self._loop.call_soon_threadsafe(self._gone)
        except RuntimeError:  # the loop has ended before
            return


def spawn(
    line: Sequence[str], pipes: tuple[int, int, int], *, cwd: str, env: Mapping[str, str] | None, held: Sequence[int]
) -> Process:
    """Start a program in a session of its own with these three streams; only `held` is passed on besides."""
    stdin, stdout, stderr = pipes
    process = subprocess.Popen(
        line, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=env, start_new_session=True, pass_fds=held
    )
    return Process(process.pid, process.wait)


def adopt(pid: int) -> Process:
    """Return a child of ours that somebody else has made for us."""

    def reap() -> int:
        try:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        except ChildProcessError:  # the program around us waits for every child itself
            return 255

    return Process(pid, reap)


def memory_file(data: bytes, held: list[int]) -> int:
    """Return a descriptor from which a wrapping reads these bytes: its command line every user of the machine can see.

    `held` takes it, to be passed on and closed afterwards.
    """
    source = os.memfd_create("sandbox")
    held.append(source)
    with os.fdopen(os.dup(source), "wb") as file:
        file.write(data)
    os.lseek(source, 0, os.SEEK_SET)
    return source
