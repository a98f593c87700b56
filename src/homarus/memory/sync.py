"""Bring the index in line with the files: find what changed, read it guarded, write it in transactions.

A file is looked at again when its stamp differs, and once more after it was indexed: two edits within one tick of the
file system's clock have the same stamp.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from homarus.core.errors import StorageError
from homarus.core.frontmatter import parse, split
from homarus.memory.files import Found, NoteSet, transcripts
from homarus.memory.settings import Chunking, SessionDelta
from homarus.storage.boundary import BoundaryError, Root
from homarus.storage.sqlite import transaction

if TYPE_CHECKING:
    from homarus.memory.index_writer import IndexWriter
    from homarus.memory.note_parser import Ending

MAX_NOTE_BYTES = 16 << 20
TAIL_BYTES = 256 << 10
MAX_TRANSCRIPT_BYTES = 256 << 20
BATCH_BYTES = 32 << 20
HEAD_BYTES = 512
MANY = 10  # Markdown files that are worth a hint where there are no notes

Progress = Callable[[int, int, str], None]


class Report(Struct):
    files: int = 0
    indexed: int = 0
    removed: int = 0
    waiting: int = 0  # transcripts that have not grown enough for the background
    problems: list[str] = msgspec.field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Say whether the index now answers differently."""
        return bool(self.indexed or self.removed)


class KnownFile(Struct):
    id: int
    stamp: str
    hash: str
    size: int
    state: str
    settled: bool = True


class _Job(Struct):
    conn: sqlite3.Connection
    now_ms: int
    known: dict[tuple[str, str], KnownFile]
    report: Report
    background: bool
    progress: Progress | None


