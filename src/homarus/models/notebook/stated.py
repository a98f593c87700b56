"""Whether a line states what a question asks for by the very same words: "The gate code is 4711", asked for the gate code. Pure.

Fit and reader weigh; this is sure. So all that stands before the line's verb must be what the question names, nothing more and nothing
less: the *work* phone is another thing, Tom's number another one's, and what *was* or is *not* so states nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache

from homarus.core.patterns import late
from homarus.models.notebook.language import VALUES, Reading, listed, read, stem

_AGAIN = r"(?:again|please|now|currently|at the moment|these days|(?:noch ?)?mal|nochmals?|denn|doch|gleich|bitte|jetzt|aktuell|derzeit|eigentlich|momentan)"
_IS = r"(?:is|are|ist|sind|lautet|lauten|hei(?:ß|ss)t|hei(?:ß|ss)en|beträgt)"
_ASKS = r"what time|which day|what day|what|who|when|where|how (?:much|old|high|long|big|heavy|tall)|was|wer|wann|wo|um wie ?viel uhr|wie(?: (?:viel|alt|hoch|lang|groß|schwer|spät))?"
_POLITE = late(
    r"\W*(?:(?:do you (?:still )?(?:know|remember)|(?:can|could) you tell me|tell me|remind me|wei(?:ß|ss)t du|kannst du mir sagen|sage? mir)(?: again| please| bitte| noch(?: ?mal)?)*[,:]?\s+)?",
    re.IGNORECASE,
)
# "what is my IBAN", "what was the code again", "wie war nochmal der Code", "when the party is", and "wifi password?" alone
_QUESTIONS = [
    late(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?:{_ASKS})(?:(?:['’]s|['’]?re|\s+{_IS})(?:\s+{_AGAIN})*\s+|\s+(?:was|war)(?:\s+{_AGAIN})+\s+)(?P<thing>.+?)(?:,?\s+{_AGAIN})*\W*",
        rf"(?:{_ASKS})\s+(?:was|war)\s+(?P<thing>.+?)(?:,?\s+{_AGAIN})+\W*",
        rf"(?:{_ASKS})\s+(?P<thing>.+?)(?:\s+{_AGAIN})*\s+{_IS}\W*",
        r"(?P<thing>.+?)\W*",
    )
]
_TELLS = late(
    rf"(?P<thing>[^:=]+?)(?:\s*[:=]|\s+(?P<is>{_IS})\b)\s*(?:(?:now|still|currently|actually|jetzt|nun|noch|immer noch|aktuell|derzeit|called|namens)\b[\s:]*)*(?P<value>\S.*)",
    re.IGNORECASE,
)
# What begins so tells how a thing is, or that one does not know what it is.
_NO_VALUE = late(
    r"(?:not|no longer|no|never|none|nobody|un(?:known|clear|set)|missing|lost|gone|wrong|right|correct|new|old|changed|different|the same|expired|invalid|valid|secret|safe|weak|strong|important|due|too|very|so|really"
    r"|quite|already|just|about to|being|been|to be|going to|nicht|nie|kein\w*|unbekannt|unklar|weg|verloren|falsch|richtig|neu|alt|geändert|anders|(?:der|die|das)selbe|zu|sehr|schon|gerade|ganz|ziemlich|abgelaufen|ungültig"
    r"|gültig|geheim|sicher|wichtig|fällig|wieder)\b",
    re.IGNORECASE,
)
_SOME = r"(?:(?:the|a|an|my|our|der|die|das|ein\w*|mein\w*|unser\w*)\s+)?"
_THERE = late(
    r"(?:in|at|on|behind|under|next to|near|inside|above|below|beside|im|am|bei|beim|auf|unter|hinter|neben|an|über)\s",
    re.IGNORECASE,
)
_CALLED = late(
    rf"{_SOME}(?:(?:dr|mr|mrs|ms|prof)\.?\s+|(?:herr|frau|miss)\s+)*(?P<name>[^\W\d_][\w’'-]*)", re.IGNORECASE
)
_ONE_WORD = late(r"[\"“„]?\S+?[\"”“]?[.!]*\Z")
_TOKEN = late(r"[^\W_]+(?:\.[^\W_]+)*")
# One's own and "the" are the same; of, for, von join a thing with its owner as 's does.
_SAME = late(r"(?:the|an?|my|our|of|for|s|de[rmns]|die|das|vo[nm]|für|(?:mein|unser)(?:e[nmrs]?)?)\Z")
_SOMEBODYS = late(
    r"\b(?:his|her|their|your|its|seine?[nmrs]?|ihre?[nmrs]?|deine?[nmrs]?|euer|eure?[nmrs]?)\b", re.IGNORECASE
)


def states(question: str, line: str) -> bool:
    """Say whether a line gives the value of the very thing that a question asks for."""
    things = _things(question)
    told = _TELLS.match(line)
    if not things or told is None or told["value"].endswith("?") or _NO_VALUE.match(told["value"]):
        return False
    return _named(told["thing"]) in things and _is_value(read(question), told)


@lru_cache(maxsize=64)
def _things(question: str) -> frozenset[frozenset[str]]:
    """Return what a question may ask for, by each way to read it."""
    start = _POLITE.match(question)
    said = question[start.end() if start else 0 :]
    found = [rule.fullmatch(said) for rule in _QUESTIONS]
    # "I'm at the café, what's the wifi password": what was said before says why.
    _, before, last = said.rpartition(", ")
    found += [rule.fullmatch(last) for rule in _QUESTIONS[:-1]] if before else []
    return frozenset(filter(None, (_named(one["thing"]) for one in found if one)))


@lru_cache(maxsize=1024)
def _named(thing: str) -> frozenset[str]:
    """Return the stems of all words that name a thing and its owner; nothing where the owner is left to a pronoun."""
    if _SOMEBODYS.search(thing):
        return frozenset()
    said = thing.lower().replace("e-mail", "email")
    words = [word for word in _TOKEN.findall(said) if not _SAME.match(word)]
    # "Günthers Nummer", "die Nummer von Günther"; and small words count as they are: a letter *to* Ann is none *from* her.
    return frozenset(word if word in listed("stop") else stem(stem(word)) for word in words)


def _is_value(asked: Reading, told: re.Match[str]) -> bool:
    """Say whether what a line says of the thing is of the kind that the question wants."""
    value, wanted = told["value"], set(asked.wanted)
    if not wanted:
        return any(not (word.name or word.kin) for word in asked.words)  # "what is Ann?" names nothing that has a value
    said = f"{told['is'] or ':'} {value}"
    if "@place" in wanted:
        return _THERE.match(value) is not None and _is(said, {"@place"}) and not _is(value[:30], {"@span", "@time"})
    if "@name" in wanted:
        called = _CALLED.match(value)
        name = called["name"] if called else ""
        return name[:1].isupper() and (stem(name) in read(told.string).names or not read(told.string).german)
    if "@phone" in wanted:
        wanted.add("@number")
    if "@money" in wanted:
        wanted.add("@figure")
    return _is(said, wanted) or ("@code" in wanted and _ONE_WORD.match(value) is not None)


def _is(value: str, wanted: set[str]) -> bool:
    return any(VALUES[kind].search(value) for kind in wanted)
