"""The fused ranking: candidates, their signals, a weighted sum of fixed weights (docs/memory-ranking.md says whence).

Then which of the ranked lines may be shown and in what order: quotas, value for money; and the facts that a hit states.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date
from functools import partial
from itertools import islice
from math import log
from typing import TYPE_CHECKING, Literal, TypeVar

from msgspec import Struct, structs

from homarus.memory import signals
from homarus.memory.bank.categories import asked_for
from homarus.memory.bank.claims import claims, gives_up, replaced
from homarus.memory.candidates import KEEP, LINE_COLUMNS, LineCache, LineRow, Pool, Postings, gather, idf
from homarus.memory.note_parser import body_of
from homarus.memory.pack import cost
from homarus.memory.query import Query
from homarus.memory.results import parse_citation
from homarus.memory.schema import LABELS, QUESTION, RETAIN, STRUCK
from homarus.memory.terms import match_expression, plain

if TYPE_CHECKING:
    from homarus.memory.line_vectors import Vectors

T = TypeVar("T")
Kind = Literal["words", "static", "lines", "model"]  # alone, static word vectors, one vector a line, a sentence model
KINDS_OF_VECTORS: tuple[Kind, ...] = ("words", "static", "lines", "model")
# What a token costs: lines are packed by score minus this much per e-fold of their length.
PRICE = 0.25
# Fitted on conversations that were left out one by one, then rounded (docs/memory-ranking.md); one column per kind.
FITTED: Mapping[str, tuple[float, float, float, float]] = {
    "word": (0.50, 0.0, 0.0, 0.0),
    "window": (0.70, 0.55, 0.55, 0.65),
    "near": (0.40, 0.0, 0.60, 0.0),
    "pair": (0.15, 0.20, 0.20, 0.15),
    "soft": (0.0, 0.60, 0.0, 0.65),
    "vector": (0.0, 0.50, 0.75, 0.50),
    "vectors": (0.0, 0.45, 0.70, 0.55),
    "sentence": (0.0, 0.0, 0.0, 0.45),
    "name": (0.35, 0.35, 0.45, 0.45),
    "own": (0.35, 0.25, 0.15, 0.15),
    "date": (1.30, 1.30, 1.30, 1.30),
    "when": (0.50, 0.50, 0.50, 0.50),
    "number": (0.35, 0.35, 0.35, 0.35),
    "proper": (0.30, 0.30, 0.25, 0.25),
    "answer": (0.60, 0.30, 0.25, 0.35),
    "day": (0.50, 0.40, 0.30, 0.30),
    "length": (0.50, 0.30, 0.40, 0.15),
    "kind": (0.80, 0.55, 0.55, 0.55),
    "related": (0.70, 0.80, 0.70, 0.30),
    "question": (-0.10, -0.10, -0.10, -0.15),
}
# What no conversation can teach; each touches only notes that have such lines.
SET_BY_HAND = {
    "mention": 0.3,
    "above": 0.3,
    "heading": -0.5,
    "exact": 2.0,
    "superseded": -0.6,
    "recent": 0.1,
}


def table(kind: Kind) -> Mapping[str, float]:
    """Return the weights for what there is to rank with."""
    at = KINDS_OF_VECTORS.index(kind)
    return SET_BY_HAND | {name: row[at] for name, row in FITTED.items() if row[at]}


LATER = date.max.toordinal()
COMPARED = 40  # of the best lines, among which newer ones replace older ones
QUOTED = 4  # words of a question that all stand in a line
RIVAL = 0.25  # share of the better one's score from which a line takes part in this
BESIDE = 0.02  # how close to the better one the other of two such lines is put


class Filters(Struct, frozen=True):
    """Hard limits that the caller asked for. Nothing else ever removes a line."""

    since: date | None = None
    until: date | None = None
    as_of: date | None = None
    kinds: frozenset[str] = frozenset()
    superseded: dict[tuple[int, int], int] = {}  # (file, line) -> the day on which a later fact replaced it

    def kept(self, rows: list[LineRow]) -> list[LineRow]:
        if self.kinds or self.since or self.until or self.as_of:
            return [row for row in rows if self.keeps(row)]
        return [row for row in rows if row.kind != "path"]

    def keeps(self, row: LineRow) -> bool:
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
    rows: list[LineRow]
    columns: signals.Columns
    scores: list[float]
    order: list[int]
    pool: Pool
    weights: Mapping[str, float]
    replaced: dict[int, int] = {}  # which line says something newer about the same matter
    keep: int = KEEP  # lines that were looked for; the others are their neighbours

    def reasons(self, index: int) -> list[tuple[str, float]]:
        """Return what each signal added to a line's score, the strongest first."""
        weights = self.weights
        parts = [(name, weights[name] * column[index]) for name, column in self.columns.items() if name in weights]
        return sorted([part for part in parts if abs(part[1]) >= 0.005], key=lambda part: -abs(part[1]))


