"""Agents come, change and go: the roster in the configuration, the workspace, and who the agent is. Nothing of a person's is deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from homarus.admin.places import take
from homarus.agent.open_session import seed_agent
from homarus.config.load import AgentConfig, Config, load_config
from homarus.config.paths import expand
from homarus.config.write import Operation, change
from homarus.core.clock import Clock
from homarus.core.errors import Unknown
from homarus.core.routes import normalize_agent_id
from homarus.workspace.agents import bindings_of, put_away, refuse_shared, resolve_workspace, trash_place
from homarus.workspace.identity import write_identity
from homarus.workspace.roster import add_agent, delete_agent, pin_workspace, places, set_identity
from homarus.workspace.seed import Seeded


class Added(Struct, frozen=True):
    agent_id: str
    workspace: Path
    seeded: Seeded
    # Agents that live in the same folder: they will mix their memories.
    sharers: tuple[str, ...] = ()


class Removed(Struct, frozen=True):
    agent_id: str
    workspace: Path
    bindings: int
    moved: tuple[Path, ...]
    # Who is the default agent from now on, where it was this one.
    heir: str = ""


class Roster:
    """The agents of a home, as its file names them."""

    def __init__(self, config: Config, env: Mapping[str, str], clock: Clock) -> None:
        self.config = config
        self._env = env
        self._clock = clock

    def write(self, operations: Sequence[Operation]) -> Config:
        """Write changes and return the configuration as it is then."""
        change(self.config, self._env, operations)
        self.config = load_config(self.config.paths, self._env)
        return self.config

    def add(self, name: str, settings: Mapping[str, Any], identity: Mapping[str, str]) -> Added:
        """Add an agent and lay out its workspace. Raises Unknown, also for a folder that cannot be one."""
        if not any(char.isalnum() for char in name):
            raise Unknown(f"'{name}' is no usable name", cure="use letters, digits, '-' and '_'")
        agent_id = normalize_agent_id(name)
        kept = {key: _kept(value) if key == "workspace" else value for key, value in settings.items() if value}
        operations = add_agent(self.config.authored, agent_id, kept)
        self._take(settings)
        changed = self.write(operations)
        home = resolve_workspace(changed, agent_id, self._env)
        others = [other.id for other in changed.agents if other.id != agent_id]
        sharers = [each for each in others if resolve_workspace(changed, each, self._env).resolve() == home.resolve()]
        seeded = seed_agent(changed, agent_id, self._env, self._clock)
        if values := {key: value for key, value in identity.items() if value}:
            write_identity(home, values)
        return Added(agent_id, home, seeded, tuple(sharers))

    def set(self, agent_id: str, settings: Mapping[str, Any], identity: Mapping[str, str]) -> None:
        """Change an agent: None takes a setting back. Who it is stands in its IDENTITY.md, and where the file names it, there too."""
        known = self.config.agent_named(agent_id)
        document = self.config.authored
        place = next(iter(places(document, known.id)), ("agents", "entries", known.id))
        named = set(known.entry)
        operations = [
            Operation("set", (*place, key), _kept(value) if key == "workspace" else value)
            for key, value in settings.items()
            if value is not None
        ]
        operations += [
            Operation("unset", (*place, key)) for key, value in settings.items() if value is None and key in named
        ]
        operations += set_identity(document, known.id, identity, force=False)
        self._take(settings)
        if operations:
            self.write(operations)
        if identity:
            write_identity(resolve_workspace(self.config, known.id, self._env), dict(identity))

    def plan_removal(self, agent_id: str, *, purge: bool) -> Removal:
        """Return what taking an agent away would do; refuses what would take others along. Raises ConfigError."""
        known = self.config.agent_named(agent_id)
        if len(self.config.agents) == 1:
            raise Unknown(f"'{known.id}' is the only agent, and there is always one", cure="add another one first")
        home = resolve_workspace(self.config, known.id, self._env)
        operations = [*self._keep_heirs_home(known), *delete_agent(self.config.authored, known.id)]
        return Removal(known, home, tuple(operations), tuple(self._folders(known, home)) if purge else ())

    def remove(self, plan: Removal) -> Removed:
        """Take an agent and its bindings out of the configuration; folders of the plan go to the trash."""
        known, bound = plan.agent, len(bindings_of(self.config, plan.agent.id))
        changed = self.write(plan.operations)
        place = trash_place(self.config.paths.state_dir / "trash", known.id, self._clock.now())
        moved = [put_away(folder, place, label) for label, folder in plan.folders]
        heir = changed.default_agent.id if known.default else ""
        return Removed(known.id, plan.workspace, bound, tuple(path for path in moved if path is not None), heir)

    def _keep_heirs_home(self, gone: AgentConfig) -> list[Operation]:
        # The default agent's folder is `agents.defaults.workspace`: whoever becomes the default would move in there.
        others = [agent for agent in self.config.agents if agent.id != gone.id]
        heir = next((agent for agent in others if agent.entry.get("default") is True), others[0])
        if not gone.default or heir.entry.get("workspace"):
            return []
        return pin_workspace(self.config.authored, heir.id, str(resolve_workspace(self.config, heir.id, self._env)))

    def _take(self, settings: Mapping[str, Any]) -> None:
        if workspace := settings.get("workspace"):
            take(expand(workspace, self.config.paths.home), self.config.paths)

    def _folders(self, agent: AgentConfig, home: Path) -> list[tuple[str, Path]]:
        paths = self.config.paths
        others = [other for other in self.config.agents if other.id != agent.id]
        keep = [
            paths.home,
            paths.state_dir,
            paths.config_path,
            *(resolve_workspace(self.config, other.id, self._env) for other in others),
            *(paths.agents_dir / other.id for other in others),
        ]
        folders = [("workspace", home), ("agent", paths.agents_dir / agent.id)]
        for _, folder in folders:
            refuse_shared(folder, keep)
        return folders


class Removal(Struct, frozen=True):
    """What taking an agent away does, worked out before anybody is asked."""

    agent: AgentConfig
    workspace: Path
    operations: tuple[Operation, ...]
    folders: tuple[tuple[str, Path], ...]


def _kept(workspace: str) -> str:
    # `~` stays as it was written, so that the file can move with the home; other paths must not depend on this folder.
    return workspace if workspace.startswith("~") else str(Path(workspace).absolute())
