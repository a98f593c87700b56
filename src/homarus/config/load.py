"""Read `openclaw.json` and give out typed blocks. Bad content never raises: it becomes a Problem and a fallback."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pyjson5

from homarus.config.convert import convert
from homarus.config.keypath import KeyPath, format_path, lookup, parse_path
from homarus.config.migrate import migrate
from homarus.config.paths import Paths, expand
from homarus.config.report import Notify, Problem, Severity
from homarus.config.resolve import MAIN, merge_agent, normalize_id

T = TypeVar("T")
MAX_BYTES = 4 * 1024 * 1024


class AgentConfig:
    """One agent's settings: `agents.defaults` with the agent's own entry on top."""

    def __init__(self, config: Config, agent_id: str, *, default: bool, entry: dict[str, Any]) -> None:
        self.config = config
        self.id = agent_id
        self.default = default
        self.entry = entry
        self.raw: dict[str, Any] = merge_agent(config.defaults, entry)

    def get(self, path: str, default: Any = None) -> Any:
        """Return one merged setting."""
        return lookup(self.raw, parse_path(path), default)

    def block(self, path: str, into: type[T]) -> T:
        """Return a typed block of the merged settings; `""` is the agent itself."""
        return self.config.convert_block(self.get(path), into, ("agents", "entries", self.id, *parse_path(path)))

    @property
    def agent_dir(self) -> Path:
        """Return where this agent keeps its credentials; an explicit `agentDir` is honoured."""
        named = self.raw.get("agentDir")
        if isinstance(named, str) and named.strip():
            return expand(named, self.config.paths.home)
        return self.config.paths.agent_dir(self.id)


class Config:
    """A loaded configuration. `raw` is what the user wrote; everything else reads the canonical form of it."""

    def __init__(
        self, paths: Paths, raw: dict[str, Any], *, problems: list[Problem], notify: Notify | None = None
    ) -> None:
        self.paths = paths
        self.raw = raw
        self.problems: list[Problem] = []
        self._notify = notify
        for problem in problems:
            self._record(problem)
        draft = migrate(raw)
        self.document = draft.root
        for path, message, cure in draft.notes:
            self.report("warning", path, message, cure)

    def get(self, path: str, default: Any = None) -> Any:
        """Return a value of the canonical document."""
        return lookup(self.document, parse_path(path), default)

    def block(self, path: str, into: type[T]) -> T:
        """Return a typed block; a bad value is reported and falls back, or disables the block where its class says so."""
        return self.convert_block(self.get(path), into, parse_path(path))

    def convert_block(self, value: Any, into: type[T], path: KeyPath) -> T:
        """Convert a block that was read from `path`."""

        def heard(where: KeyPath, reason: str) -> None:
            self.report("warning", where, reason, "correct the value or remove the key; the default is used until then")

        return convert({} if value is None else value, into, heard, path)

    def report(self, severity: Severity, path: KeyPath, message: str, cure: str) -> None:
        """Record a problem once, however often the same block is read."""
        self._record(Problem(severity, str(self.paths.config_path), 0, format_path(path), message, cure))

    def _record(self, problem: Problem) -> None:
        if problem not in self.problems:
            self.problems.append(problem)
            if self._notify:
                self._notify(problem)

    @property
    def defaults(self) -> dict[str, Any]:
        """Return what every agent starts from."""
        found = lookup(self.document, ("agents", "defaults"))
        return found if isinstance(found, dict) else {}

    @cached_property
    def agents(self) -> tuple[AgentConfig, ...]:
        """Return the roster in the user's order; there is always at least one agent, and exactly one default."""
        entries: dict[str, Any] = lookup(self.document, ("agents", "entries")) or {MAIN: {}}
        chosen = next((name for name, entry in entries.items() if entry.get("default") is True), next(iter(entries)))
        return tuple(AgentConfig(self, name, default=name == chosen, entry=entry) for name, entry in entries.items())

    @property
    def default_agent(self) -> AgentConfig:
        """Return the agent that gets what is addressed to nobody."""
        return next(agent for agent in self.agents if agent.default)

    def agent(self, agent_id: str) -> AgentConfig:
        """Return an agent by id; one that is not in the roster runs on the defaults."""
        wanted = normalize_id(agent_id)
        for agent in self.agents:
            if agent.id == wanted:
                return agent
        return AgentConfig(self, wanted, default=False, entry={})


def load_config(paths: Paths, env: Mapping[str, str], *, notify: Notify | None = None) -> Config:
    """Read the configuration of a home; a missing file is an empty one."""
    problems: list[Problem] = []
    document: dict[str, Any] = {}
    file = str(paths.config_path)
    try:
        with paths.config_path.open("rb") as handle:
            text = handle.read(MAX_BYTES).decode("utf-8", "replace")
        found = pyjson5.decode(text) if text.strip("\ufeff \t\r\n") else {}
        if isinstance(found, dict):
            document = found
        else:
            problems.append(Problem("error", file, 1, "", "holds no object", "wrap everything in { }"))
    except FileNotFoundError:
        pass
    except OSError as problem:
        problems.append(Problem("error", file, 0, "", f"cannot be read: {problem.strerror}", "check its permissions"))
    except pyjson5.Json5DecoderException as problem:
        problems.append(Problem("error", file, 0, "", f"is no JSON5: {problem.args[0]}", "correct that line"))
    return Config(paths, document, problems=problems, notify=notify)
