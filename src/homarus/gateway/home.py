"""The parts of one home, each made when it is first needed: folders, sessions, memories, sandboxes, context engines.

Nothing here runs a turn; `app` puts a home to work.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from homarus.config.view import Config
from homarus.context.host import EngineHost
from homarus.core.clock import Clock, Ids
from homarus.core.errors import Denied
from homarus.core.later import later
from homarus.core.routes import SessionKey
from homarus.gateway.estimate import sandbox_of
from homarus.gateway.skillfolders import SkillMounts
from homarus.prompt.gather import find_zone, zone_name
from homarus.sandbox.bwrap import remembered
from homarus.sandbox.spec import Backend, SandboxSpec
from homarus.sessions.store import SessionStore
from homarus.storage.atomic import ensure_dir
from homarus.workspace.agents import resolve_workspace
from homarus.workspace.settings import WorkspaceSettings

if TYPE_CHECKING:
    from homarus.memory.memory import Memory
    from homarus.sandbox import process
else:
    process = later("homarus.sandbox.process")


class Home:
    """What belongs to one home and its agents. `close` lets go of what was opened."""

    def __init__(self, config: Config, env: Mapping[str, str], *, clock: Clock, ids: Ids) -> None:
        self.config = config
        self.env = env
        self.clock = clock
        self.ids = ids
        self._workspaces: dict[str, Path] = {}
        self._stores: dict[str, SessionStore] = {}
        self._memories: dict[str, Memory] = {}
        self._engines: dict[str, EngineHost] = {}
        # Each agent's zone, and the document that said so: asked with every call of a model.
        self._zones: dict[str, tuple[tzinfo, object]] = {}
        self._skills = SkillMounts(config)
        self._works = remembered(config.paths.own_dir / "sandbox", _available, clock)

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
            from homarus.gateway.memories import open_memory

            zone = self.zone(agent_id)
            self._memories[agent_id] = open_memory(self.config, self.env, agent_id, clock=self.clock, tz=zone)
        return self._memories[agent_id]

    def today(self, agent_id: str) -> date:
        """Return the date where the user is."""
        return self.clock.now().astimezone(self.zone(agent_id)).date()

    def sandbox(self, agent_id: str, session: SessionKey, *, always: bool = False) -> SandboxSpec:
        """Return where this session's commands run; without a usable sandbox, nowhere, and no file is touched. `always` wants one in any case."""
        agent, workspace = self.config.agent(agent_id), self.workspace(agent_id)
        try:
            spec = sandbox_of(agent, session, workspace, always=always, skills=self._skills.now(), works=self._works)
        except Denied as problem:
            return SandboxSpec.nothing(str(workspace), str(problem))
        if spec.instead_of:
            ensure_dir(Path(spec.workspace))
        return spec

    def zone(self, agent_id: str) -> tzinfo:
        """Return the time zone of an agent's user."""
        found, of = self._zones.get(agent_id, (UTC, None))
        if of is not self.config.document:
            named = self.config.agent(agent_id).block("", WorkspaceSettings).user_timezone
            found = find_zone(zone_name(named, self.env)) or UTC
            self._zones[agent_id] = (found, self.config.document)
        return found

    def engine(self, agent_id: str) -> EngineHost:
        """Return what keeps an agent's conversations within its model's window."""
        if agent_id not in self._engines:
            facts = {
                "config": self.config,
                "agentDir": self.config.paths.agent_dir(agent_id),
                "workspaceDir": self.workspace(agent_id),
            }
            self._engines[agent_id] = EngineHost(str(self.config.get("plugins.slots.contextEngine") or ""), facts=facts)
        return self._engines[agent_id]

    async def close_engines(self) -> None:
        """Let the context engines say farewell."""
        for host in self._engines.values():
            await host.aclose()

    def close(self) -> None:
        """Close the memories' indexes."""
        for memory in self._memories.values():
            memory.close()


def _available(backend: Backend) -> bool:
    return process.available(backend)
