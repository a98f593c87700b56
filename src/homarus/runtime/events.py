"""What happens in sessions, told to those who listen: everything as it comes, or what belongs to one message.

Listening changes nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Self

from homarus.core.events import RunEnded, RunEvent, RunStarted, ToolEnded, UserAccepted
from homarus.core.routes import SessionKey
from homarus.queue.lane import SessionLane

YIELD = "sessions_yield"
# Of a turn's many events, those that tell how it stands.
_TELLING = frozenset({RunStarted, RunEnded, ToolEnded, UserAccepted})
Listener = Callable[[RunEvent], None]
Watcher = Callable[[SessionKey, RunEvent], None]


class Listeners:
    """Who is told what happens in which session."""

    def __init__(self) -> None:
        self._by_session: dict[SessionKey, tuple[Listener, ...]] = {}
        self._watchers: tuple[Watcher, ...] = ()

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Tell a watcher what happens in every session; returns what takes it off again."""
        self._watchers = (*self._watchers, watcher)

        def leave() -> None:
            self._watchers = tuple(each for each in self._watchers if each is not watcher)

        return leave

    def add(self, key: SessionKey, listener: Listener) -> Callable[[], None]:
        """Tell a listener everything that happens in a session; returns what takes it off again."""
        self._by_session[key] = (*self._by_session.get(key, ()), listener)

        def leave() -> None:
            left = list(self._by_session.get(key, ()))
            if listener in left:
                left.remove(listener)
                self._by_session[key] = tuple(left)
            if not left:
                self._by_session.pop(key, None)

        return leave

    def emit(self, key: SessionKey, event: RunEvent) -> None:
        for listener in self._by_session.get(key, ()):
            listener(event)
        for watcher in self._watchers:
            watcher(key, event)


class EventFeed:
    """The events of a session on their way to one reader, who may also be woken for other reasons. Nothing is dropped."""

    def __init__(self) -> None:
        self._events: deque[RunEvent] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: RunEvent) -> None:
        self._events.append(event)
        if self._waiter is not None:
            self.wake()

    def put_first(self, event: RunEvent) -> None:
        """Put an event back that was taken too early."""
        self._events.appendleft(event)

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


class Following:
    """A session's events from a message on, until the turn that took it has ended; the last one is a `RunEnded`.

    It goes on while sub-agents work that the turn waits for; with `everyone`, that any turn started. `owed` says how many
    have not reported. With `own` the turns of others are passed over until the message is taken.
    """

    def __init__(
        self,
        lane: SessionLane,
        key: str,
        events: EventFeed,
        owed: Callable[[], int],
        *,
        everyone: bool,
        own: bool = False,
    ) -> None:
        self._lane = lane
        self._key = key
        self._events = events
        self._owed = owed
        self._everyone = everyone
        self._own = own
        self._started: RunStarted | None = None  # the beginning of a turn of which nobody knows yet whose it is
        self._task: asyncio.Task[None] | None = None  # the work of the lane whose end wakes us
        self._mine = False  # the running turn has taken the message
        self._answered = False  # the message's own turn has ended
        self._waits = False  # the newest turn ended in order to wait for its sub-agents
        self._settled = True  # after the answer: no turn is in its middle
        self._last = RunEnded("", "ok")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RunEvent:
        if self._answered and not self._goes_on():
            raise StopAsyncIteration
        while True:
            while not self._events:
                if not await self._change():
                    return self._given_up()
            event = self._events.take()
            if type(event) in _TELLING:
                self._note(event)
            elif self._answered:
                self._settled = False
            if not self._own or self._mine or self._answered:
                started, self._started = self._started, None
                if started is None:
                    return event
                self._events.put_first(event)
                return started
            self._started = event if isinstance(event, RunStarted) else self._started

    def _goes_on(self) -> bool:
        # In the middle of a turn, or before one that a report has started, nobody leaves.
        if not self._settled or self._lane.reports:
            return True
        return (self._everyone or self._waits) and bool(self._owed() or self._lane.busy or self._events)

    async def _change(self) -> bool:
        """Wait for whatever comes next; False when nothing can come, because nobody is at work."""
        task = self._lane.task
        if task is not None:
            if task is not self._task:
                task.add_done_callback(self._events.wake)
                self._task = task
        elif not (self._answered and self._owed()):
            return False
        # The end of a sub-agent is an event of its parent, so one that is owed will come.
        await self._events.change()
        return True

    def _given_up(self) -> RunEvent:
        """Return the end of a turn that has none of its own."""
        if self._answered and self._settled:
            raise StopAsyncIteration
        if self._answered:
            ended = RunEnded(self._last.run_id, "aborted", self._last.text, "stopped while its sub-agents were at work")
        else:
            # A message that `stop` forgot before its turn began has no turn that could end.
            ended = RunEnded("", "aborted", error="stopped before it began")
        self._answered = self._settled = True
        return ended

    def _note(self, event: RunEvent) -> None:
        """Remember what an event says about the turns."""
        answered = self._answered
        if isinstance(event, RunEnded):
            self._last = event
            # The end of an earlier turn is not the end of this one.
            if self._mine or not any(item.key == self._key for item in self._lane.waiting):
                self._answered = True
        elif isinstance(event, RunStarted):
            self._waits = False
        elif isinstance(event, UserAccepted):
            self._mine = self._mine or event.message.idempotency_key == self._key
        elif isinstance(event, ToolEnded) and event.result.tool_name == YIELD and not event.result.is_error:
            self._waits = True
        if answered:
            self._settled = isinstance(event, RunEnded)
