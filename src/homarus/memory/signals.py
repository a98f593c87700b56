"""What speaks for a line: one number per candidate and signal, each between 0 and 1 or so. Pure; no weights here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, pairwise
from math import exp, log, log1p

from homarus.memory.candidates import LineRow, Pool
from homarus.memory.query import Query
from homarus.memory.schema import FIRST, HEADING, LABELS, NUMBER, PATH, PROPER, QUESTION, TIME
from homarus.memory.terms import plain, stem, words

K1, B = 1.2, 0.75
# How long after (days) a thing is still written down, by how exactly the question names the time; before it: three days.
LATE = {"day": 7.0, "week": 7.0, "month": 10.0, "season": 20.0, "year": 40.0, "open": 1.0}
EARLY = 3.0
HALF_LIFE = 180.0
QUOTED = 60  # lines with all words that are compared with the question letter by letter, short ones first

BESIDE, FAR = 0.6, 0.3  # what a word counts for a line that stands beside it, or two lines away
DIGIT = 3  # bits that count a word within five lines

TURN, LONGEST = (
    0.7,
    8,
)  # what a question counts that does not stand just before a line; messages of a turn that are looked at
ASIDE, USUAL = 0.35, 3  # what a kind counts that a question names without asking for it; words of a question
ODDS = 2.0  # how much likelier, as a logarithm, an answer comes from the one asked about: from the weight of `name`

Columns = dict[str, list[float]]
Matters = Mapping[
    str, Mapping[int, float]
]  # for words of the question the lines with others on the same matter, and their rarity
Above = dict[int, tuple[int, ...]]  # each heading and those above it


def lexical(query: Query, rows: list[LineRow], pool: Pool, average: float, above: Above) -> Columns:
    """Return the signals of words: in the line, around it, in the headings above it, as pairs, and how much is covered.

    `near` counts a word in a heading above like one in the line: below "# Billing" no line needs to say "billing". The words of a
    line are one number with a digit per word (`_held`): the sum over a window says how often each stands in it, and few
    sums differ.
    """
    words = [(1 << DIGIT * at, posting.idf) for at, posting in enumerate(pool.postings)]
    core = [part for part, posting in zip(words, pool.postings, strict=True) if posting.term in query.core]
    total = sum([weight for _, weight in core]) + pool.absent or 1.0
    average = max(average, 1.0)
    held = _held(rows, pool)
    headed = _headed(pool, sum([digit for digit, _ in core]), above)
    here = [held[row.id] for row in rows]
    beside = [held[row.id - 1] | held[row.id + 1] for row in rows]
    around = [
        own + held[row.id - 1] + held[row.id + 1] + held[row.id - 2] + held[row.id + 2]
        for row, own in zip(rows, here, strict=True)
    ]
    close = [
        (own | headed[row.head], side, all_) for row, own, side, all_ in zip(rows, here, beside, around, strict=True)
    ]
    worth = {own: _worth(own, words) for own in set(here)}
    covers = {own: _worth(own, core) / total for own in set(here)}
    shares = {key: _share(key, core) / total for key in set(close)}
    counts = {
        key: [(weight * n * (K1 + 1), n) for digit, weight in core if (n := key // digit & 7)] for key in set(around)
    }
    slack = [K1 * (1 - B + B * row.around / (5 * average)) for row in rows]
    inherited = {said: _worth(said, core) / (total - pool.absent or 1.0) for said in set(headed.values())}
    norm = [(K1 + 1) / (1 + K1 * (1 - B + B * row.size / average)) for row in rows]
    return {
        "word": relative([worth[own] * factor for own, factor in zip(here, norm, strict=True)]),
        "window": relative(
            [
                sum([part / (count + extra) for part, count in counts[key]])
                for key, extra in zip(around, slack, strict=True)
            ]
        ),
        "near": [shares[key] for key in close],
        "covered": [covers[own] for own in here],
        "pair": _pairs(query, pool, here),
        "above": [inherited[headed[row.head]] for row in rows],
    }


def _held(rows: list[LineRow], pool: Pool) -> dict[int, int]:
    """Return which words each line and its neighbours hold: a digit per word, in the order of the pool."""
    numbers = [row.id for row in rows]
    held = dict.fromkeys([number + step for step in (0, -1, 1, -2, 2) for number in numbers], 0)
    wide = set(held)
    for at, ids in enumerate(pool.sets):
        digit = 1 << DIGIT * at
        for number in ids & wide:
            held[number] += digit
    return held


def _worth(held: int, words: list[tuple[int, float]]) -> float:
    return sum([weight for digit, weight in words if held & digit])


def _share(close: tuple[int, int, int], core: list[tuple[int, float]]) -> float:
    """Return what words in a line or above it, beside it, and around it are worth for the line."""
    inside, beside, around = close
    share = 0.0
    for digit, weight in core:
        if digit & inside:
            share += weight
        elif around // digit & 7:
            share += weight * (BESIDE if digit & beside else FAR)
    return share


def _pairs(query: Query, pool: Pool, here: list[int]) -> list[float]:
    """Return the share of each two neighbouring words of the question of which a line holds both."""
    digits = {posting.term: 1 << DIGIT * at for at, posting in enumerate(pool.postings)}
    pairs = list(pairwise(query.core))
    both = [digits[one] | digits[other] for one, other in pairs if one in digits and other in digits]
    shares = {own: sum([pair & own == pair for pair in both]) / (len(pairs) or 1) for own in set(here)}
    return [shares[own] for own in here]


def _headed(pool: Pool, core: int, above: Above) -> dict[int | None, int]:
    """Return for each heading which words stand in it, in the headings above it, or in the path: a digit per word."""
    every = set(chain.from_iterable(above.values()))
    own: dict[int, int] = {}
    for at, ids in enumerate(pool.sets):
        digit = 1 << DIGIT * at
        for head in ids & every if core & digit else ():
            own[head] = own.get(head, 0) + digit
    found: dict[int | None, int] = dict.fromkeys([None, *above], 0)
    if own:
        for head, heads in above.items():
            for one in heads:
                found[head] |= own.get(one, 0)
    return found


def related(query: Query, rows: list[LineRow], pool: Pool, matters: Matters, rarest: float) -> list[float]:
    """Return how much of the question a line answers in other words: for a word it lacks, the rarest one on the same matter."""
    found = {stem(posting.term): (ids, posting.idf) for posting, ids in zip(pool.postings, pool.sets, strict=True)}
    worth = {term: found.get(stem(term), (frozenset(), rarest)) for term in query.core}
    total = rarest * sum([weight for _, weight in worth.values()]) or 1.0
    out = [0.0] * len(rows)
    for term, lines in matters.items():
        own, weight = worth[term]
        for at, row in enumerate(rows) if lines else ():
            if row.id in lines and row.id not in own:
                out[at] += weight * lines[row.id] / total
    return out


def kinds(query: Query, rows: list[LineRow], things: Matters, rarest: float) -> list[float]:
    """Return how rare a thing a line holds that is of a kind asked for: "tea" for "which drinks".

    The more else a question says, the less it is about the kind alone.
    """
    out = [0.0] * len(rows)
    share = min(1.2, (USUAL / max(1, len(query.core))) ** 0.5) / rarest
    for term, lines in things.items():
        worth = share * (1.0 if query.foreign or term in query.asked else ASIDE)
        out = [max(value, worth * lines.get(row.id, 0.0)) for row, value in zip(rows, out, strict=True)]
    return out


def names(query: Query, rows: list[LineRow], pool: Pool, lines: int) -> list[float]:
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


def mentions(query: Query, rows: list[LineRow], pool: Pool, lines: int) -> list[float]:
    """Return how much it tells that a line holds a word that is written like a name, and is not whom the question is about."""
    return _holding([word for word in query.called if word not in query.subject], rows, pool, lines)


def _holding(terms: Sequence[str], rows: list[LineRow], pool: Pool, lines: int) -> list[float]:
    told = [
        (ids, telling(posting.count, lines))
        for posting, ids in zip(pool.postings, pool.sets, strict=True)
        if posting.term in terms
    ]
    out = [0.0] * len(rows)
    for ids, worth in sorted(told, key=lambda part: part[1]):  # what tells most has the last word
        out = [worth if row.id in ids else value for row, value in zip(rows, out, strict=True)]
    return out


def telling(count: int, lines: int) -> float:
    """Return what a name is worth that belongs to so many of all lines: 1 where it has half of them, as in a dialogue of two.

    The logarithm of the odds: among a hundred people a name says much more than between two.
    """
    share = (count + 0.5) / (lines + 1)
    return max(0.0, 1 + log(max(1 - share, 1e-9) / share) / ODDS)


def dates(query: Query, rows: list[LineRow]) -> list[float]:
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


def recent(query: Query, rows: list[LineRow]) -> list[float]:
    """Return how new a line is, for questions about the present only; half a year halves it."""
    if query.today is None or not query.has("current"):
        return [0.0] * len(rows)
    now = query.today.toordinal()
    return [0.5 ** (max(0, now - row.day) / HALF_LIFE) if row.day is not None else 0.0 for row in rows]


def _soft(day: int, low: int, high: int, late: float) -> float:
    if day < low:
        return exp((day - low) / EARLY)
    return exp((high - day) / late) if day > high else 1.0


def shape(query: Query, rows: list[LineRow], named: list[float]) -> Columns:
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


def support(rows: list[LineRow], base: list[float], covered: list[float]) -> Columns:
    """Return what neighbours lend: a question just before, or in the other's turn before this one; and the best lines of the file.

    In chats a turn is often several messages: the answer need not be the first of them, nor the question the last.
    """
    at = {row.id: index for index, row in enumerate(rows)}
    groups: dict[int, list[float]] = {}
    for row, value in zip(rows, base, strict=True):
        groups.setdefault(row.file, []).append(value)
    best = {file: sum(sorted(values, reverse=True)[:3]) / 3 for file, values in groups.items()}
    answer = []
    for row in rows:
        before = at.get(row.id - 1)
        if before is not None and rows[before].flags & QUESTION:
            answer.append(base[before])
        else:
            answer.append(TURN * _asked_before(row, rows, at, covered) if row.speaker else 0.0)
    return {"answer": answer, "day": [best[row.file] for row in rows]}


def _asked_before(row: LineRow, rows: list[LineRow], at: Mapping[int, int], covered: list[float]) -> float:
    """Return how much of what is looked for was asked in the turn before the one a line belongs to; 0 where some line is no candidate."""
    number, best = row.id, 0.0
    for speaker in (row.speaker, ""):
        for _ in range(LONGEST):
            index = at.get(number - 1)
            if index is None or rows[index].file != row.file or not rows[index].speaker:
                return best
            other = rows[index]
            if other.speaker != (speaker or other.speaker):
                break
            speaker = other.speaker
            if speaker != row.speaker and other.flags & QUESTION:
                best = max(best, covered[index])
            number -= 1
    return best


def exact(
    query: Query, rows: list[LineRow], covered: list[float], read: Callable[[list[int]], dict[int, str]]
) -> list[float]:
    """Return 1 for lines that hold the question word for word, and half for those with all of its words.

    A single word is no quotation: it counts half. Texts are read only for lines that hold all words.
    """
    out = [0.0] * len(rows)
    full = sorted((index for index, share in enumerate(covered) if share >= 0.999), key=lambda at: rows[at].size)
    if len(query.terms) < 2:
        for index in full:
            out[index] = 0.5
        return out
    texts = read([rows[index].id for index in full[:QUOTED]])
    for index in full:
        out[index] = 1.0 if query.phrase and _says(plain(texts.get(rows[index].id, "")), query.phrase) else 0.5
    return out


def _says(text: str, phrase: str) -> bool:
    """Say whether a text holds a phrase, however its words are set apart."""
    if phrase in text:
        return True
    return phrase.partition(" ")[0] in text and phrase in " ".join(text.split())


def alone(columns: Columns) -> Columns:
    """Return the signals of a line's surroundings, as far as these belong to it: a line of a list is judged by itself."""
    together = columns["together"]
    around, own = columns["window"], columns["word"]
    return {
        "window": [share * near + (1 - share) * word for share, near, word in zip(together, around, own, strict=True)],
        "day": [share * support for share, support in zip(together, columns["day"], strict=True)],
    }


def relative(values: list[float]) -> list[float]:
    top = max(values, default=0.0)
    return [value / top for value in values] if top > 0 else [0.0] * len(values)
