"""Read candidate lines from the index as plain values. Text is read only for lines that are shown."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from msgspec import Struct

_COLUMNS = "id, file, line, day, first, last, speaker, kind, flags, size, around, head, entities"
_STEP = 500


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


def read_rows(conn: sqlite3.Connection, ids: Sequence[int]) -> list[Row]:
    """Return the lines with these ids, in order of id; ids without a line are skipped."""
    found: list[Row] = []
    for start in range(0, len(ids), _STEP):
        part = ids[start : start + _STEP]
        marks = ",".join("?" * len(part))
        rows = conn.execute(f"SELECT {_COLUMNS} FROM lines WHERE id IN ({marks})", part)  # noqa: S608 - constants
        found += [Row(*row) for row in rows]
    return found


def read_heads(conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, int | None]:
    """Return the heading above each of these lines."""
    heads: dict[int, int | None] = {}
    for start in range(0, len(ids), _STEP):
        part = ids[start : start + _STEP]
        marks = ",".join("?" * len(part))
        heads.update(conn.execute(f"SELECT id, head FROM lines WHERE id IN ({marks})", part))  # noqa: S608 - marks only
    return heads


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
