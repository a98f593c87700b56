"""OpenClaw's ranking: whole chunks by words and vectors, with all its knobs. For who asks for it (`query.ranking`).

The fused line ranking finds more with fewer tokens and is the default.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, date, datetime
from math import exp, log
from typing import Any

from msgspec import Struct

from homarus.memory.embed.base import Embedder
from homarus.memory.line_vectors import VectorCache
from homarus.memory.note_parser import note_day
from homarus.memory.query import Query
from homarus.memory.rank import quota
from homarus.memory.results import Hit
from homarus.memory.settings import MIN_SCORE, Hybrid, QuerySettings
from homarus.memory.sync import Progress
from homarus.memory.terms import excerpt, match_expression, words
from homarus.memory.vector_table import singles
from homarus.storage.sqlite import transaction

QUICK = {True: 1_000, False: 16}  # chunks a search may embed itself: static, sentence
BLOCK, HELD = 10_000, 5  # chunks compared at a time and blocks kept, so that memory stays bounded whatever the size


class ChunkVectors:
    """The vectors of one index's chunks, by one embedder. `chunks.model` says which one made each."""

    def __init__(self, embedder: Embedder, cache: VectorCache) -> None:
        self.embedder = embedder
        self.static = bool(getattr(embedder, "static", False))
        self._cache = cache
        self._mark = f"{embedder.provider}|{embedder.model}|{embedder.key}"
        self._held: list[tuple[list[str], Any]] | None = None

    def forget(self) -> None:
        """The chunks changed: read their vectors again before the next use."""
        self._held = None

    def fill(
        self, conn: sqlite3.Connection, now_ms: int, progress: Progress | None = None, *, quick: bool = False
    ) -> int:
        """Embed chunks that this embedder has not embedded yet and return how many it still has not."""
        missing = [row[0] for row in conn.execute("SELECT rowid FROM chunks WHERE model != ?", (self._mark,))]
        if quick and (self.embedder.remote or len(missing) > QUICK[self.static]):
            return len(missing)
        for start in range(0, len(missing), self.embedder.batch):
            part = missing[start : start + self.embedder.batch]
            self._store(conn, part, now_ms)
            if progress:
                progress(min(len(missing), start + len(part)), len(missing), f"chunks ({self.embedder.provider})")
        return 0

    def _store(self, conn: sqlite3.Connection, part: list[int], now_ms: int) -> None:
        marks = ",".join("?" * len(part))
        texts = dict(conn.execute(f"SELECT rowid, text FROM chunks WHERE rowid IN ({marks})", part))  # noqa: S608 - marks
        blobs, made = self._cache.encode(conn, list(texts.values()))
        self.forget()
        with transaction(conn):
            conn.executemany(
                "UPDATE chunks SET embedding = ?, model = ?, updated_at = ? WHERE rowid = ?",
                [(blob, self._mark, now_ms, number) for number, blob in zip(texts, blobs, strict=True)],
            )
            self._cache.remember(conn, made, now_ms)

    def nearest(self, conn: sqlite3.Connection, text: str, count: int) -> list[tuple[str, float]]:
        import numpy as np

        vector = self.embedder.encode([text], query=True)[0]
        best: list[tuple[str, float]] = []
        for ids, matrix in self._blocks(conn):
            scores: Any = np.vecdot(singles(matrix), vector)
            lead = np.argsort(-scores, kind="stable")[:count]
            best += [(ids[at], float(scores[at])) for at in lead]
        return sorted(best, key=lambda item: -item[1])[:count]

    def _blocks(self, conn: sqlite3.Connection) -> Iterator[tuple[list[str], Any]]:
        """Yield ids and vectors; those of an index of ordinary size are kept, a larger one is read each time."""
        import numpy as np

        if self._held is not None:
            yield from self._held
            return
        held: list[tuple[list[str], Any]] | None = []
        rows = conn.execute("SELECT id, embedding FROM chunks WHERE model = ?", (self._mark,))
        while part := rows.fetchmany(BLOCK):
            matrix = np.frombuffer(b"".join(row[1] for row in part), dtype=np.float16).reshape(len(part), -1)
            block = [row[0] for row in part], matrix
            held = [*held, block] if held is not None and len(held) < HELD else None
            yield block
        self._held = held


MOST = 200
_COLUMNS = "c.path, c.source, c.start_line, c.end_line, c.text, f.mtime"
EVERGREEN = ("MEMORY.md", "memory.md", "USER.md")


class Scored(Struct):
    path: str
    source: str
    start_line: int
    end_line: int
    text: str
    mtime: float
    words: float = 0.0
    vector: float = 0.0
    score: float = 0.0


