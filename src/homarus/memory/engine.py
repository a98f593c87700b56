"""Answer one question from one state of the index: analyse, rank, filter, pack. Holds only caches."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import date

from msgspec import Struct

from homarus.memory.embed.base import Embedder
from homarus.memory.lines import kind_names
from homarus.memory.pack import Packer, Range
from homarus.memory.postings import Postings
from homarus.memory.query import Query, analyse
from homarus.memory.rank import WEIGHTS, Filters, Ranked, rank
from homarus.memory.read import Explanation
from homarus.memory.results import Answer, Hit, cite
from homarus.memory.rows import FileRow, Row, read_files, read_texts
from homarus.memory.settings import MemorySettings
from homarus.memory.snippet import excerpt
from homarus.memory.sync import Progress
from homarus.memory.terms import plain

UNBOUNDED = 1 << 40
LABELS = {
    "word": "words in the line",
    "window": "words around the line",
    "name": "said by or about the person asked for",
    "date": "within the time asked for",
    "when": "names a time",
    "answer": "answers the question before it",
    "day": "other strong lines in the same note",
    "length": "length of the line",
    "question": "is itself a question",
    "above": "words in the headings above",
    "exact": "holds all the words asked for",
}


class Request(Struct, frozen=True, kw_only=True):
    """One question with its limits. `budget` is None for a plain search."""

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


class Engine:
    """Ranks and packs. `forget` must be called whenever the index changed."""

    def __init__(self, settings: MemorySettings, embedder: Embedder | None = None) -> None:
        self.settings = settings
        self.postings = Postings()
        self.degraded = ""
        self._names: list[tuple[str, tuple[str, ...]]] | None = None
        self._years: tuple[int, ...] = ()
        self._superseded: dict[tuple[int, int], int] = {}

    @property
    def identity(self) -> tuple[str, str]:
        """Return provider and model of the vectors in use."""
        return "none", ""

    def forget(self) -> None:
        """Drop all that was learned about an index that is now different."""
        self.postings.clear()
        self._names = None

    def embed(self, conn: sqlite3.Connection, now_ms: int, progress: Progress | None, *, quick: bool = False) -> None:
        """Bring vectors in line with the lines; `quick` does only what a search can wait for."""

    def answer(self, conn: sqlite3.Connection, request: Request) -> Answer:
        """Return the hits for a question."""
        ranked = self.rank(conn, request)
        texts = _Texts(conn)
        files = read_files(conn, {row.file for row in ranked.rows})
        order = self._admitted(ranked, request, files, texts)
        packer = Packer(ranked.rows, texts.get, k=request.limit, budget=request.budget or UNBOUNDED)
        texts.prefetch([ranked.rows[index].id for index in order[: 4 * request.limit + 20]])
        # Without a budget only lines that compete for a place may join a range.
        packer.fill(order if request.budget is not None else order[: 2 * request.limit])
        if request.budget is not None and not (request.entities or request.kinds or request.sources):
            packer.surround({row.id: index for index, row in enumerate(ranked.rows)}, ranked.scores)
        strength = self._strength(ranked)
        hits = tuple(self._hit(ranked, group, files, texts, strength) for group in packer.ranges)
        return Answer(hits=hits, mode="lexical", tokens=packer.spent, degraded=self.degraded)

    def ranking(self, conn: sqlite3.Connection, request: Request) -> tuple[Hit, ...]:
        """Return the best lines one by one."""
        ranked = self.rank(conn, request)
        texts = _Texts(conn)
        order = ranked.order[: request.limit]
        texts.prefetch([ranked.rows[index].id for index in order])
        files = read_files(conn, {ranked.rows[index].file for index in order})
        strength = self._strength(ranked)
        return tuple(self._hit(ranked, Range(ranked.rows[i].file, i, [i], []), files, texts, strength) for i in order)

    def rank(self, conn: sqlite3.Connection, request: Request) -> Ranked:
        """Return every candidate of a question with its signals."""
        query = self.analyse(conn, request)
        filters = Filters(
            since=request.since,
            until=request.until,
            as_of=request.as_of,
            kinds=kind_names(request.kinds),
            superseded=self._superseded,
        )
        return rank(conn, self.postings, query, filters)

    def analyse(self, conn: sqlite3.Connection, request: Request) -> Query:
        """Take the question apart with the names and years that this index knows."""
        if self._names is None:
            self._names = _names(conn)
            rows = conn.execute("SELECT DISTINCT day FROM files WHERE day IS NOT NULL")
            self._years = tuple(sorted({date.fromordinal(row[0]).year for row in rows}))
            self._superseded = _superseded(conn)
        return analyse(
            request.text, today=request.today, years=self._years, names=self._names, entities=request.entities
        )

    def _admitted(self, ranked: Ranked, request: Request, files: dict[int, FileRow], texts: _Texts) -> list[int]:
        """Return the candidates that may be shown, best first: sources, entities, the quota and the least score."""
        order = ranked.order
        if request.sources:
            order = [index for index in order if files[ranked.rows[index].file].source in request.sources]
        if request.entities:
            order = _about(ranked, order, request.entities, texts)
        covered = ranked.columns["covered"]
        order = [index for index in order if ranked.rows[index].kind != "heading" or covered[index] >= 0.5]
        if request.budget is None:
            order = self._strong_enough(ranked, _speaking(ranked, order), request)
        return _quota(ranked, order, files, request.limit, self.settings.query.sessions_share)

    def _strong_enough(self, ranked: Ranked, order: list[int], request: Request) -> list[int]:
        least = request.min_score if request.min_score is not None else self.settings.query.min_score
        strength = self._strength(ranked)
        covered = ranked.columns["covered"]
        kept = [index for index in order if strength[index] >= least or covered[index] >= 0.999]
        if kept or request.min_score is not None:
            return kept
        return [index for index in order if covered[index] > 0]  # better a weak keyword match than silence

    def _strength(self, ranked: Ranked) -> list[float]:
        """Return scores that mean the same for every question: how much of it a line and its neighbours answer."""
        top = max((ranked.scores[index] for index in ranked.order[:1]), default=0.0)
        if top <= 0:
            return [0.0] * len(ranked.rows)
        near = ranked.columns["near"]
        best = max(near[index] for index in ranked.order[:5])
        return [
            max(0.0, min(1.0, (close + best * score / top) / 2))
            for score, close in zip(ranked.scores, near, strict=True)
        ]

    def _hit(
        self, ranked: Ranked, group: Range, files: dict[int, FileRow], texts: _Texts, strength: list[float]
    ) -> Hit:
        rows = [ranked.rows[index] for index in group.members]
        best = ranked.rows[group.best]
        file = files[best.file]
        shown = [excerpt(texts.get(row.id), ranked.query.terms) for row in rows]
        why = tuple(f"{LABELS.get(name, name)} {value:+.2f}" for name, value in ranked.reasons(group.best, WEIGHTS)[:6])
        also = tuple(
            cite(files[row.file].path, row.line, row.line) for row in (ranked.rows[index] for index in group.also)
        )
        return Hit(
            path=file.path,
            start_line=min(row.line for row in rows),
            end_line=max(row.line for row in rows),
            score=round(strength[group.best], 4),
            text="\n".join(shown),
            kind=best.kind,
            timestamp=_timestamp(best),
            entities=_entities(rows),
            why=why,
            source=file.source,
            text_score=round(ranked.columns["near"][group.best], 4),
            also=also,
        )

    def explain(self, conn: sqlite3.Connection, request: Request, citation: str) -> Explanation:
        """Say how a line was scored."""
        path, _, anchor = citation.partition("#L")
        number = int(anchor.split("-")[0]) if anchor.split("-")[0].isdigit() else 1
        row = conn.execute(
            "SELECT lines.id, lines.text FROM lines JOIN files ON files.id = lines.file WHERE files.path = ? AND line = ?",
            (path, number),
        ).fetchone()
        ranked = self.rank(conn, request)
        at = {candidate.id: index for index, candidate in enumerate(ranked.rows)}
        index = at.get(row[0]) if row else None
        parts: tuple[tuple[str, float, float], ...] = ()
        if index is not None:
            parts = tuple((name, ranked.columns[name][index], value) for name, value in ranked.reasons(index, WEIGHTS))
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


class _Texts:
    """Texts of lines, read in groups and once."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn
        self._known: dict[int, str] = {}

    def prefetch(self, ids: Sequence[int]) -> None:
        missing = [number for number in ids if number not in self._known]
        self._known.update(read_texts(self._conn, missing))

    def get(self, number: int) -> str:
        if number not in self._known:
            self.prefetch([number])
        return self._known[number]


