"""A loaded configuration as the rest of the program sees it: values, typed blocks, agents, secrets, problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from homarus.config.convert import convert, fails_closed
from homarus.config.env import apply_overrides, layered
from homarus.config.include import Source
from homarus.config.keypath import KeyPath, format_path, lookup, merge_agent, parse_path
from homarus.config.migrate import canonical, migrate
from homarus.config.paths import Paths, expand
from homarus.config.report import Notify, Problem, Severity
from homarus.config.reshape import Draft
from homarus.core.errors import Unknown
from homarus.core.routes import DEFAULT_AGENT, normalize_agent_id

T = TypeVar("T")
_NOTHING: Any = object()
_CURE = "correct the value or remove the key; the default is used until then"
_CURE_CLOSED = "correct the value or remove the key; the strictest reading of its block holds until then"


class Content:
    """What was read from disk, before anything was made of it."""

    def __init__(self, paths: Paths, source: Source | None, authored: dict[str, Any], env: Mapping[str, str]) -> None:
        self.paths = paths
        self.source = source
        # With everything included, and every `${NAME}` as it was written.
        self.authored = authored
        self.raw = authored
        self.env = env
        # The file that stands in for a broken one.
        self.fallback: Path | None = None
        self.problems: list[Problem] = []


class AgentConfig:
    """One agent's settings: `agents.defaults` with the agent's own entry on top."""

    def __init__(self, config: Config, agent_id: str, *, default: bool, entry: dict[str, Any]) -> None:
        self.config = config
        self.id = agent_id
        self.default = default
        self.entry = entry
        self.raw: dict[str, Any] = merge_agent(config.defaults, entry)

    def get(self, path: str, default: Any = None) -> Any:
        """Return one merged setting; `null` counts as not set."""
        found = lookup(self.raw, parse_path(path))
        return default if found is None else found

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
    """A loaded configuration. `raw` is what the user wrote; everything else reads the canonical `document`."""

    def __init__(self, content: Content) -> None:
        self.paths = content.paths
        self.authored = content.authored
        self.raw = content.raw
        self.env = content.env
        self.source = content.source
        self.fallback = content.fallback
        self.problems: list[Problem] = []
        # What must be mended before anything may run on this; set by `inspect_config`.
        self.unusable: Problem | None = None
        self._notify: Notify | None = None
        self._programs: dict[str, str] = {}
        self._blocks: dict[tuple[KeyPath, type], tuple[Any, Any]] = {}
        for problem in content.problems:
            self.record(problem)
        self.agents: tuple[AgentConfig, ...] = ()
        self.floor: Callable[[dict[str, Any]], object] = lambda _document: None
        self._read({})

    def _read(self, overlay: Mapping[KeyPath, Any]) -> None:
        self._draft: Draft = migrate(self.raw)
        self.document: dict[str, Any] = self._draft.root
        for path, message, cure in self._draft.notes:
            self.report("error", path, message, cure)
        apply_overrides(self.document, self.env, self._bad_variable)
        for path, value in overlay.items():
            self._draft.put(self.canonical(path), value, path)
        self.floor(self.document)
        self.agents = self._roster()

    def bound(self, floor: Callable[[dict[str, Any]], object]) -> None:
        """Let whoever runs this machine change every reading of the file, last of all: what it takes away no overlay gives back."""
        self.floor = floor
        self.overlay({})

    def overlay(self, values: Mapping[KeyPath, Any]) -> None:
        """Let these values hold over those of the file, in this process alone. An empty mapping takes all of them back.

        It holds for what is read from now on, as each turn does; what was read at the start stays as it was.
        """
        self._blocks.clear()
        self._read(values)

    def adopt(self, fresh: Config) -> None:
        """Go on with another reading of the same file. It holds for what is read from now on, as with `overlay`."""
        self.authored, self.raw, self.env = fresh.authored, fresh.raw, fresh.env
        self.source, self.fallback = fresh.source, fresh.fallback
        self.problems, self.unusable = list(fresh.problems), fresh.unusable
        self._programs.clear()
        self.overlay({})

    # Values

    def get(self, path: str, default: Any = None) -> Any:
        """Return a value of the canonical document, asked for in the spelling of any era; `null` counts as not set."""
        found = self.lookup(parse_path(path))
        return default if found is None else found

    def lookup(self, path: KeyPath) -> Any:
        return lookup(self.document, self.canonical(path))

    def canonical(self, path: KeyPath) -> KeyPath:
        """Return where a path of any spelling stands in the canonical document."""
        if lookup(self.document, path, _NOTHING) is not _NOTHING:
            return path
        for new, old in self._draft.origins.items():
            if len(path) >= len(old) and all(str(a) == str(b) for a, b in zip(path, old, strict=False)):
                moved = (*new, *path[len(old) :])
                if lookup(self.document, moved, _NOTHING) is not _NOTHING:
                    return moved
        return canonical(path)

    @property
    def origins(self) -> Mapping[KeyPath, KeyPath]:
        """Return where the user wrote what the canonical form has in another place."""
        return self._draft.origins

    @property
    def hidden(self) -> Sequence[tuple[KeyPath, KeyPath]]:
        """Return what is written in two spellings that differ: the canonical path, and where the one that does not count stands."""
        return self._draft.hidden

    def block(self, path: str, into: type[T]) -> T:
        """Return a typed block; a bad value is reported and falls back, or disables the block where its class says so."""
        return self.convert_block(self.get(path), into, parse_path(path))

    def convert_block(self, value: Any, into: type[T], path: KeyPath) -> T:
        """Convert a block that was read from `path`; the same block is converted once."""
        kept = self._blocks.get((path, into))
        if kept is not None and kept[0] is value:
            return cast("T", kept[1])

        def heard(where: KeyPath, reason: str) -> None:
            if not self.is_told(where):
                cure = _CURE_CLOSED if fails_closed(into, where[len(path) :]) else _CURE
                self.report("error", where, reason, cure)

        made = convert({} if value is None else value, into, heard, path)
        self._blocks[path, into] = (value, made)
        return made

    def secret(self, path: str) -> str | None:
        """Return the secret at a path, fetched now; None where there is none. Raises ConfigError where it cannot be had.

        A program is asked once for as long as this configuration is in use; the environment and files every time, so
        that a new secret counts at once. It may take seconds: never call it on an event loop.
        """
        value = self.get(path)
        return None if value in (None, "") else self.resolve(value)

    def resolve(self, value: Any) -> str:
        if isinstance(value, str) and "$" not in value:
            return value  # as most are
        from homarus.config.secrets import parse_ref, resolve_secret

        ref = parse_ref(value)
        if ref is not None and ref.source == "exec" and str(ref) in self._programs:
            return self._programs[str(ref)]
        settings = self.document.get("secrets")
        found = resolve_secret(value, self.env, self.paths, settings=settings if isinstance(settings, dict) else {})
        if ref is not None and ref.source == "exec":
            self._programs[str(ref)] = found
        return found

    def variables(self, process: Mapping[str, str]) -> dict[str, str]:
        """Return what a key is looked up in: the process's variables, then `.env` of the home, then `env.vars`."""
        return layered(process, self.env)

    @property
    def hash(self) -> str:
        """Return what changes when any file of the configuration changes."""
        import hashlib

        digest = hashlib.sha256()
        for source in self.source.all() if self.source else ():
            digest.update(hashlib.sha256(source.data).digest())
        return digest.hexdigest()

    # Agents

    @property
    def defaults(self) -> dict[str, Any]:
        found = lookup(self.document, ("agents", "defaults"))
        return found if isinstance(found, dict) else {}

    @property
    def default_agent(self) -> AgentConfig:
        return next(agent for agent in self.agents if agent.default)

    def agent(self, agent_id: str) -> AgentConfig:
        """Return an agent by id; one that is not in the roster runs on the defaults."""
        wanted = normalize_agent_id(agent_id)
        for agent in self.agents:
            if agent.id == wanted:
                return agent
        return AgentConfig(self, wanted, default=False, entry={})

    def agent_named(self, name: str | None) -> AgentConfig:
        """Return the agent that a person named, the default one for no name. A name that nobody has is an error."""
        if not name:
            return self.default_agent
        wanted = normalize_agent_id(name)
        known = [agent.id for agent in self.agents]
        if wanted not in known:
            cure = f"agents are: {', '.join(known)}; 'homarus agents add' makes one"
            raise Unknown(f"there is no agent '{name}'", cure=cure)
        return self.agent(wanted)

    def _roster(self) -> tuple[AgentConfig, ...]:
        found = lookup(self.document, ("agents", "entries"))
        entries: dict[str, Any] = found if isinstance(found, dict) and found else {DEFAULT_AGENT: {}}
        marked = [name for name, entry in entries.items() if entry.get("default") is True]
        for name in marked[1:]:
            self.report("warning", ("agents", "entries", name, "default"), "is a second default agent", "keep one")
        chosen = marked[0] if marked else next(iter(entries))
        agents: list[AgentConfig] = []
        owners: dict[Path, str] = {}
        for name, entry in entries.items():
            agent = AgentConfig(self, name, default=name == chosen, entry=entry)
            owner = owners.setdefault(agent.agent_dir, name)
            if owner != name and not agent.default:
                message = f"agent '{name}' is left out: agent '{owner}' has the same agentDir, so they would share credentials"
                self.report("error", ("agents", "entries", name, "agentDir"), message, "give each agent its own folder")
                continue
            agents.append(agent)
        return tuple(agents)

    # Problems

    def report(self, severity: Severity, path: KeyPath, message: str, cure: str) -> None:
        """Record a problem at the line where the key was written; once, however often the same block is read."""
        written = self.written(path)
        file, line = self.locate(written)
        self.record(Problem(severity, file, line, format_path(written), message, cure))

    def listen(self, notify: Notify | None) -> None:
        """Tell `notify` of every problem that is known, and of each that is found from now on."""
        self._notify = notify
        if notify:
            for problem in self.problems:
                notify(problem)

    def is_told(self, path: KeyPath) -> bool:
        """Say whether something is known to be wrong with this very key."""
        told = format_path(self.written(path))
        return any(problem.key == told for problem in self.problems)

    def record(self, problem: Problem) -> None:
        if problem not in self.problems:
            self.problems.append(problem)
            if self._notify:
                self._notify(problem)

    def _bad_variable(self, name: str, message: str) -> None:
        self.record(Problem("error", "environment", 0, name, message, f"correct or unset {name}"))

    def written(self, path: KeyPath) -> KeyPath:
        """Return the path under which the user wrote a canonical key; of an inherited setting, that in the defaults."""
        if path[:2] == ("agents", "entries") and len(path) > 3 and lookup(self.document, path, _NOTHING) is _NOTHING:
            # The rules for tools hold for everyone at the top.
            above: tuple[KeyPath, ...] = (
                ("agents", "defaults", *path[3:]),
                *([path[3:]] if path[3] == "tools" else ()),
            )
            path = next((each for each in above if lookup(self.document, each, _NOTHING) is not _NOTHING), path)
        for _ in range(8):
            sizes = [size for size in range(len(path), 0, -1) if path[:size] in self._draft.origins]
            if not sizes or lookup(self.raw, path, _NOTHING) is not _NOTHING:
                break
            path = (*self._draft.origins[path[: sizes[0]]], *path[sizes[0] :])
        return path

    def locate(self, written: KeyPath) -> tuple[str, int]:
        """Return the file and the line of a key as written, or of the nearest key around it."""
        if self.source is None:
            return str(self.paths.config_path), 0
        path = written
        while path:
            found = self.source.owner(path)
            if found:
                return str(found[0].path), found[0].line(found[1])
            path = path[:-1]
        return str(self.source.path), 0
