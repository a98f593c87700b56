"""Today's OpenClaw homes: sessions in one SQLite file per agent. Read-only; whatever cannot be read whole is an error.

Most homes have no such file, and SQLite is not loaded for those.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from homarus.core.errors import StorageError
from homarus.core.patterns import late
from homarus.sessions.codec import Json, to_ms
from homarus.sessions.log import decompress_whole
from homarus.storage.record import decode

if TYPE_CHECKING:
    import sqlite3

# The database of one agent, in its folder.
FILE = "openclaw-agent.sqlite"
# The newest schema whose tables we know (2026.9.6). Columns are looked for, but a newer layout is not guessed at.
NEWEST_SCHEMA = 23
_COLD_NAME = late(r"[a-f0-9]{64}\.jsonl\.zst")


class Foreign(Struct, frozen=True):
    """One session in the database; `row` is its entry as the index would have it."""

    key: str
    session_id: str
    row: Json


class AgentDatabase:
    """An open database of one agent. Everything comes from one moment, also while a gateway writes on."""

    def __init__(self, path: Path) -> None:
        import sqlite3

        from homarus.storage.sqlite import open_readonly

        self.path = path
        self._db = open_readonly(path)
        try:
            self._tables = {
                name: {column[1] for column in self._db.execute(f"PRAGMA table_info({_quoted(name)})")}
                for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            }
            self.schema = self._schema()
            if self.schema > NEWEST_SCHEMA:
                raise StorageError(
                    f"{path} has schema {self.schema}, and this program knows {NEWEST_SCHEMA} at most",
                    cure="use a newer homarus, or export the session with the program that wrote it",
                )
        except sqlite3.Error as error:
            self._db.close()
            raise self._trouble(error) from error
        except BaseException:
            self._db.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def last_event(self, session_id: str) -> int:
        """Return the number of a transcript's newest event: it grows whenever the transcript does."""
        found = next(self._rows("SELECT max(seq) FROM transcript_events WHERE session_id = ?", session_id), (None,))[0]
        return found if isinstance(found, int) else -1

    def sessions(self) -> list[Foreign]:
        found: dict[str, Foreign] = {}
        for key, ident, text, updated in self._nodes():
            row = decode(text.encode())[0] if isinstance(text, str) else None
            row = row if isinstance(row, dict) else {}
            session_id = ident if isinstance(ident, str) and ident else row.get("sessionId")
            if isinstance(key, str) and key and isinstance(session_id, str) and session_id:
                row = {**row, "sessionId": session_id}
                row.setdefault("updatedAt", to_ms(updated))
                found.setdefault(key, Foreign(key, session_id, row))
        return sorted(found.values(), key=lambda one: to_ms(one.row.get("updatedAt")), reverse=True)

    def windows(self) -> list[str]:
        """Return the ids of all transcripts, also those that a reset or a rollover left behind."""
        table = next((name for name in ("session_windows", "sessions") if name in self._tables), "transcript_events")
        return [str(ident) for (ident,) in self._rows(f"SELECT DISTINCT session_id FROM {table}")]  # noqa: S608 - fixed names

    def lines(self, session_id: str) -> Iterator[bytes]:
        """Yield a transcript's lines in order, those in cold storage first."""
        last = -1
        for seq, cold in self._cold(session_id):
            last = seq
            yield _one_line(cold)
        packed = ", event_zstd" if "event_zstd" in self._tables.get("transcript_events", ()) else ", NULL"
        query = f"SELECT seq, event_json{packed} FROM transcript_events WHERE session_id = ? AND seq > ? ORDER BY seq"  # noqa: S608
        for number, text, zstd in self._rows(query, session_id, last):
            if text is None:
                yield _one_line(self._unpack(zstd, f"event {number} of {session_id}"))
            else:
                yield _one_line(text if isinstance(text, bytes) else str(text).encode("utf-8", "replace"))

    def _nodes(self) -> Iterator[tuple[object, ...]]:
        tables = self._tables
        if {"session_key", "current_session_id", "entry_json"} <= tables.get("session_nodes", set()):
            yield from self._rows("SELECT session_key, current_session_id, entry_json, updated_at FROM session_nodes")
        if {"session_key", "session_id", "entry_json"} <= tables.get("session_entries", set()):
            yield from self._rows("SELECT session_key, session_id, entry_json, updated_at FROM session_entries")
        if {"session_key", "session_id"} <= tables.get("session_routes", set()):
            yield from self._rows("SELECT session_key, session_id, NULL, updated_at FROM session_routes")

    def _cold(self, session_id: str) -> Iterator[tuple[int, bytes]]:
        """Yield number and text of each event that was moved to an archive file, after checking its hash."""
        if "session_transcript_cold_archives" not in self._tables:
            return
        query = "SELECT archive_name, archive_sha256, storage, archive_blob FROM session_transcript_cold_archives WHERE session_id = ?"
        for name, digest, storage, blob in self._rows(query, session_id):
            data = blob if storage == "sqlite" and isinstance(blob, bytes) else self._cold_file(str(name))
            if hashlib.sha256(data).hexdigest() != digest:
                raise StorageError(f"cold archive {name} of {self.path} is damaged", cure="restore it from a backup")
            for line in self._unpack(data, f"cold archive {name}").splitlines():
                record = decode(line)[0]
                if isinstance(record, dict) and record.get("kind") == "event":
                    row = record["row"]
                    yield int(row["seq"]), str(row["event_json"]).encode("utf-8", "replace")

    def _cold_file(self, name: str) -> bytes:
        if not _COLD_NAME.fullmatch(name):
            raise StorageError(f"{self.path} names a cold archive {name!r}, which is none", cure="restore the database")
        path = self.path.parent.parent / "sessions" / "cold" / name
        try:
            return path.read_bytes()
        except OSError as error:
            raise StorageError(f"cannot read cold archive {path}: {error}", cure="restore it from a backup") from error

    def _unpack(self, data: object, what: str) -> bytes:
        try:
            return decompress_whole(data if isinstance(data, bytes) else b"")
        except ValueError as error:
            cure = "restore the file from a backup"
            raise StorageError(f"cannot unpack {what} in {self.path}: {error}", cure=cure) from error

    def _rows(self, query: str, *values: object) -> Iterator[tuple[object, ...]]:
        import sqlite3

        try:
            with closing(self._db.execute(query, values)) as cursor:
                yield from cursor
        except sqlite3.Error as error:
            raise self._trouble(error) from error

    def _schema(self) -> int:
        if "schema_version" not in self._tables.get("schema_meta", ()):
            return 0
        found = self._db.execute("SELECT max(schema_version) FROM schema_meta").fetchone()
        return int(found[0] or 0)

    def _trouble(self, error: sqlite3.Error) -> StorageError:
        return StorageError(f"cannot read {self.path}: {error}", cure="check it with 'openclaw doctor', or restore it")