class Caches(Struct):
    """What one state of an index was asked for before."""

    postings: Postings
    lines: LineCache

    def clear(self) -> None:
        self.postings.clear()
        self.lines.clear()


def rank(
    conn: sqlite3.Connection,
    known: Caches,
    query: Query,
    filters: Filters,
    *,
    vectors: Vectors | None = None,
    keep: int = KEEP,
) -> Ranked:
    """Score the candidates of a query with everything there is; without vectors by words, names, dates and intents."""
    postings, lines = known.postings, known.lines
    asked = vectors.propose(conn, query, keep) if vectors else None
    things = {term: postings.matter(conn, f"{term} <", those) for term, those in query.things.items()}
    matters = {term: postings.matter(conn, term, others) for term, others in query.related.items()}
    extra = list(asked.nearest if asked else ())
    for found, most in ((things, keep), (matters, keep // 4)):
        for lines_of_matter in found.values():
            extra += islice(lines_of_matter, most // len(found))
    pool = gather(conn, postings, query, kinds=filters.kinds, extra=extra, keep=keep)
    rows = filters.kept(lines.rows(conn, pool.ids))
    average = postings.average(conn)
    above = lines.above(conn, {row.head for row in rows if row.head is not None})
    columns = signals.lexical(query, rows, pool, average, above)
    columns["name"] = signals.names(query, rows, pool, postings.lines)
    columns["mention"] = signals.mentions(query, rows, pool, postings.lines)
    columns["date"] = signals.dates(query, rows)
    rarest = idf(0, postings.lines)
    columns["kind"] = signals.kinds(query, rows, things, rarest)
    columns["related"] = signals.related(query, rows, pool, matters, rarest)
    columns["recent"] = signals.recent(query, rows)
    columns |= signals.shape(query, rows, columns["name"])
    columns |= signals.support(rows, columns["word"], columns["covered"])
    columns["exact"] = signals.exact(query, rows, columns["covered"], partial(lines.texts, conn))
    gone = [bool(row.flags & STRUCK) or (row.file, row.line) in filters.superseded for row in rows]
    if any(gone):
        columns["superseded"] = [float(one) for one in gone]
    if vectors and asked:
        columns |= vectors.columns(conn, query, asked, rows, postings)
    if "together" in columns:
        columns |= signals.alone(columns)
    weights = table(vectors.kind if vectors and "vector" in columns else "words")
    scores = combine(columns, weights, len(rows))
    order = _ordered(scores)
    later, told = _replaced(rows, order[:COMPARED], lines.texts(conn, [rows[at].id for at in order[:COMPARED]]))
    if len(query.core) >= QUOTED:  # who types so many words of a line means that line
        later = {older: newer for older, newer in later.items() if columns["covered"][older] < 0.999}
    if later:
        _prefer_newer(query, scores, later, told)
        order = _ordered(scores)
    return Ranked(query, rows, columns, scores, order, pool, weights, later, keep)


def _ordered(scores: list[float]) -> list[int]:
    return sorted(range(len(scores) - 1, -1, -1), key=scores.__getitem__, reverse=True)  # of equal ones the newer first


def _replaced(rows: list[LineRow], lead: Sequence[int], texts: Mapping[int, str]) -> tuple[dict[int, int], set[int]]:
    """Return which of the best lines a later one of them replaces: same subject and attribute, another value.

    Also those of which the later line itself says what it replaces ("switched from tea to coffee").
    """
    dated = []
    for at in lead:
        row = rows[at]
        text = texts[row.id]
        plain_text = body_of(text) if row.speaker else text.partition(": ")[2] or text if row.flags & RETAIN else text
        speaker = "" if plain(row.speaker) in LABELS else row.speaker
        linked = [name for name in row.entities.split("\x1f") if name]
        usable = row.day and row.kind not in {"heading", "path"} and not row.flags & (QUESTION | STRUCK)
        dated.append((row.day or 0, claims(plain_text, linked, speaker, loose=not speaker) if usable else ()))
    found = replaced(dated)
    told = {lead[older] for older, newer in found.items() if gives_up(dated[newer][1], dated[older][1])}
    return {lead[older]: lead[newer] for older, newer in found.items()}, told


def _prefer_newer(query: Query, scores: list[float], later: Mapping[int, int], told: Collection[int]) -> None:
    """Put the newer of two lines first where a question is about now; where it asks what changed, bring both.

    One that says what it replaces need not share a word with the question, which asks in those of the older one.
    """
    for older, newer in later.items():
        high, low = max(scores[older], scores[newer]), min(scores[older], scores[newer])
        if query.has("changes"):
            scores[older], scores[newer] = max(scores[older], high - BESIDE), max(scores[newer], high - BESIDE)
        elif (older in told or low >= RIVAL * high) and not query.has("history") and not query.spans:
            # The newer one goes before the older one, which keeps its place: that one replaces the other is only inferred.
            scores[newer], scores[older] = high, min(scores[older], high - BESIDE)


def combine(columns: signals.Columns, table: Mapping[str, float], count: int) -> list[float]:
    totals = [0.0] * count
    for name, column in columns.items():
        weight = table.get(name, 0.0)
        if weight and any(column):
            totals = [total + weight * value for total, value in zip(totals, column, strict=True)]
    return totals


MEANT = 0.35  # cosine from which a line without any word in common still speaks to the question


class Texts:
    def __init__(self, conn: sqlite3.Connection, lines: LineCache) -> None:
        self._conn = conn
        self._lines = lines
        self._known: dict[int, str] = {}

    def prefetch(self, ids: Sequence[int]) -> None:
        missing = [number for number in ids if number not in self._known]
        self._known.update(self._lines.texts(self._conn, missing))

    def get(self, number: int) -> str:
        if number not in self._known:
            self.prefetch([number])
        return self._known[number]


def known_names(conn: sqlite3.Connection) -> tuple[list[tuple[str, tuple[str, ...]]], dict[str, int]]:
    """Return the names the index knows, the frequent ones first, with the aliases of entity pages; and the lines of each.

    A name that only has a page, and on it no other name, is looked for as any word is: that a bank was made changes no ranking.
    """
    import json

    aliases = {
        name: tuple(json.loads(given)) for name, given in conn.execute("SELECT name, aliases FROM entities").fetchall()
    }
    counts = dict(
        conn.execute("SELECT name, sum(lines) FROM names GROUP BY name ORDER BY 2 DESC LIMIT 5000").fetchall()
    )
    found = [(name, aliases.pop(name, ())) for name in counts]
    return found + [(name, others) for name, others in aliases.items() if others], counts


def by_value(ranked: Ranked, order: list[int], texts: Texts) -> list[int]:
    """Return lines by what they bring for what they cost: a long line must be better than a short one."""
    lead = order[: ranked.keep]
    texts.prefetch([ranked.rows[index].id for index in lead])
    value = {index: ranked.scores[index] - PRICE * log(cost(texts.get(ranked.rows[index].id))) for index in lead}
    for older, newer in ranked.replaced.items():  # what replaced another line goes before it, whatever it costs
        if older in value and newer in value and ranked.scores[newer] > ranked.scores[older]:
            value[newer] = max(value[newer], value[older] + 1e-6)
    return sorted(lead, key=lambda index: -value[index]) + order[ranked.keep :]


KIND = 0.9  # how far a thing of the kind asked for stands for the word: "takes coffee" answers what somebody drinks


def confidence(ranked: Ranked) -> float:
    """Return how likely the question is answered: how much of it stands in lines of the one it is about.

    The words of a question often stand somewhere, said of somebody else: so only lines that belong to whom it names count.
    """
    lead, columns = ranked.order[:10], ranked.columns
    if not lead:
        return 0.0
    whose = "name" if ranked.query.names or ranked.query.subject else "mention" if ranked.query.called else ""
    own = [at for at in lead if not whose or columns[whose][at] > 0]
    core = [posting for posting in ranked.pool.postings if posting.term in ranked.query.core]
    total = sum(posting.idf for posting in core) + ranked.pool.absent or 1.0
    # That the name itself stands there says nothing about what is asked of it.
    share = sum(posting.idf for posting in core if whose and posting.term in ranked.query.called) / total

    def beyond(covered: float) -> float:
        return max(0.0, covered - share) / (1 - share) if share < 0.99 else covered

    best = beyond(columns["near"][lead[0]]) if lead[0] in own else 0.0
    meant = max([columns["cosine"][at] for at in own if "cosine" in columns and at == lead[0]], default=0.0)
    said = max([beyond(columns["covered"][at]) for at in own], default=0.0)
    held = any(columns["kind"][at] > 0 for at in own)
    kind = KIND * beyond(share + _named_kinds(ranked, {one.term: one.idf for one in core}, total)) if held else 0.0
    return min(1.0, max(meant, 0.0) * 0.5 + max(kind, (best + said) / 2))


def _named_kinds(ranked: Ranked, listed: Mapping[str, float], total: float) -> float:
    """Return how much of a question are words for a kind of thing ("which drinks"): a thing of that kind stands for them."""
    absent = [term for term in ranked.query.core if term not in listed]
    each = ranked.pool.absent / len(absent) if absent else 0.0
    return sum(listed.get(term, each) for term in ranked.query.core if asked_for(term)) / total


PASSAGES, SHARE = 8, 0.7  # chunks that are looked at, and the share of the budget that goes to them


def with_passages(
    conn: sqlite3.Connection, ranked: Ranked, order: list[int], budget: int, filters: Filters
) -> tuple[Ranked, list[int]]:
    """Put whole passages before single lines: a summary, or an order of events, is in what stands between the best lines."""
    expression = " OR ".join(f"({match_expression(term)})" for term in ranked.query.core)
    found = conn.execute(
        "SELECT f.id, c.start_line, c.end_line FROM chunks_fts JOIN chunks c ON c.rowid = chunks_fts.rowid"
        " JOIN files f USING(source, path) WHERE chunks_fts MATCH ? ORDER BY rank LIMIT ?",
        (expression, PASSAGES),
    ).fetchall()
    rows, at = list(ranked.rows), {row.id: index for index, row in enumerate(ranked.rows)}
    lead: dict[int, None] = {}
    spent = 0
    for file, first, last in found:
        lines = conn.execute(
            f"SELECT {LINE_COLUMNS}, text FROM lines WHERE file = ? AND line BETWEEN ? AND ? ORDER BY id",  # noqa: S608
            (file, first, last),
        )
        for *values, text in lines:
            row = LineRow(*values)
            spent += cost(text)
            if spent <= SHARE * budget and row.kind not in {"heading", "path"} and filters.keeps(row):
                if row.id not in at:
                    at[row.id] = len(rows)
                    rows.append(row)
                lead[at[row.id]] = None
    more = [0.0] * (len(rows) - len(ranked.rows))
    columns = {name: [*column, *more] for name, column in ranked.columns.items()}
    wide = structs.replace(ranked, rows=rows, columns=columns, scores=[*ranked.scores, *more])
    return wide, [*lead, *(index for index in order if index not in lead)]


def superseded_lines(conn: sqlite3.Connection) -> dict[tuple[int, int], int]:
    """Return which lines a later fact replaced, and on which day; by id (`^abc`) or by citation (`path#L12`)."""
    found: dict[tuple[int, int], int] = {}
    named = conn.execute("SELECT supersedes, mentioned_on FROM facts WHERE supersedes != ''").fetchall()
    for reference, day in ((one, day) for given, day in named for one in given.split("+") if one):
        if reference.startswith("^"):
            rows = conn.execute("SELECT file, line FROM facts WHERE id = ?", (reference[1:],))
        else:
            path, number, _ = parse_citation(reference)
            rows = conn.execute("SELECT id, ? FROM files WHERE path = ?", (number or 0, path))
        for key in rows:
            found[key] = min(found.get(key, 1 << 40), day or 0)
    return found


def speaking(ranked: Ranked, order: list[int]) -> list[int]:
    """Keep lines that say something of their own: a word, a name or a day asked for, an answer to a question just before."""
    columns = ranked.columns
    meant = columns.get("cosine", [0.0] * len(ranked.rows))
    return [
        index
        for index in order
        if columns["covered"][index] > 0
        or columns["name"][index] > 0
        or columns["answer"][index] >= 0.5
        or columns["date"][index] >= 0.9
        or meant[index] >= MEANT
    ]


def about(ranked: Ranked, order: list[int], entities: tuple[str, ...], texts: Texts) -> list[int]:
    """Keep lines that name, are linked to, or were said by one of the entities asked for."""
    wanted = [plain(name.removeprefix("@")) for name in entities]
    texts.prefetch([ranked.rows[index].id for index in order])

    def named(row: LineRow) -> bool:
        said = plain(" ".join((texts.get(row.id), row.speaker, row.entities.replace("\x1f", " "))))
        return any(name in said for name in wanted)

    return [index for index in order if named(ranked.rows[index])]


def quota(order: list[T], is_talk: Callable[[T], bool], limit: int, share: float) -> list[T]:
    """Let transcripts fill at most their share of the first places, as long as notes have something to say."""
    allowed = max(1, round(limit * share))
    first: list[T] = []
    later: list[T] = []
    for item in order:
        over = is_talk(item) and (allowed := allowed - 1) < 0
        (later if over else first).append(item)
    return first + later


def timestamp_of(row: LineRow) -> str | None:
    """Return the day of a line, or the range that a retained fact holds for."""
    if row.kind in {"world", "experience", "opinion", "observation"} and row.first and row.last:
        first, last = date.fromordinal(row.first).isoformat(), date.fromordinal(row.last).isoformat()
        return first if first == last else f"{first}..{last}"
    return date.fromordinal(row.day).isoformat() if row.day else None


def entities_of(rows: Sequence[LineRow]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for row in rows:
        found.update(dict.fromkeys(name for name in row.entities.split("\x1f") if name))
        if row.speaker:
            found[row.speaker] = None
    return tuple(found)
