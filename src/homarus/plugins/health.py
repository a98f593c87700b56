"""How plugins do: what went wrong with each, by id, and a thread that sees when one of them stands in the way of everything.

A plugin inside the program shares its loop and its memory, and nothing can take them away from code that holds them. So that is
noticed and named, and after the next start one that blocked everything runs apart, or not at all where it cannot, until its owner
switches it on again. What it may not do is start processes without end.
"""

from __future__ import annotations

import asyncio
import faulthandler
import inspect
import logging
import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import IO, Any

import msgspec
from msgspec import Struct

from homarus.core.errors import HomarusError, StorageError
from homarus.core.text import single_line
from homarus.storage.atomic import ensure_dir, write_atomic

_log = logging.getLogger(__name__)
STALL_SECONDS = 5.0
# So many processes may a plugin inside the program start in a minute.
MAX_STARTS, STARTS_SECONDS = 64, 60.0
_STARTS = frozenset({"os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"})
Failed = Callable[[str], None]


class Health(Struct, frozen=True, omit_defaults=True):
    """How a plugin has done since it was switched on. One that `blocked` the program does not run inside it again."""

    failures: int = 0
    last: str = ""
    at: float = 0.0
    blocked: bool = False


class HealthBook:
    """What went wrong with plugins, by id; `homarus plugins doctor` reads it.

    While its file cannot be read, every plugin counts as one that blocked the program: nobody knows which of them did.
    """

    def __init__(self, own_dir: Path) -> None:
        self._path = own_dir / "plugins" / "health.json"
        # A plugin may fail in several threads at once.
        self._alone = threading.Lock()

    def read(self) -> dict[str, Health]:
        try:
            return self._rows()
        except (OSError, ValueError) as damaged:
            cure = "look at it and remove it; until then no plugin runs inside the program"
            raise HomarusError(f"{self._path} cannot be read: {damaged}", cure=cure) from damaged

    def of(self, plugin: str) -> Health:
        try:
            return self._rows().get(plugin, Health())
        except (OSError, ValueError):
            return Health(1, f"{self._path} cannot be read; look at it and remove it", blocked=True)

    def _rows(self) -> dict[str, Health]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, Health])
        except FileNotFoundError:
            return {}

    def note(self, plugin: str, problem: str | None, *, blocked: bool = False) -> None:
        """Add one failure; None forgets what was noted."""
        with self._alone:
            try:
                rows = self._rows()
            except (OSError, ValueError) as damaged:
                _log.warning("plugins: %s stays as it is, and cannot be read: %s", self._path, damaged)
                return
            before = rows.pop(plugin, Health())
            if problem is not None:
                told = single_line(problem, 500)
                rows[plugin] = Health(before.failures + 1, told, time.time(), before.blocked or blocked)
            try:
                ensure_dir(self._path.parent)
                write_atomic(self._path, msgspec.json.encode(rows), lasting=False)
            except StorageError as fault:
                _log.warning("plugins: %s", fault)


def noting(thing: Any, methods: tuple[str, ...], failed: Failed) -> Any:
    """Return what a plugin made, with a note for whatever its methods raise; who calls them contains it, as ever.

    Our own errors (a platform that is away, a wrong setting) are no failures of the code.
    """
    for name in methods:
        method = getattr(thing, name, None)
        if callable(method):
            with suppress(AttributeError, TypeError):  # what cannot be changed is used as it is
                setattr(thing, name, _noted(method, failed))
    return thing


def _noted(method: Callable[..., Any], failed: Failed) -> Callable[..., Any]:
    def told(problem: Exception) -> None:
        if not isinstance(problem, HomarusError):
            failed(f"{type(problem).__name__}: {problem}")

    async def waited(answer: Any) -> Any:
        try:
            return await answer
        except Exception as problem:
            told(problem)
            raise

    async def streamed(events: AsyncIterator[Any]) -> AsyncIterator[Any]:
        try:
            async for event in events:
                yield event
        except Exception as problem:
            told(problem)
            raise

    @wraps(method)
    def called(*args: Any, **more: Any) -> Any:
        try:
            answer = method(*args, **more)
        except Exception as problem:
            told(problem)
            raise
        if inspect.isasyncgen(answer):
            return streamed(answer)
        return waited(answer) if inspect.isawaitable(answer) else answer

    return called


