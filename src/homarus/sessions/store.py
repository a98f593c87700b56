"""The sessions of one agent: find them by key, open one for writing, start it over, fork it, put it away.

The index and the transcripts in the agent's folder are canonical. Sessions that only a database of OpenClaw holds are
listed beside them and copied into the folder when they are continued.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import tzinfo
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.clock import Clock, Ids, epoch_ms, iso_ms
from homarus.core.errors import ConfigError, StorageError, Unknown
from homarus.core.patterns import late
from homarus.core.routes import MAIN, SessionKey, SessionKind, named_session
from homarus.core.text import printable, single_line
from homarus.sessions import lifecycle
from homarus.sessions.codec import Json, to_ms
from homarus.sessions.database import FILE, Content, Foreign, Snapshot
from homarus.sessions.entry import NEWEST_READABLE, VERSION, Entry, new_header, to_header
from homarus.sessions.index import SessionIndex
from homarus.sessions.log import WINDOW, Transcript, identify, load_branch
from homarus.sessions.places import INDEX, LABEL, Kind, Place, files_in, own, transcript_name, transcript_path, visit
from homarus.sessions.row import SessionEntry, changes, read_row
from homarus.sessions.settings import SessionSettings
from homarus.sessions.writer import SessionWriter
from homarus.storage.atomic import create_new, ensure_dir, move_aside
from homarus.storage.faults import explained
from homarus.storage.record import decode, encode

if TYPE_CHECKING:
    from homarus.config.load import Config


MAX_LABEL = 120
SHORT_ID = 8  # characters of an id that lists show
HEX_ID = late(r"[0-9a-f]{8}-[0-9a-f-]{4,}")
T = TypeVar("T")


class SessionInfo(Struct, frozen=True):
    """One session as a list shows it. `name` is its key as the index spells it, `row` what the index holds."""

    name: str
    agent_id: str
    entry: SessionEntry
    row: Json
    place: Place
    indexed: bool = True
    main_key: str = MAIN

    @property
    def key(self) -> SessionKey:
        return SessionKey.parse(self.name, default_agent=self.agent_id, main_key=self.main_key)

    @property
    def title(self) -> str:
        # Older versions, platforms and other programs wrote whatever they were given.
        return single_line(self.entry.label or self.entry.display_name or self.entry.subject or "")

    def is_called(self, name: str) -> bool:
        """Say whether a name means this session to people: its key with or without its agent, its id, or its title."""
        try:
            key = self.key
        except ConfigError:
            own = ""
        else:
            own = key.peer if key.kind is SessionKind.EXPLICIT else self.name.removeprefix(f"agent:{self.agent_id}:")
        names = {self.name, own, self.title, self.entry.label or "", self.entry.session_id}
        names.add(short_id(self.entry.session_id))
        return name.lower() in {each.lower() for each in names if each}


class SessionStore:
    """The sessions of one agent. Looking never changes a byte."""

    def __init__(self, folder: Path, agent_id: str, *, clock: Clock, ids: Ids, main_key: str) -> None:
        self.folder = folder
        self.agent_id = agent_id
        self.clock = clock
        self.ids = ids
        self.main_key = main_key
        self.database = folder.parent / "agent" / FILE
        self._foreign = Snapshot(self.database)
        self.index = SessionIndex(folder / INDEX, agent_id, clock, main_key=main_key)
        self.problem = ""

    @classmethod
    def of(cls, config: Config, agent_id: str, *, clock: Clock, ids: Ids) -> SessionStore:
        """Return the sessions of an agent as a configuration has them; everybody who has a configuration comes here."""
        settings = config.block("session", SessionSettings)
        folder = config.paths.sessions_dir(agent_id)
        return cls(folder, agent_id, clock=clock, ids=ids, main_key=settings.main_key)

    def key(self, text: str) -> SessionKey:
        return SessionKey.parse(text, default_agent=self.agent_id, main_key=self.main_key)

    def list(self, *, orphans: bool = False) -> Sequence[SessionInfo]:
        """Return all sessions, the newest first; with `orphans` also transcripts that no row names.

        A database that cannot be read does not hide what else there is: `problem` says what is wrong with it.
        """
        found = {info.name: info for info in self._indexed()}
        for foreign in self._database().sessions:
            mine = found.get(foreign.key)
            if mine is None or _newer(foreign, mine):
                found[foreign.key] = self._info_of_foreign(foreign)
        listed = list(found.values())
        if orphans or not listed:
            listed += self._orphans(listed)
        return sorted(listed, key=lambda info: info.entry.updated_at, reverse=True)

    def find(self, key: SessionKey) -> SessionInfo | None:
        mine = self.index.get(key)
        info = self._info(*mine) if mine else None
        others = self._foreign.content().sessions
        foreign = next((one for one in others if one.key in key.spellings or self._same(one.key, key)), None)
        if foreign and (info is None or _newer(foreign, info)):
            return self._info_of_foreign(foreign)
        return info or self._orphan(key)

    def by_id(self, session_id: str) -> SessionInfo | None:
        return next((info for info in self.list(orphans=True) if info.entry.session_id == session_id), None)

    def archives(self) -> Sequence[Place]:
        kept = [place for place in files_in(self.folder, self.agent_id) if place.kind is Kind.ARCHIVE]
        left_behind = self._database().left_behind
        return kept + [Place(self.agent_id, ident, Kind.DATABASE, self.database) for ident in left_behind]

    def _database(self) -> Content:
        try:
            found, self.problem = self._foreign.content(), ""
        except StorageError as error:
            found, self.problem = Content(), str(error)
        return found

    def update(self, key: SessionKey, **fields: Any) -> SessionEntry:
        """Change fields of a row; None removes one. `updated_at` is set unless it is given."""
        return read_row(self.index.put(key, self._given(fields)))

    def note(self, key: SessionKey, **fields: Any) -> SessionEntry:
        """Change fields of a row soon, see `SessionIndex.note`."""
        return read_row(self.index.note(key, self._given(fields)))

    def _given(self, fields: Mapping[str, Any]) -> Json:
        return changes(**{"updated_at": epoch_ms(self.clock.now()), **fields})

    def open_writer(self, key: SessionKey, *, cwd: str = "", window: int = WINDOW, wait: float = 0.0) -> SessionWriter:
        """Open a session for writing, making it if need be. Its row is on disk before its first message can be."""
        info = self.find(key)
        if info is None:
            info = self._create(key, self.ids.uuid())
        elif info.place.kind is Kind.DATABASE:
            info = self.adopt(key, info.place, info.row)
        path = info.place.path
        session_id, clock, ids = info.entry.session_id, self.clock, self.ids
        writer = SessionWriter(path, session_id, clock=clock, ids=ids, cwd=cwd, window=window, wait=wait)
        try:
            now = self.find(key) if info.indexed else info
            if now is None or (now.place.kind is Kind.FILE and now.place != info.place):
                writer.close()  # it started over between the look and the lock
                return self.open_writer(key, cwd=cwd, window=window, wait=wait)
            if info.entry.session_file != str(path) or not info.indexed:
                self.update(key, session_id=session_id, session_file=str(path))
        except BaseException:
            writer.close()
            raise
        return writer

    def reset(
        self,
        key: SessionKey,
        *,
        by: Literal["new", "reset"] = "reset",
        cwd: str = "",
        held: SessionWriter | None = None,
    ) -> SessionWriter:
        """Start a conversation over: a fresh id and transcript; the old transcript becomes an archive. `by` says the occasion.

        Returned is the writer of the fresh one, which is ours before the index names it. `held` is that of the old one: with
        it, nobody who waits for the session can come between.
        """
        info = self.find(key)
        if info is None:
            return self.open_writer(key, cwd=cwd)
        now, session_id = self.clock.now(), self.ids.uuid()
        path = self._fresh_path(key, session_id)
        more: Json = {"sessionFile": str(path), "startedBy": by}
        if info.place.kind is Kind.DATABASE:
            more["importedFrom"] = self._origin(info)

        def begin() -> Json:
            return self.index.replace(
                key, lambda now_there: lifecycle.fresh_row(now_there or info.row, session_id, epoch_ms(now)) | more
            )

        fresh = SessionWriter(path, session_id, clock=self.clock, ids=self.ids, cwd=cwd)
        try:
            if info.place.kind is Kind.FILE:
                self._put_away(info, "reset", begin, held)
            else:
                begin()
        except BaseException:
            fresh.close()
            raise
        return fresh

    def overdue(
        self, key: SessionKey, settings: SessionSettings, zone: tzinfo, *, channel: str = "", threaded: bool = False
    ) -> str | None:
        """Say why a session should start over (`daily` or `idle`), or None; ask when a message arrives, not before."""
        info = self.find(key)
        if info is None:
            return None
        threaded = threaded or bool(key.thread or key.topic)
        policy = lifecycle.policy_for(settings, key, channel or info.entry.channel or "", threaded=threaded)
        if policy.mode in {"none", "never", "off"}:
            return None
        entry = info.entry
        age = lifecycle.Age(entry.session_started_at, entry.last_interaction_at, 0, entry.updated_at)
        if not age.started_at:
            with visit(info.place) as source:
                age = replace(age, header_at=to_ms(source.header.timestamp))
        return lifecycle.stale(age, policy, self.clock.now(), zone)

    def delete(self, key: SessionKey) -> Place | None:
        """Take a session out of the index; its transcript becomes an archive. The main session cannot be deleted."""
        if key.is_main:
            raise Unknown("the main session cannot be deleted", cure="start it over instead: /new")
        info = self.find(key)
        if info is None:
            return None
        if info.place.kind is Kind.DATABASE:
            raise Unknown(f"{info.name} is kept in {self.database}, which is only read", cure="delete it with OpenClaw")

        def forget() -> None:
            if info.indexed:
                self.index.remove([info.name])

        archived, _ = self._put_away(info, "deleted", forget)
        return Place(self.agent_id, info.entry.session_id, Kind.ARCHIVE, archived) if archived else None

    def rename(self, key: SessionKey, label: str) -> SessionInfo:
        """Give a session a name that no other session of this agent has; an empty one takes it away."""
        info = self.find(key)
        if info is None:
            raise Unknown(f"no session {key}", cure="'homarus sessions list' shows them all")
        label = self.free_name(label, key)
        if info.place.kind is Kind.DATABASE:
            info = self.adopt(key, info.place, info.row)
        # It was not talked in, so its place in the list stays.
        place = {} if info.indexed else {"session_id": info.entry.session_id, "session_file": str(info.place.path)}
        self.update(key, label=label or None, updated_at=info.entry.updated_at, **place)
        return self.find(key) or info

    def free_name(self, text: str, key: SessionKey | None = None) -> str:
        """Return a name for people by which a session can be called. Raises Unknown where something else is called so.

        A key comes before a name wherever somebody names a session, so a name that is another one's key means that one.
        """
        name, cure = _label(text), "choose another name"
        if not name:
            return ""
        try:
            meant = self.key(name)
        except ConfigError:
            raise Unknown(f"“{name}” cannot be the name of a session", cure="leave out the colon") from None
        if meant == key:
            return name
        if meant.kind in {SessionKind.MAIN, SessionKind.GLOBAL} or name.lower().startswith("agent:"):
            raise Unknown(f"“{name}” always means {meant}", cure=cure)
        for other in self.list(orphans=True):
            if other.key != key and other.is_called(name):
                raise Unknown(f"{other.name} is called “{name}” already", cure=cure)
        return name

    def fork(
        self, source: Place, name: str = "", *, at: str | None = None, label: str = "", key: SessionKey | None = None
    ) -> SessionInfo:
        """Copy the active branch of a transcript, up to an entry if asked, into a new session of its own."""
        session_id = self.ids.uuid()
        key = key or named_session(self.agent_id, SessionKind.EXPLICIT, self.free_name(name) or session_id)
        label = self.free_name(label, key)
        if self.find(key):
            raise Unknown(f"there is a session {key} already", cure="choose another name")
        ensure_dir(self.folder)
        path = self.folder / transcript_name(session_id)
        with visit(source) as opened:
            header = new_header(session_id, iso_ms(self.clock.now()), opened.header.cwd, opened.header.id)
            lines = chain([encode(header.data)], (entry.raw for entry in _up_to(load_branch(opened), at)))
            if not create_new(path, (line + b"\n" for line in lines)):
                raise StorageError(f"{path} exists already", cure="try again")
        row = self._new_row(session_id, path) | {"forkedFrom": {"sessionId": source.session_id, "entryId": at}}
        if label:
            row["label"] = label
        return self._info(str(key), self.index.put(key, row))

    def adopt(self, key: SessionKey, place: Place, row: Json) -> SessionInfo:
        """Copy a transcript from anywhere into our folder, whole or not at all, and give it a row under this key."""
        session_id = place.session_id
        ensure_dir(self.folder)
        path = self._fresh_path(key, session_id)
        with visit(place) as source, explained("read", source.path):
            while not create_new(path, _as_ours(source)):
                path = self.folder / transcript_name(f"{session_id}-{self.ids.short()}")
        now = epoch_ms(self.clock.now())
        origin = {"path": str(place.path), "sessionId": session_id, "at": now, "bytes": path.stat().st_size}
        kept = {"sessionStartedAt": now, **row, "updatedAt": now}
        fields = {**kept, "sessionId": session_id, "sessionFile": str(path), "importedFrom": origin}
        return self._info(str(key), self.index.put(key, fields))

    def _indexed(self) -> Iterator[SessionInfo]:
        for name, row in self.index.rows().items():
            if isinstance(row.get("sessionId"), str):
                yield self._info(name, row)

    def _orphans(self, listed: Sequence[SessionInfo]) -> Sequence[SessionInfo]:
        named = {info.place.path for info in listed}
        found = []
        for place in files_in(self.folder, self.agent_id):
            if place.kind is Kind.FILE and place.path not in named:
                changed = int(place.path.stat().st_mtime * 1000)
                row: Json = {"sessionId": place.session_id, "updatedAt": changed, "sessionFile": str(place.path)}
                # By its file, not by its id: the topics of one session have files of their own.
                name = str(named_session(self.agent_id, SessionKind.EXPLICIT, place.path.name.removesuffix(".jsonl")))
                found.append(self._found(name, row, place, indexed=False))
        return found

    def _orphan(self, key: SessionKey) -> SessionInfo | None:
        """Return the transcript that a key would name if it had a row: an index may be lost, or never written."""
        if key.kind is not SessionKind.EXPLICIT:
            return None
        return next((info for info in self._orphans(list(self._indexed())) if self._same(info.name, key)), None)

    def _info(self, name: str, row: Json) -> SessionInfo:
        entry = read_row(row)
        place = Place(self.agent_id, entry.session_id, Kind.FILE, self._path(name, entry))
        return self._found(name, row, place)

    def _info_of_foreign(self, foreign: Foreign) -> SessionInfo:
        place = Place(self.agent_id, foreign.session_id, Kind.DATABASE, self.database)
        return self._found(foreign.key, foreign.row, place, indexed=False)

    def _found(self, name: str, row: Json, place: Place, *, indexed: bool = True) -> SessionInfo:
        return SessionInfo(name, self.agent_id, read_row(row), row, place, indexed, self.main_key)

    def _path(self, name: str, entry: SessionEntry) -> Path:
        try:
            key = self.key(name)
            thread = key.topic or key.thread
        except ConfigError:
            thread = ""
        return transcript_path(self.folder, entry.session_id, entry.session_file, thread)

    def _same(self, text: str, key: SessionKey) -> bool:
        try:
            return self.key(text) == key
        except ConfigError:
            return False

    def _fresh_path(self, key: SessionKey, session_id: str) -> Path:
        return self.folder / transcript_name(session_id, key.topic or key.thread)

    def _new_row(self, session_id: str, path: Path) -> Json:
        now = epoch_ms(self.clock.now())
        return {"sessionId": session_id, "updatedAt": now, "sessionStartedAt": now, "sessionFile": str(path)}

    def _create(self, key: SessionKey, session_id: str) -> SessionInfo:
        if key.kind is SessionKind.EXPLICIT:
            # A named session has its name as its id, as the command line of OpenClaw makes it.
            taken = (self.folder / transcript_name(key.peer)).exists()
            session_id = session_id if taken else key.peer
        new = self._new_row(session_id, self.folder / transcript_name(session_id, key.topic))
        # Asked once more inside the lock: of two processes that make the same session, the second takes the first one's.
        row = self.index.replace(key, lambda there: there if isinstance(there.get("sessionId"), str) else there | new)
        return self._info(str(key), row)

    def _origin(self, info: SessionInfo) -> Json:
        return {"path": str(info.place.path), "sessionId": info.entry.session_id, "at": epoch_ms(self.clock.now())}

    def _put_away(
        self, info: SessionInfo, why: str, then: Callable[[], T], held: SessionWriter | None = None
    ) -> tuple[Path | None, T]:
        """Make an archive of a transcript; what the conversation was called goes along, as its last line.

        `then` changes the index before the lock is let go: whoever waited for it must not go on in the old place. Whoever has
        it open passes the writer, which keeps its lock.
        """
        path, label = info.place.path, info.entry.label
        # What would have to be converted first, or can only be read, goes away as it is.
        if path.exists() and (label or identify(path).appendable):
            ident, clock, ids = info.entry.session_id, self.clock, self.ids
            with nullcontext(held) if held else SessionWriter(path, ident, clock=clock, ids=ids) as writer:
                writer.append(LABEL, {**({"name": label} if label else {}), "key": info.name})
        if held is not None:
            held.close_file()
        with nullcontext() if held else own(path, self.clock.now()):
            return move_aside(path, why, self.clock.now()) if path.exists() else None, then()


def short_id(session_id: str) -> str:
    """Return an id as lists show it: the beginning of one that a machine made, a chosen name as it is."""
    return session_id[:SHORT_ID] if HEX_ID.fullmatch(session_id.lower()) else session_id


def _label(text: str) -> str:
    """Return a name for people on one line. Raises Unknown where it holds what would move the cursor of a terminal."""
    label = " ".join(text.split())
    if len(label) > MAX_LABEL:
        raise Unknown(f"a name of {len(label)} characters is too long", cure=f"give one of at most {MAX_LABEL}")
    if printable(label) != label:
        raise Unknown(f"the name {label!r} holds control characters", cure="give one of plain text")
    return label


def _newer(foreign: Foreign, mine: SessionInfo) -> bool:
    """Say whether somebody talked in the database after the last sign of life of our own copy."""
    theirs = to_ms(foreign.row.get("lastInteractionAt")) or to_ms(foreign.row.get("updatedAt"))
    copied = to_ms((mine.entry.imported_from or {}).get("at"))
    return theirs > max(mine.entry.last_interaction_at, mine.entry.updated_at, copied)


def _up_to(entries: Iterator[Entry], at: str | None) -> Iterator[Entry]:
    for entry in entries:
        yield entry
        if entry.id == at:
            return
    if at is not None:
        raise Unknown(f"the session's branch has no entry {at}", cure="take an id that 'sessions show' prints")


def _as_ours(source: Transcript) -> Iterator[bytes]:
    """Yield a transcript's bytes under a header of the version that we write; every other line stays as it is."""
    with source.path.open("rb") as file:
        first = file.readline()
        header = to_header(decode(first.rstrip(b"\n"))[0])
        if header is not None and VERSION < header.version <= NEWEST_READABLE:
            first = encode({**header.data, "version": VERSION}) + b"\n"
        yield first
        while block := file.read(1 << 20):
            yield block