class Wanted(Struct, frozen=True, kw_only=True):
    limit: int
    today: date
    sources: frozenset[str] = frozenset()


def search_chunks(
    conn: sqlite3.Connection, query: Query, settings: QuerySettings, wanted: Wanted, vectors: ChunkVectors | None
) -> list[Hit]:
    """Return chunks by `vectorWeight * cosine + textWeight * bm25`, decayed and diversified as the settings say.

    With `hybrid.enabled: false` vectors alone decide, and words bring in only what matches exactly; without an embedder
    it is words alone.
    """
    knobs = settings.hybrid
    count = min(MOST, max(1, int(wanted.limit * max(1.0, knobs.candidate_multiplier))))
    found = _by_words(conn, query, count)
    if vectors is not None:
        _by_vectors(conn, query, vectors, found, count)
    meaning, said = _weights(knobs, with_vectors=vectors is not None)
    for chunk in found.values():
        chunk.score = meaning * chunk.vector + said * chunk.words
        if knobs.temporal_decay.enabled:
            chunk.score *= decay(chunk, wanted.today, knobs.temporal_decay.half_life_days)
    ranked = sorted(
        (chunk for chunk in found.values() if not wanted.sources or chunk.source in wanted.sources),
        key=lambda chunk: (-chunk.score, chunk.path, chunk.start_line),
    )
    if knobs.mmr.enabled:
        ranked = mmr(ranked, knobs.mmr.lambda_)
    exact = {id(chunk) for chunk in ranked if _exact(chunk, query)}
    least = MIN_SCORE if settings.min_score is None else settings.min_score
    kept = [chunk for chunk in ranked if chunk.score >= least or id(chunk) in exact]
    kept = kept or [chunk for chunk in ranked if chunk.words > 0]  # as OpenClaw: words found beat silence
    kept = quota(kept, lambda chunk: chunk.source == "sessions", wanted.limit, settings.sessions_share)
    return [_hit(chunk, query) for chunk in kept[: wanted.limit]]


def _weights(knobs: Hybrid, *, with_vectors: bool) -> tuple[float, float]:
    """Return what meaning and words count, together 1, so that a least score means the same with any weights."""
    if not with_vectors:
        return 0.0, 1.0
    if not knobs.enabled:
        return 1.0, 0.0
    meaning, said = max(0.0, knobs.vector_weight), max(0.0, knobs.text_weight)
    return (meaning / (meaning + said), said / (meaning + said)) if meaning + said > 0 else (0.7, 0.3)


def _by_words(conn: sqlite3.Connection, query: Query, count: int) -> dict[str, Scored]:
    if not query.terms:
        return {}
    expression = " OR ".join(f"({match_expression(term)})" for term in query.terms)
    try:
        rows = conn.execute(
            f"SELECT c.id, {_COLUMNS}, bm25(chunks_fts) FROM chunks_fts JOIN chunks c ON c.rowid = chunks_fts.rowid"  # noqa: S608
            " JOIN files f USING(source, path) WHERE chunks_fts MATCH ? ORDER BY rank LIMIT ?",
            (expression, count),
        ).fetchall()
    except sqlite3.OperationalError:
        return {}
    best = max((-row[-1] for row in rows), default=0.0) or 1.0  # bm25() is negative: more negative is better
    found = {row[0]: Scored(*row[1:-1]) for row in rows}
    for row in rows:
        found[row[0]].words = max(0.0, -row[-1]) / best
    return found


def _by_vectors(
    conn: sqlite3.Connection, query: Query, vectors: ChunkVectors, found: dict[str, Scored], count: int
) -> None:
    nearest = dict(vectors.nearest(conn, query.text, count))
    new = [number for number in nearest if number not in found]
    marks = ",".join("?" * len(new))
    rows = conn.execute(
        f"SELECT c.id, {_COLUMNS} FROM chunks c JOIN files f USING(source, path) WHERE c.id IN ({marks})",  # noqa: S608
        new,
    )
    found.update((row[0], Scored(*row[1:])) for row in rows)
    for number, cosine in nearest.items():
        if number in found:
            found[number].vector = max(0.0, cosine)


def decay(chunk: Scored, today: date, half_life: float) -> float:
    """Return what age leaves of a score; notes without a day in their name never fade, a transcript ages as its file."""
    if chunk.source == "sessions":
        day: date | None = datetime.fromtimestamp(chunk.mtime, UTC).date()
    else:
        day = None if chunk.path in EVERGREEN else note_day(chunk.path)
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