class LoopWatch:
    """Asks the loop for a sign of life every few seconds, from a thread of its own.

    Where none comes, the plugin whose code the loop's thread is in, twice in a row, is the one that blocks it. Code that keeps
    every other thread from running, this one too, is written down by the interpreter itself, and read when somebody can.
    """

    def __init__(
        self, folders: Mapping[str, str], told: Callable[[str, str, bool], None], own_dir: Path, *, seconds: float
    ) -> None:
        self._folders, self._told, self._seconds = folders, told, seconds
        self._held = own_dir / "plugins" / f"held-{os.getpid()}.txt"
        self._closed = threading.Event()
        self._started = False

    def start(self) -> None:
        """Watch the loop that runs here, if one does; a second call does nothing."""
        try:
            given = (asyncio.get_running_loop(), threading.get_ident())
        except RuntimeError:
            return
        if self._started or not self._folders:
            return
        self._started = True
        threading.Thread(target=self._watch, args=given, name="plugin-watch", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def held_to_the_end(self) -> str:
        """Return what was written of processes that ended while somebody held all their threads, and forget it."""
        found = ""
        for path in self._held.parent.glob("held-*.txt"):
            if not Path("/proc", path.stem.removeprefix("held-")).exists():
                with suppress(OSError):
                    found += path.read_text("utf-8", "replace")
                    path.unlink()
        return found

    def _watch(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        try:
            ensure_dir(self._held.parent)
            with self._held.open("ab", buffering=0) as file:
                self._look(loop, thread, file)
        except (OSError, StorageError) as problem:
            _log.warning("plugins: nothing watches them: %s", problem)

    def _look(self, loop: asyncio.AbstractEventLoop, thread: int, file: IO[bytes]) -> None:
        try:
            while True:
                faulthandler.dump_traceback_later(self._seconds * 2, file=file)
                if self._closed.wait(self._seconds):
                    return
                if os.fstat(file.fileno()).st_size:
                    self._name(self._held.read_text("utf-8", "replace"))
                    file.truncate(0)
                alive = threading.Event()
                loop.call_soon_threadsafe(alive.set)
                named = ""
                while not alive.wait(self._seconds) and not self._closed.is_set():
                    faulthandler.cancel_dump_traceback_later()
                    found = whose(sys._current_frames().get(thread), self._folders)  # noqa: SLF001 - documented, and made for this
                    if found and found[0] == named:
                        self._told(*found, True)
                        alive.wait()  # once for each time
                    named = found[0] if found else ""
        except RuntimeError:
            return  # the loop is closed
        finally:
            faulthandler.cancel_dump_traceback_later()
            with suppress(OSError):
                self._held.unlink()

    def _name(self, written: str) -> None:
        for folder, plugin in self._folders.items():
            if where := in_folder(written, folder):
                self._told(plugin, where, False)


def in_folder(written: str, folder: str) -> str:
    """Return the line of code in a folder that the interpreter wrote down as running, if it did."""
    found = re.search(rf'File "{re.escape(folder)}/([^"]+)", line (\d+)', written)
    return f"{found[1]}, line {found[2]}" if found else ""


class Strain(Struct, frozen=True):
    """What the whole program has: bytes of memory, open files, processes that it started."""

    memory: int = 0
    files: int = 0
    children: int = 0

    @classmethod
    def now(cls) -> Strain:
        """Measure it; where there is no /proc, nothing is measured."""
        try:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            files = sum(1 for _ in Path("/proc/self/fd").iterdir())
            tasks = Path("/proc/self/task").glob("*/children")
            return cls(pages * os.sysconf("SC_PAGE_SIZE"), files, sum(len(each.read_text().split()) for each in tasks))
        except (OSError, ValueError, IndexError):
            return cls()


# By how much a plugin may make the program grow in one call without being named.
GROWTH = Strain(512 << 20, 200, 32)


@contextmanager
def measured(failed: Failed, most: Strain = GROWTH) -> Iterator[None]:
    """Tell by how much the program has grown while something of a plugin ran, if that is too much."""
    before = Strain.now()
    try:
        yield
    finally:
        after = Strain.now()
        memory, files, children = (
            after.memory - before.memory,
            after.files - before.files,
            after.children - before.children,
        )
        grown = [f"{memory >> 20} MB of memory"] * (memory > most.memory)
        grown += [f"{files} open files"] * (files > most.files) + [f"{children} processes"] * (children > most.children)
        if grown:
            failed(f"it leaks: after a call of it the program has {', '.join(grown)} more")


class _Starts(Struct):
    failed: Failed
    most: int
    pid: int
    when: deque[float]


_starters: dict[str, _Starts] = {}
_installed: list[bool] = []


def limit_starts(folder: str, failed: Failed, most: int = MAX_STARTS) -> Callable[[], None]:
    """Let the code in a folder start only so many processes in a minute, and none from a copy of this one."""
    if not _installed:
        _installed.append(True)
        sys.addaudithook(_starting)  # for good: one that can be taken off again is none
    _starters[folder] = made = _Starts(failed, most, os.getpid(), deque())

    def leave() -> None:
        if _starters.get(folder) is made:
            del _starters[folder]

    return leave


def _starting(event: str, _args: tuple[Any, ...]) -> None:
    if event not in _STARTS or not _starters:
        return
    found = whose(sys._getframe(1), {folder: folder for folder in _starters})  # noqa: SLF001 - as above
    if found is None:
        return
    starts, now = _starters[found[0]], time.monotonic()
    while starts.when and now - starts.when[0] > STARTS_SECONDS:
        starts.when.popleft()
    starts.when.append(now)
    if os.getpid() != starts.pid:
        raise RuntimeError("a copy of the program starts no processes")
    if len(starts.when) > starts.most:
        if len(starts.when) == starts.most + 1:
            starts.failed(f"it starts too many processes ({found[1]})")
        raise RuntimeError(f"a plugin starts at most {starts.most} processes in a minute")


def whose(frame: FrameType | None, folders: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the plugin whose code a thread is in, or was called from, and where; `folders` has their ids by folder."""
    while frame is not None:
        file = frame.f_code.co_filename
        for folder, plugin in folders.items():
            if file.startswith(f"{folder}/"):
                return plugin, f"{file[len(folder) + 1 :]}, line {frame.f_lineno}"
        frame = frame.f_back
    return None
