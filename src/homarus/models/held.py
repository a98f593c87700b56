"""A provider's stream, held to its contract: once the token trips it ends within 100 ms, whatever the provider does.

It is read in a task of its own, one for the whole stream, because only a task can be left alone: a provider may wait for
something that never comes, and it may even catch what shall end it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator

from homarus.core.cancel import Cancel, soon
from homarus.models.provider import StreamEvent

OWN_SECONDS = 0.05  # within which a provider ends by itself, and can say what it knows
BREAK_SECONDS = 0.05  # within which one that is broken off may put away what it holds, before it is left alone
AHEAD = 64  # events that are read before somebody takes them

# Readers that were not waited for: a loop holds its tasks only weakly.
_left: set[asyncio.Task[None]] = set()


class Overdue(Exception):
    """A stream that did not end by itself after its token had tripped."""


async def held(events: AsyncIterator[StreamEvent], cancel: Cancel) -> AsyncGenerator[StreamEvent, None]:
    """Yield what a provider streams; raises `Overdue` in place of an end that does not come in time."""
    reader = _Reader(events)
    loop = asyncio.get_running_loop()
    remove = cancel.on_cancel(lambda: soon(loop, reader.limit))
    try:
        while (event := await reader.next()) is not None:
            yield event
    finally:
        remove()
        await reader.close()


class _Reader:
    def __init__(self, events: AsyncIterator[StreamEvent]) -> None:
        self._loop = asyncio.get_running_loop()
        self._events: deque[StreamEvent] = deque()
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._broken = self._given_up = False
        self._task = self._loop.create_task(self._read(events))
        self._task.add_done_callback(lambda _: self._news.set())

    async def _read(self, events: AsyncIterator[StreamEvent]) -> None:
        try:
            async for event in events:
                self._events.append(event)
                self._news.set()
                if len(self._events) >= AHEAD:
                    self._room.clear()
                    await self._room.wait()
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()

    async def next(self) -> StreamEvent | None:
        while not self._events and not self._task.done() and not self._given_up:
            self._news.clear()
            await self._news.wait()
        if self._events and not self._given_up:
            event = self._events.popleft()
            if not self._events:
                self._room.set()
            return event
        if self._broken:
            raise Overdue
        self._task.result()
        return None

    def limit(self) -> None:
        """Give the provider the time that it has to end by itself."""
        self._timer = self._loop.call_later(OWN_SECONDS, self._break_off)

    def _break_off(self) -> None:
        if not self._task.done():
            self._broken = True
            self._task.cancel()
            self._timer = self._loop.call_later(BREAK_SECONDS, self._give_up)

    def _give_up(self) -> None:
        self._given_up = True
        self._news.set()

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._task.done():
            _left.add(self._task)
            self._task.add_done_callback(_left.discard)
            if not self._given_up:
                self._task.cancel()
                await asyncio.wait({self._task}, timeout=BREAK_SECONDS)
        self._task.add_done_callback(_forgotten)


def _forgotten(task: asyncio.Task[None]) -> None:
    """Look at how a reader ended: nobody else will, and it would be complained about."""
    if not task.cancelled():
        task.exception()