class Synchroniser:
    """Keeps one index equal to one set of notes. Holds the connection only while it works; commits in batches."""

    def __init__(
        self,
        notes: NoteSet,
        *,
        sessions: Path | None = None,
        chunking: Chunking | None = None,
        delta: SessionDelta | None = None,
        tail_bytes: int = TAIL_BYTES,
    ) -> None:
        """Of notes from `tail_bytes` on only what was added is read, where they only grew."""
        self.notes = notes
        self.sessions = sessions
        self.chunking = chunking or Chunking()
        self.delta = delta or SessionDelta()
        self.tail_bytes = tail_bytes
        self._known: dict[tuple[str, str], KnownFile] | None = None
        self._roots: dict[Path, Root] = {}
        self._elsewhere: int | None = None

    def forget(self) -> None:
        """Drop what was remembered of the index: somebody else wrote to it."""
        self._known = None

    def stale(self, conn: sqlite3.Connection) -> str:
        """Say how far the index is behind the files, without touching it."""
        found = self.notes.sweep() + (transcripts(self.sessions) if self.sessions else [])
        rows = conn.execute("SELECT source, path, stamp FROM files")
        stamps = {(source, path): stamp for source, path, stamp in rows}
        behind = sum(stamps.pop((item.source, item.path), "") != item.stamp for item in found) + len(stamps)
        return f"{behind} file{'s' if behind != 1 else ''} changed since the last index" if behind else ""

    def run(
        self,
        conn: sqlite3.Connection,
        now_ms: int,
        *,
        rebuild: bool = False,
        background: bool = False,
        progress: Progress | None = None,
    ) -> Report:
        """Index what changed. A rebuild replaces everything in one transaction, so readers see the old until the new."""
        found = self.notes.sweep()
        if self.sessions:
            found += transcripts(self.sessions)
        known = {} if rebuild else self._load(conn)
        job = _Job(conn, now_ms, known, Report(files=len(found)), background, progress)
        job.report.problems += self.notes.skipped
        if not found:
            job.report.problems += self._hint()
        work = [item for item in found if _differs(item, known.get((item.source, item.path)))]
        gone = known.keys() - {(item.source, item.path) for item in found}
        try:
            if rebuild:
                from homarus.memory.index_writer import IndexWriter

                with transaction(conn):
                    IndexWriter(conn, now_ms).clear()
                    self._put(job, work)
                self.forget()
            elif work or gone:
                self._update(job, work, gone)
        except BaseException:
            self.forget()
            raise
        finally:
            self._close_roots()
        return job.report

    def _hint(self) -> list[str]:
        if self._elsewhere is None:
            self._elsewhere = self.notes.elsewhere()
        if self._elsewhere < MANY:
            return []
        hint = "name them with --extra or memorySearch.extraPaths ('.' is the whole workspace)"
        return [f"no notes, but {self._elsewhere:,} Markdown files outside memory/: {hint}"]

    def _load(self, conn: sqlite3.Connection) -> dict[tuple[str, str], KnownFile]:
        if self._known is None:
            rows = conn.execute("SELECT source, path, id, stamp, hash, size, state FROM files")
            self._known = {(source, path): KnownFile(*rest) for source, path, *rest in rows}
        return self._known

    def _update(self, job: _Job, work: list[Found], gone: set[tuple[str, str]]) -> None:
        from homarus.memory.index_writer import IndexWriter

        # Reading comes first: when nothing really changed, no write lock is taken at all.
        if not gone and all(self._same(item, job.known.get((item.source, item.path))) for item in work):
            for item in work:
                job.known[item.source, item.path].settled = True
            return
        if gone:
            with transaction(job.conn):
                writer = IndexWriter(job.conn, job.now_ms)
                for source, path in gone:
                    writer.drop(source, path)
            for key in gone:
                job.known.pop(key, None)
            job.report.removed += len(gone)
        for batch in _batches(work):
            with transaction(job.conn):
                self._put(job, batch)

    def _same(self, item: Found, known: KnownFile | None) -> bool:
        """Say whether a file whose stamp is unchanged also has the content it had."""
        if known is None or known.stamp != item.stamp or item.source != "memory":
            return False
        data = self._read(item, MAX_NOTE_BYTES)
        return data is not None and sha256(data).hexdigest() == known.hash

    def _put(self, job: _Job, work: list[Found]) -> None:
        from homarus.memory.index_writer import IndexWriter

        writer = IndexWriter(job.conn, job.now_ms)
        for number, item in enumerate(work, 1):
            try:
                if item.source == "sessions":
                    self._transcript(writer, item, job)
                else:
                    self._note(writer, item, job)
            except BoundaryError as problem:
                job.report.problems.append(f"{item.path}: {problem.message}")
            if job.progress:
                job.progress(number, len(work), item.path)

    def _note(self, writer: IndexWriter, item: Found, job: _Job) -> None:
        # What reads notes is imported where there is something to read: a search of an index that is fresh starts faster.
        from homarus.core.redact import redacted_lines
        from homarus.memory.bank.pages import blank_generated
        from homarus.memory.note_parser import chunk_lines, decode, read_note, split_lines

        data = self._read(item, MAX_NOTE_BYTES)
        if data is None:
            return
        if len(data) >= MAX_NOTE_BYTES:
            job.report.problems.append(f"{item.path}: only the first {MAX_NOTE_BYTES >> 20} MB are indexed")
        digest = sha256(data).hexdigest()
        before = job.known.get((item.source, item.path))
        if before and before.hash == digest:
            writer.touch(before.id, item)
            before.stamp, before.settled = item.stamp, True
            return
        whole = split_lines(decode(data))
        lines = redacted_lines(blank_generated(whole) if item.path.startswith("bank/") else whole)
        after = _grown(before, data)
        units, ending = read_note(item.path, lines[after.lines if after else 0 :], after)
        # Who speaks in the lines before may be known only now.
        if after and after.talk and (ending is None or ending.chatting != after.chatting):
            after, (units, ending) = None, read_note(item.path, lines)
        ending = ending if len(data) >= self.tail_bytes and data.endswith(b"\n") else None
        if ending:
            ending.bytes = len(data)
        if after and before and writer.extend_note(before.id, item, digest, units, ending):
            file = before.id
            writer.chunk_tail(item, lines, self.chunking)
        else:
            units = read_note(item.path, lines)[0] if after else units
            chunks = chunk_lines(lines, tokens=self.chunking.tokens, overlap=self.chunking.overlap)
            file = writer.put_note(item, digest, units, chunks, ending)
        if item.path.startswith("bank/entities/") and not item.path.startswith("bank/entities/_"):
            _entity_page(writer, file, item.path, whole)
        if item.path == "bank/opinions.md":
            writer.put_opinions(file, whole)
        state = msgspec.json.encode(ending).decode() if ending else ""
        job.known[item.source, item.path] = KnownFile(file, item.stamp, digest, item.size, state, settled=False)
        job.report.indexed += 1

    def _transcript(self, writer: IndexWriter, item: Found, job: _Job) -> None:
        from homarus.memory.transcripts import Tail, due, parse, units_of

        before = job.known.get((item.source, item.path))
        tail = msgspec.json.decode(before.state, type=Tail) if before and before.state else Tail()
        head = self._head(item)
        if head != tail.head or item.size < tail.offset:
            tail = Tail(head=head)
        if before and item.size == tail.offset:
            writer.touch(before.id, item)
            before.stamp, before.settled = item.stamp, True
            return
        data = self._read(item, MAX_TRANSCRIPT_BYTES, start=tail.offset)
        if data is None:
            return
        parsed = parse(data, tail)
        if before and job.background and parsed.linear:
            news = parsed.tail.messages - tail.messages
            if not due(len(data), news, delta_bytes=self.delta.delta_bytes, delta_messages=self.delta.delta_messages):
                job.report.waiting += 1
                return
        grown = tail.offset and before and parsed.linear
        if grown and before and writer.extend(before.id, item, units_of(parsed.turns), parsed.tail):
            file = before.id
        else:
            if tail.offset:
                parsed = parse(self._read(item, MAX_TRANSCRIPT_BYTES) or b"", Tail(head=head))
            file = writer.put_transcript(item, units_of(parsed.turns), parsed.tail)
        writer.chunk_transcript(file, item, self.chunking)
        state = msgspec.json.encode(parsed.tail).decode()
        job.known[item.source, item.path] = KnownFile(file, item.stamp, head, item.size, state, settled=True)
        job.report.indexed += 1

    def _head(self, item: Found) -> str:
        data = self._read(item, HEAD_BYTES) or b""
        line = data.split(b"\n", 1)[0]
        return sha256(line).hexdigest()[:16]

    def _read(self, item: Found, limit: int, *, start: int = 0) -> bytes | None:
        """Read through the boundary, never through a link; None when the file is gone again."""
        root = self._roots.get(item.root)
        try:
            if root is None:
                root = self._roots[item.root] = Root(item.root)
            fd = root.open(item.name, os.O_RDONLY, follow="never")
        except BoundaryError as problem:
            if problem.kind == "missing":
                return None
            raise
        except StorageError:
            return None
        try:
            pieces = []
            if start:
                os.lseek(fd, start, os.SEEK_SET)
            while limit > 0 and (piece := os.read(fd, min(limit, 1 << 20))):
                pieces.append(piece)
                limit -= len(piece)
        finally:
            os.close(fd)
        return b"".join(pieces)

    def _close_roots(self) -> None:
        for root in self._roots.values():
            root.close()
        self._roots.clear()


