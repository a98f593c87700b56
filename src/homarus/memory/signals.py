"""What speaks for a line: one number per candidate and signal, each between 0 and 1 or so. Pure; no weights here."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import pairwise
from math import exp, log, log1p

from homarus.memory.candidates import Pool
from homarus.memory.flags import FIRST, HEADING, LABELS, NUMBER, PATH, PROPER, QUESTION, TIME
from homarus.memory.query import Query
from homarus.memory.rows import Row, read_texts
from homarus.memory.terms import plain, words

K1, B = 1.2, 0.75
# How long after (days) a thing is still written down, by how exactly the question names the time; before it: three days.
LATE = {"day": 7.0, "week": 7.0, "month": 10.0, "season": 20.0, "year": 40.0, "open": 1.0}
EARLY = 3.0
HALF_LIFE = 180.0
QUOTED = 60  # lines with all words that are compared with the question letter by letter, short ones first

BESIDE, FAR = 0.6, 0.3  # what a word counts for a line that stands beside it, or two lines away
LEVELS = 6  # of headings above a line

ODDS = 2.0  # how much likelier, as a logarithm, an answer comes from the one asked about: from the weight of `name`

Columns = dict[str, list[float]]
Parents = dict[int, int | None]  # each heading's own heading


def lexical(query: Query, rows: list[Row], pool: Pool, average: float, parents: Parents) -> Columns:
    """Return the signals of words: in the line, around it, in the headings above it, as pairs, and how much is covered.

    `near` counts a word in a heading above like one in the line: below "# Billing" no line needs to say "billing".
    """
    every = [(ids, posting.idf) for posting, ids in zip(pool.postings, pool.sets, strict=True)]
    named = _named(query, pool)
    headed = _headed(rows, named, parents)
    total = sum(weight for _, weight in named) + pool.absent or 1.0
    pairs = _pairs(query, pool)
    average = max(average, 1.0)
    word, window, near, covered, pair = [], [], [], [], []
    for row in rows:
        number = row.id
        norm = (K1 + 1) / (1 + K1 * (1 - B + B * row.size / average))
        word.append(sum([weight for ids, weight in every if number in ids]) * norm)
        slack = K1 * (1 - B + B * row.around / (5 * average))
        around = close = own = 0.0
        before, after, far, further = number - 1, number + 1, number - 2, number + 2
        inherited = headed[row.head]
        for at, (ids, weight) in enumerate(named):
            here, beside = number in ids, (before in ids) + (after in ids)
            count = here + beside + (far in ids) + (further in ids)
            if count:
                around += weight * count * (K1 + 1) / (count + slack)
                if here:
                    own += weight
                    close += weight
                else:
                    close += weight * (1.0 if at in inherited else BESIDE if beside else FAR)
            elif at in inherited:
                close += weight
        window.append(around)
        near.append(close / total)
        covered.append(own / total)
        pair.append(sum([number in left and number in right for left, right in pairs]) / len(pairs) if pairs else 0.0)
    known = total - pool.absent or 1.0
    shares = {head: sum([named[at][1] for at in found]) / known for head, found in headed.items()}
    return {
        "word": relative(word),
        "window": relative(window),
        "near": near,
        "covered": covered,
        "pair": pair,
        "above": [shares[row.head] for row in rows],
    }


def _pairs(query: Query, pool: Pool) -> list[tuple[frozenset[int], frozenset[int]]]:
    """Return where each two neighbouring words of the question stand."""
    sets = {posting.term: ids for posting, ids in zip(pool.postings, pool.sets, strict=True)}
    nothing: frozenset[int] = frozenset()
    return [(sets.get(a, nothing), sets.get(b, nothing)) for a, b in pairwise(query.core)]


def _named(query: Query, pool: Pool) -> list[tuple[frozenset[int], float]]:
    """Return where each word of the question stands and how much it tells, names left out."""
    core = set(query.core)
    return [(ids, posting.idf) for posting, ids in zip(pool.postings, pool.sets, strict=True) if posting.term in core]


def _headed(
    rows: list[Row], named: list[tuple[frozenset[int], float]], parents: Parents
) -> dict[int | None, frozenset[int]]:
    """Return for each heading which words of the question stand in it, in the headings above it, or in the path."""
    nothing: frozenset[int] = frozenset()
    found: dict[int | None, frozenset[int]] = {None: nothing}
    own: dict[int, frozenset[int]] = {}
    for head in {row.head for row in rows} - {None}:
        held, at, level = nothing, head, 0
        while at is not None and level < LEVELS:
            if at not in own:
                own[at] = frozenset([word for word, (ids, _) in enumerate(named) if at in ids])
            held, at, level = held | own[at] if own[at] else held, parents.get(at), level + 1
        found[head] = held
    return found


def names(query: Query, rows: list[Row], pool: Pool, lines: int) -> list[float]:
    """Return how much it tells that a line belongs to the one asked about: said by them, linked to them, or naming them.

    Of those who speak, what others say to them does not count: people call each other by name all the time. A line that
    nobody in particular says (a note, a message of the user) is about whom it names.
    """
    out = _holding(query.subject, rows, pool, lines)
    wanted = {plain(name): telling(query.lines_of.get(name, 0), lines) for name in query.names}
    if not wanted:
        return out
    sets = {posting.term: ids for posting, ids in zip(pool.postings, pool.sets, strict=True)}
    told = [([sets.get(part, frozenset()) for part in words(name)], worth) for name, worth in wanted.items()]
    single = next(iter(wanted)) if len(wanted) == 1 else None
    for at, row in enumerate(rows):
        speaker = plain(row.speaker)
        if single is not None and speaker == single:
            out[at] = max(out[at], wanted[single])
        elif not speaker or speaker in LABELS:
            out[at] = max([out[at], *(worth for held, worth in told if all(row.id in ids for ids in held))])
        for entity in row.entities.split("\x1f") if row.entities else ():
            out[at] = max(out[at], wanted.get(plain(entity), 0.0))
    return out


def mentions(query: Query, rows: list[Row], pool: Pool, lines: int) -> list[float]:
    """Return how much it tells that a line holds a word that is written like a name, and is not whom the question is about."""
    return _holding([word for word in query.called if word not in query.subject], rows, pool, lines)


def _holding(terms: Sequence[str], rows: list[Row], pool: Pool, lines: int) -> list[float]:
    told = [
        (ids, telling(posting.count, lines))
        for posting, ids in zip(pool.postings, pool.sets, strict=True)
        if posting.term in terms
    ]
    if not told:
        return [0.0] * len(rows)
    return [max([worth for ids, worth in told if row.id in ids], default=0.0) for row in rows]


def telling(count: int, lines: int) -> float:
    """Return what a name is worth that belongs to so many of all lines: 1 where it has half of them, as in a dialogue of two.

    The logarithm of the odds: among a hundred people a name says much more than between two.
    """
    share = (count + 0.5) / (lines + 1)
    return max(0.0, 1 + log(max(1 - share, 1e-9) / share) / ODDS)


def dates(query: Query, rows: list[Row]) -> list[float]:
    """Return 1 inside a range that the question names, fading softly outside; never a filter."""
    if not query.spans:
        return [0.0] * len(rows)
    out = []
    for row in rows:
        best = 0.0
        for span in query.spans:
            low, high = span.first.toordinal(), span.last.toordinal()
            if row.day is not None:
                best = max(best, _soft(row.day, low, high, LATE[span.precision]))
            if row.first is not None and row.last is not None and row.first <= high and row.last >= low:
                best = max(best, 1.0)
        out.append(best)
    return out


def recent(query: Query, rows: list[Row]) -> list[float]:
    """Return how new a line is, for questions about the present only; half a year halves it."""
    if query.today is None or not query.has("current"):
        return [0.0] * len(rows)
    now = query.today.toordinal()
    return [0.5 ** (max(0, now - row.day) / HALF_LIFE) if row.day is not None else 0.0 for row in rows]


def _soft(day: int, low: int, high: int, late: float) -> float:
    if day < low:
        return exp((day - low) / EARLY)
    return exp((high - day) / late) if day > high else 1.0


def shape(query: Query, rows: list[Row], named: list[float]) -> Columns:
    """Return what the form of a line says: its length, a question mark, a time, a number or a name where one is asked for.

    `own` marks lines in which the person asked about speaks of themselves.
    """
    when, many = query.has("when"), query.has("how_many")
    proper = query.has("who") or query.has("where")
    nothing = [0.0] * len(rows)
    return {
        "length": [min(log1p(row.size) / 4.0, 1.0) for row in rows],
        "question": [1.0 if row.flags & QUESTION else 0.0 for row in rows],
        "when": [1.0 if row.flags & TIME else 0.0 for row in rows] if when else nothing,
        "number": [1.0 if row.flags & NUMBER else 0.0 for row in rows] if many else nothing,
        "proper": [1.0 if row.flags & PROPER else 0.0 for row in rows] if proper else nothing,
        "heading": [1.0 if row.flags & (HEADING | PATH) else 0.0 for row in rows],
        "own": [1.0 if said and row.flags & FIRST else 0.0 for row, said in zip(rows, named, strict=True)],
    }


def support(rows: list[Row], base: list[float]) -> Columns:
    """Return what neighbours lend: a question just before, and the best lines of the same file."""
    at = {row.id: index for index, row in enumerate(rows)}
    groups: dict[int, list[float]] = {}
    for row, value in zip(rows, base, strict=True):
        groups.setdefault(row.file, []).append(value)
    best = {file: sum(sorted(values, reverse=True)[:3]) / 3 for file, values in groups.items()}
    answer = []
    for row in rows:
        before = at.get(row.id - 1)
        answer.append(base[before] if before is not None and rows[before].flags & QUESTION else 0.0)
    return {"answer": answer, "day": [best[row.file] for row in rows]}


def exact(query: Query, rows: list[Row], covered: list[float], conn: sqlite3.Connection) -> list[float]:
    """Return 1 for lines that hold the question word for word, and half for those with all of its words.

    A single word is no quotation: it counts half. Texts are read only for lines that hold all words.
    """
    out = [0.0] * len(rows)
    full = sorted((index for index, share in enumerate(covered) if share >= 0.999), key=lambda at: rows[at].size)
    if len(query.terms) < 2:
        for index in full:
            out[index] = 0.5
        return out
    texts = read_texts(conn, [rows[index].id for index in full[:QUOTED]])
    for index in full:
        said = " ".join(plain(texts.get(rows[index].id, "")).split())
        out[index] = 1.0 if query.phrase and query.phrase in said else 0.5
    return out


def alone(columns: Columns) -> Columns:
    """Return the signals of a line's surroundings, as far as these belong to it: a line of a list is judged by itself."""
    together = columns["together"]
    around, own = columns["window"], columns["word"]
    return {
        "window": [share * near + (1 - share) * word for share, near, word in zip(together, around, own, strict=True)],
        "day": [share * support for share, support in zip(together, columns["day"], strict=True)],
    }


def relative(values: list[float]) -> list[float]:
    """Return values as a share of the best one."""
    top = max(values, default=0.0)
    return [value / top for value in values] if top > 0 else [0.0] * len(values)


def spread(values: list[float]) -> list[float]:
    """Return values stretched so that the worst is 0 and the best 1: for similarities that never reach either."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return [(value - low) / (high - low) for value in values] if high > low else [0.0] * len(values)
