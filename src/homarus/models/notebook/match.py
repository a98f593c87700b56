"""How surely a line of a note answers a question: words, ideas, names and the kind of value, weighed into one figure. Pure.

A line that lacks what is asked for must not win because it speaks of the same person: what is missing counts more than
what is there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from math import log2

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, replace

from homarus.core.patterns import late
from homarus.models.notebook.language import Reading, Word, alike, inside, read, stem, thesaurus, valued

_LOOSE = {"@name", "@place", "@time", "@reason"}  # what people put in many forms
_FIRM = {
    "@phone",
    "@email",
    "@link",
    "@years",
    "@weight",
    "@area",
    "@percent",
    "@degrees",
}  # what a line has or lacks, beyond doubt
_FIGURES = {"@money", "@sum", "@figure", "@number", "@code"}
_ORDINAL = [late(rf"\b(?:{words})\b", re.IGNORECASE) for words in (
    r"first|1st|erste[nrsm]?|erstes", r"second|2nd|zweite[nrsm]?", r"third|3rd|dritte[nrsm]?", r"last|previous|letzte[nrsm]?|vorige[nrsm]?", r"next|nächste[nrsm]?",
)]  # fmt: skip
Aliases = dict[str, frozenset[int]]
_IN = late(
    r"\b(?:in|at|near|im|am|nach|aus)(?: the| der| dem)?\s+\Z", re.IGNORECASE
)  # what stands behind it is no person
_PROPER = late(r"[A-ZÄÖÜ][^\W\d_]+")
_NAMING = late(r"\b(?:called|named|names?|surname|heißt|heißen|heisst)\b", re.IGNORECASE)
# What may stand between a thing and its name, and the other way round.
_JOINED = late(
    r"(?:['’]s?|[\s,:(=“„\"–-]|\b(?:is|are|was|ist|sind|war|called|named|namens|heißt|heißen|name|real|full|dr|mr|mrs|ms|miss|herrn?|frau|prof|the|our|my|a|an|unsere?|meine?|der|die|das|by|of|von|now|jetzt)\b\.?)*",
    re.IGNORECASE,
)
_WORD = late(r"[^\W\d_][\w-]*")
_CALLED = late(
    r"(?:(?P<owner>[^\W\d_]+['’]s?|von \w+)\s+)?(?P<role>[^\W\d_][\w-]+)(?:\s*[,:=]|\s+(?:is|are|ist|heißt|called|named|namens|is called|is named)\b)*\s+(?:Dr\.? |Mr\.? |Mrs\.? |Ms\.? |Herr |Frau )*"
    r"(?P<name>[A-ZÄÖÜ][^\W\d_]+)"
)


class Match(Struct, frozen=True):
    """What of a question a line speaks to, and what of it the line lacks."""

    found: float = 0.0  # weight of the words it speaks of, by how rare they are
    no_name: float = 0.0  # names and relatives that it lacks
    no_hard: float = 0.0  # things that are stated or not, and that it does not state
    thing: float = 0.0  # how far it speaks of the words that are neither names nor small
    when: float = 0.0  # it has the time that was asked for; and so with a name, a place, a figure
    who: float = 0.0
    where: float = 0.0
    many: float = 0.0
    no_value: float = 0.0
    lead: float = 0.0  # how far it is before the next best line by the words it speaks of, or behind the best
    no_kind: float = 0.0  # it names something, and does not say that it is of the kind that was asked for
    no_focus: float = 0.0  # it lacks the very thing that the question names as wanted


class Near(Struct, frozen=True):
    """How near a line is to the question among those found, by their vectors; nothing where there are none."""

    cosine: float = 0.0
    bare: float = 0.0  # the same without the question's names, which any line about them shares
    gap: float = 0.0  # how far it is behind the nearest line, below zero
    lead: float = 0.0  # how far the nearest line is before the second


class Weights(Struct, frozen=True):
    """What each part adds to the logarithm of the odds that a line answers, and the least that is said aloud."""

    match: Match
    near: Near
    base: float
    least: float

    def confidence(self, match: Match, near: Near) -> float:
        said = sum(weight * value for weight, value in zip(astuple(self.match), astuple(match), strict=True))
        return float(self.base + said + sum(w * v for w, v in zip(astuple(self.near), astuple(near), strict=True)))


@cache
def weights(kind: str) -> Weights:
    """Return the weights for lines that were ranked by words, by static vectors or by a model (`bench/fit_notebook.py` made them)."""
    file = resources.files(__package__).joinpath("weights.json").read_bytes()
    return msgspec.json.decode(file, type=dict[str, Weights])[kind]


def nearness(cosines: Sequence[tuple[float, float]]) -> list[Near]:
    """Return how near lines are, from the cosines of each with the whole question and with what is left without its names."""
    best, second, *_ = [*sorted((one for one, _ in cosines), reverse=True), 0.0, 0.0]
    return [Near(one, bare, one - best, one - second if one == best else 0.0) for one, bare in cosines]


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
    table = [[_covers(word, _specified(line, asked), known) for word in asked.words] for _, line in lines]
    often = [sum(row[at] >= 0.5 for row in table) for at in range(len(asked.words))]
    rare = [1 / (1 + 0.3 * log2(max(1, many))) for many in often]
    made = [_match(asked, row, rare, text, line) for row, (text, line) in zip(table, lines, strict=True)]
    best, second, *_ = [*sorted((one.found for one in made), reverse=True), 0.0, 0.0]
    ahead = [one.found - (second if one.found == best else best) for one in made]
    return [replace(one, lead=max(-1.0, min(1.0, lead))) for one, lead in zip(made, ahead, strict=True)]


def _specified(line: Reading, asked: Reading) -> Reading:
    """Return a line without the nouns that only specify another of which nobody asked: the piano of the piano tuner."""
    if not any(word.head for word in line.words):
        return line
    said = {word.stem for word in asked.words} | {idea for word in asked.words for idea in word.ideas}
    heads = thesaurus().ideas
    dull = {
        word.stem
        for word in line.words
        if word.head and word.head not in said and not heads.get(word.head, set()) & said
    }
    return replace(
        line,
        parts=tuple(
            replace(word, stem=f"{word.stem}-", ideas=frozenset(), about=word.ideas)
            if word.stem in dull and word.ideas
            else word
            for word in line.parts
        ),
    )


def _covers(word: Word, line: Reading, known: Aliases) -> float:
    best = max((alike(word, told) for told in line.parts), default=0.0)
    if best < 0.5 and len(word.inside) > 1:  # a phrase of which the line has every word
        best = min(max((alike(part, told) for told in line.parts), default=0.0) for part in inside(word))
    if best < 0.9 and valued(word, line.values):
        best = max(best, 0.7)
    if best < 0.9 and word.kin and any(known.get(told.stem, frozenset()) & word.kin for told in line.parts):
        best = 0.9
    if best < 0.9 and word.stem in known and any(known[word.stem] & told.kin for told in line.words):
        best = 0.9
    return best


def _least(asked: Reading) -> float:
    """Return how much it counts that a line has no value of the kind that is asked for."""
    wanted = set(asked.wanted)
    return 2.5 if wanted <= _FIRM else 1.0 if wanted & _LOOSE else 1.5


def _another(question: str, text: str) -> float:
    """Say whether a line speaks of another one in the row: asked for the first, it has the next."""
    asked, told = ({at for at, rule in enumerate(_ORDINAL) if rule.search(words)} for words in (question, text))
    return float(bool(asked and told and not asked & told))


def _match(asked: Reading, row: list[float], rare: list[float], text: str, line: Reading) -> Match:
    found = no_name = no_hard = no_kind = no_focus = 0.0
    things: list[float] = []
    hit = _has(asked, line)
    least = 0.6 if all(word.light for word in asked.words) else 0.2  # "what is my name?" holds nothing weightier
    for word, near, weight in zip(asked.words, row, rare, strict=True):
        wanted = bool(asked.focus) and asked.focus in (word.stem, *word.inside)
        person = word.name or bool(word.kin)
        if not (word.light or person):
            things.append(near)
        if wanted and asked.typed and (near < 0.5 or not hit):
            no_kind = 1.0
            continue
        found += near * weight * (least if word.light else 0.6 if word.verb else 1.0)
        no_focus += wanted and near < 0.5
        if near < (0.7 if "@name" in asked.wanted else 0.5) and not word.light:
            no_name += person
            no_hard += not person and (word.hard or word.trait)
    return Match(
        found=min(found, 2.0),
        no_name=no_name,
        no_hard=no_hard + _another(asked.text, text),
        thing=sum(things) / len(things) if things else 1.0,
        when=hit * ("@time" in asked.wanted),
        who=hit * (asked.wanted == ("@name",)),
        where=hit * ("@place" in asked.wanted),
        many=hit * bool(_FIGURES & set(asked.wanted)),
        no_value=(1.0 - hit) * _least(asked) if asked.wanted else 0.0,
        no_kind=no_kind,
        no_focus=min(no_focus, 1.0),
    )


def _has(asked: Reading, line: Reading) -> float:
    """Say whether a line has a value of the kind that is asked for. Who and where are answered by a name that the question lacks."""
    said = {word.stem for word in asked.words}
    kin = {idea for word in asked.words for idea in word.kin}
    names = frozenset(word.stem for word in line.words if not word.ideas) if line.small else line.names
    if "@name" in asked.wanted and names - said:
        sure = _person(asked, line, names - said) if asked.wanted == ("@name",) and not asked.typed else 1.0
        if sure == 1.0 or _NAMING.search(asked.text):
            return sure
    if asked.wanted == ("@reason",):
        return 1.0 if "@reason" in line.values else 0.9  # a reason needs no word that says so
    if asked.wanted == ("@name",) and not asked.typed and any(word.kin - kin for word in line.words):
        return 1.0
    if (set(asked.wanted) - {"@name"}) & line.values:
        return 1.0
    if "@code" in asked.wanted and any(asked.focus == word.stem for word in line.words):
        return 0.8  # a password may be any word
    if asked.typed and line.german and any(word.stem not in said and _unknown(word) for word in line.words):
        return 0.7
    return 0.6 if "@money" in asked.wanted and "@figure" in line.values else 0.0


def _person(asked: Reading, line: Reading, names: frozenset[str]) -> float:
    """Say how far a line with names has somebody's: not that of a town, and where the question is what something is called,
    one that stands beside it."""
    if line.small:
        return 1.0
    found = [one for one in _PROPER.finditer(line.text) if stem(one[0]) in names]
    if all(_IN.search(line.text[: one.start()]) for one in found):
        return 0.4
    things = [word for word in asked.words if not (word.light or word.verb)]
    if not (_NAMING.search(asked.text) and things):
        return 1.0
    thing = next((word for word in reversed(things) if not word.name), things[-1])
    spots = [one.span() for one in _WORD.finditer(line.text) if _speaks(thing, one[0])]
    beside = any(
        _JOINED.fullmatch(line.text, min(end, one.end()), max(start, one.start()))
        for one in found
        for start, end in spots
    )
    return 1.0 if beside or not spots else 0.5


def _speaks(thing: Word, token: str) -> bool:
    return any(alike(thing, told) >= 0.7 for told in read(token).words)


def _unknown(word: Word) -> bool:
    """Say whether a word of a German line may be a name: written with a capital, and known to nobody."""
    return word.name and not (word.ideas or word.answers or word.about)


def rivals(asked: Reading, later: Reading, former: Reading, known: Aliases) -> bool:
    """Say whether a newer line answers a question in the place of the line that it replaced.

    A new time answers when; anything else must have the value, or a new name, and speak of what the older line speaks of.
    """
    if "@time" in asked.wanted:
        return "@time" in later.values
    named = bool(later.names - {word.stem for word in former.words})
    if asked.wanted and not (named if {"@name", "@place"} & set(asked.wanted) else _has(asked, later) > 0):
        return False
    strong = [word for word in asked.words if not word.light and _covers(word, former, known) >= 0.5]
    return 2 * sum(_covers(word, later, known) >= 0.5 for word in strong) >= len(strong)
