"""One home at work in this process: its lanes, its turns, its sub-agents. The only place where packages are wired together."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from msgspec import convert
from msgspec.structs import replace

from homarus.agent.home import Home
from homarus.agent.hook_events import IN_TURNS
from homarus.agent.memories import MemoryWatchers
from homarus.agent.open_session import IndexFlusher
from homarus.agent.resume import cut_off
from homarus.agent.settings import TurnSettings
from homarus.agent.turn import Turn, TurnRunner, Why
from homarus.config.load import load_config
from homarus.config.paths import Paths
from homarus.core.cancel import HANDED_OVER, STOPPED, Cancel
from homarus.core.clock import Clock, Ids, SystemClock, SystemIds
from homarus.core.errors import Locked
from homarus.core.events import RunEnded, RunEvent, RunStarted
from homarus.core.mailbox import Mailbox
from homarus.core.messages import Assistant, Inbound, StopReason, Trust
from homarus.core.routes import Route, SessionKey, SessionKind, main_session
from homarus.core.tools import ToolSpec
from homarus.models.select import Override
from homarus.queue.collect import Batch, Queued, message_key
from homarus.queue.inbox import Inbox, inbox_name
from homarus.queue.lane import Places, SessionLane
from homarus.queue.letters import COMMAND, LEFT_BY, Letters, taken
from homarus.queue.modes import Overrides, Rules, parse_mode, resolve
from homarus.queue.settings import Drop, Mode, QueueSettings
from homarus.queue.watch import Watch, watched
from homarus.runtime.events import Listener, Listeners
from homarus.runtime.lanes import Lanes, lane_of, route_of, speaker
from homarus.runtime.tool_backends.build import Servers, ToolBackends
from homarus.sessions.row import SessionEntry
from homarus.storage.atomic import remove
from homarus.subagents.child import CHANNEL, SubagentSettings
from homarus.subagents.run import Children
from homarus.tools.processes import Ended
from homarus.tools.quarantine import Quarantine

if TYPE_CHECKING:
    from homarus.automation.scheduler import Automation
    from homarus.channels.channel import Channel, Host, Manifest
    from homarus.runtime.switchboard import Switchboard

_log = logging.getLogger(__name__)
STOP_SECONDS = 5.0  # how long /stop waits for a turn that was told to end before it says so
LETTER_SECONDS = 0.5  # how often a process looks for what others left for its sessions
_SCHEDULED = frozenset({SessionKind.CRON, SessionKind.HOOK, SessionKind.BOOT})


class Runtime:
    """One home at work. Used from one event loop; `aclose` must be awaited at the end."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.turns = TurnRunner(home)
        self.children = Children(self)
        self.lanes = Lanes(home.config.paths.own_dir / "inbox", self._open_lane, self._is_ours)
        self.letters = Letters(home.config.paths.own_dir / "letters", home.ids)
        # Whether this process answers what others say to its sessions: one that somebody attends to, and a service.
        self.stays = False
        # Carries out a command that another process left for a session of ours.
        self.carry_out: Callable[[SessionKey, Path, Queued], None] | None = None
        # What brings answers to chats, in the process that serves them. What came from one is taken up by no other process.
        self.outlet: Switchboard | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.listeners = Listeners()
        self.memory_watchers = MemoryWatchers(home.memory)
        self.index_flusher = IndexFlusher()
        # One thing at a time in a session: a turn, a compaction by hand, or starting over. A lock stays while somebody has it or waits.
        self._alone: WeakValueDictionary[SessionKey, asyncio.Lock] = WeakValueDictionary()
        self._operations: dict[SessionKey, Cancel] = {}
        self._begun: dict[SessionKey, float] = {}  # since when turns run
        self._answered = False
        self._places = Places(self._limits)
        self._backends = ToolBackends(self)
        home.toolkit.connect(self._backends.services)
        home.toolkit.before_call(Quarantine(home.quarantined.now))
        home.toolkit.processes.tell(self._command_ended)
        self.closing = False
        # Chat platforms that plugins bring, each with what makes an account of it.
        self.platforms: dict[str, tuple[Manifest, Callable[[Host], Channel]]] = {}
        entries = home.config.get("plugins.entries")
        if isinstance(entries, dict) and any(
            isinstance(each, dict) and each.get("enabled") for each in entries.values()
        ):
            from homarus.plugins.host import Plugins

            plugins = Plugins(home.config, home.models.registry)
            home.toolkit.join(plugins)
            self.platforms = plugins.channels
            if (guard := plugins.listen(home.tell.listen)) is not None:
                home.toolkit.before_call(guard)
        if any(map(home.tell.anybody, IN_TURNS)):
            self.listeners.watch(home.tell.happened)
        home.toolkit.join(Servers(home))

    @classmethod
    def open(
        cls, paths: Paths, env: Mapping[str, str], *, clock: Clock | None = None, ids: Ids | None = None
    ) -> Runtime:
        """Read the configuration of a home and put everything together. Nothing is written and no network is touched."""
        return cls(Home(load_config(paths, env), env, clock=clock or SystemClock(), ids=ids or SystemIds()))

    def _limits(self) -> dict[str, int | None]:
        """Return how many turns of each lane may run at once."""
        config = self.home.config
        jobs = config.get("cron.maxConcurrentRuns")
        jobs = jobs if isinstance(jobs, int) else None
        most = config.block("agents.defaults", TurnSettings).max_concurrent
        return {"main": most, "subagent": self.children.places, "cron": jobs, "cron-nested": jobs}

    @cached_property
    def automation(self) -> Automation:
        """Return the jobs, heartbeats and events of this home. They run by themselves once it was started."""
        from homarus.automation.scheduler import Automation
        from homarus.runtime.starter import TurnStarter, chores

        made = Automation(self.home, TurnStarter(self), chores(self.home))
        made.listen(self.home.tell.job)
        return made

    # Messages and lanes.

    def submit(self, key: SessionKey, inbound: Inbound, *, overrides: Overrides | None = None) -> Queued | None:
        """Accept a message into its session's lane; None when it was refused. It is durable when this returns."""
        lane = self.lane(key)
        item = self._queued(key, inbound, overrides)
        return None if lane.submit(item).refused else item

    def leave_letter(self, key: SessionKey, inbound: Inbound, *, overrides: Overrides | None = None) -> Queued:
        """Leave a message for the process that holds its session. It is durable when this returns.

        Its sender waits for an answer of its own, so unless they say otherwise it joins no turn of somebody else.
        """
        inbound = replace(inbound, facts={**(inbound.facts or {}), LEFT_BY: self.letters.mark})
        item = self._queued(key, inbound, overrides or Overrides(mode=Mode.FOLLOWUP))
        self.letters.put(item)
        return item

    def _queued(self, key: SessionKey, inbound: Inbound, overrides: Overrides | None) -> Queued:
        rules, route = self.rules(key, inbound.channel, overrides), route_of(key, inbound)
        if route.place and inbound.chat_type != "direct":  # where several people speak, the agent is told who does
            inbound = replace(inbound, text=f"[{speaker(inbound)}] {inbound.text}")
        return Queued(message_key(inbound), inbound, route, rules)

    def _take_letters(self, lane: SessionLane, key: SessionKey) -> None:
        """Move letters for a session of ours into its inbox; only then they go."""
        for path, item in self.letters.of(key, everyone=self.stays):
            if item.facts.get(COMMAND):
                if self.carry_out is not None and taken(path):
                    self.carry_out(key, path, item)
            elif not lane.submit(item).refused or lane.knows(item.key):
                remove(path)  # one that a full queue refuses stays a letter

    def _look_for_letters(self) -> None:
        """Look now and then: a process that stays answers what others say to its sessions, any other does what they order."""
        self._timer = asyncio.get_running_loop().call_later(LETTER_SECONDS, self._look_for_letters)
        if self.letters.changed():
            for key in {item.route.session_key for _, item in self.letters.waiting()}:
                if self._is_ours(key):
                    self._take_letters(self.lane(key), key)

    def lane(self, key: SessionKey) -> SessionLane:
        """Return the lane of a session. Opening it takes the right to write, and takes up what a crash cut off."""
        return self.lanes.lane(key)

    def _is_ours(self, key: SessionKey) -> bool:
        return self.home.sessions.get(key) is not None

    def open_lane(self, key: SessionKey) -> SessionLane | None:
        """Return the lane of a session that this process has talked in, without opening one."""
        return self.lanes.get(key)

    def drop_lane(self, key: SessionKey) -> None:
        self.lanes.drop(key)

    def rules(self, key: SessionKey, channel: str, inline: Overrides | None = None) -> Rules:
        """Return the queue's rules for a message."""
        live = self.home.sessions.get(key)
        info = self.home.store(key.agent_id).find(key) if live is None else None
        entry = live.refresh() if live else info.entry if info else SessionEntry()
        drop = Drop(entry.queue_drop) if entry.queue_drop in set(Drop) else None
        session = Overrides(parse_mode(entry.queue_mode), entry.queue_debounce_ms, entry.queue_cap, drop)
        settings = self.home.config.block("messages.queue", QueueSettings)
        rules = resolve(settings, channel, inline=inline, session=session)
        # Where hooks say whether a turn may run, what is said to one that runs waits for a turn of its own.
        joins = rules.mode in {Mode.STEER, Mode.STEER_BACKLOG} and self.home.tell.anybody("run:before")
        return replace(rules, mode=Mode.FOLLOWUP) if joins else rules

    def answering(self, key: SessionKey) -> tuple[str, ...]:
        """Return the keys of the messages that the running turn of a session answers."""
        lane = self.lanes.get(key)
        return lane.answering if lane is not None else ()

    def running(self, key: SessionKey) -> float | None:
        """Return for how many seconds a turn of a session has been running; None where none runs."""
        begun = self._begun.get(key)
        return None if begun is None else self.home.clock.monotonic() - begun

    def owed(self, key: SessionKey) -> int:
        """Return how many sub-agents of a session have not reported."""
        return self.children.books.count(key)

    def recover(self) -> int:
        """Take up everything that an earlier process left, in all sessions; return how many. For a process that stays."""
        self.stays = True
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
        self.home.toolkit.orphans.sweep()
        with self.home.opened(key) as live:
            lane = SessionLane(inbox, partial(self._run, key), self._places, self.home.clock, name=lane_of(key))
            lane.theirs = self.letters.is_of_another
            settings = self.home.config.agent(key.agent_id).block("", TurnSettings)
            goes_on = settings.resume == "continue" and cut_off(live.writer.branch)
            if self.children.is_left(key):
                # What a child that is gone was told to do is not done any more; what a person said to it is.
                inbox.settle(*(item.key for item in inbox.pending if item.inbound.channel == CHANNEL))
            ours = [item for item in inbox.pending if self.outlet or not item.route.place]
            begun = [item for item in ours if live.writer.holds(item.key)]
            resumes = goes_on and inbox.may_resume(*(item.key for item in begun))
            if self.outlet is not None:
                self.outlet.catch_up(begun, live, goes_on=resumes)
            if (
                begun and not resumes and cut_off(live.writer.branch)
            ):  # whoever waits for an answer reads there that none will come
                from homarus.runtime.speech import INTERRUPTED

                live.writer.append_message(Assistant((), stop_reason=StopReason.ERROR, error=INTERRUPTED))
            lane.recover(live.writer.holds, go_on=resumes, ours=ours.__contains__)
            self.children.take_up(key, lane, live)
            self._take_letters(lane, key)
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(LETTER_SECONDS, self._look_for_letters)
            return lane

    # Turns.

    async def _run(
        self,
        key: SessionKey,
        batch: Batch,
        mailbox: Mailbox[Queued],
        cancel: Cancel,
        settle: Callable[..., None],
    ) -> None:
        async with self._alone.setdefault(key, asyncio.Lock()):
            self.children.began(key)
            if self._answered and self.home.has_memory(key.agent_id):
                # A process that is asked again stays, and a memory that was asked once is asked again.
                self.memory_watchers.watch(key.agent_id)
            self._answered = True
            speech = self.outlet.speech(key, batch) if self.outlet is not None else None
            stored: list[str] = []

            def emit(event: RunEvent) -> None:
                if speech is not None:
                    speech.take(event)
                if isinstance(event, RunStarted):
                    self._begun[key] = self.home.clock.monotonic()
                elif isinstance(event, RunEnded):
                    self._begun.pop(key, None)
                self.emit(key, event)

            try:
                with Watch(str(key), cancel) as watch:
                    given = {"mailbox": mailbox, "cancel": cancel, "settle": lambda *keys: stored.extend(keys)}
                    turn = self._with_events(self.turn_for(key, batch, emit=watched(watch, emit), **given))
                    outcome = await self.turns.run(turn)
                goes_on = outcome.error == HANDED_OVER
                if speech is not None and not goes_on:
                    speech.end(outcome)  # an answer that is not on its way durably leaves its question open
                    if self.outlet is not None:
                        await self.outlet.posted()
                settle(*(() if goes_on else stored))
            finally:
                if speech is not None:
                    speech.close()
            self.index_flusher.soon(self.home.store(key.agent_id).index)
            lane = self.lanes.get(key)
            more = bool(mailbox) or (lane is not None and bool(lane.waiting))
            await self.children.ended(key, outcome, more=more)

    def turn_for(self, key: SessionKey, batch: Batch | None = None, **given: Any) -> Turn:
        """Return the turn that answers a batch of messages; without one, a turn that nobody wrote for."""
        newest = batch.newest if batch else None
        items = batch.items if batch else ()
        facts: dict[str, Any] = (newest.inbound.facts or {}) if newest else {}
        chats = [item.inbound.chat_type for item in items] or ["group" if key.is_shared else "direct"]
        config = self.home.config
        queue = config.block("messages.queue", QueueSettings)
        return Turn(
            run_id=str(facts.get("runId") or self.home.ids.uuid()),
            agent_id=key.agent_id,
            session=key,
            route=newest.route if newest else Route(key.agent_id, key),
            text=batch.text if batch else "",
            why=_why(key, facts),
            keys=batch.keys if batch else (),
            images=batch.images if batch else (),
            trust=batch.trust if batch else Trust.OWNER,
            chat_type=next((chat for chat in chats if chat != "direct"), "direct"),
            senders=tuple(dict.fromkeys([item.inbound.sender for item in items])),
            taint=batch.taint if batch else (),
            bounds=self.children.bounds(key),
            model=Override(facts["model"]) if facts.get("model") else None,
            thinking=str(facts.get("thinking") or ""),
            levels=dict(facts.get("levels") or {}),
            notes=tuple((str(name), str(text)) for name, text in facts.get("notes") or ()),
            instructions=str(facts.get("instructions") or ""),
            output_schema=str(facts.get("outputSchema") or ""),
            needs=tuple(facts.get("needs") or ()),
            caller_tools=convert(facts["callerTools"], tuple[ToolSpec, ...]) if facts.get("callerTools") else (),
            tool_choice=str(facts.get("toolChoice") or ""),
            folders=tuple(map(str, facts.get("folders") or ())),
            cwd=str(facts.get("cwd") or ""),
            seconds=facts.get("seconds"),
            tools=tuple(facts["tools"]) if facts.get("tools") is not None else None,
            light=bool(facts.get("light")),
            provenance=facts.get("provenance"),
            generations=config.agent(key.agent_id).block("subagents", SubagentSettings).depth,
            steer_boundary=queue.steer_boundary,
            steer_all=queue.steer_drain == "all",
            **given,
        )

    def _with_events(self, turn: Turn) -> Turn:
        """Let a turn tell its model what happened beside the conversation; most sessions have no such file."""
        key = turn.session
        if key.kind is SessionKind.HEARTBEAT:  # it looks after things on behalf of the main session
            key = main_session(key.agent_id, self.home.store(key.agent_id).main_key)
        if not os.access(f"{self.home.config.paths.own_dir}/events/{inbox_name(str(key))}", os.F_OK):
            return turn
        from homarus.automation.events import HEADING, told

        events = self.automation.events
        with self.home.opened(turn.session) as live:
            fresh = [item for item in events.waiting(key) if not live.writer.holds(item.key)]
        if not fresh:
            return turn

        def settle(*keys: str) -> None:
            turn.settle(*keys)
            events.settle(key, *keys)

        text = told(fresh, self.home.zone(key.agent_id), self.home.ids.short())
        taint = (source for item in fresh for source in item.taint)
        return replace(
            turn,
            notes=(*turn.notes, (HEADING, text)),
            heard=tuple(item.key for item in fresh),
            taint=tuple(dict.fromkeys((*turn.taint, *taint))),
            settle=settle,
        )

    def _command_ended(self, ended: Ended) -> None:
        """Keep the end of a background command for the session that started it, and let that session hear it."""
        key = SessionKey.parse(ended.session)
        if self.closing or not self.stays or key.is_subagent:
            return
        automation = self.automation
        automation.events.add(key, ended.text, ident=f"exec:{ended.id}", taint=("exec",), wake=True)
        if automation.runs_here:
            automation.heartbeats.wake(key)

    @asynccontextmanager
    async def exclusively(self, key: SessionKey, doing: str = "") -> AsyncIterator[Cancel]:
        """Keep turns out of a session while something else is done with it, which others may know; `stop` ends that, too."""
        async with self._alone.setdefault(key, asyncio.Lock()):
            self._operations[key] = Cancel()
            live = self.home.sessions.get(key)
            try:
                with live.writer.at_work(doing) if live is not None and doing else nullcontext():
                    yield self._operations[key]
            finally:
                del self._operations[key]

    async def stop(self, key: SessionKey, reason: str = STOPPED) -> bool:
        """Forget what waits, end what runs, and return when it has ended; False when there was nothing to end."""
        lane, operation = self.lanes.get(key), self._operations.get(key)
        stopped = lane.stop(reason) if lane is not None else False
        stopped = (operation.cancel(reason) if operation is not None else False) or stopped
        stopped = bool(self.children.stop(key, reason)) or stopped
        if lane is not None and stopped:
            await asyncio.wait({asyncio.ensure_future(lane.idle())}, timeout=STOP_SECONDS)
        await self.children.gone(STOP_SECONDS)
        # Commands that earlier turns left running end, too: after a stop nothing of the session goes on.
        return await self.home.toolkit.end_commands(key) or stopped

    # Events.

    def listen(self, key: SessionKey, listener: Listener) -> Callable[[], None]:
        """Tell a listener everything that happens in a session; returns what takes it off again."""
        return self.listeners.add(key, listener)

    def emit(self, key: SessionKey, event: RunEvent) -> None:
        self.listeners.emit(key, event)

    async def aclose(self) -> None:
        """Let go of everything: sessions, connections, the memory's index."""
        self.closing = True
        if "automation" in self.__dict__:
            if self.automation.runs_here:  # this process was the home's service
                await self.home.tell("gateway:shutdown", main_session(self.home.config.default_agent.id), {})
                for key in self.lanes.known:
                    self.home.tell.session_ended(key, "shutdown")
            await self.automation.aclose()
        if self._timer is not None:
            self._timer.cancel()
        self.index_flusher.close()
        await self._backends.aclose()
        await self.children.aclose()
        await self.lanes.close()
        await self.home.tell.settled()
        await self.memory_watchers.aclose()
        await self.home.aclose()


def _why(key: SessionKey, facts: Mapping[str, Any]) -> Why:
    if facts.get("why") in {Why.HEARTBEAT, Why.SCHEDULE}:  # a turn that the program itself ordered
        return Why(facts["why"])
    if key.kind is SessionKind.HEARTBEAT:
        return Why.HEARTBEAT
    return Why.PARENT if key.is_subagent else Why.SCHEDULE if key.kind in _SCHEDULED else Why.PERSON
