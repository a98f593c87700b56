"""Full-text search over all transcripts: a derived SQLite file that catches up by itself and may be deleted at any time."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.messages import ToolResult
from homarus.core.patterns import late
from homarus.sessions.entry import BranchSummary, Compaction, CustomMessage, Entry, MessageEntry
from homarus.sessions.log import Transcript, read_entries, to_entries
from homarus.sessions.places import Kind, Place, Visits
from homarus.storage.faults import explained
from homarus.storage.jsonl import read_lines
from homarus.storage.sqlite import is_damage, open_database, transaction

FILE = "sessions-search.sqlite"
VERSION = 1
MAX_TEXT = 20_000  # characters of one message that are searchable
_SCHEMA = """
CREATE TABLE files (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, agent TEXT NOT NULL, session TEXT NOT NULL,
  stamp TEXT NOT NULL, inode INTEGER NOT NULL, done INTEGER NOT NULL, mark INTEGER NOT NULL DEFAULT 0);
CREATE TABLE docs (
  id INTEGER PRIMARY KEY, file INTEGER NOT NULL REFERENCES files(id) ON DELETE CASCADE,
  entry TEXT NOT NULL, role TEXT NOT NULL, time INTEGER NOT NULL, text TEXT NOT NULL);
CREATE INDEX docs_by_file ON docs(file);
CREATE VIRTUAL TABLE words USING fts5(text, content='docs', content_rowid='id', tokenize='unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE pieces USING fts5(text, tokenize='trigram');
"""
# Scripts that write words without spaces between them: pieces of three characters stand for words.
_UNSPACED = late(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)
_WORD = late(r"\w+")


class Hit(Struct, frozen=True):
    agent_id: str
    session_id: str
    place: str
    entry_id: str
    role: str
    time: int
    snippet: str


class SessionSearch:
    """The index file. Several processes may use it at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = open_database(path, schema=_SCHEMA, version=VERSION)

    @classmethod
    @contextmanager
    def of_home(cls, folder: Path) -> Iterator[SessionSearch]:
        """Open the index in the folder that a home has for us.

        A home without that folder, or one that cannot be written, is only looked at: its index is thrown away again.
        """
        if folder.is_dir() and os.access(folder, os.W_OK):
            with cls(folder / FILE) as index:
                yield index
            return
        with tempfile.TemporaryDirectory(prefix="homarus-search-") as own, cls(Path(own, FILE)) as index:
            yield index

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def refresh(self, places: Iterable[Place]) -> int:
        """Bring the index up to date with these transcripts and return how many messages were added."""
        try:
            return self._refresh(places)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
        self._db.close()
        for name in (self.path, *(self.path.with_name(self.path.name + end) for end in ("-wal", "-shm"))):
            name.unlink(missing_ok=True)
        self._db = open_database(self.path, schema=_SCHEMA, version=VERSION)
        return self._refresh(places)

    def _refresh(self, places: Iterable[Place]) -> int:
        added = 0
        current: set[str] = set()
        with Visits() as visits:
            for place in places:
                name = name_of(place)
                current.add(name)
                added += self._catch_up(place, name, visits)
        with transaction(self._db) as db:
            gone = [row for row in db.execute("SELECT id, name FROM files") if row[1] not in current]
            for ident, _name in gone:
                _forget(db, ident)
                db.execute("DELETE FROM files WHERE id = ?", (ident,))
        return added

    def _catch_up(self, place: Place, name: str, visits: Visits) -> int:
        try:
            found = place.path.stat()
        except OSError:
            return 0
        stamp = f"{found.st_size}:{found.st_mtime_ns}" + _log_stamp(place)
        row = self._db.execute("SELECT id, stamp, inode, done, mark FROM files WHERE name = ?", (name,)).fetchone()
        if row and row[1] == stamp and row[2] == found.st_ino:
            return 0
        newest = visits.database(place.path).last_event(place.session_id) if place.kind is Kind.DATABASE else -1
        same = row is not None and row[2] == found.st_ino
        if same and place.kind is Kind.DATABASE and row[3] == newest:
            start = None  # other sessions of this database changed, this one did not
        else:
            start = row[3] if same and place.kind is Kind.FILE and row[4] == _mark(place.path, row[3]) else 0
        with transaction(self._db) as db:
            if row and start == 0:
                _forget(db, row[0])
            db.execute(
                "INSERT INTO files (name, agent, session, stamp, inode, done) VALUES (?, ?, ?, ?, ?, 0) "
                "ON CONFLICT(name) DO UPDATE SET stamp = excluded.stamp, inode = excluded.inode",
                (name, place.agent_id, place.session_id, stamp, found.st_ino),
            )
            if start is None:
                return 0
            file = db.execute("SELECT id FROM files WHERE name = ?", (name,)).fetchone()[0]
            with visits.visit(place) as source:
                added, done = _read_in(db, file, source, start)
            done = newest if place.kind is Kind.DATABASE else done
            mark = _mark(place.path, done) if place.kind is Kind.FILE else 0
            db.execute("UPDATE files SET done = ?, mark = ? WHERE id = ?", (done, mark, file))
        return added

    def find(
        self,
        text: str,
        *,
        limit: int = 20,
        roles: tuple[str, ...] = ("user", "assistant", "summary"),
        sessions: frozenset[str] | None = None,
    ) -> list[Hit]:
        """Return the messages that hold all words of a query, the best first; if there are none, those with any.

        `sessions` names the ids of the sessions to look in; None means all of them.
        """
        within = None if sessions is None else json.dumps(sorted(sessions))
        for query in _queries(text):
            hits = [Hit(*row) for row in self._match(*query, roles, limit, within)]
            if hits:
                return [replace(hit, snippet=snippet(hit.snippet, text)) for hit in hits]
        return []

    def conversations(self, text: str, *, agents: Sequence[str], limit: int = 50) -> list[Hit]:
        """Return the newest message of each conversation of these agents that holds all words of a query, or their beginnings."""
        words = _WORD.findall(text)
        table, query = "words", " ".join(f'"{_quote(word)}"*' for word in words)
        if _UNSPACED.search(text):
            table, query = _queries(text)[0]
        if not words:
            return []
        said, where = (
            ("docs d", "d.text LIKE ? ESCAPE '\\'")
            if table == "docs"
            else (f"{table} JOIN docs d ON d.id = {table}.rowid", f"{table} MATCH ?")
        )
        rows = self._db.execute(
            f"SELECT f.agent, f.session, f.name, d.entry, d.role, max(d.time), d.text FROM {said} "  # noqa: S608 - names of this module's own tables
            f"JOIN files f ON f.id = d.file WHERE {where} AND d.role IN ('user', 'assistant', 'summary') "
            "AND f.agent IN (SELECT value FROM json_each(?)) GROUP BY f.id ORDER BY 6 DESC LIMIT ?",
            (query, json.dumps(list(agents)), limit),
        )
        return [replace(hit, snippet=snippet(hit.snippet, text)) for hit in (Hit(*row) for row in rows)]

    def _match(
        self, table: str, query: str, roles: tuple[str, ...], limit: int, within: str | None
    ) -> Iterator[tuple[Any, ...]]:
        marks = ", ".join("?" * len(roles))
        inside = "" if within is None else "AND f.session IN (SELECT value FROM json_each(?))"
        columns = "f.agent, f.session, f.name, d.entry, d.role, d.time, d.text"
        source, where, order = (
            f"{table} JOIN docs d ON d.id = {table}.rowid",
            f"{table} MATCH ?",
            f"bm25({table}), d.time DESC",
        )
        if table == "docs":
            source, where, order = "docs d", "d.text LIKE ? ESCAPE '\\'", "d.time DESC"
        yield from self._db.execute(
            f"SELECT {columns} FROM {source} JOIN files f ON f.id = d.file "  # noqa: S608 - names of this module's own tables
            f"WHERE {where} AND d.role IN ({marks}) {inside} ORDER BY {order} LIMIT ?",
            (query, *roles, *([] if within is None else [within]), limit),
        )

    def count(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM docs").fetchone()[0])


def name_of(place: Place) -> str:
    """Return what the index calls a transcript: the `place` of a hit."""
    return f"{place.path}#{place.session_id}" if place.kind is Kind.DATABASE else str(place.path)


def _read_in(db: sqlite3.Connection, file: int, source: Transcript, start: int) -> tuple[int, int]:
    """Add entries from a byte on, and return how many were added and where to go on; a torn line waits for its rest."""
    if not source.native:
        return sum(_add(db, file, entry) for entry in read_entries(source)), 0
    added, done = 0, start
    for line in read_lines(source.path, start=start, decoded=False):
        if line.torn:
            break
        done = line.offset + len(line.raw) + 1
        added += sum(_add(db, file, entry) for entry in to_entries(line))
    return added, done


def _add(db: sqlite3.Connection, file: int, entry: Entry) -> int:
    role, text = _searchable(entry)
    if not text.strip():
        return 0
    text = text[:MAX_TEXT]
    values = (file, entry.id, role, entry.time, text)
    ident = db.execute("INSERT INTO docs (file, entry, role, time, text) VALUES (?, ?, ?, ?, ?)", values).lastrowid
    db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (ident, text))
    if _UNSPACED.search(text):
        db.execute("INSERT INTO pieces (rowid, text) VALUES (?, ?)", (ident, text))
    return 1


def _forget(db: sqlite3.Connection, file: int) -> None:
    db.execute("INSERT INTO words (words, rowid, text) SELECT 'delete', id, text FROM docs WHERE file = ?", (file,))
    db.execute("DELETE FROM pieces WHERE rowid IN (SELECT id FROM docs WHERE file = ?)", (file,))
    db.execute("DELETE FROM docs WHERE file = ?", (file,))


def _searchable(entry: Entry) -> tuple[str, str]:
    if isinstance(entry, Compaction | BranchSummary):
        return "summary", str(entry.data.get("summary") or "")
    if isinstance(entry, CustomMessage):
        return "note", entry.text
    if isinstance(entry, MessageEntry) and (message := entry.message) is not None:
        return "tool" if isinstance(message, ToolResult) else entry.role or "note", message.text
    return "", ""


def _mark(path: Path, end: int) -> int:
    """Return a checksum of the bytes before `end`: a file that was only appended to still has the same one there."""
    start = max(0, end - 1024)
    with explained("read", path), path.open("rb") as file:
        file.seek(start)
        return zlib.crc32(file.read(end - start))


def _log_stamp(place: Place) -> str:
    if place.kind is not Kind.DATABASE:
        return ""
    try:
        found = place.path.with_name(place.path.name + "-wal").stat()
    except OSError:
        return ""
    return f"/{found.st_size}:{found.st_mtime_ns}"


def _queries(text: str) -> list[tuple[str, str]]:
    words = _WORD.findall(text)
    if not words:
        return []
    if _UNSPACED.search(text):
        runs = [run for run in text.split() if run]
        exact = " ".join(f'"{_quote(run)}"' for run in runs)
        like = "%" + "%".join(re.sub(r"([\\%_])", r"\\\1", run) for run in runs) + "%"
        return [("pieces", exact), ("docs", like)] if all(len(run) >= 3 for run in runs) else [("docs", like)]
    terms = [f'"{_quote(word)}"' for word in words]
    last = f"{terms[-1]}*" if text[-1:].isalnum() else terms[-1]
    phrase = [f'"{_quote(" ".join(words))}"'] if len(terms) > 1 else []
    begun = [*terms[:-1], last]
    return [("words", query) for query in (*phrase, " ".join(terms), " ".join(begun), " OR ".join(begun))]


def _quote(text: str) -> str:
    return text.replace('"', '""')


def snippet(text: str, query: str, width: int = 160) -> str:
    """Return the part of a text around the first word of a query, on one line."""
    flat = " ".join(text.split())
    low = flat.casefold()
    places = [low.find(word.casefold()) for word in (query.strip(), *_WORD.findall(query))]
    at = next((place for place in places if place >= 0), 0)
    start = max(0, at - width // 3)
    cut = flat[start : start + width]
    return ("…" if start else "") + cut + ("…" if start + width < len(flat) else "")
