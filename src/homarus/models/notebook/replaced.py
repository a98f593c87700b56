"""Which line of the notes a correction is about. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from homarus.core.patterns import late
from homarus.models.notebook.corrections import CORRECTS, SHIFTED, apart, bare, like_values, sure, takes_place
from homarus.models.notebook.evidence import Line
from homarus.models.notebook.language import Reading, alike, read, stem


def same_matter(text: str, found: Sequence[Line], told_last: str = "") -> Line | None:
    """Return the line that a correction is about: the one with which it shares most, of equals the one told last, then the newest.

    A line that says the same kind of thing of the same subject is meant. Another one must speak of the same thing or deed (a name in
    common is never enough), give a value of the same kind, and share so much the more the less the sentence says that it is a
    correction, or that something got another time or figure.
    """
    new, older = read(bare(text)), [line for line in found if line.text != text and not line.todo]
    last = told_last or max((line for line in older), key=lambda line: line.order, default=Line("", "")).source
    enough = 1.2 if CORRECTS.match(text) else 1.5 if SHIFTED.search(text) else 2.4
    best: tuple[float, tuple[str, int]] = (0.0, ("", 0))
    chosen = None
    for line in older:
        total, same_thing, kindred = _shared(new, read(bare(line.text)))
        meant = takes_place(text, line.text, last=line.source == last)
        least = 2.4 if enough == 1.5 and not same_thing else enough
        kindred = kindred or _denies(text, line.text)
        kindred = kindred or (line.source == last and sure(text) and _IT.search(text) is not None)
        perhaps = kindred and total >= least and not apart(text, line.text) and like_values(text, line.text)
        key = (total + meant + 0.5 * (meant and line.source == last), line.order)
        if (meant or perhaps) and key > best:
            best, chosen = key, line
    return chosen


_DENIED = late(
    r"\b(?:not|nicht|statt|instead of)\s+(?:(?:on|at|in|for|the|am|um|im|den|dem|der|die|das)\s+)*([^\s,.;!?]+)",
    re.IGNORECASE,
)
_IT = late(r"\b(?:it|es)\b", re.IGNORECASE)  # what was told just before
# Words that say when: two lines that have no more in common speak of other matters.
_DAY = late(
    r"\A(?:januar|februar|m[aä]r|april|mai|may|ju[nl]|august|september|o[kc]tob|novem|de[cz]em|mon(?!a|e|i)|tue|wed|thu|fri|sat|sun|die?nst|mittwo|donners|freit|samst|sonn"
    r"|first|second|third|last|next|erst|zweit|dritt|letzt|näch|nach|week|woch|month|monat|year|jahr|day|tag|today|heut|tomorr|morg|even|abend|half|halb|from|nur|only|night|nacht)"
)
_MEASURED = ({"@time", "@often"}, {"@money", "@figure", "@number", "@code"})


def _denies(text: str, older: str) -> bool:
    """Say whether a line says "not Thursday" of what an older one puts on a Thursday."""
    return bool({stem(word) for word in _DENIED.findall(text)} & {word.stem for word in read(older).words})


def _shared(new: Reading, old: Reading) -> tuple[float, bool, bool]:
    """Return how much two lines have in common, whether both give a time, or a figure, for the same thing, and whether more than names,
    relatives and figures is in common."""
    total, thing, kindred = 0.0, False, False
    for word in new.words:
        near = max((alike(word, told) for told in old.parts if not told.light), default=0.0)
        named = any(told.name and told.stem == word.stem for told in old.words)
        if not word.light:
            total += 1.4 if named else near * (1.4 if word.inside else 1.0)
            common = near >= 0.65 and not (word.name or word.stem[:1].isdigit() or _DAY.match(word.stem))
            kindred = kindred or (common and not (word.kin or word.stem in new.names))
            thing = thing or (common and not (named or word.trait))
    alike_values = any(new.values & kind and old.values & kind for kind in _MEASURED)
    return total + (0.5 if alike_values and thing else 0.0), alike_values and thing, kindred
