"""The composition root: everything of one home, put together once. Nothing else in the program wires packages together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, date, timedelta, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

from homarus.agent.budget import Spent, add_usage
from homarus.agent.live import Live
from homarus.agent.ports import Emit
from homarus.agent.resume import cut_off
from homarus.agent.services import ComposeRequest, Prepared, Speech, TurnServices
from homarus.agent.settings import TurnSettings
from homarus.agent.turn import Given, Turn, TurnRunner
from homarus.config.load import load_config, remember_good
from homarus.config.paths import Paths
from homarus.config.view import Config
from homarus.context.engine import EngineHost
from homarus.core.cancel import Cancel
from homarus.core.clock import Clock, Ids, SystemClock, SystemIds
from homarus.core.errors import Denied
from homarus.core.events import RunEvent
from homarus.core.messages import Inbound, Trust
from homarus.core.routes import Route, SessionKey
from homarus.gateway.compose import Composer, PromptRequest
from homarus.gateway.hooking import load_registry
from homarus.gateway.lanes import Lanes
from homarus.gateway.marks import lane_of, route_of, stored_override
from homarus.gateway.setup import seed_agent
from homarus.gateway.toolkit import Toolkit, who_of
from homarus.models.access import Models
from homarus.models.ref import ModelRef
from homarus.models.rotation import Pin
from homarus.models.select import Override
from homarus.prompt.facts import RuntimeFacts, TurnFacts
from homarus.prompt.gather import find_zone, zone_name
from homarus.prompt.section import Section, Tier
from homarus.queue.collect import Batch, Queued
from homarus.queue.inbox import Inbox
from homarus.queue.lane import Places, SessionLane, TurnInput
from homarus.queue.modes import Overrides, Rules, parse_mode, resolve
from homarus.queue.settings import Drop, QueueSettings
from homarus.sandbox.process import available
from homarus.sandbox.resolve import Place
from homarus.sandbox.resolve import resolve as resolve_sandbox
from homarus.sandbox.settings import SandboxSettings
from homarus.sandbox.spec import Access, Backend, SandboxSpec
from homarus.sessions.row import SessionEntry
from homarus.sessions.store import SessionStore
from homarus.tools.loopguard import LoopGuard, LoopSettings
from homarus.tools.tool import Taint, ToolContext
from homarus.workspace.agents import resolve_workspace
from homarus.workspace.settings import WorkspaceSettings

if TYPE_CHECKING:
    from homarus.memory.memory import Memory

DEFAULT_SECONDS = 600.0  # January 2026; today's OpenClaw allows two days
STOP_SECONDS = 5.0  # how long /stop waits for a turn that was told to end before it says so
Listener = Callable[[RunEvent], None]


class Runtime:
    """One home at work. Used from one event loop; `aclose` must be awaited at the end."""

    def __init__(self, config: Config, env: Mapping[str, str], *, clock: Clock, ids: Ids) -> None:
        self.config = config
        self.env = env
        self.clock = clock
        self.ids = ids
        self.models = Models(config, env, clock=clock)
        self._workspaces: dict[str, Path] = {}
        main = self.workspace(config.default_agent.id)
        self.hooks = load_registry(config, env, main)
        self.composer = Composer(config, env, clock, hooks=self.hooks)
        self.toolkit = Toolkit(config, env, clock=clock, ids=ids, memory_of=self.memory)
        self._stores: dict[str, SessionStore] = {}
        self._memories: dict[str, Memory] = {}
        self._engines: dict[str, EngineHost] = {}
        self.lanes = Lanes(config.paths.own_dir / "inbox", self._open_lane, self._forget)
        self._listeners: dict[SessionKey, list[Listener]] = {}
        self._spent: dict[tuple[str, date], Spent] = {}
        # One thing at a time in a session: a turn, a compaction by hand, or starting over.
        self._alone: dict[SessionKey, asyncio.Lock] = {}
        self._errands: dict[SessionKey, Cancel] = {}
        self._places = Places({"main": int(config.get("agents.defaults.maxConcurrent") or 4)})
        self.turns = TurnRunner(
            TurnServices(
                config=config,
                clock=clock,
                store=self.store,
                workspace=self.workspace,
                prepare=self._prepare,
                compose=self._compose,
                engines=self._engine,
                today=self.today,
                spent_today=self.spent_today,
                spent=self._note_spent,
            )
        )

    @classmethod
    def open(
        cls, paths: Paths, env: Mapping[str, str], *, clock: Clock | None = None, ids: Ids | None = None
    ) -> Runtime:
        """Read the configuration of a home and put everything together. Nothing is written and no network is touched."""
        return cls(load_config(paths, env), env, clock=clock or SystemClock(), ids=ids or SystemIds())

    # The parts of a home, each made when it is first needed.

    def workspace(self, agent_id: str) -> Path:
        """Return an agent's folder."""
        if agent_id not in self._workspaces:
            self._workspaces[agent_id] = resolve_workspace(self.config, agent_id, self.env)
        return self._workspaces[agent_id]

    def store(self, agent_id: str) -> SessionStore:
        """Return an agent's sessions."""
        if agent_id not in self._stores:
            folder = self.config.paths.sessions_dir(agent_id)
            main_key = str(self.config.get("session.mainKey") or "main")
            self._stores[agent_id] = SessionStore(folder, agent_id, clock=self.clock, ids=self.ids, main_key=main_key)
        return self._stores[agent_id]

    def memory(self, agent_id: str) -> Memory:
        """Return an agent's memory."""
        if agent_id not in self._memories:
            from homarus.memory.memory import Memory
            from homarus.memory.settings import MemorySettings

            settings = self.config.agent(agent_id).block("memorySearch", MemorySettings)
            self._memories[agent_id] = Memory.open(
                self.workspace(agent_id),
                database=self.config.paths.memory_db(agent_id),
                settings=settings,
                clock=self.clock,
                tz=self.zone(agent_id),
                sessions=self.config.paths.sessions_dir(agent_id) if "sessions" in settings.sources else None,
                home=self.config.paths.home,
            )
        return self._memories[agent_id]

    def today(self, agent_id: str) -> date:
        """Return the date where the user is."""
        return self.clock.now().astimezone(self.zone(agent_id)).date()

    def sandbox(self, agent_id: str, session: SessionKey) -> SandboxSpec:
        """Return where this session's commands run; without a usable sandbox, nowhere."""
        paths, workspace = self.config.paths, self.workspace(agent_id)
        settings = self.config.agent(agent_id).block("sandbox", SandboxSettings)
        try:
            return resolve_sandbox(settings, Place(session, workspace, paths.home, paths.state_dir), available)
        except Denied:
            return SandboxSpec(Backend.BWRAP, str(workspace), Access(settings.workspace_access))

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

    def _open_lane(self, key: SessionKey, inbox: Inbox) -> SessionLane:
        with self.opened(key) as live:
            lane = SessionLane(inbox, lambda given: self._run(key, given), self._places, self.clock, name=lane_of(key))
            settings = self.config.agent(key.agent_id).block("", TurnSettings)
            goes_on = settings.resume == "continue" and cut_off(live.writer.branch)
            lane.recover(live.writer.holds, go_on=goes_on)
            return lane

    def _forget(self, key: SessionKey) -> None:
        self._alone.pop(key, None)
        if not self._listeners.get(key):
            self._listeners.pop(key, None)

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
        if lane is not None and stopped:
            await asyncio.wait({asyncio.ensure_future(lane.idle())}, timeout=STOP_SECONDS)
        # Commands that earlier turns left running end, too: after a stop nothing of the session goes on.
        return await self.toolkit.end_commands(key) or stopped

    def spent_today(self, agent_id: str) -> Spent:
        """Return what an agent used today, by this process's count."""
        return self._spent.get((agent_id, self.today(agent_id)), Spent())

    def listen(self, key: SessionKey, listener: Listener) -> Callable[[], None]:
        """Tell a listener everything that happens in a session; returns what takes it off again."""
        listeners = self._listeners.setdefault(key, [])
        listeners.append(listener)
        return lambda: listeners.remove(listener) if listener in listeners else None

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
        return self.toolkit.people.arrive(key, self._emitter(key))

    async def aclose(self) -> None:
        """Let go of everything: sessions, connections, the memory's index."""
        await self.lanes.close()
        await self.toolkit.aclose()
        self.turns.open.close()
        for memory in self._memories.values():
            memory.close()
        await self.models.aclose()

    async def _run(self, key: SessionKey, given: TurnInput) -> None:
        async with self._alone.setdefault(key, asyncio.Lock()):
            turn = self.turn_for(key, given.batch)
            await self.turns.run(turn, Given(given.mailbox, given.cancel, given.settle, self._emitter(key)))

    def turn_for(self, key: SessionKey, batch: Batch | None = None) -> Turn:
        """Return the turn that answers a batch of messages; without one, a turn that nobody wrote for."""
        newest = batch.newest if batch else None
        trust = newest.trust if newest else Trust.OWNER
        route = newest.route if newest else Route(key.agent_id, key)
        facts: dict[str, Any] = (newest.inbound.facts or {}) if newest else {}
        return Turn(
            run_id=self.ids.uuid(),
            agent_id=key.agent_id,
            session=key,
            route=route,
            text=batch.text if batch else "",
            keys=tuple(item.key for item in batch.items) if batch else (),
            images=batch.images if batch else (),
            trust=trust,
            model=Override(facts["model"]) if facts.get("model") else None,
            thinking=str(facts.get("thinking") or ""),
            levels=dict(facts.get("levels") or {}),
            notes=tuple((str(name), str(text)) for name, text in facts.get("notes") or ()),
            seconds=facts.get("seconds"),
        )

    def _emitter(self, key: SessionKey) -> Emit:
        def emit(event: RunEvent) -> None:
            for listener in tuple(self._listeners.get(key, ())):
                listener(event)

        return emit

    def _live(self, key: SessionKey) -> Live:
        remember_good(self.config, self.env)
        seed_agent(self.config, key.agent_id, self.env, self.clock)
        return Live(self.store(key.agent_id), key, str(self.workspace(key.agent_id)))

    async def _prepare(self, turn: Turn, entry: SessionEntry, cancel: Cancel, emit: Emit) -> Prepared:
        agent = self.config.agent(turn.agent_id)
        chain = await self.models.chain(agent, override=turn.model or stored_override(entry), images=bool(turn.images))
        ref = chain.primary
        info = self.models.info(ref)
        workspace = self.workspace(turn.agent_id)
        queue = self.config.block("messages.queue", QueueSettings)
        seconds = float(turn.seconds if turn.seconds is not None else agent.get("timeoutSeconds", DEFAULT_SECONDS) or 0)
        context = ToolContext(
            agent_id=turn.agent_id,
            session=turn.session,
            session_id=entry.session_id,
            run_id=turn.run_id,
            route=turn.route,
            trust=turn.trust,
            workspace=workspace,
            cwd=workspace,
            sandbox=self.sandbox(turn.agent_id, turn.session),
            env={"HOME": str(self.config.paths.home)},
            overflow_dir=self.config.paths.own_dir / "overflow" / (entry.session_id or "session"),
            clock=self.clock,
            ids=self.ids,
            cancel=cancel,
            taint=Taint(() if turn.trust is Trust.OWNER else (f"sender:{turn.trust}",)),
            depth=turn.depth,
            vision=info.sees,
            window_tokens=info.window,
        )
        pin = (
            Pin(entry.auth_profile_override, by_user=entry.auth_profile_override_source == "user")
            if entry.auth_profile_override
            else None
        )
        return Prepared(
            client=self.models.client(agent),
            chain=chain,
            box=self.toolkit.box(
                turn.agent_id,
                who_of(turn.trust, ref.key, sandboxed=context.sandbox.enforced, depth=turn.depth),
            ),
            context=context,
            guard=LoopGuard(self.config.block("tools.loopDetection", LoopSettings)),
            thinking=self.models.level(agent, ref, inline=turn.thinking, session=entry.thinking_level or ""),
            window_tokens=info.window,
            params=self._params(turn, entry, ref),
            pin=pin,
            deadline=self.clock.monotonic() + seconds if seconds else None,
            steer_boundary=queue.steer_boundary,
            steer_all=queue.steer_drain == "all",
        )

    def _params(self, turn: Turn, entry: SessionEntry, ref: ModelRef) -> dict[str, Any]:
        params = self.models.params(self.config.agent(turn.agent_id), ref)
        # Only a provider that sells speed can be asked for it.
        fast = (turn.levels.get("fast") or entry.fast_mode) in {"on", True}
        return {"serviceTier": "priority", **params} if fast and ref.provider == "openai" else params

    def _compose(self, request: ComposeRequest) -> Speech:
        prepared = request.prepared
        skills = self.composer.skills_for(request.agent_id, request.entry.skills_snapshot)
        extras = tuple(Section(name, text, Tier.VOLATILE, once=True) for name, text in request.notes)
        if request.pins:
            held = "\n".join(f"- {pin}" for pin in request.pins)
            extras = (Section("Standing instructions of the owner", held, Tier.VOLATILE), *extras)
        entry, levels = request.entry, request.levels
        runtime = RuntimeFacts(
            model=prepared.chain.primary.key, channel=prepared.context.route.channel, thinking=prepared.thinking
        )
        composed = self.composer.prompt_for(
            PromptRequest(
                agent_id=request.agent_id,
                session=request.session,
                tools=prepared.specs,
                skills=skills,
                turn=TurnFacts(
                    runtime=runtime,
                    extras=extras,
                    reasoning=levels.get("reasoning") or entry.reasoning_level or "off",
                    elevated=levels.get("elevated") or entry.elevated_level or "off",
                ),
                sandbox=prepared.context.sandbox,
                heartbeat=request.heartbeat,
                interactive=request.interactive,
                completed=request.completed,
                session_id=request.session_id,
                occasion=request.occasion,
            )
        )
        return Speech(composed.prompt.system, composed.carrier, composed.context.carried, None, skills.to_json())

    def _engine(self, agent_id: str) -> EngineHost:
        if agent_id not in self._engines:
            self._engines[agent_id] = EngineHost(str(self.config.get("plugins.slots.contextEngine") or ""))
        return self._engines[agent_id]

    def _note_spent(self, agent_id: str, spent: Spent) -> None:
        today = self.today(agent_id)
        before = self._spent.get((agent_id, today), Spent())
        self._spent = {key: value for key, value in self._spent.items() if key[1] >= today - timedelta(days=1)}
        self._spent[agent_id, today] = Spent(before.calls + spent.calls, add_usage(before.usage, spent.usage))

    def zone(self, agent_id: str) -> tzinfo:
        """Return the time zone of an agent's user."""
        settings = self.config.agent(agent_id).block("", WorkspaceSettings)
        return find_zone(zone_name(settings.user_timezone, self.env)) or UTC
