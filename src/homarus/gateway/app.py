"""The composition root: everything of one home, put together once. Nothing else in the program wires packages together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from homarus.agent.live import Live
from homarus.agent.resume import cut_off
from homarus.agent.services import TurnServices
from homarus.agent.settings import TurnSettings
from homarus.agent.subagents import CHANNEL
from homarus.agent.turn import Given, Turn, TurnRunner
from homarus.config.load import load_config, remember_good
from homarus.config.paths import Paths
from homarus.config.view import Config
from homarus.core.cancel import Cancel
from homarus.core.clock import Clock, Ids, SystemClock, SystemIds
from homarus.core.errors import Locked
from homarus.core.events import RunEvent
from homarus.core.messages import Inbound, Trust, sources
from homarus.core.routes import Route, SessionKey
from homarus.gateway.compose import Composer
from homarus.gateway.followers import Followers
from homarus.gateway.home import Home
from homarus.gateway.hooking import Telling, load_registry
from homarus.gateway.lanes import Lanes
from homarus.gateway.marks import lane_of, route_of
from homarus.gateway.offers.fill import offers_of
from homarus.gateway.prepare import Preparer
from homarus.gateway.rows import Rows
from homarus.gateway.setup import seed_agent
from homarus.gateway.spending import Spending
from homarus.gateway.subagents.children import Children
from homarus.gateway.toolkit import Toolkit
from homarus.models.access import Models
from homarus.models.select import Override
from homarus.queue.collect import Batch, Queued
from homarus.queue.inbox import Inbox
from homarus.queue.lane import Places, SessionLane, TurnInput
from homarus.queue.modes import Overrides, Rules, parse_mode, resolve
from homarus.queue.settings import Drop, QueueSettings
from homarus.queue.watch import Watch, watched
from homarus.sessions.row import SessionEntry

if TYPE_CHECKING:
    from homarus.agent.ports import Emit


_log = logging.getLogger(__name__)
STOP_SECONDS = 5.0  # how long /stop waits for a turn that was told to end before it says so
Listener = Callable[[RunEvent], None]


class Runtime(Home):
    """One home at work. Used from one event loop; `aclose` must be awaited at the end."""

    def __init__(self, config: Config, env: Mapping[str, str], *, clock: Clock, ids: Ids) -> None:
        super().__init__(config, env, clock=clock, ids=ids)
        self.models = Models(config, env, clock=clock)
        self.hooks = load_registry(config, env, self.workspace(config.default_agent.id))
        self.tell = Telling(self.hooks, self)
        self.composer = Composer(config, env, clock, hooks=self.hooks)
        self.children = Children(self)
        offers, self._close_offers = offers_of(self)
        self.toolkit = Toolkit(config, env, clock=clock, ids=ids, offers=offers, root_of=self.children.root_of)
        self.spending = Spending(config.paths.own_dir / "spending", self.today)
        self.lanes = Lanes(config.paths.own_dir / "inbox", self._open_lane, self._forget)
        self._listeners: dict[SessionKey, tuple[Listener, ...]] = {}
        # One thing at a time in a session: a turn, a compaction by hand, or starting over.
        self._alone: dict[SessionKey, asyncio.Lock] = {}
        self._errands: dict[SessionKey, Cancel] = {}
        self.followers = Followers(self.memory)
        self.rows = Rows()
        self._answered = False
        most = config.block("agents.defaults", TurnSettings).max_concurrent
        places = {"main": most, "subagent": self.children.places}
        self._places = Places({name: count for name, count in places.items() if count})
        preparer = Preparer(self, self.models, self.composer, self.toolkit, self.spending, self.children)
        self.turns = TurnRunner(
            TurnServices(
                config=config,
                clock=clock,
                store=self.store,
                workspace=self.workspace,
                prepare=preparer.prepare,
                compose=preparer.compose,
                engines=self.engine,
                today=self.today,
                tell=self.tell,
            )
        )

    @classmethod
    def open(
        cls, paths: Paths, env: Mapping[str, str], *, clock: Clock | None = None, ids: Ids | None = None
    ) -> Runtime:
        """Read the configuration of a home and put everything together. Nothing is written and no network is touched."""
        return cls(load_config(paths, env), env, clock=clock or SystemClock(), ids=ids or SystemIds())

    # Turns.

    def submit(self, key: SessionKey, inbound: Inbound, *, overrides: Overrides | None = None) -> Queued | None:
        """Accept a message into its session's lane; None when it was refused. It is durable when this returns."""
        lane = self.lane(key)
        rules = self.rules(key, inbound.channel, overrides)
        item = Queued(f"{inbound.channel}:{inbound.account}:{inbound.id}", inbound, route_of(key, inbound), rules)
        return None if lane.submit(item).refused else item

    def lane(self, key: SessionKey) -> SessionLane:
        """Return the lane of a session. Opening it takes the right to write, and takes up what a crash cut off."""
        return self.lanes.lane(key)

    def open_lane(self, key: SessionKey) -> SessionLane | None:
        """Return the lane of a session that this process has talked in, without opening one."""
        return self.lanes.get(key)

    def owed(self, key: SessionKey) -> int:
        """Return how many sub-agents of a session have not reported."""
        return self.children.books.count(key)

    def recover(self) -> int:
        """Take up everything that an earlier process left, in all sessions; return how many. For a process that stays."""
        found = self.lanes.recover()
        for key in self.children.books.in_debt():
            try:
                self.lane(key)
            except Locked as held:  # another process looks after that session and its children
                _log.warning("%s stays as it is: %s", key, held)
            else:
                found += 1
        return found

    def _open_lane(self, key: SessionKey, inbox: Inbox) -> SessionLane:
        self.toolkit.orphans.sweep()
        with self.opened(key) as live:
            lane = SessionLane(inbox, lambda given: self._run(key, given), self._places, self.clock, name=lane_of(key))
            settings = self.config.agent(key.agent_id).block("", TurnSettings)
            goes_on = settings.resume == "continue" and cut_off(live.writer.branch)
            if self.children.is_left(key):
                # What a child that is gone was told to do is not done any more; what a person said to it is.
                inbox.settle(*(item.key for item in inbox.pending if item.inbound.channel == CHANNEL))
            lane.recover(live.writer.holds, go_on=goes_on)
            self.children.take_up(key, lane, live)
            return lane

    def _forget(self, key: SessionKey) -> None:
        self._alone.pop(key, None)

    @contextmanager
    def opened(self, key: SessionKey) -> Iterator[Live]:
        """Open a session for writing while the context lasts; a turn that runs in it shares the same writer."""
        live = self.turns.open.take(key, lambda: self._live(key))
        try:
            yield live
        finally:
            self.turns.open.give_back(key)

    @asynccontextmanager
    async def errand(self, key: SessionKey) -> AsyncIterator[Cancel]:
        """Keep turns out of a session while something else is done with it; `stop` ends that, too."""
        async with self._alone.setdefault(key, asyncio.Lock()):
            self._errands[key] = Cancel()
            try:
                yield self._errands[key]
            finally:
                del self._errands[key]

    async def stop(self, key: SessionKey, reason: str = "stopped by the user") -> bool:
        """Forget what waits, end what runs, and return when it has ended; False when there was nothing to end."""
        lane, errand = self.lanes.get(key), self._errands.get(key)
        stopped = lane.stop(reason) if lane is not None else False
        stopped = (errand.cancel(reason) if errand is not None else False) or stopped
        stopped = bool(self.children.stop(key, reason)) or stopped
        if lane is not None and stopped:
            await asyncio.wait({asyncio.ensure_future(lane.idle())}, timeout=STOP_SECONDS)
        await self.children.gone(STOP_SECONDS)
        # Commands that earlier turns left running end, too: after a stop nothing of the session goes on.
        return await self.toolkit.end_commands(key) or stopped

    def listen(self, key: SessionKey, listener: Listener) -> Callable[[], None]:
        """Tell a listener everything that happens in a session; returns what takes it off again."""
        self._listeners[key] = (*self._listeners.get(key, ()), listener)

        def leave() -> None:
            left = list(self._listeners.get(key, ()))
            if listener in left:
                left.remove(listener)
                self._listeners[key] = tuple(left)
            if not left:
                self._listeners.pop(key, None)

        return leave

    def rules(self, key: SessionKey, channel: str, inline: Overrides | None = None) -> Rules:
        """Return the queue's rules for a message."""
        live = self.turns.open.get(key)
        info = self.store(key.agent_id).find(key) if live is None else None
        entry = live.refresh() if live else info.entry if info else SessionEntry()
        drop = Drop(entry.queue_drop) if entry.queue_drop in set(Drop) else None
        session = Overrides(parse_mode(entry.queue_mode), entry.queue_debounce_ms, entry.queue_cap, drop)
        settings = self.config.block("messages.queue", QueueSettings)
        return resolve(settings, channel, inline=inline, session=session)

    def attend(self, key: SessionKey) -> Callable[[], None]:
        """Note that a person watches a session and can answer its questions; returns what notes that they left."""
        return self.toolkit.people.arrive(key, self.emitter(key))

    async def aclose(self) -> None:
        """Let go of everything: sessions, connections, the memory's index."""
        self.rows.close()
        await self._close_offers()
        await self.children.aclose()
        await self.close_engines()
        await self.lanes.close()
        await self.followers.aclose()
        await self.toolkit.aclose()
        self.turns.open.close()
        self.spending.close()
        self.close()
        await self.models.aclose()

    async def _run(self, key: SessionKey, given: TurnInput) -> None:
        async with self._alone.setdefault(key, asyncio.Lock()):
            self.children.began(key)
            turn = self.turn_for(key, given.batch)
            if self._answered and key.agent_id in self._memories:
                # A process that is asked again stays, and a memory that was asked once is asked again.
                self.followers.follow(key.agent_id)
            self._answered = True
            with Watch(str(key), given.cancel) as watch:
                emit = watched(watch, self.emitter(key))
                outcome = await self.turns.run(turn, Given(given.mailbox, given.cancel, given.settle, emit))
            self.rows.soon(self.store(key.agent_id).index)
            lane = self.lanes.get(key)
            more = bool(given.mailbox) or (lane is not None and bool(lane.waiting))
            await self.children.ended(key, outcome, more=more)

    def turn_for(self, key: SessionKey, batch: Batch | None = None) -> Turn:
        """Return the turn that answers a batch of messages; without one, a turn that nobody wrote for."""
        newest = batch.newest if batch else None
        items = batch.items if batch else ()
        # Of several who speak at once, the least trusted counts.
        trust = max((item.trust for item in items), key=list(Trust).index, default=Trust.OWNER)
        chats = [item.inbound.chat_type for item in items] or ["group" if key.is_shared else "direct"]
        route = newest.route if newest else Route(key.agent_id, key)
        facts: dict[str, Any] = (newest.inbound.facts or {}) if newest else {}
        return Turn(
            run_id=str(facts.get("runId") or self.ids.uuid()),
            agent_id=key.agent_id,
            session=key,
            route=route,
            text=batch.text if batch else "",
            keys=tuple(item.key for item in items),
            images=batch.images if batch else (),
            trust=trust,
            chat_type=next((chat for chat in chats if chat != "direct"), "direct"),
            senders=tuple(dict.fromkeys([item.inbound.sender for item in items])),
            model=Override(facts["model"]) if facts.get("model") else None,
            thinking=str(facts.get("thinking") or ""),
            levels=dict(facts.get("levels") or {}),
            notes=tuple((str(name), str(text)) for name, text in facts.get("notes") or ()),
            seconds=facts.get("seconds"),
            provenance=facts.get("provenance"),
            taint=tuple(dict.fromkeys(source for item in items for source in sources(item.trust, item.facts))),
        )

    def emitter(self, key: SessionKey) -> Emit:
        """Return what tells the listeners of a session."""

        def emit(event: RunEvent) -> None:
            for listener in self._listeners.get(key, ()):
                listener(event)

        return emit

    def _live(self, key: SessionKey) -> Live:
        remember_good(self.config, self.env)
        seed_agent(self.config, key.agent_id, self.env, self.clock)
        return Live(self.store(key.agent_id), key, str(self.workspace(key.agent_id)))
