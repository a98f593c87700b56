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
from homarus.sessions.places import Kind, Place, archived_as, files_in, visit
from homarus.sessions.settings import SessionSettings
from homarus.sessions.store import HEX_ID, MAX_LABEL, SHORT_ID, SessionInfo, SessionStore, short_id

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

    def agents(self, only: str = "") -> list[str]:
        """Return all agents, or the one that a person named. Raises Unknown for one that is not among them."""
        try:
            found = sorted(
                entry.name
                for entry in self.agents_dir.iterdir()
                if (entry / "sessions").is_dir() or (entry / "agent").is_dir()
            )
        except OSError:
            found = []
        known = list(dict.fromkeys([*self.roster, *found]))
        if not only:
            return known
        wanted = only.strip().lower()
        if wanted not in known:
            raise Unknown(f"there is no agent '{only}'", cure=f"agents are: {', '.join(known)}")
        return [wanted]

    def store(self, agent_id: str) -> SessionStore:
        if agent_id not in self._stores:
            folder = self.agents_dir / agent_id / "sessions"
            self._stores[agent_id] = SessionStore(
                folder, agent_id, clock=self._clock, ids=self._ids, main_key=self._main_key
            )
        return self._stores[agent_id]

    def list(self, agents: Sequence[str] = (), *, orphans: bool = False) -> Sequence[SessionInfo]:
        """Return the sessions of these agents, or of all, the newest first. Raises Unknown as `agents` does."""
        named = [each for agent in agents or [""] for each in self.agents(agent)]
        found = [info for agent in named for info in self.store(agent).list(orphans=orphans)]
        return sorted(found, key=lambda info: info.entry.updated_at, reverse=True)

    @property
    def problems(self) -> Sequence[str]:
        return [store.problem for store in self._stores.values() if store.problem]

    def resolve(self, text: str, agent: str = "") -> SessionInfo:
        """Return the session that a person means: by key, by id or the beginning of one, or by its name."""
        return self._meant(text, agent, _SHORTEST) or self._missing(text, agent)

    def key(self, text: str, agent: str = "", *, typed: bool = False) -> SessionKey:
        """Return the key of the session that is meant, or of a new one of that name.

        What a person typed means what it means to `resolve`. A program is taken more strictly: its `abcd` must never be
        somebody else's, so an id needs its first eight characters.
        In both cases a whole key is taken as it stands, and a sub-agent's name does not count.
        The id of a conversation that was put away is never the name of a new session: it is the one that goes on with it,
        or refused where there is none yet.
        """
        key = SessionKey.parse(text, default_agent=agent or self.default_agent, main_key=self._main_key)
        if key.kind in {SessionKind.MAIN, SessionKind.GLOBAL} or text.strip().lower().startswith("agent:"):
            return key
        shortest = _SHORTEST if typed else SHORT_ID
        if found := self._meant(text, agent, shortest, talking=True):
            return found.key
        wanted = text.strip().lower()
        if away := next((place for place in self.archives() if _begins(place.session_id, wanted, shortest)), None):
            if again := self._revived(away):
                return again.key
            cure = f"'homarus sessions resume {short_id(away.session_id)}' goes on with it"
            raise Unknown(f"the conversation {text.strip()} was put away", cure=cure)
        if len(text) > MAX_LABEL:
            raise Unknown(f"no session has a name of {len(text)} characters", cure=f"give one of at most {MAX_LABEL}")
        return key

    def place(self, text: str, agent: str = "") -> Place:
        """Return where the conversation that a person means lies: a session, an archive, or a transcript file anywhere."""
        if found := self.archive(text, exact=True) or self._meant(text, agent, _SHORTEST):
            return found.place if isinstance(found, SessionInfo) else found
        return self.archive(text) or self._missing(text, agent).place

    def title(self, place: Place) -> str:
        """Return what the conversation at a place is called, or was when it was put away; nothing where nobody named it."""
        if place.kind is Kind.ARCHIVE:
            key = self._chosen_key(place)
            return archived_as(place).label or (key.peer if key and key.peer != place.session_id else "")
        return next((info.title for info in self.list(orphans=True) if info.place == place), "")

    def revive(self, place: Place) -> SessionInfo:
        """Return the session of a place. What was put away becomes one, and gets its key and its label back where they are free."""
        store = self.store(place.agent_id or self.default_agent)
        infos = store.list(orphans=True)
        if there := next((info for info in infos if info.place == place), None) or self._revived(place):
            return there
        key, label = self._chosen_key(place), archived_as(place).label
        if key and store.find(key):
            key = None
        try:
            label = store.free_name(label[:MAX_LABEL], key)
        except Unknown:  # something else is called so by now
            label = f"{label[: MAX_LABEL - 20]} ({short_id(place.session_id)[:SHORT_ID]})"
        return store.fork(place, _again(place), label=label, key=key)

    def _revived(self, place: Place) -> SessionInfo | None:
        """Return the session that goes on with what was put away, if there is one."""
        key = self._chosen_key(place)
        return next(
            (
                info
                for info in self.store(place.agent_id or self.default_agent).list()
                if (info.row.get("forkedFrom") or {}).get("sessionId") == place.session_id
                and (info.name.endswith(_again(place)) or info.key == key)
            ),
            None,
        )

    def _chosen_key(self, place: Place) -> SessionKey | None:
        """Return the key of what was put away, if a person chose it: the key of a chat or of a job stays theirs."""
        try:
            key = SessionKey.parse(archived_as(place).key, default_agent=place.agent_id, main_key=self._main_key)
        except ConfigError:
            return None
        chosen = key.kind in {SessionKind.EXPLICIT, SessionKind.OTHER} and key.agent_id == place.agent_id
        return key if chosen else None

    def archives(self, agents: Sequence[str] = ()) -> Sequence[Place]:
        """Return the conversations of these agents, or of all, that were put away. Raises Unknown as `agents` does."""
        named = [each for agent in agents or [""] for each in self.agents(agent)]
        return [place for agent in named for place in self.store(agent).archives()]

    def _meant(self, text: str, agent: str, shortest: int, *, talking: bool = False) -> SessionInfo | None:
        key = SessionKey.parse(text, default_agent=agent or self.default_agent, main_key=self._main_key)
        if key.agent_id in self.agents() and (named := self.store(key.agent_id).find(key)):
            return named
        wanted = text.strip().lower()
        infos = [
            info
            for info in self.list([agent] if agent else (), orphans=True)
            if not (talking and ":subagent:" in info.name)
        ]
        for match in (
            lambda info: info.place.path.name.lower() == f"{wanted}.jsonl",  # the topics of a session have its id, too
            lambda info: wanted in {info.entry.session_id.lower(), info.name.lower()},
            lambda info: info.name.lower() == f"agent:{info.agent_id}:{SessionKind.EXPLICIT.value}:{wanted}",
            lambda info: info.title.lower() == wanted,
            lambda info: _begins(info.entry.session_id, wanted, shortest),
        ):
            found = [info for info in infos if match(info)]
            if len(found) > 1:
                raise _ambiguous(text, [f"{info.name} ({short_id(info.entry.session_id)})" for info in found])
            if found:
                return found[0]
        return None

    def _missing(self, text: str, agent: str) -> SessionInfo:
        near = self.near(text, agent)
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise Unknown(f"no session '{text}'", cure=f"{hint}'homarus sessions list --all' shows them all")

    def near(self, text: str, agent: str = "") -> Sequence[str]:
        """Return the names of sessions that may be meant by a word that names none."""
        import difflib

        names = {info.name: info for info in self.list([agent] if agent else (), orphans=True)}
        words = {info.title.lower(): name for name, info in names.items() if info.title}
        words |= {name.lower().rpartition(":")[2]: name for name in names} | {name.lower(): name for name in names}
        wanted = text.strip().lower()
        near = [name for word, name in words.items() if len(wanted) >= 3 and wanted in word]
        near += [words[word] for word in difflib.get_close_matches(wanted, words, n=3, cutoff=0.7)]
        return tuple(dict.fromkeys(near))[:3]

    def archive(self, text: str, *, exact: bool = False) -> Place | None:
        """Return a conversation that was put away, by its file, its id or the beginning of one, or its name."""
        path = Path(text)
        if path.suffix in {".jsonl", ".zst"} and path.is_file():
            return Place("", path.name, Kind.FILE, path)
        places = self.archives()
        for place in places:
            if text in {place.path.name, str(place.path)} or _begins(place.session_id, text, len(place.session_id)):
                return place
        if exact:
            return None
        wanted = text.strip().lower()
        found = [place for place in places if _begins(place.session_id, wanted, _SHORTEST)]
        named = [place for place in places if _is_called(place, wanted)] if wanted and not found else []
        if len({place.session_id for place in found}) > 1 or len(named) > 1:
            raise _ambiguous(text, [place.label for place in found or named])
        return next(iter(found or named), None)


_SHORTEST = 4  # characters of an id that are enough where a person types them


def _begins(session_id: str, wanted: str, shortest: int) -> bool:
    # Only ids that a machine made are shortened: a name that begins like another is another. A number is a name, too.
    whole, shortest = session_id.lower(), SHORT_ID if wanted.isdigit() else shortest
    return len(wanted) >= shortest and whole.startswith(wanted) and HEX_ID.fullmatch(whole) is not None


def _is_called(place: Place, wanted: str) -> bool:
    called = archived_as(place)
    key = called.key.lower()
    named = {f"agent:{place.agent_id}:{wanted}", f"agent:{place.agent_id}:{SessionKind.EXPLICIT.value}:{wanted}"}
    return wanted in {called.label.lower(), key, place.session_id.lower()} or key in named


def _again(place: Place) -> str:
    """Return the name of the session that goes on with what was put away."""
    return f"{short_id(place.session_id)}-again"


def _ambiguous(text: str, names: Sequence[str]) -> Unknown:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return Unknown(
        f"'{text}' could be any of {len(names)}: {', '.join(names[:5])}{more}", cure="give the whole key or id"
    )


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
        raise Unknown(
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
