"""How surely a line of a note answers a question: words, ideas, names and the kind of value, weighed into one figure. Pure.

A line that lacks what is asked for must not win because it speaks of the same person: what is missing counts more than
what is there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib import resources
from math import log2

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, replace

from homarus.core.patterns import late
from homarus.models.notebook.corrections import CANCELS, claim, left, takes_place
from homarus.models.notebook.days import whether
from homarus.models.notebook.language import Reading, Word, alike, inside, listed, read, stem, valued

_ORDINAL = [late(rf"\b(?:{words})\b", re.IGNORECASE) for words in (
    r"first|1st|erste[nrsm]?|erstes", r"second|2nd|zweite[nrsm]?", r"third|3rd|dritte[nrsm]?", r"last|previous|letzte[nrsm]?|vorige[nrsm]?", r"next|nächste[nrsm]?",
)]  # fmt: skip
# A question about what was (the German "was" that begins one is no past), and a line that tells of something that was.
_WAS_ASKED = late(
    r"\b(?:did|(?<=\w )was|were|had|war|waren|wurden?|hatten?)\b|\b(?:hat|haben?|bin|ist|sind)\b.*\b(?:\w*ge\w{2,}(?:t|en)|\w{3,}iert|(?:be|ver|er)\w{3,}(?:t|en))\W*\Z",
    re.IGNORECASE,
)
_WAS_TOLD = late(
    r"\b(?:was|were|had|did|been|has|have|got|went|came|took|gave|sold|bought|paid|lent|left|made|won|lost|broke|said|told|met|put|cut|set|found|kept|began|ran"
    r"|saw|ate|drank|wrote|drove|flew|rode|spoke|taught|heard|felt|held|stood|slept|wore|knew|grew|threw|caught|fell|chose|rang|became|forgot|sent|spent|built|thought|brought|used|since|ago|last|yesterday|former|(?:19|20)[012]\d|\w{2,}ed"
    r"|war|waren|wurden?|hatten?|\w*ge\w{2,}(?:t|en)|\w{3,}iert|(?:be|ver|er)\w{3,}t|seit|letzte[nrs]?|gestern|früher|vor|\w{3,}te[nt]?)\b",
    re.IGNORECASE,
)
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
_NAME = r"(?:Dr\.? |Mr\.? |Mrs\.? |Ms\.? |Herr |Frau )*[A-ZÄÖÜ][^\W\d_]+"
_AGED = r"(?: ?\(\w{1,12}\))?"
# What a relative is called, one or several: "my sister Ann", "our cats are Ida (7), Bo and Lu".
_CALLED = late(
    r"(?:\s*[,:=]|\s+(?:is|are|ist|sind|heißt|heißen|called|named|namens)\b)*\s+"
    rf"(?P<names>{_NAME}{_AGED}(?:(?:,| and| und|,? &) (?:baby )?{_NAME}{_AGED})*)"
)
_MARRIED = late(
    rf"\b(?P<before>{_NAME}) (?:and|und) (?:I|ich)\b[^.;]{{0,30}}\b(?:married|wed|verheiratet|geheiratet)\b"
    rf"|\b(?:I|[Ii]ch|[Ww]e|[Ww]ir)\b[^.;]{{0,30}}(?:\bmarried (?:to )?(?P<to>{_NAME})|\bmit (?P<mit>{_NAME}) verheiratet)"
)
_OWN = late(r"\b(?:my|our|mein\w*|unser\w*)\s+\Z", re.IGNORECASE)
_OTHERS = late(
    r"(?:\b(?P<owner>(?-i:[A-ZÄÖÜ])[^\W\d_]+?)(?:['’]s?|s)|['’]s?|\b(?:h(?:er|is)|their|seine?[rnm]?|ihre?[rnm]?|deren|dessen|von \w+))\s+\Z",
    re.IGNORECASE,
)
_TITLES = frozenset({"frau", "herr"})  # before a name no relation, unless one's own
# Whose relative is what to oneself: my wife's mother is my mother-in-law.
_BY_WAY_OF = (
    ("wife", "mother", "mother-in-law"), ("wife", "father", "father-in-law"), ("wife", "brother", "brother-in-law"), ("wife", "sister", "sister-in-law"),
    ("child", "husband", "son-in-law"), ("child", "wife", "daughter-in-law"), ("child", "son", "grandson"), ("child", "daughter", "granddaughter"),
    ("parent", "mother", "grandmother"), ("parent", "father", "grandfather"), ("parent", "brother", "uncle"), ("parent", "sister", "aunt"),
    ("sibling", "son", "nephew"), ("sibling", "daughter", "niece"), ("sibling", "wife", "sister-in-law"), ("sibling", "husband", "brother-in-law"),
)  # fmt: skip
# Nobody is two of these; a child, a sibling, a pet may be any.
_ANIMALS = frozenset({"dog", "cat", "horse", "rabbit", "budgie", "parrot", "tortoise"})
_FAMILIES = (
    _ANIMALS,
    frozenset({"mother", "father", "sister", "brother", "wife", "husband", "son", "daughter"}),
    frozenset({"grandmother", "grandfather"}),
)
_ROLE = r"(?:(?P<own>my|our|mein\w*|unser\w*)|the|der|die|das|de[mn])\s+(?P<kin>[^\W\d_]+)\b"
_ABOUT = late(rf"\W*{_ROLE}(?!-| in law| ?(?-i:[A-ZÄÖÜ])?\w*['’]s?\b)", re.IGNORECASE)
_ASKED_ABOUT = late(
    rf"\b{_ROLE}(?!-| in law)(?:['’]s\s+(?P<whose>[^\W\d_]+))?", re.IGNORECASE
)  # my wife's mother is no wife
_NUMBERED = late(r"\b([^\W\d_]{3,})\s+#?(\d+)\b(?![.,:]\d)")
_PRONOUN = late(r"\b(?:her|him|she|he|ihr|ihm|ihn|sie|er)\b", re.IGNORECASE)
_EITHER = {"wife": "wife husband", "child": "son daughter", "parent": "mother father", "sibling": "brother sister"}


class Match(Struct, frozen=True):
    """What of a question a line speaks to, what of it the line lacks, and how near the two are by their vectors."""

    found: float = 0.0  # weight of the words it speaks of, by how rare they are
    no_name: float = 0.0  # names and relatives that it lacks
    no_hard: float = 0.0  # things that are stated or not, and that it does not state
    thing: float = 0.0  # how far it speaks of the words that are neither names nor small
    no_value: float = 0.0  # it lacks the time, the name, the place, the figure that was asked for
    lead: float = 0.0  # how far it is before the next best line by the words it speaks of, or behind the best
    no_focus: float = 0.0  # it lacks the very thing that the question names as wanted
    no_past: float = 0.0  # asked what was, it tells what is or will be
    cosine: float = 0.0
    bare: float = 0.0  # the cosine without the question's names, which any line about them shares


class Weights(Struct, frozen=True):
    """What each part adds to the logarithm of the odds that a line is meant, and the least for which it counts as that."""

    match: Match
    base: float
    least: float

    def confidence(self, match: Match) -> float:
        return float(self.base + sum(w * v for w, v in zip(astuple(self.match), astuple(match), strict=True)))


class Verdict(Struct, frozen=True):
    """How much a line's fit counts beside what its reader says, and the least sum that is said aloud."""

    fits: float
    least: float

    def confidence(self, fits: float, reads: float) -> float:
        return reads + self.fits * fits


