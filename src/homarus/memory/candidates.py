"""Choose the lines worth scoring: rare words first, then their neighbours, the days asked about, and typed facts.

Bounded whatever the size of the index: a few hundred lines leave here, and only they are read.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Iterable, Sequence

from msgspec import Struct

from homarus.memory.postings import Posting, Postings, idf
from homarus.memory.query import Query
from homarus.memory.terms import stem

ACCUMULATE = 60_000  # postings that may open new candidates
KEEP = 400  # lines by their own words
SPREAD = 200  # the best of them bring their neighbours
DAYS = 400  # lines of the days asked about
TYPED = 200  # retained facts, when kinds or preferences are asked for


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
    for number in chosen[:SPREAD]:
        spread.update((number - 2, number - 1, number + 1, number + 2))
    spread.update(extra)
    spread.update(_by_day(conn, query))
    if kinds or query.has("preference"):
        spread.update(_typed(conn, kinds))
    ids = sorted(spread)
    sets = [posting.ids if posting.ids is not None else postings.around(conn, posting, ids) for posting in found]
    known = {stem(posting.term) for posting in found}
    absent = sum(stem(term) not in known for term in query.core) * idf(0, postings.lines)
    return Pool(ids, found, sets, absent)


def _by_words(conn: sqlite3.Connection, postings: Postings, found: Sequence[Posting], keep: int) -> list[int]:
    """Return the lines with the heaviest words, best first."""
    scores: dict[int, float] = {}
    opened = 0
    for posting in sorted(found, key=lambda p: p.count):
        if posting.ids is None:
            continue
        weight = posting.idf
        if opened + posting.count <= ACCUMULATE or not scores:
            opened += posting.count
            get = scores.get
            for number in posting.ids:
                scores[number] = get(number, 0.0) + weight
        else:
            for number in posting.ids.intersection(scores):
                scores[number] += weight
    heavy = sorted((p for p in found if p.ids is None), key=lambda p: p.count)
    if heavy and len(scores) < keep:
        _add_heavy(conn, postings, found, heavy, scores)
    if len(scores) <= keep:
        return sorted(scores, key=scores.__getitem__, reverse=True)
    return heapq.nlargest(keep, scores, key=scores.__getitem__)


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


def _by_day(conn: sqlite3.Connection, query: Query) -> list[int]:
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
            ids.extend(range(first + 3, min(last, first + 3 + DAYS) + 1))
            if len(ids) >= DAYS:
                return ids[:DAYS]
    return ids


def _typed(conn: sqlite3.Connection, kinds: frozenset[str]) -> list[int]:
    wanted = sorted(kinds & {"world", "experience", "opinion", "observation"}) or ["opinion"]
    marks = ", ".join("?" * len(wanted))
    rows = conn.execute(
        f"SELECT id FROM lines WHERE kind IN ({marks}) ORDER BY id DESC LIMIT ?",  # noqa: S608 - marks only
        (*wanted, TYPED),
    )
    return [row[0] for row in rows]
