"""Which lines hold a word: sets from the full-text index, kept while the index stays the same. Scores nothing.

FTS5's own bm25() reads every matching row; sets of line ids are ten times cheaper and also give the neighbourhood of
a line for free, because neighbours have neighbouring ids.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from math import log

from msgspec import Struct

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
