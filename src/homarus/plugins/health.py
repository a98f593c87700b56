"""How plugins do: what went wrong with each, by id, and a thread that sees when one of them stands in the way of everything.

A plugin inside the program shares its loop, and nothing can take the loop away from code that blocks it. So that is noticed and
named, and after the next start such a plugin runs apart, or not at all where it cannot, until its owner switches it on again.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
from msgspec import Struct

from homarus.core.errors import HomarusError, StorageError
from homarus.core.text import single_line
from homarus.storage.atomic import ensure_dir, write_atomic

_log = logging.getLogger(__name__)
STALL_SECONDS = 5.0
Failed = Callable[[str], None]


class Health(Struct, frozen=True, omit_defaults=True):
    """How a plugin has done since it was switched on. One that `blocked` the program does not run inside it again."""

    failures: int = 0
    last: str = ""
    at: float = 0.0
    blocked: bool = False


class HealthBook:
    """What went wrong with plugins, by id; `homarus plugins doctor` reads it."""

    def __init__(self, own_dir: Path) -> None:
        self._path = own_dir / "plugins" / "health.json"
        # A plugin may fail in several threads at once.
        self._alone = threading.Lock()

    def read(self) -> dict[str, Health]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, Health])
        except (OSError, ValueError):
            return {}

    def of(self, plugin: str) -> Health:
        return self.read().get(plugin, Health())

    def note(self, plugin: str, problem: str | None, *, blocked: bool = False) -> None:
        """Add one failure; None forgets what was noted."""
        with self._alone:
            rows = self.read()
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

    Where none comes, the plugin whose code the loop's thread is in, twice in a row, is the one that blocks it.
    """

    def __init__(
        self, folders: Mapping[str, str], blocked: Callable[[str, str], None], *, seconds: float = STALL_SECONDS
    ) -> None:
        self._folders, self._blocked, self._seconds = folders, blocked, seconds
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

    def _watch(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        while not self._closed.wait(self._seconds):
            alive = threading.Event()
            try:
                loop.call_soon_threadsafe(alive.set)
            except RuntimeError:
                return  # it is closed
            named = ""
            while not alive.wait(self._seconds) and not self._closed.is_set():
                found = whose(sys._current_frames().get(thread), self._folders)  # noqa: SLF001 - documented, and made for this
                if found and found[0] == named:
                    self._blocked(*found)
                    alive.wait()  # once for each time
                named = found[0] if found else ""


def whose(frame: FrameType | None, folders: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the plugin whose code a thread is in, or was called from, and where; `folders` has their ids by folder."""
    while frame is not None:
        file = frame.f_code.co_filename
        for folder, plugin in folders.items():
            if file.startswith(f"{folder}/"):
                return plugin, f"{file[len(folder) + 1 :]}, line {frame.f_lineno}"
        frame = frame.f_back
    return None
