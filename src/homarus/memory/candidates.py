"""Choose the lines worth scoring: those that hold the question's words, their neighbours, the days asked about, typed facts.

Bounded whatever the size of the index: a few hundred lines leave here, and only they are read, as plain values. Which lines hold a
word is kept as sets of ids: FTS5's own bm25() reads every matching row; sets are ten times cheaper, and neighbours of a line have
neighbouring ids.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import log
from typing import Any

from msgspec import Struct, structs

from homarus.memory.query import Query
from homarus.memory.terms import beginning, is_inflected, kernel, match_expression, slips, stem, words
from homarus.storage.cache import BoundedCache

LINE_COLUMNS = "id, file, line, day, first, last, speaker, kind, flags, size, around, head, entities"
_STEP = 500
KEPT = 20_000  # lines in memory, and files; about 9 MB
KEPT_CHARS = 4_000_000  # of their texts
LEVELS = 6  # of headings, counted from a line


class LineRow(Struct):
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
    id: int
    path: str
    source: str
    lines: int
    mtime: float


class LineCache:
    """Lines of one state of an index. Those read before stay in memory while there is room; `clear` when the index changed."""

    def __init__(self) -> None:
        self._rows: dict[int, LineRow | None] = {}
        self._files: dict[int, FileRow] = {}
        self._above: dict[int, tuple[int, ...]] = {}
        self._texts: dict[int, str] = {}
        self._chars = 0

    def clear(self) -> None:
        self._rows.clear()
        self._files.clear()
        self._above.clear()
        self._texts.clear()
        self._chars = 0

    def rows(self, conn: sqlite3.Connection, ids: Sequence[int]) -> list[LineRow]:
        """Return the lines with these ids, in their order; ids without a line are skipped."""
        kept = self._rows
        missing = [number for number in ids if number not in kept]
        if len(kept) + len(missing) > KEPT:
            kept.clear()
            missing = list(ids)
        kept.update(dict.fromkeys(missing))
        find = f"SELECT {LINE_COLUMNS} FROM lines WHERE id IN ({{}})"  # noqa: S608 - constants
        kept.update((row[0], LineRow(*row)) for row in select(conn, find, missing))
        return [row for number in ids if (row := kept[number]) is not None]

    def above(self, conn: sqlite3.Connection, heads: set[int]) -> dict[int, tuple[int, ...]]:
        """Return for each heading itself and those above it, up to the path."""
        kept = self._above
        if missing := heads.difference(kept):
            if len(kept) + len(missing) > KEPT:
                kept.clear()
                missing = heads
            chains: dict[int, tuple[int, ...]] = {head: (head,) for head in missing}
            wanted = missing
            for _ in range(LEVELS - 1):
                found = {row.id: row.head for row in self.rows(conn, sorted(wanted)) if row.head is not None}
                for head, chain in chains.items():
                    if chain[-1] in found:
                        chains[head] = (*chain, found[chain[-1]])
                wanted = set(found.values())
            kept.update(chains)
        return {head: kept[head] for head in heads}

    def texts(self, conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, str]:
        kept = self._texts
        found = {number: kept[number] for number in ids if number in kept}
        if len(found) < len(ids):
            new = read_texts(conn, [number for number in ids if number not in kept])
            self._chars += sum(map(len, new.values()))
            if self._chars > KEPT_CHARS:
                kept.clear()
                self._chars = sum(map(len, new.values()))
            kept.update(new)
            found |= new
        return found

    def files(self, conn: sqlite3.Connection, ids: set[int]) -> dict[int, FileRow]:
        kept = self._files
        missing = ids.difference(kept)
        if len(kept) + len(missing) > KEPT:
            kept.clear()
            missing = ids
        if missing:
            kept.update(read_files(conn, missing))
        return {number: kept[number] for number in ids}


def select(conn: sqlite3.Connection, query: str, ids: Iterable[object], *given: object) -> list[Any]:
    """Run a query that has `{}` where ids go, in steps that SQLite takes."""
    wanted, found = list(ids), []
    for start in range(0, len(wanted), _STEP):
        part = wanted[start : start + _STEP]
        found += conn.execute(query.format(",".join("?" * len(part))), (*given, *part)).fetchall()
    return found


def read_texts(conn: sqlite3.Connection, ids: Iterable[int]) -> dict[int, str]:
    return dict(select(conn, "SELECT id, text FROM lines WHERE id IN ({})", ids))


def read_files(conn: sqlite3.Connection, ids: Iterable[int]) -> dict[int, FileRow]:
    rows = select(conn, "SELECT id, path, source, lines, mtime FROM files WHERE id IN ({})", sorted(set(ids)))
    return {row[0]: FileRow(*row) for row in rows}


HEAVY = 20_000  # a word in more lines than this is looked up around candidates only
LONG = 7  # letters of a word that stands nowhere and is looked for by its beginning
LEAST_PREFIX = 4  # letters of a word that longer ones are looked for with
FORMS = "~"  # behind a word: its forms and compounds count as the word
SLIPS = "?"  # behind a word: words that it may be a slip of the pen for
FORM = 0.6  # what a form, a compound or the word that was meant counts for the word itself
TYPED_TERMS = 24  # words up to which somebody typed them; a longer list was made by a program, and has no slips
LEAST_SLIP, MOST_SLIP = 6, 20  # letters of a word that stands nowhere and may be a slip of the pen
LEAST_PART, LEAST_HEAD, COMPOUNDS = (
    5,
    3,
    30,
)  # letters of a part of a compound and of what stands before it; and how many are looked up
COMMON = 500  # lines from which on another word on the same matter tells too little to be looked at
KEPT_IDS = 400_000  # ids in memory over all words, about 28 MB


class Posting(Struct):
    """The lines of one word. `ids` is None for a heavy word, whose `count` is then an estimate."""

    term: str
    count: int
    ids: frozenset[int] | None
    idf: float = 0.0
    weak: bool = False  # not the word itself, but longer ones that begin with it


class Postings:
    """Looks words up in one state of one index. Make a new one, or `clear`, when the index changed."""

    def __init__(self) -> None:
        self._cache: BoundedCache[str, Posting] = BoundedCache(4096, KEPT_IDS, lambda p: len(p.ids or ()) + 50)
        self._matters: BoundedCache[str, dict[int, float]] = BoundedCache(256, KEPT_IDS, lambda lines: len(lines) + 50)
        self.lines = 0
        self.words = 0
        self.highest = 0
        self._vocabulary = ""  # all words of the index, one a line; read for the first question that needs it

    def clear(self) -> None:
        self._cache.clear()
        self._matters.clear()
        self._vocabulary = ""
        self.lines = 0

    def average(self, conn: sqlite3.Connection) -> float:
        """Return how many words a line has."""
        self.measure(conn)
        return self.words / max(1, self.lines)

    def measure(self, conn: sqlite3.Connection) -> None:
        """Read the size of the index once per state of it."""
        if not self.lines:
            row = conn.execute("SELECT sum(lines), sum(words), max(last_id) FROM files").fetchone()
            self.lines, self.words, self.highest = row[0] or 0, row[1] or 0, row[2] or 0

    def look_up(self, conn: sqlite3.Connection, terms: Iterable[str], *, foreign: bool = False) -> list[Posting]:
        """Return one posting per distinct word; two forms of one stem count once, absent words not at all.

        A word that stands nowhere may be a slip of the pen, or the beginning of a longer one.
        """
        terms = list(terms)
        found = self.find(conn, terms)
        if foreign:
            found += self.find(conn, [f"{term}{FORMS}" for term in terms if is_inflected(term)])
        typed = not foreign and len(terms) <= TYPED_TERMS
        if typed:
            found = self._joined(conn, terms, found)
        known = {posting.term for posting in found}
        missing = [term for term in terms if term not in known]
        slipped = [t for t in missing if LEAST_SLIP <= len(t) <= MOST_SLIP and t.isascii() and t.isalpha()]
        meant = self.find(conn, [f"{term}{SLIPS}" for term in slipped]) if typed else []
        if not found:
            return meant or self.find(conn, [f"{term}*" for term in terms if len(term) >= LEAST_PREFIX])
        long = [term for term in missing if len(term) >= LONG and term.isalpha()]
        return found + meant + self.find(conn, [f"{beginning(term)}*" for term in long])

    def _joined(self, conn: sqlite3.Connection, terms: list[str], found: list[Posting]) -> list[Posting]:
        """Let two neighbours also stand where the notes write them as one word: `icecream` holds `ice` and `cream`."""
        held = {posting.term: posting for posting in found}
        for pair in pairwise(terms):
            whole = next(iter(self.find(conn, ["".join(pair)] if all(map(str.isalpha, pair)) else [])), None)
            if whole is None or whole.ids is None:
                continue
            for term in pair:
                known = held.get(term)
                if known is None:
                    held[term] = structs.replace(whole, term=term)
                elif known.ids is not None:
                    held[term] = structs.replace(known, ids=known.ids | whole.ids)
        return list(held.values())

    def find(self, conn: sqlite3.Connection, terms: Iterable[str]) -> list[Posting]:
        """Return the postings of those words that stand somewhere; two forms of one stem count once."""
        self.measure(conn)
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

    def matter(self, conn: sqlite3.Connection, term: str, others: Iterable[str]) -> dict[int, float]:
        """Return the lines that hold one of these words on the same matter as `term`, the rarest first, and their rarity."""
        self.measure(conn)
        found = self._matters.get(term)
        if found is None:
            held = []
            for one in others:
                expression = " AND ".join(f"({match_expression(part)})" for part in words(one))
                rows = conn.execute(
                    "SELECT rowid FROM lines_fts WHERE lines_fts MATCH ? LIMIT ?", (expression, COMMON + 1)
                ).fetchall()
                if len(rows) <= COMMON:
                    held.append((idf(len(rows), self.lines), [row[0] for row in rows]))
            found = {}
            for rarity, ids in sorted(held, reverse=True):
                for number in ids:
                    found.setdefault(number, rarity)
            self._matters.put(term, found)
        return found

    def weight(self, term: str) -> float:
        """Return the rarity of a word that was looked up before; one that is not there counts as the rarest."""
        posting = self._cache.get(term)
        return posting.idf if posting is not None and posting.count else idf(0, self.lines)

    def _read(self, conn: sqlite3.Connection, term: str) -> Posting:
        weak = term.endswith(("*", FORMS, SLIPS))
        expression = self._forms(conn, term[:-1]) if term.endswith(FORMS) else match_expression(term)
        if term.endswith("*"):
            expression = f'"{term[:-1]}"*'
        elif term.endswith(SLIPS):
            expression = " OR ".join(f'"{word}"' for word in slips(term[:-1]))
        try:
            rows = conn.execute(
                "SELECT rowid FROM lines_fts WHERE lines_fts MATCH ? ORDER BY rowid LIMIT ?",
                (expression, HEAVY + 1),
            ).fetchall()
        except sqlite3.OperationalError:
            return Posting(term, 0, frozenset())  # a word that the index's tokenizer sees as several
        if len(rows) <= HEAVY:
            posting = Posting(term, len(rows), frozenset([row[0] for row in rows]))
        else:
            spread = max(1, rows[-1][0] - rows[0][0])
            posting = Posting(term, min(self.lines, HEAVY * max(spread, self.highest) // spread), None)
        posting.idf = idf(posting.count, self.lines)
        if weak:
            share = 0.5 if term.endswith("*") else FORM
            posting.term, posting.weak, posting.idf = term[:-1], True, posting.idf * share
        return posting

    def _forms(self, conn: sqlite3.Connection, term: str) -> str:
        """Return the expression for what these notes have of a word: with other endings, and behind other letters.

        `bibliothek` also stands in `universitatsbibliothek`: which words hold it is read from the words of the index.
        """
        if not self._vocabulary:
            self._vocabulary = "\n".join(["", *(row[0] for row in conn.execute("SELECT term FROM lines_vocab")), ""])
        part, found, at = kernel(term), [f'"{kernel(term)}"*'], 0
        while len(part) >= LEAST_PART and len(found) < COMPOUNDS and (at := self._vocabulary.find(part, at + 1)) > 0:
            start, end = self._vocabulary.rindex("\n", 0, at) + 1, self._vocabulary.index("\n", at)
            if at - start >= LEAST_HEAD and end - at <= len(term) + 3:
                found.append(f'"{self._vocabulary[start:end]}"')
        return " OR ".join(found)

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
    found = postings.look_up(conn, query.terms, foreign=query.foreign)
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
    listed = sorted(found, key=lambda p: p.count)
    light = [(p.ids, p.idf) for p in listed if p.ids is not None]
    pool = _most_words(light, keep)
    few = len(pool) < keep
    groups = [
        (total, sorted(group, reverse=True)) for total, group in _grouped(pool, light)
    ]  # of equal ones the newest
    heavy = [p for p in listed if p.ids is None]
    if heavy and few:
        scores = {number: total for total, group in groups for number in group}
        _add_heavy(conn, postings, listed, heavy, scores)
        return sorted(scores, key=scores.__getitem__, reverse=True)[:keep]
    chosen: list[int] = []
    for _, group in groups:
        room = keep - len(chosen)
        chosen += sorted(group, reverse=len(group) > OPEN * keep)[:room]  # of a crowd the newest
    return chosen


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
    ranked: list[Posting],
    heavy: list[Posting],
    scores: dict[int, float],
) -> None:
    """Add lines that hold several words at once, where every single word is too common to list."""
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
