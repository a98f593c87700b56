"""Read candidate lines from the index as plain values. Text is read only for lines that are shown."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from msgspec import Struct

_COLUMNS = "id, file, line, day, first, last, speaker, kind, flags, size, around, head, entities"
_STEP = 500
KEPT = 20_000  # lines in memory, and files; about 9 MB


class Row(Struct):
    """One candidate line."""

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
    """The file a line stands in."""

    id: int
    path: str
    source: str
    lines: int
    mtime: float


class Lines:
    """Lines of one state of an index. Those read before stay in memory while there is room; `clear` when the index changed."""

    def __init__(self) -> None:
        self._rows: dict[int, Row | None] = {}
        self._files: dict[int, FileRow] = {}

    def clear(self) -> None:
        """Forget everything: ids may mean other lines now."""
        self._rows.clear()
        self._files.clear()

    def rows(self, conn: sqlite3.Connection, ids: Sequence[int]) -> list[Row]:
        """Return the lines with these ids, in their order; ids without a line are skipped."""
        kept = self._rows
        missing = [number for number in ids if number not in kept]
        if len(kept) + len(missing) > KEPT:
            kept.clear()
            missing = list(ids)
        kept.update(dict.fromkeys(missing))
        for start in range(0, len(missing), _STEP):
            part = missing[start : start + _STEP]
            marks = ",".join("?" * len(part))
            rows = conn.execute(f"SELECT {_COLUMNS} FROM lines WHERE id IN ({marks})", part)  # noqa: S608 - constants
            kept.update((row[0], Row(*row)) for row in rows)
        return [row for number in ids if (row := kept[number]) is not None]

    def files(self, conn: sqlite3.Connection, ids: set[int]) -> dict[int, FileRow]:
        """Return files by id."""
        kept = self._files
        missing = ids - kept.keys()
        if len(kept) + len(missing) > KEPT:
            kept.clear()
            missing = ids
        if missing:
            kept.update(read_files(conn, missing))
        return {number: kept[number] for number in ids}


def read_texts(conn: sqlite3.Connection, ids: Iterable[int]) -> dict[int, str]:
    """Return the text of lines by id."""
    wanted = list(ids)
    texts: dict[int, str] = {}
    for start in range(0, len(wanted), _STEP):
        part = wanted[start : start + _STEP]
        marks = ",".join("?" * len(part))
        texts.update(conn.execute(f"SELECT id, text FROM lines WHERE id IN ({marks})", part))  # noqa: S608 - marks only
    return texts


def read_files(conn: sqlite3.Connection, ids: Iterable[int]) -> dict[int, FileRow]:
    """Return files by id."""
    wanted = sorted(set(ids))
    files: dict[int, FileRow] = {}
    for start in range(0, len(wanted), _STEP):
        part = wanted[start : start + _STEP]
        marks = ",".join("?" * len(part))
        rows = conn.execute(f"SELECT id, path, source, lines, mtime FROM files WHERE id IN ({marks})", part)  # noqa: S608
        files.update((row[0], FileRow(*row)) for row in rows)
    return files
