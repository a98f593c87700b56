"""Threads of one program that ask in the same session at once: one goes after the other, in the order in which they came."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from threading import Lock

from homarus.core.cancel import soon
from homarus.core.errors import HomarusError
from homarus.core.routes import SessionKey

# The process is part of it: a fork must not wait for a thread that it does not have.
_Place = tuple[int, str, str]
_newest: dict[_Place, Future[None]] = {}
_guard = Lock()
# The places that whoever runs here stands at already, as a function does that a model called.
_held: ContextVar[tuple[tuple[_Place, Future[None]], ...]] = ContextVar("held", default=())


class Turn:
    """A place in the line of a session."""

    def __init__(self, before: Future[None] | None) -> None:
        self._before = before

    async def comes(self) -> None:
        """Return when everybody has left who came before."""
        if self._before is not None:
            loop, free = asyncio.get_running_loop(), asyncio.Event()
            self._before.add_done_callback(lambda _: soon(loop, free.set))
            await free.wait()


@contextmanager
def in_line(home: Path, session: SessionKey) -> Iterator[Turn]:
    """Stand in the line of a session while the context lasts. Whoever asks from inside of its own turn is refused."""
    place, left = (os.getpid(), os.path.realpath(home), str(session)), Future[None]()
    if any(where == place and not theirs.done() for where, theirs in _held.get()):
        cure = "name another session: this one is busy with the question that called the function"
        raise HomarusError(f"this program is being answered in {session} already", cure=cure)
    with _guard:
        before, _newest[place] = _newest.get(place), left
    inside = _held.set((*_held.get(), (place, left)))
    try:
        yield Turn(before)
    finally:
        _held.reset(inside)
        # One that gives up while it waits lets the next one wait for those before.
        if before is None:
            _leave(place, left)
        else:
            before.add_done_callback(lambda _: _leave(place, left))


def _leave(place: _Place, left: Future[None]) -> None:
    with _guard:
        if _newest.get(place) is left:
            del _newest[place]
    left.set_result(None)
