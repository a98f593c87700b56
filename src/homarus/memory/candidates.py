"""Choose the lines worth scoring: those that hold the question's words, their neighbours, the days asked about, typed facts.

Bounded whatever the size of the index: a few hundred lines leave here, and only they are read. Which lines hold a word is
kept as sets of ids: FTS5's own bm25() reads every matching row; sets are ten times cheaper, and neighbours of a line have
neighbouring ids.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import chain, filterfalse, islice
from math import log

from msgspec import Struct

from homarus.memory.query import Query
from homarus.memory.terms import match_expression, stem
from homarus.storage.cache import BoundedCache

HEAVY = 20_000  # a word in more lines than this is looked up around candidates only
LEAST_PREFIX = 4  # letters of a word that longer ones are looked for with
KEPT_IDS = 400_000  # ids in memory over all words, about 28 MB


class Posting(Struct):
    """The lines of one word. `ids` is None for a heavy word, whose `count` is then an estimate."""

    term: str
    count: int
    ids: frozenset[int] | None
    order: list[int] = []  # the same, rising: newer lines last
    idf: float = 0.0
    weak: bool = False  # not the word itself, but longer ones that begin with it


class Postings:
    """Looks words up in one state of one index. Make a new one, or `clear`, when the index changed."""

    def __init__(self) -> None:
        self._cache: BoundedCache[str, Posting] = BoundedCache(4096, KEPT_IDS, lambda p: len(p.ids or ()) + 50)
        self.lines = 0
        self.words = 0
        self.highest = 0

    def clear(self) -> None:
        """Forget everything: ids may mean other lines now."""
        self._cache.clear()
        self.lines = 0

    def measure(self, conn: sqlite3.Connection) -> None:
        """Read the size of the index once per state of it."""
        if not self.lines:
            row = conn.execute("SELECT sum(lines), sum(words), max(last_id) FROM files").fetchone()
            self.lines, self.words, self.highest = row[0] or 0, row[1] or 0, row[2] or 0

    def look_up(self, conn: sqlite3.Connection, terms: Iterable[str]) -> list[Posting]:
        """Return one posting per distinct word; two forms of one stem count once, absent words not at all.

        Where no word of a question stands anywhere, longer words that begin with one are better than nothing.
        """
        self.measure(conn)
        terms = list(terms)
        return self._find(conn, terms) or self._find(conn, [f"{term}*" for term in terms if len(term) >= LEAST_PREFIX])

    def _find(self, conn: sqlite3.Connection, terms: Iterable[str]) -> list[Posting]:
        found: list[Posting] = []
        seen: set[tuple[str, int]] = set()
        for term in terms:
            posting = self._cache.get(term)
            if posting is None:
                posting = self._read(conn, term)
                self._cache.put(term, posting)
            if not posting.count:
                continue
            identity = (stem(term), posting.count)
            if identity not in seen:
                seen.add(identity)
                found.append(posting)
        return found

    def weight(self, term: str) -> float:
        """Return the rarity of a word that was looked up before; one that is not there counts as the rarest."""
        posting = self._cache.get(term)
        return posting.idf if posting is not None and posting.count else idf(0, self.lines)

    def _read(self, conn: sqlite3.Connection, term: str) -> Posting:
        weak = term.endswith("*")
        expression = f'"{term[:-1]}"*' if weak else match_expression(term)
        try:
            rows = conn.execute(
                "SELECT rowid FROM lines_fts WHERE lines_fts MATCH ? ORDER BY rowid LIMIT ?",
                (expression, HEAVY + 1),
            ).fetchall()
        except sqlite3.OperationalError:
            return Posting(term, 0, frozenset())  # a word that the index's tokenizer sees as several
        if len(rows) <= HEAVY:
            order = [row[0] for row in rows]
            posting = Posting(term, len(order), frozenset(order), order)
        else:
            spread = max(1, rows[-1][0] - rows[0][0])
            posting = Posting(term, min(self.lines, HEAVY * max(spread, self.highest) // spread), None)
        posting.idf = idf(posting.count, self.lines)
        if weak:
            posting.term, posting.weak, posting.idf = term[:-1], True, posting.idf / 2
        return posting

    def around(self, conn: sqlite3.Connection, posting: Posting, ids: Iterable[int], reach: int = 2) -> frozenset[int]:
        """Return where a heavy word stands within `reach` of these lines."""
        found: set[int] = set()
        expression = match_expression(posting.term)
        for low, high in _ranges(sorted(ids), reach):
            rows = conn.execute(
                "SELECT rowid FROM lines_fts WHERE lines_fts MATCH ? AND rowid BETWEEN ? AND ?", (expression, low, high)
            )
            found.update(row[0] for row in rows)
        return frozenset(found)

    def together(self, conn: sqlite3.Connection, postings: list[Posting], limit: int) -> list[int]:
        """Return lines that hold all of these words; the merge happens inside the index."""
        expression = " AND ".join(f"({match_expression(posting.term)})" for posting in postings)
        rows = conn.execute("SELECT rowid FROM lines_fts WHERE lines_fts MATCH ? LIMIT ?", (expression, limit))
        return [row[0] for row in rows]


def idf(count: int, total: int) -> float:
    """Return how much a word tells: much when it is rare. Never negative."""
    return log(1 + (max(total, count) - count + 0.5) / (count + 0.5))


def _ranges(ids: list[int], reach: int) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for number in ids:
        if merged and number - reach <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], number + reach)
        else:
            merged.append((number - reach, number + reach))
    return merged


OPEN = 4  # times `keep`: from so many candidates on, more common words open no new ones
KEEP = 400  # lines by their own words, for an answer of many lines; a short answer needs fewer
FEW = 8  # words up to which lines are grouped by the words they hold, rather than added up one by one
DAYS = 400  # lines of the days asked about
TYPED = 200  # retained facts, when kinds or preferences are asked for

Light = list[tuple[frozenset[int], float]]  # lines and weight of each word that is not heavy, the rarest first


class Pool(Struct):
    """The candidates of one query and where its words stand."""

    ids: list[int]
    postings: list[Posting]
    sets: list[frozenset[int]]  # per posting: lines that hold it, complete around every candidate
    absent: float = 0.0  # weight of the words that stand in no line at all


def gather(
    conn: sqlite3.Connection,
    postings: Postings,
    query: Query,
    *,
    kinds: frozenset[str] = frozenset(),
    extra: Iterable[int] = (),
    keep: int = KEEP,
) -> Pool:
    """Return the candidates of a query; `extra` are ids that another signal, such as vectors, proposes."""
    found = postings.look_up(conn, query.terms)
    chosen = _by_words(conn, postings, found, keep)
    spread = set(chosen)
    for number in chosen[: keep // 2]:  # the better half brings its neighbours
        spread.update((number - 2, number - 1, number + 1, number + 2))
    spread.update(extra)
    spread.update(_by_day(conn, query, min(DAYS, keep)))
    if kinds or query.has("preference"):
        spread.update(_typed(conn, kinds))
    ids = sorted(spread)
    sets = [posting.ids if posting.ids is not None else postings.around(conn, posting, ids) for posting in found]
    known = {stem(posting.term) for posting in found if not posting.weak}
    absent = sum(stem(term) not in known for term in query.core) * idf(0, postings.lines)
    return Pool(ids, found, sets, absent)


def _by_words(conn: sqlite3.Connection, postings: Postings, found: Sequence[Posting], keep: int) -> list[int]:
    """Return the lines with the heaviest words, best first."""
    listed = [p for p in sorted(found, key=lambda p: p.count) if p.ids is not None]
    light = [(p.ids, p.idf) for p in listed if p.ids is not None]
    groups: Iterable[tuple[float, list[int]]] | None = _crowd(light, [p.order for p in listed], keep)
    if groups is None:
        pool = _most_words(light, keep)
        heavy = sorted((p for p in found if p.ids is None), key=lambda p: p.count)
        few = len(pool) < keep
        groups = ((total, sorted(group)) for total, group in _grouped(pool, light))
        if heavy and few:
            scores = {number: total for total, group in groups for number in group}
            _add_heavy(conn, postings, found, heavy, scores)
            return sorted(scores, key=scores.__getitem__, reverse=True)[:keep]
    return list(islice(chain.from_iterable(group for _, group in groups), keep))


def _crowd(light: Light, orders: list[list[int]], keep: int) -> list[tuple[float, list[int]]] | None:
    """Return what `_most_words` and `_grouped` would, where many lines hold a common word together with all commoner ones.

    Only the newest of these are needed, and they are found without a look at the others. None where there are too few.
    """
    few: set[int] = set()  # lines with a rarer word
    common, many = 0, OPEN * keep
    while common < len(light) and len(orders[common]) < many and len(few | light[common][0]) < many:
        few |= light[common][0]
        common += 1
    if common == len(light) or len(orders[common]) <= keep:
        return None
    crowd: Iterable[int] = filterfalse(few.__contains__, reversed(orders[common]))
    for ids, _ in light[common + 1 :]:
        crowd = filter(ids.__contains__, crowd)
    newest = list(islice(crowd, keep))
    if len(newest) < keep:
        return None
    held = {number: sum([number in ids for ids, _ in light]) for number in few}
    most = max([len(light) - common, *sorted(held.values(), reverse=True)[keep - 1 : keep]])
    pool = {number for number, words in held.items() if words >= most}
    pool.update(*(ids for ids, _ in light if len(ids) <= keep))
    groups = [(total, sorted(group)) for total, group in _grouped(pool, light)]
    if most == len(light) - common:
        groups.append((sum([weight for _, weight in light[common:]]), newest))
    return sorted(groups, key=lambda part: -part[0])


def _most_words(light: Light, keep: int) -> set[int]:
    """Return the lines with most words, `keep` or more if there are so many, and every line with a rare word."""
    rare: set[int] = set()
    levels: list[set[int]] = [set()]  # lines with at least one of the words, two, three, …
    for ids, _ in light:
        if len(ids) <= keep:
            rare |= ids
        for level in range(len(levels) - 1, -1, -1):
            more = ids & levels[level]
            if more:
                if level + 1 == len(levels):
                    levels.append(set())
                levels[level + 1] |= more
        if len(levels[0]) < OPEN * keep:  # a more common word alone cannot lift a line above those that are there
            levels[0] |= ids
    return next((level for level in reversed(levels) if len(level) >= keep), levels[0]) | rare


def _grouped(pool: set[int], light: Light) -> list[tuple[float, set[int]]]:
    """Return the lines by the sum of their words' weights, the highest first; takes `pool` apart.

    Few words give few sums, and sets are cut in C.
    """
    if len(light) > FEW:
        sums: dict[float, set[int]] = {}
        for number in pool:
            sums.setdefault(sum([weight for ids, weight in light if number in ids]), set()).add(number)
        return sorted(sums.items(), key=lambda part: -part[0])
    groups = [(0.0, pool)]
    for ids, weight in light:
        parts = []
        for total, rest in groups:
            held = rest & ids
            rest -= held
            parts += [part for part in ((total + weight, held), (total, rest)) if part[1]]
        groups = parts
    return sorted(groups, key=lambda part: -part[0])


def _add_heavy(
    conn: sqlite3.Connection,
    postings: Postings,
    found: Sequence[Posting],
    heavy: list[Posting],
    scores: dict[int, float],
) -> None:
    """Add lines that hold several words at once, where every single word is too common to list."""
    ranked = sorted(found, key=lambda p: p.count)
    for size in range(len(ranked), 0, -1):
        group = ranked[:size]
        if not any(posting.ids is None for posting in group):
            break
        total = sum(posting.idf for posting in group)
        for number in postings.together(conn, group, 2 * KEEP):
            scores[number] = max(scores.get(number, 0.0), total)
        if len(scores) >= KEEP:
            return
    if len(scores) < KEEP and len(heavy) > 1:
        for number in postings.together(conn, heavy[:2], KEEP):
            scores.setdefault(number, heavy[0].idf + heavy[1].idf)


def _by_day(conn: sqlite3.Connection, query: Query, most: int) -> list[int]:
    """Return the lines of the days a question names, and a few days after: people write things down later."""
    ids: list[int] = []
    for span in query.spans:
        if span.precision == "open":
            continue
        rows = conn.execute(
            "SELECT first_id, last_id FROM files WHERE day BETWEEN ? AND ? ORDER BY day LIMIT 40",
            (span.first.toordinal() - 1, span.last.toordinal() + 10),
        ).fetchall()
        for first, last in rows:
            ids.extend(range(first + 3, min(last, first + 3 + most) + 1))
            if len(ids) >= most:
                return ids[:most]
    return ids


def _typed(conn: sqlite3.Connection, kinds: frozenset[str]) -> list[int]:
    wanted = sorted(kinds & {"world", "experience", "opinion", "observation"}) or ["opinion"]
    marks = ", ".join("?" * len(wanted))
    rows = conn.execute(
        f"SELECT id FROM lines WHERE kind IN ({marks}) ORDER BY id DESC LIMIT ?",  # noqa: S608 - marks only
        (*wanted, TYPED),
    )
    return [row[0] for row in rows]
