"""What happens in sessions, told to those who listen: everything as it comes, or what belongs to one message.

Listening changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from typing import Self

from homarus.core.events import ApprovalAsked, Notice, RunEnded, RunEvent, RunStarted, ToolEnded, UserAccepted
from homarus.core.routes import SessionKey
from homarus.core.text import single_line
from homarus.delivery.sanitize import shape
from homarus.queue.lane import SessionLane

_log = logging.getLogger(__name__)
YIELD = "sessions_yield"
# The kind of a `Notice` that holds the answer to something that stood before the message: a line that says what, and the answer.
EARLIER = "earlier"
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
        """Tell everybody. One that fails keeps neither the turn nor the others from going on."""
        told: tuple[Listener, ...] = (
            *self._by_session.get(key, ()),
            *(partial(watcher, key) for watcher in self._watchers),
        )
        for listener in told:
            try:
                listener(event)
            except Exception:  # noqa: BLE001 - see above
                _log.exception("a listener of %s failed", key)


class EventFeed:
    """The events of a session on their way to one reader, who may also be woken for other reasons. Nothing is dropped.

    `answering` says what the running turn answers. It is asked when a turn begins or ends: when that is read, the next may run.
    """

    def __init__(self, answering: Callable[[], Collection[str]] = tuple) -> None:
        self._answering = answering
        self._events: deque[tuple[RunEvent, Collection[str]]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        # The keys of the messages that the turn answers whose beginning or end was taken last.
        self.answered: Collection[str] = ()

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: RunEvent) -> None:
        self._events.append((event, self._answering() if isinstance(event, RunStarted | RunEnded) else ()))
        if self._waiter is not None:
            self.wake()

    def take(self) -> RunEvent:
        """Return the oldest event; there must be one."""
        event, self.answered = self._events.popleft()
        return event

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
    """A message's events, until the turn that took it has ended; the last one is a `RunEnded`.

    Turns that end before it is taken answer somebody else, as does one that a crash cut off: of those comes what a person
    must decide, and their answer as a notice. It goes on while sub-agents work that the turn waits for; with `everyone`,
    that any turn started. `owed` says how many have not reported.
    """

    def __init__(
        self, lane: SessionLane, key: str, events: EventFeed, owed: Callable[[], int], *, everyone: bool
    ) -> None:
        self._lane = lane
        self._key = key
        self._events = events
        self._owed = owed
        self._everyone = everyone
        self._ready: deque[RunEvent] = deque()
        self._held: list[RunEvent] = []  # the beginning of a turn of which nobody knows yet whose it is
        self._question = ""  # what such a turn answers
        self._task: asyncio.Task[None] | None = None  # the work of the lane whose end wakes us
        self._mine = False  # the running turn has taken the message
        self._answered = False  # the message's own turn has ended
        self._waits = False  # the newest turn ended in order to wait for its sub-agents
        self._settled = True  # after the answer: no turn is in its middle
        self._last = RunEnded("", "ok")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RunEvent:
        while not self._ready:
            if self._answered and not self._goes_on():
                raise StopAsyncIteration
            while not self._events:
                if not await self._change():
                    return self._given_up()
            self._take(self._events.take())
        return self._ready.popleft()

    def _take(self, event: RunEvent) -> None:
        """Let an event pass that belongs to the message, and what others must not wait for."""
        if type(event) in _TELLING:
            self._note(event)
        elif self._answered:
            self._settled = False
        if self._mine or self._answered:
            self._ready += (*self._held, event)
            self._held = []
        elif isinstance(event, RunEnded):
            self._ready += self._passed_over(event)
            self._held, self._question = [], ""
            if not (self._events or self._lane.owes(self._key)):
                self._ready.append(self._given_up())  # forgotten, so no turn will take it
        elif isinstance(event, ApprovalAsked):
            self._ready.append(event)
        elif isinstance(event, RunStarted | Notice):
            self._held.append(event)

    def _passed_over(self, ended: RunEnded) -> list[RunEvent]:
        """Return what is told of a turn that answered something else; nothing of one that ran before the message came."""
        begun = any(isinstance(event, RunStarted) for event in self._held)
        answer = shape(ended.text).text or ended.error
        if not (begun and answer):
            return []
        resumed = self._lane.resumed
        question = single_line(self._question or (resumed.text if resumed is not None else ""), 80)
        return [Notice(f"“{question}” was waiting and is answered first:\n{answer}", EARLIER)]

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
            # The end of an earlier turn is not the end of this one. One that could not begin has taken nothing in.
            self._answered = self._answered or self._mine or self._key in self._events.answered
        elif isinstance(event, RunStarted):
            self._waits = False
            # A turn that goes on with what another process had begun does not take the message in again.
            self._mine = self._mine or self._key in self._events.answered
        elif isinstance(event, UserAccepted):
            message = event.message
            self._mine = self._mine or self._key in message.keys
            self._question = self._question if event.steered else message.text
        elif isinstance(event, ToolEnded) and event.result.tool_name == YIELD and not event.result.is_error:
            self._waits = True
        if answered:
            self._settled = isinstance(event, RunEnded)
