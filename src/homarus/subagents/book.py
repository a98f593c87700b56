"""The children of one session, on disk: ordered, ended, told. Written only by the process that owns the session.

A run is in here before its child begins, and its result is in here before anybody is told. So after a crash at any point
the book says what is owed: a run without an end was cut off, an end that nobody was told of is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from homarus.core.routes import SessionKey
from homarus.queue.inbox import inbox_path
from homarus.storage.atomic import ensure_dir, remove, write_atomic
from homarus.storage.jsonl import JsonlWriter, read_lines
from homarus.storage.record import encode
from homarus.subagents.child import ChildEnd, ChildRun

MAX_BYTES = 4 << 20
MAX_ENDED = 50
_REMEMBERED_CHARS = 1_000  # of a result that was told: the whole of it is in both transcripts


class ChildRecord(Struct, frozen=True):
    """A run and what became of it."""

    run: ChildRun
    end: ChildEnd | None = None
    told: bool = False

    @property
    def status(self) -> str:
        """Return `running`, or how it ended."""
        return self.end.status if self.end else "running"


class ChildBook:
    """One session's children. It is read when it is opened and appended to afterwards."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._runs: dict[str, ChildRecord] = {}
        self._foreign: list[bytes] = []  # a later version's records: they stay as they are
        self._writer: JsonlWriter | None = None
        if path.exists():
            self._replay()

    def __iter__(self) -> Iterator[ChildRecord]:
        return iter(tuple(self._runs.values()))

    @property
    def open(self) -> list[ChildRecord]:
        """Return the runs that have not ended, oldest first."""
        return [kept for kept in self._runs.values() if kept.end is None]

    @property
    def owed(self) -> list[ChildRecord]:
        """Return the runs that ended and whose parent was not told."""
        return [kept for kept in self._runs.values() if kept.end is not None and not kept.told]

    def get(self, run_id: str) -> ChildRecord | None:
        return self._runs.get(run_id)

    def begin(self, run: ChildRun) -> None:
        """Write an order down, durably; after this it has an end, whatever happens."""
        self._append({"began": msgspec.to_builtins(run)}, durable=True)
        self._runs[run.run_id] = ChildRecord(run)

    def end(self, end: ChildEnd) -> bool:
        """Write down how a run ended, durably; False when it had ended before, and then nothing changes."""
        kept = self._runs.get(end.run_id)
        if kept is None or kept.end is not None:
            return False
        self._append({"ended": msgspec.to_builtins(end)}, durable=True)
        self._runs[end.run_id] = replace(kept, end=end, told=end.quiet)
        self._shrink()
        return True

    def told(self, run_id: str) -> None:
        """Note that the report is in the parent's inbox. Losing the note costs one look: the inbox knows its key."""
        self._append({"told": run_id}, durable=False)
        self._runs[run_id] = _told(self._runs[run_id])

    def close(self) -> None:
        """Let go of the file; it opens again when it is needed."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _append(self, record: dict[str, Any], *, durable: bool) -> None:
        if self._writer is None:
            ensure_dir(self._path.parent)
            self._writer = JsonlWriter.open(self._path)
        self._writer.append(record, durable=durable)

    def _replay(self) -> None:
        for line in read_lines(self._path):
            record = line.value if isinstance(line.value, dict) else {}
            try:
                if "began" in record:
                    run = msgspec.convert(record["began"], ChildRun)
                    self._runs[run.run_id] = ChildRecord(run)
                elif "ended" in record:
                    end = msgspec.convert(record["ended"], ChildEnd)
                    if end.run_id in self._runs:
                        self._runs[end.run_id] = replace(self._runs[end.run_id], end=end, told=end.quiet)
                elif record.get("told") in self._runs:
                    self._runs[record["told"]] = _told(self._runs[record["told"]])
            except msgspec.ValidationError:
                self._foreign.append(line.raw)

    def _shrink(self) -> None:
        """Forget the oldest runs that are over; write the file anew when most of it is about those."""
        over = [run_id for run_id, kept in self._runs.items() if kept.told]
        for run_id in over[:-MAX_ENDED]:
            del self._runs[run_id]
        if self._writer is None or self._writer.size <= MAX_BYTES:
            return
        self.close()
        lines = [*self._foreign, *(encode(record) for kept in self for record in _records(kept))]
        write_atomic(self._path, b"".join(line.rstrip(b"\n") + b"\n" for line in lines))


class ChildBooks:
    """The books of all sessions of a home, one file each. Those of sessions that this process owns stay open."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[SessionKey, ChildBook] = {}

    def own(self, parent: SessionKey) -> ChildBook:
        """Return the book of a session that this process owns; it stays open."""
        if parent not in self._open:
            self._open[parent] = self.fresh(parent)
        return self._open[parent]

    def owns(self, parent: SessionKey) -> bool:
        return parent in self._open

    def fresh(self, parent: SessionKey) -> ChildBook:
        return ChildBook(inbox_path(self._folder, parent))

    def look(self, parent: SessionKey) -> ChildBook:
        """Return the book of a session for reading; another process may own it."""
        return self._open.get(parent) or self.fresh(parent)

    def forget(self, parent: SessionKey) -> None:
        """Remove the book of a session that goes away; what it says is in the transcripts."""
        book = self._open.pop(parent, None)
        if book is not None:
            book.close()
        remove(inbox_path(self._folder, parent))

    def exists(self, parent: SessionKey) -> bool:
        return inbox_path(self._folder, parent).exists()

    def count(self, parent: SessionKey) -> int:
        book = self.look(parent)
        return len(book.open) + len(book.owed)

    def tree(self, key: SessionKey) -> list[ChildRecord]:
        """Return the children of a session and theirs, each parent before its children."""
        found: list[ChildRecord] = []
        for kept in self.look(key):
            found += [kept, *self.tree(SessionKey.parse(kept.run.child))]
        return found

    def in_debt(self) -> list[SessionKey]:
        """Return the sessions, other than children, whose children have not all ended and reported."""
        found: set[SessionKey] = set()
        for path in sorted(self._folder.glob("*.jsonl")) if self._folder.is_dir() else ():
            book = ChildBook(path)
            found |= {kept.run.parent_key for kept in (*book.open, *book.owed)}
        return sorted((key for key in found if not key.is_subagent), key=str)

    def close(self) -> None:
        """Let go of all files."""
        for book in self._open.values():
            book.close()


def _told(kept: ChildRecord) -> ChildRecord:
    end = replace(kept.end, text=kept.end.text[:_REMEMBERED_CHARS]) if kept.end else None
    return replace(kept, end=end, told=True)


def _records(kept: ChildRecord) -> Iterator[dict[str, Any]]:
    yield {"began": msgspec.to_builtins(kept.run)}
    if kept.end is not None:
        yield {"ended": msgspec.to_builtins(kept.end)}
    if kept.told:
        yield {"told": kept.run.run_id}
