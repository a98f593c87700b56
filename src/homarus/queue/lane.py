"""One lane per session, and a few global lanes that bound how many turns run at once.

A turn holds its session's lane first and then a place in a global lane, never the other way round: two turns that
waited for each other's lane would wait for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.cancel import CLOSED, HANDED_OVER, TAKEN_BACK, Cancel
from homarus.core.clock import Clock
from homarus.core.errors import Fenced, StorageError
from homarus.core.mailbox import Mailbox
from homarus.core.messages import Trust, least_trusted
from homarus.queue.collect import Batch, Queued, plan, single
from homarus.queue.inbox import Inbox
from homarus.queue.modes import Action, decide
from homarus.queue.overflow import Admission, Overflow, admit
from homarus.queue.settings import Drop, Mode

_log = logging.getLogger(__name__)
SLOW_WAIT_SECONDS = 2.0
# Turns at once, by global lane. OpenClaw had 4 in `main` and counts cores today; a turn waits for its model nearly all of the
# time, and thirty-two of them are what a gateway of one person meets at most. An unknown lane has one.
LIMITS: dict[str, int] = {"main": 32, "subagent": 8, "cron": 1, "cron-nested": 1, "background": 1}
_JOINING = frozenset({Mode.STEER, Mode.STEER_BACKLOG})


class RunTurn(Protocol):
    """Runs one turn to its end. It reports its own failures; what it raises all the same is logged, and the lane goes on.

    `settle` is called with the keys of messages once they are in the transcript.
    """

    async def __call__(
        self, batch: Batch, mailbox: Mailbox[Queued], cancel: Cancel, settle: Callable[..., None]
    ) -> None: ...


class Submitted(Struct, frozen=True):
    """What became of a message: the action taken, or `refused` when the queue was full or it came twice."""

    action: Action
    refused: bool = False
    dropped: tuple[Queued, ...] = ()


class Places:
    """How many turns may run at once, by the name of the global lane; `limits` says it as it holds now.

    After a change those that run or wait go by the old number, and all who come then by the new one.
    """

    def __init__(self, limits: Callable[[], Mapping[str, int | None]] = dict) -> None:
        self._limits = limits
        self._made: dict[str, tuple[int, asyncio.Semaphore]] = {}

    def place(self, name: str) -> asyncio.Semaphore:
        """Return the lane's places; an unknown lane has one."""
        limit = max(1, self._limits().get(name) or LIMITS.get(name, 1))
        made = self._made.get(name)
        if made is None or made[0] != limit:
            made = self._made[name] = (limit, asyncio.Semaphore(limit))
        return made[1]


