"""Read candidate lines from the index as plain values. Text is read only for lines that are shown."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from msgspec import Struct

_COLUMNS = "id, file, line, day, first, last, speaker, kind, flags, size, around, head, entities"
_STEP = 500
KEPT = 20_000  # lines in memory, and files; about 9 MB
KEPT_CHARS = 4_000_000  # of their texts
LEVELS = 6  # of headings, counted from a line


class LineRow(Struct):
    id: int
    file: int
    line: int
    day: int | None
    first: int | None
    last: int | None
    speaker: str
    kind: str
    flags: int
    size: int
    around: int
    head: int | None
    entities: str


class FileRow(Struct, frozen=True):
    id: int
    path: str
    source: str
    lines: int
    mtime: float


class LineCache:
    """Lines of one state of an index. Those read before stay in memory while there is room; `clear` when the index changed."""

    def __init__(self) -> None:
        self._rows: dict[int, LineRow | None] = {}
        self._files: dict[int, FileRow] = {}
        self._above: dict[int, tuple[int, ...]] = {}
        self._texts: dict[int, str] = {}
        self._chars = 0

    def clear(self) -> None:
        self._rows.clear()
        self._files.clear()
        self._above.clear()
        self._texts.clear()
        self._chars = 0

    def rows(self, conn: sqlite3.Connection, ids: Sequence[int]) -> list[LineRow]:
        """Return the lines with these ids, in their order; ids without a line are skipped."""
        kept = self._rows
        missing = [number for number in ids if number not in kept]
        if len(kept) + len(missing) > KEPT:
            kept.clear()
            missing = list(ids)
        found: dict[int, LineRow | None] = dict.fromkeys(missing)
        for start in range(0, len(missing), _STEP):
            part = missing[start : start + _STEP]
            marks = ",".join("?" * len(part))
            rows = conn.execute(f"SELECT {_COLUMNS} FROM lines WHERE id IN ({marks})", part)  # noqa: S608 - constants
            found.update((row[0], LineRow(*row)) for row in rows)
        kept.update(found)
        return [row for number in ids if (row := kept[number]) is not None]

    def above(self, conn: sqlite3.Connection, heads: set[int]) -> dict[int, tuple[int, ...]]:
        """Return for each heading itself and those above it, up to the path."""
        kept = self._above
        if missing := heads.difference(kept):
            if len(kept) + len(missing) > KEPT:
                kept.clear()
                missing = heads
            chains: dict[int, tuple[int, ...]] = {head: (head,) for head in missing}
            wanted = missing
            for _ in range(LEVELS - 1):
                found = {row.id: row.head for row in self.rows(conn, sorted(wanted)) if row.head is not None}
                for head, chain in chains.items():
                    if chain[-1] in found:
                        chains[head] = (*chain, found[chain[-1]])
                wanted = set(found.values())
            kept.update(chains)
        return {head: kept[head] for head in heads}

    def texts(self, conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, str]:
        kept = self._texts
        found = {number: kept[number] for number in ids if number in kept}
        if len(found) < len(ids):
            new = read_texts(conn, [number for number in ids if number not in kept])
            self._chars += sum(map(len, new.values()))
            if self._chars > KEPT_CHARS:
                kept.clear()
                self._chars = sum(map(len, new.values()))
            kept.update(new)
            found |= new
        return found

    def files(self, conn: sqlite3.Connection, ids: set[int]) -> dict[int, FileRow]:
        kept = self._files
        missing = ids.difference(kept)
        if len(kept) + len(missing) > KEPT:
            kept.clear()
            missing = ids
        if missing:
            kept.update(read_files(conn, missing))
        return {number: kept[number] for number in ids}


def read_texts(conn: sqlite3.Connection, ids: Iterable[int]) -> dict[int, str]:
    wanted = list(ids)
    texts: dict[int, str] = {}
    for start in range(0, len(wanted), _STEP):
        part = wanted[start : start + _STEP]
        marks = ",".join("?" * len(part))
        texts.update(conn.execute(f"SELECT id, text FROM lines WHERE id IN ({marks})", part))  # noqa: S608 - marks only
    return texts


def read_files(conn: sqlite3.Connection, ids: Iterable[int]) -> dict[int, FileRow]:
    wanted = sorted(set(ids))
    files: dict[int, FileRow] = {}
    for start in range(0, len(wanted), _STEP):
        part = wanted[start : start + _STEP]
        marks = ",".join("?" * len(part))
        rows = conn.execute(f"SELECT id, path, source, lines, mtime FROM files WHERE id IN ({marks})", part)  # noqa: S608
        files.update((row[0], FileRow(*row)) for row in rows)
    return files
