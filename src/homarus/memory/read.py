"""Read notes and the index for people: excerpts within the boundary, the status, explanations. Writes nothing."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.errors import StorageError
from homarus.core.origin import take_origin
from homarus.core.text import slug
from homarus.memory import terms
from homarus.memory.files import NoteSet
from homarus.memory.note_parser import decode, split_lines
from homarus.memory.results import DEFAULT_LINES, Excerpt, Hit, Status, cite, parse_citation
from homarus.memory.schema import STRUCK
from homarus.storage.boundary import BoundaryError, Root

MAX_CHARS, MAX_BYTES = 12_000, 16 << 20


class Explanation(Struct, frozen=True, kw_only=True):
    """How one line was scored for one query. `rank` is None when it was no candidate at all."""

    citation: str
    text: str
    rank: int | None
    score: float
    candidates: int
    parts: tuple[tuple[str, float, float], ...]  # signal, its value, what it added
    terms: tuple[tuple[str, int, bool], ...]  # word, lines that hold it, whether this line does
    query: str
    notes: tuple[str, ...] = ()


def excerpt(notes: NoteSet, path: str, from_: int | None = None, lines: int | None = None) -> Excerpt:
    """Return whole lines of a note. Paths that no rule allows are refused before the disk is touched."""
    first = max(1, from_ or 1)
    clean = path.strip().removeprefix("@")
    base, start, end = parse_citation(clean)
    if from_ is None:
        first = max(1, start or 1)
        lines = lines if lines is not None or end is None else max(1, end - first + 1)
    place = notes.locate(base)
    if place is None:
        return Excerpt(
            status="error",
            path=path,
            from_line=first,
            error="only MEMORY.md, USER.md, Markdown below memory/ and bank/, and the configured extra paths can be read",
        )
    folder, name = place
    try:
        with Root(folder) as root, open(root.open(name, os.O_RDONLY, follow="never"), "rb") as handle:  # noqa: PTH123
            return _cut(base, split_lines(decode(handle.read(MAX_BYTES))), first, lines)
    except StorageError as problem:
        refused = isinstance(problem, BoundaryError) and problem.kind != "missing"
        status = "error" if refused else "not_found"
        return Excerpt(status=status, path=base, from_line=first, error=problem.message)


def _cut(path: str, all_lines: list[str], first: int, count: int | None) -> Excerpt:
    wanted = max(1, count if count is not None else DEFAULT_LINES)
    if first > len(all_lines):
        return Excerpt(status="ok", path=path, from_line=first, lines=0, error=f"the file has {len(all_lines)} lines")
    taken: list[str] = []
    size = 0
    for line in all_lines[first - 1 : first - 1 + wanted]:
        if size + len(line) + 1 > MAX_CHARS and taken:
            break
        taken.append(line[:MAX_CHARS])
        size += len(line) + 1
    after = first + len(taken)
    more = after <= len(all_lines) and (count is None or len(taken) < wanted)
    text = "\n".join(taken)
    if more:
        text += f"\n[lines {first}-{after - 1} of {len(all_lines)}; continue with from={after}]"
    return Excerpt(
        status="ok",
        path=path,
        origin=tuple(dict.fromkeys(source for line in taken for source in take_origin(line)[1])),
        text=text,
        from_line=first,
        lines=len(taken),
        truncated=more,
        next_from=after if more else None,
    )


def entity_pages(conn: sqlite3.Connection) -> dict[str, str]:
    """Return the page of each entity that has one, by the slug of its name and of its aliases."""
    import json

    pages: dict[str, str] = {}
    for name, aliases, path in conn.execute(
        "SELECT entities.slug, entities.aliases, files.path FROM entities JOIN files ON files.id = entities.file"
        " ORDER BY files.path DESC"
    ):
        pages.update({key: path for alias in json.loads(aliases) if (key := slug(alias))})
        pages[name] = path
    return pages


def with_facts(conn: sqlite3.Connection, hits: Iterable[Hit]) -> tuple[Hit, ...]:
    """Return hits with what the index knows of their lines beside the text: how sure an opinion is, and whose words they hold."""
    told = conn.execute("SELECT 1 FROM origins LIMIT 1").fetchone() is not None
    opinion = (
        "SELECT coalesce(opinions.confidence, facts.confidence), coalesce(evidence, '') FROM facts LEFT JOIN opinions"
        " ON opinions.id = facts.id WHERE path = ? AND ? BETWEEN line AND end_line"
    )
    whose = (
        "SELECT DISTINCT origins.source FROM files JOIN origins ON origins.file = files.id"
        " WHERE files.source = ? AND files.path = ? AND line BETWEEN ? AND ?"
    )

    def fact(hit: Hit) -> Hit:
        sure = conn.execute(opinion, (hit.path, hit.start_line)).fetchone() if hit.kind == "opinion" else None
        place = (hit.source, hit.path, hit.start_line, hit.end_line)
        origin = tuple(row[0] for row in conn.execute(whose, place)) if told else ()
        known, evidence = sure or (None, "")
        return replace(hit, confidence=known, evidence=evidence, origin=origin) if sure or origin else hit

    return tuple(map(fact, hits))


def newest(conn: sqlite3.Connection, most: int, known: Iterable[Hit], sources: frozenset[str]) -> list[Hit]:
    """Return the newest lines beside those that are known, without a score."""
    shown = {(hit.path, line) for hit in known for line in range(hit.start_line, hit.end_line + 1)}
    rows = conn.execute(
        "SELECT path, line, text, kind, source FROM lines JOIN files ON files.id = lines.file"
        " WHERE kind NOT IN ('heading', 'path') AND NOT flags & ? ORDER BY coalesce(files.day, 0) DESC, lines.id DESC",
        (STRUCK,),
    )
    fresh = (row for row in rows if (row[0], row[1]) not in shown and (not sources or row[4] in sources))
    return [
        Hit(
            path=path, start_line=line, end_line=line, score=0.0, text=terms.excerpt(text, ()), kind=kind, source=source
        )
        for path, line, text, kind, source in islice(fresh, max(0, most))
    ]


def lacks_vectors(conn: sqlite3.Connection) -> bool:
    """Say whether any line has no vector yet, whoever would make it."""
    find = "SELECT 1 FROM lines WHERE kind != 'path' AND id NOT IN (SELECT id FROM line_vec) LIMIT 1"
    return conn.execute(find).fetchone() is not None


def counts(conn: sqlite3.Connection) -> Status:
    """Count what the index holds; who owns it fills in the rest."""

    def number(query: str) -> int:
        return int(conn.execute(query).fetchone()[0])

    return Status(
        files=number("SELECT count(*) FROM files"),
        lines=number("SELECT coalesce(sum(lines), 0) FROM files"),
        chunks=number("SELECT count(*) FROM chunks"),
        facts=number("SELECT count(*) FROM facts"),
        sources=dict(conn.execute("SELECT source, count(*) FROM files GROUP BY source").fetchall()),
        vectors=number("SELECT count(*) FROM line_vec"),
        cached_embeddings=number("SELECT count(*) FROM embedding_cache"),
        bytes=number("PRAGMA page_count") * number("PRAGMA page_size"),
    )


class NoteLine(Struct, frozen=True):
    """One line of a note as the index has it."""

    path: str
    line: int
    day: int | None
    text: str
    entities: tuple[str, ...] = ()
    origin: tuple[str, ...] = ()

    @property
    def citation(self) -> str:
        return cite(self.path, self.line, self.line)


def daily_lines(conn: sqlite3.Connection, first: int, last: int) -> list[NoteLine]:
    """Return what notes say for these days, in the order of their places."""
    origins: dict[tuple[int, int], list[str]] = {}
    for file, line, source in conn.execute("SELECT file, line, source FROM origins ORDER BY source"):
        origins.setdefault((file, line), []).append(source)
    rows = conn.execute(
        "SELECT f.id, f.path, l.line, l.day, l.text, l.entities FROM lines l JOIN files f ON f.id = l.file"
        " WHERE f.source = 'memory' AND l.day BETWEEN ? AND ? ORDER BY f.path, l.line",
        (first, last),
    )
    return [
        NoteLine(
            path, line, day, text, tuple(filter(None, entities.split("\x1f"))), tuple(origins.get((file, line), ()))
        )
        for file, path, line, day, text, entities in rows
    ]
