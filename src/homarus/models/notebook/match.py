"""How surely a line of a note answers a question: words, ideas, names and the kind of value, weighed into one figure. Pure.

A line that lacks what is asked for must not win because it speaks of the same person: what is missing counts more than
what is there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import log2
from typing import Self

from msgspec import Struct
from msgspec.structs import astuple

from homarus.core.patterns import late
from homarus.models.notebook.language import VALUES, Reading, Word, alike, read, stem, valued

Aliases = dict[str, frozenset[int]]
_OWNER = late(r"\b(?:([A-ZÄÖÜ][\w-]+|\w+s)['’]s?|(?:von|of) ([A-ZÄÖÜ][\w-]+))(?=\s|$)")
_CALLED = late(
    r"(?:(?P<owner>[^\W\d_]+['’]s?|von \w+)\s+)?(?P<role>[^\W\d_][\w-]+)(?:\s*[,:=]|\s+(?:is|are|ist|heißt|called|named|namens|is called|is named)\b)*\s+(?:Dr\.? |Mr\.? |Mrs\.? |Ms\.? |Herr |Frau )*"
    r"(?P<name>[A-ZÄÖÜ][^\W\d_]+)"
)


class Match(Struct, frozen=True):
    """What of a question a line speaks to, and what of it the line lacks."""

    found: float = 0.0  # weight of the words it speaks of, by how rare they are
    share: float = 0.0  # of the question's words
    no_name: float = 0.0  # names and relatives that it lacks
    no_idea: float = 0.0  # words of the thesaurus that it lacks
    no_word: float = 0.0  # other words that it lacks
    value: float = 0.0  # it has the kind of value that was asked for
    no_value: float = 0.0
    no_soft: float = 0.0
    other: float = 0.0  # it speaks of what is somebody else's


class Weights(Struct, frozen=True):
    """What each part of a match adds to the logarithm of the odds that the line answers, and the least that is said aloud."""

    match: Match
    cosine: float
    gap: float
    base: float
    least: float

    @classmethod
    def of(cls, kind: str) -> Self:
        return _WEIGHTS[kind]  # type: ignore[return-value]

    def confidence(self, match: Match, cosine: float, best: float) -> float:
        said = sum(weight * value for weight, value in zip(astuple(self.match), astuple(match), strict=True))
        return self.base + said + self.cosine * cosine + self.gap * (best - cosine)


# Fitted on tests/models/notebook with one person left out each time, then rounded; by what there is to rank with.
_WEIGHTS = {
    "words": Weights(Match(2.0, 2.8, -3.3, -1.8, -0.8, 0.3, -2.4, -0.7, -0.5), 0.0, 0.0, -3.6, -0.2),
    "static": Weights(Match(1.9, 3.3, -3.0, -1.5, -1.0, 0.3, -2.2, -0.3, -0.5), 2.2, -1.5, -4.6, -0.6),
    "model": Weights(Match(1.7, 3.7, -2.9, -1.2, -0.8, 0.3, -2.1, -0.3, -0.4), 2.4, -2.4, -5.1, -0.3),
}


def aliases(texts: Sequence[str]) -> Aliases:
    """Return the names that the lines give to relatives ("my sister Ann", "mein Chef heißt Albers") -> the ideas of that relation."""
    found: Aliases = {}
    for text in texts:
        for role in _CALLED.finditer(text):
            kin = frozenset(idea for word in read(role["role"]).words for idea in word.kin)
            if kin and not role["owner"]:
                key = stem(role["name"])
                found[key] = found.get(key, frozenset()) | kin
    return found


def matches(asked: Reading, lines: Sequence[tuple[str, Reading]], known: Aliases) -> list[Match]:
    """Return what each line says to the question; a word that many of the lines have tells little."""
    table = [[_covers(word, line, known) for word in asked.words] for _, line in lines]
    often = [sum(row[at] >= 0.5 for row in table) for at in range(len(asked.words))]
    rare = [1 / (1 + 0.3 * log2(max(1, many))) for many in often]
    return [_match(asked, row, rare, text, line) for row, (text, line) in zip(table, lines, strict=True)]


def _covers(word: Word, line: Reading, known: Aliases) -> float:
    best = max((alike(word, told) for told in line.parts), default=0.0)
    if best < 0.9 and valued(word, line.values):
        best = max(best, 0.7)
    if best < 0.9 and word.kin and any(known.get(told.stem, frozenset()) & word.kin for told in line.parts):
        best = 0.9
    if best < 0.9 and word.stem in known and any(known[word.stem] & told.kin for told in line.words):
        best = 0.9
    return best


def _match(asked: Reading, row: list[float], rare: list[float], text: str, line: Reading) -> Match:
    found = share = total = no_name = no_idea = no_word = 0.0
    named = any(word.name and near >= 0.5 for word, near in zip(asked.words, row, strict=True))
    for word, near, weight in zip(asked.words, row, rare, strict=True):
        heavy = 0.2 if word.light else 0.6 if word.verb else 1.0
        total += heavy
        share += heavy * near
        found += heavy * near * weight
        if near < 0.5 and not word.light:
            if word.name or word.kin:
                no_name += 1 if word.name or not named else 0.2  # "my husband Gerald" is Gerald
            elif word.ideas or word.asks:
                no_idea += 0.5 if word.verb else 1.0
            else:
                no_word += 1
    hit = _has(asked, line)
    return Match(
        found=min(found, 3.0),
        share=share / total if total else 0.0,
        no_name=no_name,
        no_idea=no_idea,
        no_word=no_word,
        value=float(bool(asked.wanted) and hit),
        no_value=float(asked.strict and not hit),
        no_soft=float(bool(asked.wanted) and not asked.strict and not hit),
        other=float(_others(asked, text)),
    )


def _has(asked: Reading, line: Reading) -> bool:
    """Say whether a line has a value of the kind that is asked for. Who and where are answered by a name that the question lacks."""
    said = {word.stem for word in asked.words}
    if "@name" in asked.wanted and any(word.name and word.stem not in said for word in line.words):
        return True
    return bool((set(asked.wanted) - {"@name"}) & line.values) or ("@name" in asked.wanted and any(word.kin - {i for a in asked.words for i in a.kin} for word in line.words))


def _others(asked: Reading, text: str) -> bool:
    """Say whether what the question is about is, in the line, somebody's whom the question does not name."""
    named = {word.stem[:4] for word in asked.words}
    for owner in _OWNER.finditer(text):
        after = read(" ".join(text[owner.end() :].split()[:2])).words if owner[1] else read(" ".join(text[: owner.start()].split()[-2:])).words
        mine = any(alike(word, told) >= 0.7 for word in asked.words if not word.light for told in after)
        if mine and stem(owner[1] or owner[2])[:4] not in named:
            return True
    return False


def rivals(asked: Reading, later: Reading, former: Reading) -> bool:
    """Say whether a newer line answers a question in the place of the line that it replaced: has it the value, or a new name?"""
    if asked.strict:
        return bool(set(asked.wanted) & later.values)
    if asked.wanted:
        known = {word.stem for word in former.words}
        return any(word.name and word.stem not in known and not VALUES["@time"].search(word.stem) for word in later.words)
    return any(alike(word, told) >= 0.5 for word in asked.words if not word.light for told in later.words)
