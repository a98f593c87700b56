"""Choose the lines worth scoring: rare words first, then their neighbours, the days asked about, and typed facts.

Bounded whatever the size of the index: a few hundred lines leave here, and only they are read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import chain, filterfalse, islice

from msgspec import Struct

from homarus.memory.postings import Posting, Postings, idf
from homarus.memory.query import Query
from homarus.memory.terms import stem

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