def _names(conn: sqlite3.Connection) -> list[tuple[str, tuple[str, ...]]]:
    """Return the names the index knows, the frequent ones first, and the aliases of entity pages."""
    import json

    aliases = {
        name: tuple(json.loads(given)) for name, given in conn.execute("SELECT name, aliases FROM entities").fetchall()
    }
    rows = conn.execute("SELECT name, sum(lines) FROM names GROUP BY name ORDER BY 2 DESC LIMIT 5000")
    found = [(name, aliases.pop(name, ())) for name, _ in rows]
    return found + list(aliases.items())


def _superseded(conn: sqlite3.Connection) -> dict[tuple[int, int], int]:
    """Return which lines a later fact replaced, and on which day; by id (`^abc`) or by citation (`path#L12`)."""
    found: dict[tuple[int, int], int] = {}
    for reference, day in conn.execute("SELECT supersedes, mentioned_on FROM facts WHERE supersedes != ''").fetchall():
        if reference.startswith("^"):
            rows = conn.execute("SELECT file, line FROM facts WHERE id = ?", (reference[1:],))
        else:
            path, _, line = reference.partition("#L")
            number = int(line.split("-")[0]) if line.split("-")[0].isdigit() else 0
            rows = conn.execute("SELECT id, ? FROM files WHERE path = ?", (number, path))
        for key in rows:
            found[key] = min(found.get(key, 1 << 40), day or 0)
    return found


