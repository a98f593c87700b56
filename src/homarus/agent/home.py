"""The parts of one home, each made when it is first needed: what every turn of its agents works with.

Nothing here decides when a turn runs; `runtime` puts a home to work.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import UTC, date, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakValueDictionary

from msgspec.structs import replace

from homarus.agent.budget import Meter, Spending
from homarus.agent.compose import Composer
from homarus.agent.hook_events import HookEvents, load_registry
from homarus.agent.open_session import OpenSession, OpenSessions, seed_agent
from homarus.agent.sandbox_for import SkillMounts, sandbox_for
from homarus.agent.toolkit import Toolkit
from homarus.config.keypath import format_path, parse_path
from homarus.config.load import remember_good
from homarus.config.view import Config
from homarus.context.engine_host import EngineHost
from homarus.core.clock import Clock, Ids
from homarus.core.errors import ConfigError, Denied
from homarus.core.routes import SessionKey
from homarus.models.access import Models
from homarus.prompt.gather import find_zone, zone_name
from homarus.sandbox.bwrap import remembered
from homarus.sandbox.resolve import has_backend
from homarus.sandbox.settings import SandboxSettings
from homarus.sandbox.spec import Access, SandboxSpec
from homarus.sessions.store import SessionStore
from homarus.skills.quarantine import QuarantineList
from homarus.storage.atomic import ensure_dir
from homarus.workspace.agents import resolve_workspace
from homarus.workspace.settings import WorkspaceSettings

if TYPE_CHECKING:
    from homarus.memory.memory import Memory


class Home:
    """One home and its agents. `aclose` lets go of everything that was opened."""

    def __init__(self, config: Config, env: Mapping[str, str], *, clock: Clock, ids: Ids) -> None:
        self.config = config
        self.env = env
        self.clock = clock
        self.ids = ids
        self.models = Models(config, env, clock=clock)
        self.sessions = OpenSessions(self._open_session)
        self.spending = Spending(config.paths.own_dir / "spending", self.today)
        # What counts the calls of each session's newest turn, for as long as somebody holds it: children add to it.
        self.meters: WeakValueDictionary[SessionKey, Meter] = WeakValueDictionary()
        # Settings that hold in this process instead of those in the file, for every client of this home.
        self.overrides: dict[str, Any] = {}
        self._workspaces: dict[str, Path] = {}
        self._stores: dict[str, SessionStore] = {}
        # Each agent's memory, what it was made of, and the document that said so.
        self._memories: dict[str, tuple[Memory, dict[str, Any], object]] = {}
        self._engines: dict[tuple[str, Path], EngineHost] = {}
        # Each agent's zone, and the document that said so.
        self._zones: dict[str, tuple[tzinfo, object]] = {}
        self._skills = SkillMounts(config)
        self.quarantined = QuarantineList(config.paths.own_dir, config.paths.state_dir / "skills")
        self._works = remembered(config.paths.own_dir / "sandbox", has_backend, clock)
        hooks = load_registry(config, env, self.workspace(config.default_agent.id))
        self.tell = HookEvents(hooks, self)
        self.composer = Composer(config, env, clock, hooks=hooks)
        self.toolkit = Toolkit(config, env, clock=clock, ids=ids)

    def workspace(self, agent_id: str) -> Path:
        if agent_id not in self._workspaces:
            self._workspaces[agent_id] = resolve_workspace(self.config, agent_id, self.env)
        return self._workspaces[agent_id]

    def store(self, agent_id: str) -> SessionStore:
        if agent_id not in self._stores:
            self._stores[agent_id] = SessionStore.of(self.config, agent_id, clock=self.clock, ids=self.ids)
        return self._stores[agent_id]

    def opened(self, key: SessionKey) -> AbstractContextManager[OpenSession]:
        """Open a session for writing while the context lasts: the only way to do so."""
        return self.sessions.opened(key)

    def _open_session(self, key: SessionKey) -> OpenSession:
        seed_agent(self.config, key.agent_id, self.env, self.clock)
        remember_good(self.config, explicit=True)
        store = self.store(key.agent_id)
        return OpenSession(store, key, store.open_writer(key, cwd=str(self.workspace(key.agent_id))))

    def start_over(self, key: SessionKey, by: Literal["new", "reset"]) -> None:
        """Give a session a fresh transcript (see `SessionStore.reset`), which is open then; nobody else has it meanwhile."""
        store, live = self.store(key.agent_id), self.sessions.get(key)
        held, cwd = live.writer if live else None, str(self.workspace(key.agent_id))
        try:
            writer = store.reset(key, by=by, cwd=cwd, held=held)
        except BaseException:
            self.sessions.forget(key)  # how far it came is read anew
            raise
        self.sessions.put(key, OpenSession(store, key, writer))

    def memory(self, agent_id: str) -> Memory:
        """Return an agent's memory as the configuration has it now; another one only where that makes a difference."""
        found, facts, of = self._memories.get(agent_id, (None, {}, None))
        if found is None or of is not self.config.document:
            from homarus.agent.memories import memory_facts, open_memory

            now = memory_facts(self.config, self.env, agent_id, tz=self.zone(agent_id))
            if found is None or now != facts:
                if found is not None:  # it may be at work for a turn that runs, and closes after that
                    threading.Thread(target=found.close, daemon=True).start()
                found = open_memory(self.config, self.env, agent_id, clock=self.clock, facts=now)
            self._memories[agent_id] = (found, now, self.config.document)
        return found

    def has_memory(self, agent_id: str) -> bool:
        """Say whether an agent's memory was asked in this process."""
        return agent_id in self._memories

    def today(self, agent_id: str) -> date:
        return self.clock.now().astimezone(self.zone(agent_id)).date()

    def sandbox(
        self, agent_id: str, session: SessionKey, *, always: bool = False, most: Access = Access.RW
    ) -> SandboxSpec:
        """Return where this session's commands run; without a usable sandbox, nowhere, and no file is touched.

        `always` wants a sandbox in any case; `most` is what may be done with the workspace at most.
        """
        agent, workspace = self.config.agent(agent_id), self.workspace(agent_id)
        rules = agent.block("sandbox", SandboxSettings)
        access = max(Access(rules.workspace_access), most, key=list(Access).index)
        rules = replace(rules, mode="all" if always else rules.mode, workspace_access=access.value)
        try:
            skills = self._skills.now()
            spec = sandbox_for(agent, session, workspace, settings=rules, skills=skills, works=self._works)
        except Denied as problem:
            return SandboxSpec.nothing(str(workspace), str(problem))
        if spec.instead_of:
            ensure_dir(Path(spec.workspace))
        return spec

    def zone(self, agent_id: str) -> tzinfo:
        found, of = self._zones.get(agent_id, (UTC, None))
        if of is not self.config.document:
            named = self.config.agent(agent_id).block("", WorkspaceSettings).user_timezone
            found = find_zone(zone_name(named, self.env)) or UTC
            self._zones[agent_id] = (found, self.config.document)
        return found

    def engine(self, agent_id: str) -> EngineHost:
        """Return what keeps an agent's conversations within its model's window."""
        key = (agent_id, workspace := self.workspace(agent_id))
        if key not in self._engines:
            folders = {"agentDir": self.config.paths.agent_dir(agent_id), "workspaceDir": workspace}
            name = str(self.config.get("plugins.slots.contextEngine") or "")
            self._engines[key] = EngineHost(name, facts={"config": self.config, **folders})
        return self._engines[key]

    def override(self, values: Mapping[str, Any]) -> None:
        """Let these settings, and no others, hold in this process instead of those in the file: from the next turn on."""
        from homarus.config.restrict import faults

        before, self.overrides = self.overrides, dict(values)
        self._overlay()
        for severity, path, reason, cure in faults(self.config):
            if severity == "error":  # as at the start: a restriction that cannot be read must not become none
                self.overrides = before
                self._overlay()
                raise ConfigError(f"{format_path(path)} {reason}", cure=cure)

    def _overlay(self) -> None:
        self.config.overlay({parse_path(path): value for path, value in self.overrides.items()})
        self._workspaces.clear()
        self.models.reread()

    async def aclose(self) -> None:
        for host in self._engines.values():
            await host.aclose()
        await self.toolkit.aclose()
        self.sessions.close()
        self.spending.close()
        for memory, _, _ in self._memories.values():
            memory.close()
        await self.models.aclose()
