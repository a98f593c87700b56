"""All sessions of a home, over its agents: what the command line and the gateway look through."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from homarus.core.clock import Clock, Ids
from homarus.core.errors import Unknown
from homarus.core.routes import DEFAULT_AGENT, SessionKey
from homarus.sessions.places import Kind, Place
from homarus.sessions.settings import SessionSettings
from homarus.sessions.store import SessionInfo, SessionStore

if TYPE_CHECKING:
    from homarus.config.load import Config


class SessionHome:
    """The stores of every agent that a home has on disk or in its roster."""

    def __init__(
        self,
        agents_dir: Path,
        *,
        clock: Clock,
        ids: Ids,
        main_key: str,
        roster: Iterable[str] = (DEFAULT_AGENT,),
    ) -> None:
        self.agents_dir = agents_dir
        self._clock = clock
        self._ids = ids
        self._main_key = main_key
        self.roster = tuple(roster) or (DEFAULT_AGENT,)
        self._stores: dict[str, SessionStore] = {}

    @classmethod
    def of(cls, config: Config, *, clock: Clock, ids: Ids) -> SessionHome:
        """Return the sessions of all agents of a configuration, the default agent first."""
        default = config.default_agent.id
        roster = [default, *(agent.id for agent in config.agents if agent.id != default)]
        main_key = config.block("session", SessionSettings).main_key
        return cls(config.paths.agents_dir, clock=clock, ids=ids, roster=roster, main_key=main_key)

    @property
    def default_agent(self) -> str:
        """Return the agent that a key without one belongs to."""
        return self.roster[0]

    def agents(self) -> list[str]:
        """Return the ids of all agents, those of the roster first."""
        try:
            found = sorted(
                entry.name
                for entry in self.agents_dir.iterdir()
                if (entry / "sessions").is_dir() or (entry / "agent").is_dir()
            )
        except OSError:
            found = []
        return list(dict.fromkeys([*self.roster, *found]))

    def store(self, agent_id: str) -> SessionStore:
        """Return an agent's store."""
        if agent_id not in self._stores:
            folder = self.agents_dir / agent_id / "sessions"
            self._stores[agent_id] = SessionStore(
                folder, agent_id, clock=self._clock, ids=self._ids, main_key=self._main_key
            )
        return self._stores[agent_id]

    def list(self, agents: Sequence[str] = (), *, orphans: bool = False) -> Sequence[SessionInfo]:
        """Return the sessions of these agents, or of all, the newest first."""
        found = [info for agent in agents or self.agents() for info in self.store(agent).list(orphans=orphans)]
        return sorted(found, key=lambda info: info.entry.updated_at, reverse=True)

    @property
    def problems(self) -> Sequence[str]:
        """Return what kept the last `list` from showing everything."""
        return [store.problem for store in self._stores.values() if store.problem]

    def resolve(self, text: str, agent: str = "") -> SessionInfo:
        """Return the session that a person means: by key, by id or the beginning of one, or by its name."""
        named = self._by_key(text, agent)
        if named:
            return named
        wanted = text.strip().lower()
        infos = self.list([agent] if agent else (), orphans=True)
        for match in (
            lambda info: info.place.path.name.lower() == f"{wanted}.jsonl",  # the topics of a session have its id, too
            lambda info: wanted in {info.entry.session_id.lower(), info.name.lower()},
            lambda info: info.title.lower() == wanted,
            lambda info: len(wanted) >= 4 and info.entry.session_id.lower().startswith(wanted),
            lambda info: len(wanted) >= 4 and wanted in info.name.lower(),
        ):
            found = [info for info in infos if match(info)]
            if len(found) == 1:
                return found[0]
            if found:
                names = ", ".join(info.name for info in found[:5])
                raise Unknown(f"'{text}' could be any of {len(found)} sessions: {names}", cure="give the whole key")
        raise Unknown(f"no session '{text}'", cure="'homarus sessions list' shows them all")

    def archive(self, text: str) -> Place | None:
        """Return the archive whose file name or session id this is."""
        for agent in self.agents():
            for place in self.store(agent).archives():
                if text in {place.path.name, place.session_id, str(place.path)}:
                    return place
        path = Path(text)
        return Place("", path.name, Kind.FILE, path) if path.suffix in {".jsonl", ".zst"} and path.is_file() else None

    def _by_key(self, text: str, agent: str) -> SessionInfo | None:
        key = SessionKey.parse(text, default_agent=agent or self.default_agent, main_key=self._main_key)
        if key.agent_id not in self.agents():
            return None
        return self.store(key.agent_id).find(key)