def _speaking(ranked: Ranked, order: list[int]) -> list[int]:
    """Keep lines that say something of their own: a word asked for, an answer to a question just before, a day asked for."""
    covered, answer, dates = ranked.columns["covered"], ranked.columns["answer"], ranked.columns["date"]
    return [index for index in order if covered[index] > 0 or answer[index] >= 0.5 or dates[index] >= 0.9]


def _about(ranked: Ranked, order: list[int], entities: tuple[str, ...], texts: _Texts) -> list[int]:
    """Keep lines that name, are linked to, or were said by one of the entities asked for."""
    wanted = [plain(name.removeprefix("@")) for name in entities]
    texts.prefetch([ranked.rows[index].id for index in order])

    def named(row: Row) -> bool:
        said = plain(" ".join((texts.get(row.id), row.speaker, row.entities.replace("\x1f", " "))))
        return any(name in said for name in wanted)

    return [index for index in order if named(ranked.rows[index])]


def _quota(ranked: Ranked, order: list[int], files: dict[int, FileRow], limit: int, share: float) -> list[int]:
    """Let transcripts fill at most their share of the first places, as long as notes have something to say."""
    if not any(file.source == "sessions" for file in files.values()):
        return order
    allowed = max(1, round(limit * share))
    notes = [index for index in order if files[ranked.rows[index].file].source != "sessions"]
    if not notes:
        return order
    taken = 0
    first: list[int] = []
    later: list[int] = []
    for index in order:
        if files[ranked.rows[index].file].source == "sessions":
            taken += 1
            (first if taken <= allowed else later).append(index)
        else:
            first.append(index)
    return first + later


def _timestamp(row: Row) -> str | None:
    if row.kind in {"world", "experience", "opinion", "observation"} and row.first and row.last:
        first, last = date.fromordinal(row.first).isoformat(), date.fromordinal(row.last).isoformat()
        return first if first == last else f"{first}..{last}"
    return date.fromordinal(row.day).isoformat() if row.day else None


def _entities(rows: Sequence[Row]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for row in rows:
        found.update(dict.fromkeys(name for name in row.entities.split("\x1f") if name))
        if row.speaker:
            found[row.speaker] = None
    return tuple(found)