class Table(Struct, frozen=True):
    """What `bench/fit_notebook.py` found: the weights by what ranked the lines (words, static vectors, a model), the verdicts by that
    or by the model that read them (minilm)."""

    fits: dict[str, Weights]
    answers: dict[str, Verdict]


@cache
def table() -> Table:
    file = resources.files(__package__).joinpath("weights.json").read_bytes()
    return msgspec.json.decode(file, type=Table)


def relatives(texts: Sequence[str]) -> list[tuple[str, frozenset[int]]]:
    """Return the names that the lines give to relatives ("my sister Ann", "mein Chef heißt Albers"), with the ideas of that relation."""
    found: list[tuple[str, frozenset[int]]] = []
    theirs: list[tuple[str, str, list[str]]] = []  # of whom, which relation, what they are called
    for text in texts:
        for role in _WORD.finditer(text):
            called = _CALLED.match(text, role.end())
            if called is None or not (kin := _kin(role[0])):
                continue
            names = [name for name in _PROPER.findall(called["names"]) if not _kin(name)]
            if others := _OTHERS.search(text[: role.start()]):
                theirs.append((others["owner"] or "", role[0], names))
            elif _OWN.search(text[: role.start()]) or role[0].lower() not in _TITLES:
                found += [(name, kin) for name in names]
        for pair in _MARRIED.finditer(text):
            name = pair["before"] or pair["to"] or pair["mit"]
            found.append((name.split()[-1], _kin("wife") | _kin("husband")))
    by_name = {name.lower(): kin for name, kin in found}
    for owner, relation, names in theirs:
        if through := by_name.get(owner.lower()):
            kin = _by_way_of(through, _kin(relation))
            found += [(name, kin) for name in names if kin]
    return found


def _by_way_of(through: frozenset[int], relation: frozenset[int]) -> frozenset[int]:
    """Return what the relatives of a relative are to oneself."""
    return frozenset(
        idea
        for first, second, both in _BY_WAY_OF
        if relation & _kin(second) and any(through & _kin(word) for word in _EITHER[first].split())
        for idea in _kin(both)
    )


def aliases(texts: Sequence[str]) -> Aliases:
    """Return the same by the stems of the names."""
    found: Aliases = {}
    for name, kin in relatives(texts):
        found[stem(name)] = found.get(stem(name), frozenset()) | kin
    return found


@lru_cache(maxsize=4096)
def _kin(role: str) -> frozenset[int]:
    """Return the relations that a word stands for; of several sisters each is one."""
    found = frozenset(idea for word in read(role).words for idea in word.kin)
    return found or (_kin(role[:-1]) if role.endswith("s") and len(role) > 3 else found)