class SessionLane:
    """The turns of one session, one after another. It must be used from one event loop."""

    def __init__(self, inbox: Inbox, run: RunTurn, places: Places, clock: Clock, *, name: str = "main") -> None:
        self._inbox = inbox
        self._run = run
        self._places = places
        self._clock = clock
        self._name = name
        self.theirs: Callable[[Queued], bool] = lambda _item: False  # whether another process left a message
        self._queue: tuple[Queued, ...] = ()
        self._overflow = Overflow()
        self._apart: frozenset[str] = frozenset()  # keys of a mixed batch: they stay single to its end
        self._last_enqueue = 0.0
        self._task: asyncio.Task[None] | None = None
        self._mailbox: Mailbox[Queued] | None = None
        self._cancel: Cancel | None = None
        self._trust = Trust.OWNER  # of the turn that runs
        self._chat: tuple[str, str, str, str] | None = None  # where its answer goes
        self._begun: Batch | None = None  # a turn that a crash cut off
        self.resumed: Batch | None = None  # the same, also when it goes on or has ended
        self._batch: Batch | None = None  # what the running turn answers
        self._closed = False

    @property
    def busy(self) -> bool:
        return self.task is not None

    @property
    def task(self) -> asyncio.Task[None] | None:
        """Return the work that goes on until nothing waits; its end is the lane's rest."""
        return None if self._task is None or self._task.done() else self._task

    @property
    def idle_now(self) -> bool:
        return not (self.busy or self._queue or self._begun or self._overflow.count)

    def release(self) -> None:
        """Let go of the inbox's file; it opens again when it is needed."""
        self._inbox.close()

    @property
    def waiting(self) -> tuple[Queued, ...]:
        return self._queue

    @property
    def answering(self) -> tuple[str, ...]:
        """Return the keys of the messages that the running turn began with."""
        return self._batch.keys if self._batch is not None else ()

    def submit(self, item: Queued) -> Submitted:
        """Accept a message durably and decide what happens to it. It is on disk when this returns, or it was refused."""
        action = self._decide(item)
        if self._closed:
            return Submitted(action, refused=True)
        if action is Action.ENQUEUE and item.rules.drop is Drop.NEW and len(self._droppable) >= item.rules.cap:
            return Submitted(action, refused=True)
        if not self._inbox.accept(item):
            return Submitted(action, refused=True)
        return self._place(item, action)

    @property
    def reports(self) -> int:
        waiting = self._mailbox.waiting if self._mailbox is not None else ()
        return sum(item.kept for item in (*self._queue, *waiting))

    def knows(self, key: str) -> bool:
        return self._inbox.knows(key)

    def owes(self, key: str) -> bool:
        """Say whether a message was accepted whose turn is not over."""
        return any(item.key == key for item in self._inbox.pending)

    def recover(
        self,
        stored: Callable[[str], bool] = lambda _key: False,
        *,
        go_on: bool = True,
        ours: Callable[[Queued], object] = lambda _item: True,
    ) -> int:
        """Take up what an earlier process accepted and did not finish; return how many messages that are.

        `stored` says whether a message is in the transcript. Those that are belong to a turn that was cut off: it goes on,
        a few times at most, unless `go_on` is false. The others are answered as if they had just come. What is not `ours` stays where it is.
        """
        begun = tuple(item for item in self._inbox.pending if ours(item) and stored(item.key))
        keys = [item.key for item in begun]
        self._inbox.settle(*(item.key for item in self._inbox.dropped if stored(item.key)))
        self._overflow = Overflow()
        for gone in self._inbox.dropped:
            self._overflow = self._overflow.add(gone, gone.rules.cap)
        if begun and go_on and self._inbox.may_resume(*keys):
            self.resumed = self._begun = Batch(begun[-1].text, begun)
        else:
            self._inbox.settle(*keys)
            begun = ()
        known = {item.key for item in (*begun, *self._queue)}
        items = [item for item in self._inbox.pending if item.key not in known and ours(item)]
        self._queue = (*items, *self._queue)
        if items or begun or self._overflow.count:
            self._wake()
        return len(items) + len(begun)

    def stop(self, reason: str = "stopped") -> bool:
        """Forget what waits, then end the running turn. Return whether there was anything to stop."""
        left = self._mailbox.close() if self._mailbox is not None else []
        forgotten, self._queue = (*left, *self._queue), ()
        self._inbox.settle(*(item.key for item in forgotten), *self._overflow.keys)
        self._overflow = Overflow()
        ended = self._cancel.cancel(reason) if self._cancel is not None else False
        return bool(forgotten) or ended

    def take_back(self, key: str, *, running: bool) -> Literal["forgotten", "stopping", ""]:
        """Forget one message that waits, or end its turn if `running` may be and it answers nothing else; else change nothing."""
        if running and self._batch is not None and self._batch.keys == (key,):
            return "stopping" if self._cancel is not None and self._cancel.cancel(TAKEN_BACK) else ""
        queue = tuple(item for item in self._queue if item.key != key)
        waited = self._mailbox is not None and self._mailbox.remove(lambda item: item.key == key)
        if not waited and len(queue) == len(self._queue):
            return ""
        self._queue = queue
        self._inbox.settle(key)
        return "forgotten"

    @property
    def asked_elsewhere(self) -> bool:
        """Say whether the running turn answers a message of another process, whether it began with it or heard it since."""
        if self._batch is None or self._mailbox is None:
            return False
        unheard = {item.key for item in (*self._queue, *self._mailbox.waiting)}
        return any(self.theirs(item) for item in self._inbox.pending if item.key not in unheard)

    async def close(self, reason: str = CLOSED) -> None:
        """End the running turn and let go of the inbox. What waits stays in there for the next start.

        So does what a turn answers that another process waits for: that turn is handed over.
        """
        self._closed = True
        if self._cancel is not None:
            self._cancel.cancel(HANDED_OVER if self.asked_elsewhere else reason)
        await self.idle()
        self._inbox.close()

    async def idle(self) -> None:
        while task := self.task:
            await asyncio.wait([task])

    def _decide(self, item: Queued) -> Action:
        box = self._mailbox
        takes_input = box is not None and box.is_open and self._may_join(item)
        if box is not None and not item.kept and sum(not one.kept for one in box.waiting) >= item.rules.cap:
            takes_input = False  # what waits to be heard is bounded as what waits for a turn
        if not item.kept and any(one.rules.mode in _JOINING and self._may_join(one) for one in self._queue):
            takes_input = (
                False  # nor is it heard before an earlier one that would have joined, too, and came too late for a turn
            )
        mode = Mode.STEER if item.kept else item.rules.mode
        return decide(mode, busy=self.busy, takes_input=takes_input)

    def _may_join(self, item: Queued) -> bool:
        """Say whether a message may be heard in the running turn.

        Who is trusted less gets a turn of their own, with their rights; so does who writes in another chat than the one
        that the turn answers, because there they would wait for ever.
        """
        here = item.route.place in (None, self._chat)
        return here and least_trusted((item.trust, self._trust)) is self._trust

    @property
    def _droppable(self) -> tuple[Queued, ...]:
        return tuple(item for item in self._queue if not item.kept)

    def _place(self, item: Queued, action: Action) -> Submitted:
        if action is Action.STEER and self._mailbox is not None and self._mailbox.offer(item):
            if item.rules.mode is Mode.STEER_BACKLOG:
                later = Queued(f"{item.key}#later", item.inbound, item.route, replace(item.rules, mode=Mode.FOLLOWUP))
                if self._inbox.accept(later):
                    self._place(later, Action.ENQUEUE)
            return Submitted(action)
        if action is Action.INTERRUPT:
            # The newest counts: one that wanted to interrupt before it and has not begun is stale.
            stale = tuple(one for one in self._droppable if one.rules.mode is Mode.INTERRUPT)
            self._inbox.settle(*(one.key for one in stale))
            self._queue = (item, *(one for one in self._queue if one not in stale))
            if self._cancel is not None:
                self._cancel.cancel("a newer message took over")
            return Submitted(action, dropped=stale)
        # A report is neither counted nor dropped: it is all that is left of work that was paid for.
        admission = (
            Admission((item,)) if item.kept else admit(self._droppable, item, cap=item.rules.cap, drop=item.rules.drop)
        )
        dropped = {gone.key for gone in admission.dropped}
        if item.rules.drop is Drop.SUMMARIZE:
            for gone in admission.dropped:
                self._overflow = self._overflow.add(gone, item.rules.cap)
            self._inbox.drop(*dropped)
        else:
            self._inbox.settle(*dropped)
        self._queue = tuple(one for one in (*self._queue, item) if one.key not in dropped)
        self._last_enqueue = self._clock.monotonic() if action is Action.ENQUEUE else self._last_enqueue
        self._wake()
        return Submitted(action, dropped=admission.dropped)

    def _wake(self) -> None:
        if not self.busy:
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        """Run what waits until nothing does: the first message at once, later ones after the debounce."""
        if self._begun is not None:
            begun, self._begun = self._begun, None
            await self._one(begun, goes_on=True)
        settled = True
        if self._overflow.count and not self._closed:  # of an earlier process
            settled = False
        while (self._queue or self._overflow.count) and not self._closed:
            if not settled:
                await self._settle_down()
            for batch in self._take(all_at_once=not settled):
                await self._one(batch)
            settled = False

    async def _settle_down(self) -> None:
        while self._queue:
            delay = self._queue[-1].rules.debounce_ms / 1000
            left = self._last_enqueue + delay - self._clock.monotonic()
            if left <= 0:
                return
            await self._clock.sleep(left)

    def _take(self, *, all_at_once: bool) -> list[Batch]:
        """Take the next turns from the queue. Each batch leaves the queue only when it runs, so `stop` still finds it."""
        if not self._queue:
            notice, self._overflow = Batch(self._overflow.text, (), overflow=self._overflow), Overflow()
            return [notice] if notice.overflow.count else []
        if not all_at_once:
            first, self._queue = self._queue[0], self._queue[1:]
            return [single(first)]
        batches = plan(self._queue, self._overflow, apart=self._apart)
        self._overflow = Overflow()
        head = batches[0]
        if len(batches) > 1:
            self._apart = frozenset(item.key for item in self._queue)
        taken = {item.key for item in head.items}
        self._queue = tuple(item for item in self._queue if item.key not in taken)
        return [head]

    async def _one(self, batch: Batch, *, goes_on: bool = False) -> None:
        self._mailbox, self._cancel, self._trust, self._batch = Mailbox(), Cancel(), batch.trust, batch
        self._chat = batch.newest.route.place if batch.newest else None
        # Reports that came before the turn began are heard in it, all of them.
        heard = [item for item in self._queue if item.kept and self._may_join(item)]
        for item in heard:
            self._mailbox.offer(item)
        self._queue = tuple(item for item in self._queue if item not in heard)
        stored: list[str] = []

        def settle(*keys: str) -> None:
            stored.extend(keys)

        run = partial(self._run, batch, self._mailbox, self._cancel, settle)

        async def again() -> None:
            # Noted only now: a process that died before this turn had its place did not die of it.
            if self._inbox.resume(*batch.keys):
                await run()

        try:
            await self._with_place(again if goes_on else run)
        except Fenced:
            self._closed = True  # what waits is answered by whoever has the home now
        except Exception:  # noqa: BLE001 - whatever a turn raises, the next message must still be answered
            _log.exception("a turn failed; its lane goes on")
        finally:
            left = self._mailbox.close()
            self._mailbox = self._cancel = self._batch = None
            self._queue = (*left, *self._queue)
            self._note_settled(stored)

    def _note_settled(self, keys: list[str]) -> None:
        try:
            self._inbox.settle(*keys)
        except Fenced:
            self._closed = True
        except StorageError as problem:  # the note may be lost; what waits must not be
            _log.error("a turn's end was not noted: %s", problem)

    async def _with_place(self, run: Callable[[], Awaitable[None]]) -> None:
        place = self._places.place(self._name)
        asked = self._clock.monotonic()
        async with place:
            waited = self._clock.monotonic() - asked
            if waited > SLOW_WAIT_SECONDS:
                _log.warning("a turn waited %.1f s for a place in lane %s", waited, self._name)
            await run()