def _differs(item: Found, known: KnownFile | None) -> bool:
    return known is None or known.stamp != item.stamp or not known.settled


def _grown(before: KnownFile | None, data: bytes) -> Ending | None:
    """Return where the known part of a note ends, if the note is that part with whole lines added behind it."""
    if before is None or not before.state:
        return None
    from homarus.memory.note_parser import Ending

    ending = msgspec.json.decode(before.state, type=Ending)
    if not (0 < ending.bytes < len(data)) or sha256(data[: ending.bytes]).hexdigest() != before.hash:
        return None
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return ending


def _batches(work: list[Found]) -> Iterable[list[Found]]:
    """Group files so that one transaction stays small enough to keep others waiting only briefly."""
    batch: list[Found] = []
    size = 0
    for item in work:
        batch.append(item)
        size += item.size
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _entity_page(writer: IndexWriter, file: int, path: str, lines: list[str]) -> None:
    """Read name and aliases from the front matter of an entity page; a page without any is known by its file name."""
    from homarus.core.redact import redacted_lines

    header, _ = split("\n".join(lines))
    known = parse("\n".join(redacted_lines(header.split("\n")))).values if header else {}
    given = known.get("aliases")
    aliases = [str(alias) for alias in given] if isinstance(given, list) else []
    name = str(known.get("name") or Path(path).stem.replace("-", " "))
    writer.put_entity(file, name, str(known.get("kind") or ""), aliases)