def matches(asked: Reading, lines: Sequence[tuple[str, Reading]], known: Aliases) -> list[Match]:
    """Return what each line says to the question; a word that many of the lines have tells little."""
    table = [[covers(word, line, known) for word in asked.words] for _, line in lines]
    often = [sum(row[at] >= 0.5 for row in table) for at in range(len(asked.words))]
    rare = [1 / (1 + 0.3 * log2(max(1, many))) for many in often]
    made = [_match(asked, row, rare, text, line) for row, (text, line) in zip(table, lines, strict=True)]
    best, second, *_ = [*sorted((one.found for one in made), reverse=True), 0.0, 0.0]
    ahead = [one.found - (second if one.found == best else best) for one in made]
    return [replace(one, lead=max(-1.0, min(1.0, lead))) for one, lead in zip(made, ahead, strict=True)]


def covers(word: Word, line: Reading, known: Aliases) -> float:
    """Return how far a line speaks of a word of a question, also by the name of the one whom it means."""
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


def of_another(question: str, line: Reading, known: Aliases) -> bool:
    """Say whether a line is about another animal or relative than the one that is asked about: the brother, and not the sister.

    It begins with that one, speaks of the one asked for nowhere, and of nobody by a pronoun. So is one about another number of a row.
    """
    if _of_another_number(question, line.text):
        return True
    told = _ABOUT.match(line.text)
    kind = _one_of(told["kin"]) if told else frozenset()
    if told is None or not kind or _PRONOUN.search(line.text) or not (told["own"] or kind & _ANIMALS):
        return False
    asked = [
        one["kin"]
        for one in _ASKED_ABOUT.finditer(question)
        if (one["own"] or _one_of(one["kin"]) & _ANIMALS) and not (one["whose"] and _kin(one["whose"]))
    ]
    family = next(group for group in _FAMILIES if kind & group)
    others = [meant for word in asked if (meant := _one_of(word) & family) and not meant & kind]
    return any(
        covers(word, line, known) < 0.5
        for word in read(question).words
        if any(word.kin & _kin(one) for meant in others for one in meant)
    )


def _of_another_number(question: str, text: str) -> bool:
    """Say whether a question names which one it means by a number ("item 44"), and a line has another ("item 61")."""
    if whether(question):
        return False
    asked, told = (
        [
            (stem(noun), figure.lstrip("0"))
            for noun, figure in _NUMBERED.findall(said)
            if noun.lower() not in listed("stop")
        ]
        for said in (question, text)
    )
    said = {figure.lstrip("0") for figure in re.findall(r"\d+", text)}
    return any(figure not in said and any(noun == one for one, _ in told) for noun, figure in asked)


@lru_cache(maxsize=1024)
def _one_of(word: str) -> frozenset[str]:
    """Return which of the relatives and animals that rule one another out a word stands for."""
    return frozenset(one for group in _FAMILIES for one in group if _kin(word) & _kin(one))


def _another(question: str, text: str) -> float:
    """Say whether a line speaks of another one in the row: asked for the first, it has the next."""
    asked, told = ({at for at, rule in enumerate(_ORDINAL) if rule.search(words)} for words in (question, text))
    return float(bool(asked and told and not asked & told))


def _match(asked: Reading, row: list[float], rare: list[float], text: str, line: Reading) -> Match:
    found = no_name = no_hard = no_focus = 0.0
    things: list[float] = []
    hit = _has(asked, line)
    least = 0.6 if all(word.light for word in asked.words) else 0.2  # "what is my name?" holds nothing weightier
    for word, near, weight in zip(asked.words, row, rare, strict=True):
        wanted = bool(asked.focus) and asked.focus in (word.stem, *word.inside)
        person = word.name or bool(word.kin)
        if not (word.light or person):
            things.append(near)
        if wanted and asked.typed and (near < 0.5 or not hit):
            continue  # a name may answer without saying what it is
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
        no_value=1.0 - hit if asked.wanted else 0.0,
        no_focus=min(no_focus, 1.0),
        no_past=float(bool(_WAS_ASKED.search(asked.text)) and not _WAS_TOLD.search(text)),
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

    What is cancelled answers anything, a new time answers when; anything else must have the value, or a new name or place, and
    speak of what the older line speaks of, or stand for it by a pronoun.
    """
    new, old = claim(later.text), claim(former.text)
    if CANCELS.search(later.text) and not CANCELS.search(former.text):
        return True
    if "@time" in asked.wanted:
        return "@time" in later.values
    if "@place" in asked.wanted and left(later.text):
        return True
    named = bool(new.names - {word.stem for word in former.words}) or (
        "@place" in asked.wanted and bool(new.places - old.places or (new.places and new.figures - old.figures))
    )
    if asked.wanted and not (named if {"@name", "@place"} & set(asked.wanted) else _has(asked, later) > 0):
        return False
    if takes_place(later.text, former.text, last=True) and not takes_place(later.text, former.text):
        return True  # "it is red" is about the car
    strong = [word for word in asked.words if not word.light and covers(word, former, known) >= 0.5]
    return 2 * sum(covers(word, later, known) >= 0.5 for word in strong) >= len(strong)
