"""Answer one question from one state of the index: analyse, rank, filter, pack. Holds only caches."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import date
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from homarus.memory.candidates import KEEP, FileRow, LineCache, Postings
from homarus.memory.embed.base import Choice, Embedders, EmbedError
from homarus.memory.pack import Packer, Range
from homarus.memory.query import Query, analyse
from homarus.memory.rank import (
    Caches,
    Filters,
    Ranked,
    Texts,
    about,
    by_value,
    confidence,
    entities_of,
    known_names,
    quota,
    rank,
    speaking,
    superseded_lines,
    timestamp_of,
    with_passages,
)
from homarus.memory.read import Explanation, newest, with_facts
from homarus.memory.results import Answer, Hit, cite, parse_citation
from homarus.memory.schema import STRUCK, kind_names
from homarus.memory.settings import MIN_SCORE, MemorySettings
from homarus.memory.sync import Progress
from homarus.memory.terms import excerpt

if TYPE_CHECKING:
    from homarus.memory.chunk_ranking import ChunkVectors
    from homarus.memory.line_vectors import Vectors

UNBOUNDED = 1 << 40
TOKENS_A_WORD = 1.4
CLOSE = 0.6  # share of the best score above which the default of `minScore` hides nothing
LABELS = {
    "word": "words in the line",
    "window": "words around the line",
    "name": "said by or about the person asked for",
    "mention": "holds a name asked for",
    "date": "within the time asked for",
    "when": "names a time",
    "answer": "answers the question before it",
    "day": "other strong lines in the same note",
    "length": "length of the line",
    "question": "is itself a question",
    "above": "words in the headings above",
    "related": "words on the same matter",
    "exact": "holds all the words asked for",
    "near": "share of the question in the line and beside it",
    "pair": "two words that stand together in the question",
    "own": "speaks of themselves",
    "number": "holds a number",
    "proper": "holds a name",
    "kind": "holds a thing of the kind asked for",
    "soft": "related words in the line or beside it",
    "vector": "meaning of the line",
    "vectors": "meaning of the lines around",
    "sentence": "meaning of one sentence",
    "superseded": "replaced by a later fact",
    "recent": "written recently, and the question is about now",
}


class Request(Struct, frozen=True, kw_only=True):
    """One question with its limits. `budget` is None for a plain search; a `min_score` below 0 asks for lines that nothing
    speaks for as well, as far as there is room: by their vectors, where there are any, and the newest."""

    text: str
    today: date
    limit: int
    budget: int | None = None
    min_score: float | None = None
    since: date | None = None
    until: date | None = None
    as_of: date | None = None
    entities: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    sources: frozenset[str] = frozenset()

    def depth(self, words: float) -> int:
        """Return how many lines to look at, where a line has so many words: a handful of passages needs fewer than a full budget."""
        if self.kinds or self.entities or self.sources:
            return KEEP
        wanted = 8 * self.limit if self.budget is None else 24 * self.budget / (TOKENS_A_WORD * max(words, 1.0))
        return min(KEEP, max(80, round(wanted)))


class Engine:
    """Ranks and packs. `forget` must be called whenever the index changed."""

    def __init__(self, settings: MemorySettings, embedders: Embedders, *, resident: int | None = None) -> None:
        """`resident` is how many lines' vectors are held in memory at most."""
        self.settings = settings
        self._resident = {} if resident is None else {"resident": resident}
        self.embedders = embedders
        self.known = Caches(Postings(), LineCache())
        self._vectors: Vectors | None = None
        self._chunked: ChunkVectors | None = None
        self._missing = 0
        self._names: list[tuple[str, tuple[str, ...]]] | None = None
        self._lines_of: dict[str, int] = {}
        self._years: tuple[int, ...] = ()
        self._superseded: dict[tuple[int, int], int] = {}

    @property
    def choice(self) -> Choice:
        """Return the embedder in use; the vectors always belong to it."""
        choice = self.embedders.choice
        if self._vectors is not None and self._vectors.embedder is not choice.embedder:
            self._vectors = None
        if choice.embedder is not None and self._vectors is None:
            from homarus.memory.line_vectors import Vectors

            cache = self.settings.cache
            self._vectors = Vectors(
                choice.embedder, cache=cache.enabled, cache_entries=cache.max_entries, **self._resident
            )
        return choice

    @property
    def identity(self) -> tuple[str, str]:
        embedder = self.choice.embedder
        return (embedder.provider, embedder.model) if embedder else ("none", "")

    def degraded(self, conn: sqlite3.Connection, *, count: bool = False) -> str:
        """Say what is missing from the best answer that the settings ask for; `count` looks for lines without vectors anew."""
        reasons = [self.choice.degraded]
        if self._vectors:
            if count:
                self._missing = self._vectors.missing(conn)
            if self._missing:
                reasons.append(f"{self._missing:,} passages have no vectors yet; run 'homarus memory index'")
            reasons.append(self._vectors.limits(conn))
        return "; ".join(reason for reason in reasons if reason)

    def forget(self) -> None:
        """Drop all that was learned about an index that is now different."""
        self.known.clear()
        self._names = None
        if self._vectors:
            self._vectors.forget()
        if self._chunked:
            self._chunked.forget()

    def embed(self, conn: sqlite3.Connection, now_ms: int, progress: Progress | None, *, quick: bool = False) -> None:
        """Bring vectors in line with the lines; `quick` does only what a search can wait for."""
        choice = self.choice
        if self._vectors is None:
            return
        try:
            self._missing = self._vectors.fill(conn, now_ms, progress, quick=quick)
            if self.settings.query.ranks_chunks:
                self._missing += self._chunk_vectors(self._vectors).fill(conn, now_ms, progress, quick=quick)
        except EmbedError as problem:
            self._give_up(choice, problem)

    def _give_up(self, choice: Choice, problem: EmbedError) -> None:
        self.embedders.give_up(choice, problem)
        self._vectors = None

    def answer(self, conn: sqlite3.Connection, request: Request) -> Answer:
        if request.budget is None and self.settings.query.ranks_chunks:
            return self._chunks(conn, request)
        ranked = self.rank(conn, request)
        texts = Texts(conn, self.known.lines)
        files = self.known.lines.files(conn, {row.file for row in ranked.rows})
        strength = self._strength(ranked)
        order = self._admitted(ranked, request, strength, files, texts)
        if request.budget is not None:
            order = by_value(ranked, order, texts)
            if ranked.query.has("passage") and not (request.kinds or request.entities):
                ranked, order = with_passages(conn, ranked, order, request.budget, self._filters(request))
                files = self.known.lines.files(conn, {row.file for row in ranked.rows})
                strength += [0.0] * (len(ranked.rows) - len(strength))
        else:
            order = order[: 2 * request.limit]  # only lines that compete for a place may join a range
            texts.prefetch([ranked.rows[index].id for index in order])
        scores = ranked.scores if request.budget is None else None
        packer = Packer(ranked.rows, texts.get, k=request.limit, budget=request.budget or UNBOUNDED, scores=scores)
        packer.fill(order)
        if request.budget is not None and not (request.entities or request.kinds or request.sources):
            packer.surround({row.id: index for index, row in enumerate(ranked.rows)}, ranked.scores)
        hits = [self._hit(ranked, group, files, texts, strength) for group in packer.ranges]
        if request.min_score is not None and request.min_score < 0:
            if self._vectors:
                hits += self._farther(ranked, request, packer.ranges, files, texts)
            hits += newest(conn, request.limit - len(hits), hits, request.sources)
        mode = "hybrid" if self._vectors else "lexical"
        return self._told(conn, hits, mode, packer.spent, confidence(ranked))

    def _farther(
        self, ranked: Ranked, request: Request, ranges: Sequence[Range], files: dict[int, FileRow], texts: Texts
    ) -> list[Hit]:
        """Return candidates that say nothing of their own, as far as there is room; without a score, since nobody asked for them."""
        shown = {index for group in ranges for index in (*group.members, *group.also)}
        rows = ranked.rows
        rest = [
            index
            for index in ranked.order
            if index not in shown
            and rows[index].kind not in {"heading", "path"}
            and not rows[index].flags & STRUCK
            and (not request.sources or files[rows[index].file].source in request.sources)
        ][: max(0, request.limit - len(ranges))]
        none = [0.0] * len(rows)
        return [self._hit(ranked, Range(rows[index].file, index, [index]), files, texts, none) for index in rest]

    def _told(
        self, conn: sqlite3.Connection, hits: Iterable[Hit], mode: str, tokens: int = 0, sure: float = 1.0
    ) -> Answer:
        provider, model = self.identity
        return Answer(
            hits=with_facts(conn, hits),
            mode=mode,
            provider=provider,
            model=model,
            fallback=self.choice.fallback,
            tokens=tokens,
            degraded=self.degraded(conn),
            confidence=round(sure, 3),
        )

    def _chunk_vectors(self, vectors: Vectors) -> ChunkVectors:
        from homarus.memory.chunk_ranking import ChunkVectors

        if self._chunked is None or self._chunked.embedder is not vectors.embedder:
            self._chunked = ChunkVectors(vectors.embedder, vectors.cache)
        return self._chunked

    def _chunks(self, conn: sqlite3.Connection, request: Request) -> Answer:
        """Answer with whole chunks, as OpenClaw does."""
        from homarus.memory.chunk_ranking import Wanted, search_chunks

        query = self.analyse(conn, request)
        settings = self.settings.query
        if request.min_score is not None:
            settings = structs.replace(settings, min_score=request.min_score)
        choice = self.choice
        vectors = self._chunk_vectors(self._vectors) if self._vectors else None
        wanted = Wanted(limit=request.limit, today=request.today, sources=request.sources)
        try:
            hits = search_chunks(conn, query, settings, wanted, vectors)
        except EmbedError as problem:
            self._give_up(choice, problem)
            hits = search_chunks(conn, query, settings, wanted, None)
        return self._told(conn, hits, "hybrid-chunks" if self._vectors else "fts-only")

    def ranking(self, conn: sqlite3.Connection, request: Request) -> tuple[Hit, ...]:
        ranked = self.rank(conn, request)
        texts = Texts(conn, self.known.lines)
        order = ranked.order[: request.limit]
        texts.prefetch([ranked.rows[index].id for index in order])
        files = self.known.lines.files(conn, {ranked.rows[index].file for index in order})
        strength = self._strength(ranked)
        return tuple(self._hit(ranked, Range(ranked.rows[i].file, i, [i], []), files, texts, strength) for i in order)

    def rank(self, conn: sqlite3.Connection, request: Request) -> Ranked:
        """Return every candidate of a question with its signals."""
        query, filters = self.analyse(conn, request), self._filters(request)
        choice = self.choice
        keep = request.depth(self.known.postings.average(conn))
        try:
            return rank(conn, self.known, query, filters, vectors=self._vectors, keep=keep)
        except EmbedError as problem:
            self._give_up(choice, problem)
            return rank(conn, self.known, query, filters, keep=keep)

    def _filters(self, request: Request) -> Filters:
        limits = {"since": request.since, "until": request.until, "as_of": request.as_of}
        return Filters(**limits, kinds=kind_names(request.kinds), superseded=self._superseded)

    def analyse(self, conn: sqlite3.Connection, request: Request) -> Query:
        """Take the question apart with the names and years that this index knows."""
        if self._names is None:
            self._names, self._lines_of = known_names(conn)
            rows = conn.execute("SELECT DISTINCT day FROM files WHERE day IS NOT NULL")
            self._years = tuple(sorted({date.fromordinal(row[0]).year for row in rows}))
            self._superseded = superseded_lines(conn)
        query = analyse(
            request.text, today=request.today, years=self._years, names=self._names, entities=request.entities
        )
        lines_of = {name: self._lines_of.get(name, 0) for name in query.names}
        return structs.replace(query, lines_of=lines_of) if lines_of else query

    def _admitted(
        self, ranked: Ranked, request: Request, strength: list[float], files: dict[int, FileRow], texts: Texts
    ) -> list[int]:
        """Return the candidates that may be shown, best first: sources, entities, the quota and the least score."""
        order = ranked.order
        if request.sources:
            order = [index for index in order if files[ranked.rows[index].file].source in request.sources]
        if request.entities:
            order = about(ranked, order, request.entities, texts)
        covered = ranked.columns["covered"]
        order = [index for index in order if ranked.rows[index].kind != "heading" or covered[index] >= 0.5]
        if request.budget is None:
            order = self._strong_enough(ranked, order, request, strength)
        said = [files[row.file].source == "sessions" for row in ranked.rows]
        return quota(order, said.__getitem__, request.limit, self.settings.query.sessions_share)

    def _strong_enough(self, ranked: Ranked, order: list[int], request: Request, strength: list[float]) -> list[int]:
        """Drop what is weaker than the score that somebody named; where nobody did, only what is much weaker than the best.

        A line that holds all the words asked for is always shown.
        """
        said = speaking(ranked, order) or order[: request.limit]  # better a weak match than silence
        least = request.min_score if request.min_score is not None else self.settings.query.min_score
        if least is None:
            least = min(MIN_SCORE, CLOSE * max((strength[index] for index in said[:1]), default=0.0))
        covered = ranked.columns["covered"]
        return [index for index in said if strength[index] >= least or covered[index] >= 0.999]

    def _strength(self, ranked: Ranked) -> list[float]:
        """Return scores that mean the same for every question, in the order of the ranking.

        The best lines say how much of the question is answered at all; the others follow by their share of the best sum.
        """
        top = max((ranked.scores[index] for index in ranked.order[:1]), default=0.0)
        if top <= 0:
            return [0.0] * len(ranked.rows)
        near, angles = ranked.columns["near"], ranked.columns.get("cosine")
        best = max(near[index] for index in ranked.order[:5])
        if angles is not None:  # a paraphrase shares no word, but points the same way
            best = max(best, *(angles[index] * 1.2 for index in ranked.order[:5]))
        best = min(1.0, best)
        return [best * score / top if score > 0 else 0.0 for score in ranked.scores]

    def _hit(self, ranked: Ranked, group: Range, files: dict[int, FileRow], texts: Texts, strength: list[float]) -> Hit:
        rows = [ranked.rows[index] for index in group.members]
        best = ranked.rows[group.best]
        file = files[best.file]
        shown = [excerpt(texts.get(row.id), ranked.query.terms) for row in rows]
        why = tuple(f"{LABELS.get(name, name)} {value:+.2f}" for name, value in ranked.reasons(group.best)[:6])

        bare = ranked.columns.get("cosine")
        angles = ranked.columns.get("whole") or bare

        def place(index: int) -> str:
            return cite(files[ranked.rows[index].file].path, ranked.rows[index].line, ranked.rows[index].line)

        return Hit(
            path=file.path,
            start_line=min(row.line for row in rows),
            end_line=max(row.line for row in rows),
            score=round(strength[group.best], 4),
            text="\n".join(shown),
            kind=best.kind,
            timestamp=timestamp_of(best),
            entities=entities_of(rows),
            why=why,
            source=file.source,
            text_score=round(ranked.columns["near"][group.best], 4),
            vector_score=round(angles[group.best], 4) if angles else None,
            bare_score=round(bare[group.best], 4) if bare else None,
            also=tuple(map(place, group.also)),
            superseded_by=place(ranked.replaced[group.best]) if group.best in ranked.replaced else "",
        )

    def explain(self, conn: sqlite3.Connection, request: Request, citation: str) -> Explanation:
        path, number, _ = parse_citation(citation)
        row = conn.execute(
            "SELECT lines.id, lines.text FROM lines JOIN files ON files.id = lines.file WHERE files.path = ? AND line = ?",
            (path, number or 1),
        ).fetchone()
        ranked = self.rank(conn, request)
        at = {candidate.id: index for index, candidate in enumerate(ranked.rows)}
        index = at.get(row[0]) if row else None
        parts: tuple[tuple[str, float, float], ...] = ()
        if index is not None:
            parts = tuple((name, ranked.columns[name][index], value) for name, value in ranked.reasons(index))
        terms = tuple(
            (posting.term, posting.count, bool(row) and row[0] in ids)
            for posting, ids in zip(ranked.pool.postings, ranked.pool.sets, strict=True)
        )
        notes = () if row else ("this line is not in the index",)
        if row and index is None:
            notes = ("no word, date or neighbour brought this line in as a candidate",)
        return Explanation(
            citation=citation,
            text=row[1] if row else "",
            rank=ranked.order.index(index) + 1 if index is not None else None,
            score=ranked.scores[index] if index is not None else 0.0,
            candidates=len(ranked.rows),
            parts=parts,
            terms=terms,
            query=request.text,
            notes=notes,
        )
