"""Whether a line that carries no question mark asks or tells. Pure.

A rule ("the verb stands before its subject") misses "landlord's number" and takes "did my ankle in" for a question. So the words of a line are
weighed, with their neighbours, their endings and how many they are. `asks.json` holds the weights; `python -m bench.fit_asks`
learns them from what invented people tell and ask.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from math import fsum

import msgspec

from homarus.core.patterns import late

SURE, MAYBE = 6.0, 1.0  # from here on it is a question, or may be one
LIKELY = 3.5  # below, it tells something as likely as not
TELLS = (
    -6.0
)  # below, it tells something even if a question mark stands at its end ("Ines hates surprise parties, loves opera??")
MOST = 24  # words that are looked at
# "X is V", in the order of a statement and with a value behind the verb: whatever its words are, it tells something.
_BEING = r"(?:is|are|was|were|ist|sind|war|waren|heißt|heisst|heißen|lautet|lauten)\b"
_STATES = late(
    rf"(?!{_BEING}|(?:do|does|did|can|could|should|would|has|have|had|hat|habe|haben|kann|muss|soll|gibt|darf|weißt|tell|say|remind|sag|nenn)\b)(?:[^\s,;:?]+\s+){{1,9}}?(?:{_BEING}|=)\s*\S.*",
    re.IGNORECASE,
)
_ASKING = late(
    r"\b(?:what|which|who|whom|whose|when|where|why|how|whether|wann|wo|wer|wem|wen|wessen|was|wie|warum|wieso|weshalb|woher|wohin|wo(?:mit|für|von|zu|r?an|r?auf|r?in|r?über)|welche[rsmn]?|wie ?viele?|wievielte[rsn]?|ob)\b",
    re.IGNORECASE,
)
_GIVES = late(r"\s[\w./:+-]*\d[\w./:+-]*\s*[.!]*\Z")
_SAYS = late(r"\d|\b(?:i|we|i['’]\w+|we['’]\w+|ich|wir)\b", re.IGNORECASE)
_WORD = late(r"[^\W_]+(?:['’][^\W\d_]+)?|[^\w\s]")


def asks(text: str) -> float:
    """Return the logarithm of the odds that a line asks."""
    known = weights()
    # Signs come in any order, and the sum must not depend on it.
    return fsum([known[""], *(known.get(sign, 0.0) for sign in signs(text))])


def states(text: str) -> bool:
    """Say whether a line says of something what it is: the subject, the verb, a value, and no word that asks."""
    return _STATES.fullmatch(text.strip()) is not None and not _ASKING.search(text)


def surely(text: str) -> bool:
    """Say whether a line asks for sure: one that ends with a figure or a code, and has no word that asks, may give it."""
    return asks(text) >= SURE and (_ASKING.search(text) is not None or not _GIVES.search(text))


def may_tell(text: str) -> bool:
    """Say whether what may be a question may as well tell something: by its words, or by a figure or "I" without a word that asks."""
    return asks(text) < LIKELY or not (surely(text) or _ASKING.search(text) or not _SAYS.search(text))


def signs(text: str) -> set[str]:
    """Return what a line is judged by. A figure counts as one, whatever it is."""
    plain = text.strip()
    words = ["0" if word[0].isdigit() else word for word in _WORD.findall(plain.lower().rstrip(" ?!."))][:MOST]
    found = {*words, f"={min(len(words), 12)}"}
    found |= {f"{at} {word}" for at, word in enumerate(words[:3])}
    found |= {f"{one} {next_one}" for one, next_one in zip(["^", *words], [*words, "$"], strict=True)}
    found |= {f"~{word[-3:]}" for word in words if len(word) > 5}
    found |= {"'s" for word in words if word.endswith(("'s", "’s"))}
    return found | ({"small"} if plain[:1].islower() else set()) | ({"."} if plain.endswith(".") else set())


@cache
def weights() -> dict[str, float]:
    file = resources.files(__package__).joinpath("asks.json").read_bytes()
    return msgspec.json.decode(file, type=dict[str, float])
