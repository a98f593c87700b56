"""Who waits for whom in one program.

Threads that ask in the same session at once go one after the other, in the order in which they came. Nobody waits for a
turn that waits for them: a function that a model called is refused to ask where it was called, and a task is refused to
ask in a session that it holds open itself, through another agent.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from msgspec.structs import replace

from homarus.core.cancel import soon
from homarus.core.errors import HomarusError
from homarus.core.routes import SessionKey
from homarus.tools.tool import Tool, ToolContext, ToolOutput

if TYPE_CHECKING:
    from homarus.runtime.local import LocalClient

# The process is part of it: a fork must not wait for a thread that it does not have.
_Place = tuple[int, str, str]
_newest: dict[_Place, Future[None]] = {}
_guard = Lock()
# The sessions whose turns wait for what runs here, each with what ends when that has ended.
_held: ContextVar[tuple[tuple[_Place, Future[None]], ...]] = ContextVar("held", default=())

# The task that opened a home: as a rule it also closes it.
_openers: WeakKeyDictionary[LocalClient, ref[asyncio.Task[Any]]] = WeakKeyDictionary()


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
    refuse_inside(home, session)
    place, left = _place(home, session), Future[None]()
    with _guard:
        before, _newest[place] = _newest.get(place), left
    try:
        yield Turn(before)
    finally:
        # One that gives up while it waits lets the next one wait for those before.
        if before is None:
            _leave(place, left)
        else:
            before.add_done_callback(lambda _: _leave(place, left))


def noting(home: Path, tool: Tool) -> Tool:
    """Return a tool of a program that knows, while it runs, which turn waits for it."""

    async def run(context: ToolContext, given: dict[str, Any]) -> ToolOutput:
        ended = Future[None]()
        held = _held.set((*_held.get(), (_place(home, context.session), ended)))
        try:
            return await tool.run(context, given)
        finally:
            _held.reset(held)
            ended.set_result(None)

    return replace(tool, run=run)


def refuse_inside(home: Path, session: SessionKey) -> None:
    """Refuse to wait for a session whose turn waits for whoever asks here."""
    place = _place(home, session)
    if any(where == place and not ended.done() for where, ended in _held.get()):
        cure = "name another session, or hand it in with agent.send: this one waits for the function that asks"
        raise HomarusError(f"this program is being answered in {session} already", cure=cure)


def note_opened(client: LocalClient) -> None:
    """Remember which task has opened a home."""
    if task := _this_task():
        with _guard:
            _openers[client] = ref(task)


def refuse_own(client: LocalClient, session: SessionKey) -> None:
    """Refuse to wait for a session that this task has open through another agent: only this task can close that one.

    One that stays, such as a chat, answers what others say to its sessions.
    """
    if (task := _this_task()) is None:
        return
    place = _place(client.home.config.paths.state_dir, session)
    with _guard:
        others = [
            each
            for each, opener in _openers.items()
            if each is not client and opener() is task and not each.runtime.stays
        ]
    for other in others:
        same = other.home.sessions.get(session) and _place(other.home.config.paths.state_dir, session) == place
        if same and client.elsewhere.in_this_process(session):
            raise open_twice(session)


def open_twice(session: SessionKey) -> HomarusError:
    cure = "use that agent, with `await agent.ask(…)`, close it with `async with`, or name another session"
    return HomarusError(f"this program has {session} open already", cure=cure)


def _this_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _place(home: Path, session: SessionKey) -> _Place:
    return os.getpid(), os.path.realpath(home), str(session)


def _leave(place: _Place, left: Future[None]) -> None:
    with _guard:
        if _newest.get(place) is left:
            del _newest[place]
    left.set_result(None)
