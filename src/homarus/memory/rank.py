"""The fused ranking: candidates, their signals, a weighted sum of fixed weights (docs/memory-ranking.md says whence)."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from homarus.memory import signals
from homarus.memory.candidates import KEEP, Pool, Postings, gather
from homarus.memory.query import Query
from homarus.memory.rows import Lines, Row

if TYPE_CHECKING:
    from homarus.memory.line_vectors import Vectors

Kind = Literal[
    "words", "static", "lines", "model"
]  # words alone, static word vectors, one vector a line, a sentence model
KINDS_OF_VECTORS: tuple[Kind, ...] = ("words", "static", "lines", "model")
# What a token costs: lines are packed by score minus this much per e-fold of their length.
PRICE = 0.25
# Fitted on conversations that were left out one by one, then rounded (docs/memory-ranking.md); one column per kind.
FITTED: Mapping[str, tuple[float, float, float, float]] = {
    "word": (0.40, 0.0, 0.0, 0.0),
    "window": (0.90, 0.55, 0.55, 0.65),
    "near": (0.30, 0.0, 0.60, 0.0),
    "pair": (0.15, 0.20, 0.20, 0.15),
    "soft": (0.0, 0.60, 0.0, 0.65),
    "vector": (0.0, 0.50, 0.75, 0.50),
    "vectors": (0.0, 0.45, 0.70, 0.55),
    "sentence": (0.0, 0.0, 0.0, 0.45),
    "name": (0.45, 0.45, 0.45, 0.45),
    "own": (0.20, 0.15, 0.15, 0.15),
    "date": (1.30, 1.30, 1.30, 1.30),
    "when": (0.50, 0.50, 0.50, 0.50),
    "number": (0.35, 0.35, 0.35, 0.35),
    "proper": (0.30, 0.30, 0.25, 0.25),
    "answer": (0.50, 0.30, 0.25, 0.35),
    "day": (0.50, 0.40, 0.30, 0.30),
    "length": (0.55, 0.30, 0.40, 0.15),
    "question": (-0.10, -0.10, -0.10, -0.15),
}
# What no conversation can teach; each touches only notes that have such lines.
SET_BY_HAND = {"mention": 0.3, "above": 0.3, "heading": -0.5, "exact": 2.0, "superseded": -0.6, "recent": 0.1}


def table(kind: Kind) -> Mapping[str, float]:
    """Return the weights for what there is to rank with."""
    at = KINDS_OF_VECTORS.index(kind)
    return SET_BY_HAND | {name: row[at] for name, row in FITTED.items() if row[at]}


LATER = date.max.toordinal()


class Filters(Struct, frozen=True):
    """Hard limits that the caller asked for. Nothing else ever removes a line."""

    since: date | None = None
    until: date | None = None
    as_of: date | None = None
    kinds: frozenset[str] = frozenset()
    superseded: dict[tuple[int, int], int] = {}  # (file, line) -> the day on which a later fact replaced it

    def kept(self, rows: list[Row]) -> list[Row]:
        """Return the lines that may be shown."""
        if self.kinds or self.since or self.until or self.as_of:
            return [row for row in rows if self.keeps(row)]
        return [row for row in rows if row.kind != "path"]

    def keeps(self, row: Row) -> bool:
        """Say whether a line is within the limits; a line without a day has no place in a time range."""
        if self.kinds and row.kind not in self.kinds:
            return False
        if row.kind == "path" or (row.kind == "heading" and (self.kinds or self.since or self.until)):
            return False
        if self.as_of is not None and (
            (row.day is not None and row.day > self.as_of.toordinal())
            or self.superseded.get((row.file, row.line), LATER) <= self.as_of.toordinal()
        ):
            return False
        first = row.first if row.first is not None else row.day
        last = row.last if row.last is not None else row.day
        if self.since is not None and (last is None or max(last, row.day or 0) < self.since.toordinal()):
            return False
        return self.until is None or (first is not None and min(first, row.day or first) <= self.until.toordinal())


class Ranked(Struct):
    """All scored candidates of one query, best first by `order`."""

    query: Query
    rows: list[Row]
    columns: signals.Columns
    scores: list[float]
    order: list[int]
    pool: Pool
    weights: Mapping[str, float]

    def reasons(self, index: int) -> list[tuple[str, float]]:
        """Return what each signal added to a line's score, the strongest first."""
        weights = self.weights
        parts = [(name, weights[name] * column[index]) for name, column in self.columns.items() if name in weights]
        return sorted([part for part in parts if abs(part[1]) >= 0.005], key=lambda part: -abs(part[1]))


class Known(Struct):
    """What one state of an index was asked for before."""

    postings: Postings
    lines: Lines

    def clear(self) -> None:
        """Forget it: the index changed."""
        self.postings.clear()
        self.lines.clear()


def rank(
    conn: sqlite3.Connection,
    known: Known,
    query: Query,
    filters: Filters,
    *,
    vectors: Vectors | None = None,
    keep: int = KEEP,
) -> Ranked:
    """Score the candidates of a query with everything there is; without vectors by words, names, dates and intents."""
    postings, lines = known.postings, known.lines
    asked = vectors.propose(conn, query, keep) if vectors else None
    pool = gather(conn, postings, query, kinds=filters.kinds, extra=asked.nearest if asked else (), keep=keep)
    rows = filters.kept(lines.rows(conn, pool.ids))
    average = postings.words / max(1, postings.lines)
    above = lines.above(conn, {row.head for row in rows if row.head is not None})
    columns = signals.lexical(query, rows, pool, average, above)
    columns["name"] = signals.names(query, rows, pool, postings.lines)
    columns["mention"] = signals.mentions(query, rows, pool, postings.lines)
    columns["date"] = signals.dates(query, rows)
    columns["recent"] = signals.recent(query, rows)
    columns |= signals.shape(query, rows, columns["name"])
    columns |= signals.support(rows, columns["word"])
    columns["exact"] = signals.exact(query, rows, columns["covered"], partial(lines.texts, conn))
    if filters.superseded:
        columns["superseded"] = [float((row.file, row.line) in filters.superseded) for row in rows]
    if vectors and asked:
        columns |= vectors.columns(conn, query, asked, rows, postings)
    if "together" in columns:
        columns |= signals.alone(columns)
    weights = table(vectors.kind if vectors and "vector" in columns else "words")
    scores = combine(columns, weights, len(rows))
    order = sorted(range(len(rows) - 1, -1, -1), key=scores.__getitem__, reverse=True)  # of equal ones the newer first
    return Ranked(query, rows, columns, scores, order, pool, weights)


def combine(columns: signals.Columns, table: Mapping[str, float], count: int) -> list[float]:
    """Return the weighted sums."""
    totals = [0.0] * count
    for name, column in columns.items():
        weight = table.get(name, 0.0)
        if weight and any(column):
            totals = [total + weight * value for total, value in zip(totals, column, strict=True)]
    return totals
