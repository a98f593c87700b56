"""The events of a session on their way to one reader, who may also be woken for other reasons. Nothing is dropped."""

from __future__ import annotations

import asyncio
from collections import deque

from homarus.core.events import RunEvent


class EventFeed:
    """A queue without a task per event: a turn has many, and whoever follows it must cost next to nothing."""

    def __init__(self) -> None:
        self._events: deque[RunEvent] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: RunEvent) -> None:
        """Add an event."""
        self._events.append(event)
        if self._waiter is not None:
            self.wake()

    def take(self) -> RunEvent:
        """Return the oldest event; there must be one."""
        return self._events.popleft()

    def wake(self, _cause: object = None) -> None:
        """Let the reader look around, though there may be no event."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def change(self) -> None:
        """Return with the next event or wake-up; what came before this call does not count."""
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter
