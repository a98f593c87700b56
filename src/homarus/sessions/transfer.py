"""Bringing sessions in from elsewhere: another home, one of its databases, or single transcript files. Sources stay as they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from homarus.core.clock import Clock, Ids
from homarus.core.errors import ConfigError
from homarus.core.routes import MAIN, SessionKey, SessionKind, named_session
from homarus.sessions.codec import Json
from homarus.sessions.home import SessionHome
from homarus.sessions.importers import FILE
from homarus.sessions.importers.sqlite import AgentDatabase
from homarus.sessions.log import Form, session_id_of
from homarus.sessions.places import Kind, Place, files_in, visit
from homarus.sessions.store import SessionStore


class Candidate(Struct, frozen=True):
    """A session that could be brought in."""

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
    from msgspec.structs import replace

    try:
        key = store.key(name)
    except ConfigError:
        return named_session(store.agent_id, SessionKind.EXPLICIT, name)
    return replace(key, agent_id=store.agent_id)
