"""All sessions of a home, over its agents, and bringing others in: another home's, a database's, single transcripts.

Where sessions come from stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.clock import Clock, Ids
from homarus.core.errors import ConfigError, Unknown
from homarus.core.routes import DEFAULT_AGENT, MAIN, SessionKey, SessionKind, named_session
from homarus.sessions.codec import Json
from homarus.sessions.database import FILE, AgentDatabase
from homarus.sessions.log import Form, session_id_of
from homarus.sessions.places import Kind, Place, files_in, visit
from homarus.sessions.settings import SessionSettings
from homarus.sessions.store import SessionInfo, SessionStore

if TYPE_CHECKING:
    from homarus.config.load import Config


class SessionHome:
    """The stores of every agent that a home has on disk or in its roster."""

    def __init__(
        self, agents_dir: Path, *, clock: Clock, ids: Ids, main_key: str, roster: Iterable[str] = (DEFAULT_AGENT,)
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
        return self.roster[0]

    def agents(self) -> list[str]:
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
        return [store.problem for store in self._stores.values() if store.problem]

    def resolve(self, text: str, agent: str = "") -> SessionInfo:
        """Return the session that a person means: by key, by id or the beginning of one, or by its name."""
        key = SessionKey.parse(text, default_agent=agent or self.default_agent, main_key=self._main_key)
        if key.agent_id in self.agents() and (named := self.store(key.agent_id).find(key)):
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
        for agent in self.agents():
            for place in self.store(agent).archives():
                if text in {place.path.name, place.session_id, str(place.path)}:
                    return place
        path = Path(text)
        return Place("", path.name, Kind.FILE, path) if path.suffix in {".jsonl", ".zst"} and path.is_file() else None


class Candidate(Struct, frozen=True):
    name: str
    place: Place
    row: Json


def candidates(path: Path, agent_id: str, *, clock: Clock, ids: Ids) -> Iterator[Candidate]:
    """Yield the sessions that lie at a path: a state folder, an agent's folder, a database or a transcript."""
    if (path / "agents").is_dir():
        home = SessionHome(path / "agents", clock=clock, ids=ids, main_key=MAIN)
        for info in home.list(orphans=True):
            yield Candidate(info.name, info.place, info.row)
    elif path.is_dir() and ((path / "sessions").is_dir() or (path / "agent" / FILE).is_file()):
        store = SessionStore(path / "sessions", path.name, clock=clock, ids=ids, main_key=MAIN)
        for info in store.list(orphans=True):
            yield Candidate(info.name, info.place, info.row)
    elif path.is_dir():
        for place in files_in(path, agent_id):
            yield _file(place)
    elif path.suffix == ".sqlite":
        with AgentDatabase(path) as database:
            found = database.sessions()
        for one in found:
            yield Candidate(one.key, Place(agent_id, one.session_id, Kind.DATABASE, path), one.row)
    elif path.is_file():
        yield _file(Place(agent_id, session_id_of(path), Kind.FILE, path))
    else:
        raise ConfigError(
            f"there is nothing to bring in at {path}", cure="give a state folder, a database or a .jsonl file"
        )


def _file(place: Place) -> Candidate:
    return Candidate(str(named_session(place.agent_id, SessionKind.EXPLICIT, place.session_id)), place, {})


def bring_in(store: SessionStore, candidate: Candidate) -> tuple[str, SessionKey | None]:
    """Copy one session into a store. Return `done`, `known` (it is here already) or `empty`, and the key it has now."""
    key = _key_here(store, candidate.name)
    here = store.find(key)
    if here is not None:
        origin = here.entry.imported_from or {}
        same = here.place == candidate.place or origin.get("path") == str(candidate.place.path)
        if same and here.place.kind is Kind.FILE:
            return "known", key
        if here.place != candidate.place:
            key = named_session(store.agent_id, SessionKind.EXPLICIT, f"{candidate.place.session_id}-imported")
            if store.find(key):
                return "known", key
    with visit(candidate.place) as source:
        if source.form in {Form.EMPTY, Form.CORRUPT}:
            return "empty", None
    dropped = {"sessionFile", "importedFrom"}
    row = {name: value for name, value in candidate.row.items() if name not in dropped}
    return "done", store.adopt(key, candidate.place, row).key


def _key_here(store: SessionStore, name: str) -> SessionKey:
    """Return the key that a session gets here: its own, as this agent's."""
    try:
        key = store.key(name)
    except ConfigError:
        return named_session(store.agent_id, SessionKind.EXPLICIT, name)
    return replace(key, agent_id=store.agent_id)
