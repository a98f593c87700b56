"""Cut what is shown of a long line: the stretch where the words of the question stand. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import lru_cache

from homarus.memory.terms import forms, plain, stem

LIMIT = 700
ENDING = 4  # letters that may follow the stem of a word


def excerpt(text: str, terms: Iterable[str], limit: int = LIMIT) -> str:
    """Return at most `limit` characters of a line, around most of the words looked for; short lines pass unchanged."""
    if len(text) <= limit:
        return text
    places = [start for start, _ in spans(text, terms)]
    if not places:
        return text[:limit].rstrip() + "…"
    # Places rise: how many lie within reach of one is where the reach ends among them.
    counts = [bisect_left(places, at + limit * 3 // 4) - index for index, at in enumerate(places)]
    start = max(0, places[counts.index(max(counts))] - limit // 8)
    if start:
        start = text.find(" ", start, start + 60) + 1 or start
    piece = text[start : start + limit].strip()
    return ("…" if start else "") + piece + ("…" if start + limit < len(text) else "")


def spans(text: str, terms: Iterable[str]) -> list[tuple[int, int]]:
    """Return where words of the question begin and end in a text, by stem; for marking and for cutting. They never overlap.

    Looked for one by one: a pattern of all words takes longer to compile than this takes for all lines that are shown.
    """
    folded = plain(text)
    if len(folded) != len(text):  # something was composed or expanded: places must be those of the text
        folded = "".join([low if len(low := char.lower()) == 1 else char for char in text])
    found = sorted([(start, -end) for word in _stems(tuple(terms)) for start, end in _places(folded, word)])
    kept: list[tuple[int, int]] = []
    for start, end in found:
        if not kept or start >= kept[-1][1]:
            kept.append((start, -end))
    return kept


@lru_cache(maxsize=256)
def _stems(terms: tuple[str, ...]) -> frozenset[str]:
    return frozenset(stem(form) for term in terms for form in forms(term))


def _places(text: str, word: str) -> Iterator[tuple[int, int]]:
    """Yield words that start with a stem and end soon after; other scripts have no words, and match anywhere."""
    latin = word.isascii()
    start = text.find(word)
    while start >= 0:
        end = start + len(word)
        if not latin:
            yield start, end
        elif not (start and _in_word(text[start - 1])):
            last = min(end + ENDING, len(text))
            while end < last and text[end].isalnum():
                end += 1
            if end == len(text) or not _in_word(text[end]):
                yield start, end
        start = text.find(word, start + 1)


def _in_word(char: str) -> bool:
    return char.isalnum() or char == "_"
