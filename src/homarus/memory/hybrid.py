"""The seeds' ranking: whole chunks by words and vectors, with all their knobs. Kept for who asks for it by name.

`query.ranking: "hybrid"` chooses it. The fused line ranking finds more with fewer tokens and is the default.
"""

from __future__ import annotations

import sqlite3
from datetime import date
from math import exp, log

from msgspec import Struct

from homarus.memory.lines import note_day
from homarus.memory.query import Query
from homarus.memory.results import Hit
from homarus.memory.settings import QuerySettings
from homarus.memory.snippet import excerpt
from homarus.memory.terms import match_expression, words
from homarus.memory.vectors import Vectors

MOST = 200
EVERGREEN = ("MEMORY.md", "memory.md", "USER.md")


class Scored(Struct):
    """A chunk with its two scores."""

    path: str
    source: str
    start_line: int
    end_line: int
    text: str
    words: float = 0.0
    vector: float = 0.0
    score: float = 0.0


def search_chunks(
    conn: sqlite3.Connection, query: Query, settings: QuerySettings, limit: int, today: date, vectors: Vectors | None
) -> list[Hit]:
    """Return chunks by `vectorWeight * cosine + textWeight * bm25`, decayed and diversified as the settings say."""
    knobs = settings.hybrid
    wanted = min(MOST, max(1, limit * max(1, knobs.candidate_multiplier)))
    found = _by_words(conn, query, wanted)
    if vectors is not None:
        _by_vectors(conn, query, vectors, found, wanted)
    for chunk in found.values():
        chunk.score = knobs.vector_weight * chunk.vector + knobs.text_weight * chunk.words if vectors else chunk.words
        if knobs.temporal_decay.enabled:
            chunk.score *= decay(chunk.path, today, knobs.temporal_decay.half_life_days)
    ranked = sorted(found.values(), key=lambda chunk: (-chunk.score, chunk.path, chunk.start_line))
    if knobs.mmr.enabled:
        ranked = mmr(ranked, knobs.mmr.lambda_)
    kept = [c for c in ranked if c.score >= settings.min_score or _exact(c, query)] or [
        c for c in ranked if c.words > 0
    ]
    return [_hit(chunk, query) for chunk in kept[:limit]]


def _by_words(conn: sqlite3.Connection, query: Query, wanted: int) -> dict[str, Scored]:
    if not query.terms:
        return {}
    expression = " OR ".join(f"({match_expression(term)})" for term in query.terms)
    try:
        rows = conn.execute(
            "SELECT c.id, c.path, c.source, c.start_line, c.end_line, c.text, bm25(chunks_fts) FROM chunks_fts"
            " JOIN chunks c ON c.rowid = chunks_fts.rowid WHERE chunks_fts MATCH ? ORDER BY rank LIMIT ?",
            (expression, wanted),
        ).fetchall()
    except sqlite3.OperationalError:
        return {}
    best = max((-row[6] for row in rows), default=0.0) or 1.0  # bm25() is negative: more negative is better
    found = {row[0]: Scored(*row[1:6]) for row in rows}
    for row in rows:
        found[row[0]].words = max(0.0, -row[6]) / best
    return found


def _by_vectors(
    conn: sqlite3.Connection, query: Query, vectors: Vectors, found: dict[str, Scored], wanted: int
) -> None:
    """Score chunks by their nearest line: a chunk is as close to the question as the best thing it says."""
    nearest = vectors.nearest(conn, query, wanted)
    for number, cosine in nearest:
        rows = conn.execute(
            "SELECT c.id, c.path, c.source, c.start_line, c.end_line, c.text FROM lines JOIN files ON files.id = lines.file"
            " JOIN chunks c ON c.source = files.source AND c.path = files.path AND lines.line BETWEEN c.start_line AND c.end_line"
            " WHERE lines.id = ?",
            (number,),
        )
        for row in rows.fetchall():
            chunk = found.setdefault(row[0], Scored(*row[1:]))
            chunk.vector = max(chunk.vector, cosine)


def decay(path: str, today: date, half_life: float) -> float:
    """Return what age leaves of a score; notes without a day in their name never fade."""
    day = None if path in EVERGREEN else note_day(path)
    if day is None or half_life <= 0:
        return 1.0
    return exp(-log(2) * max(0, (today - day).days) / half_life)


def mmr(ranked: list[Scored], balance: float) -> list[Scored]:
    """Reorder so that each next chunk is good and unlike those before it."""
    if len(ranked) < 2:
        return ranked
    low, high = ranked[-1].score, ranked[0].score
    said = {id(chunk): set(words(chunk.text)) for chunk in ranked}
    left, chosen = list(ranked), [ranked[0]]
    left.remove(ranked[0])

    def value(chunk: Scored) -> float:
        relevance = (chunk.score - low) / (high - low) if high > low else 1.0
        own = said[id(chunk)]
        same = max(len(own & said[id(other)]) / max(1, len(own | said[id(other)])) for other in chosen)
        return balance * relevance - (1 - balance) * same

    while left:
        best = max(left, key=value)
        left.remove(best)
        chosen.append(best)
    return chosen


def _exact(chunk: Scored, query: Query) -> bool:
    return (bool(query.phrase) and query.phrase in " ".join(words(chunk.text))) or set(query.terms) <= set(
        words(chunk.text)
    )


def _hit(chunk: Scored, query: Query) -> Hit:
    day = note_day(chunk.path)
    return Hit(
        path=chunk.path,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        score=round(min(1.0, chunk.score), 4),
        text=excerpt(chunk.text, query.terms),
        kind="chunk",
        timestamp=day.isoformat() if day else None,
        source=chunk.source,
        text_score=round(chunk.words, 4),
        vector_score=round(chunk.vector, 4),
        why=(f"words {chunk.words:.2f}", f"meaning {chunk.vector:.2f}"),
    )