class Content(Struct, frozen=True):
    """The sessions of a database, and the ids of the transcripts that they left behind."""

    sessions: tuple[Foreign, ...] = ()
    left_behind: tuple[str, ...] = ()


class Snapshot:
    """A database that may not exist, may be in use, and may be large: opening it for every question would take too long."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[tuple[int, ...], Content] | None = None

    def content(self) -> Content:
        """Return what is in it now; nothing for a file that is not there."""
        stamp = _stamp(self.path)
        if not stamp:
            return Content()
        if self._seen is None or self._seen[0] != stamp:
            with AgentDatabase(self.path) as database:
                sessions = tuple(database.sessions())
                current = {one.session_id for one in sessions}
                left_behind = tuple(ident for ident in database.windows() if ident not in current)
            self._seen = (stamp, Content(sessions, left_behind))
        return self._seen[1]


def _stamp(path: Path) -> tuple[int, ...]:
    """Return what changes whenever a database does; nothing for one that is not there."""
    found: list[int] = []
    for name in (path, path.with_name(path.name + "-wal")):
        try:
            state = name.stat()
        except OSError:
            continue
        found += [state.st_ino, state.st_size, state.st_mtime_ns]
    return tuple(found) if path.is_file() else ()


def _one_line(text: bytes) -> bytes:
    # An event is stored as the line it would be; a line break in it could only be white space between its tokens.
    return text.replace(b"\r", b" ").replace(b"\n", b" ") if b"\n" in text or b"\r" in text else text


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
