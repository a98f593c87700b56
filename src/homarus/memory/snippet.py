"""Cut what is shown of a long line: the stretch where the words of the question stand. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from homarus.memory.terms import forms, plain, stem

LIMIT = 700


def excerpt(text: str, terms: Iterable[str], limit: int = LIMIT) -> str:
    """Return at most `limit` characters of a line, around most of the words looked for; short lines pass unchanged."""
    if len(text) <= limit:
        return text
    places = [match.start() for match in spans(text, terms)]
    if not places:
        return text[:limit].rstrip() + "…"
    best = max(places, key=lambda at: (sum(at <= other < at + limit * 3 // 4 for other in places), -at))
    start = max(0, best - limit // 8)
    if start:
        start = text.find(" ", start, start + 60) + 1 or start
    piece = text[start : start + limit].strip()
    return ("…" if start else "") + piece + ("…" if start + limit < len(text) else "")


def spans(text: str, terms: Iterable[str]) -> list[re.Match[str]]:
    """Return where words of the question stand in a text, by stem; for marking and for cutting."""
    pattern = _pattern(tuple(terms))
    if pattern is None:
        return []
    if text.isascii():
        return list(pattern.finditer(text))
    simple = plain(text)  # only as long as the text when nothing was composed or expanded
    return list(pattern.finditer(simple if len(simple) == len(text) else text))


@lru_cache(maxsize=256)
def _pattern(terms: tuple[str, ...]) -> re.Pattern[str] | None:
    """Match words that start with the stem of a word asked for, and end soon after; other scripts match anywhere."""
    words = [re.escape(stem(form)) for term in terms for form in forms(term)]
    latin = [rf"\b{word}[^\W_]{{0,4}}\b" for word in words if word.isascii()]
    others = [word for word in words if not word.isascii()]
    joined = "|".join(sorted({*latin, *others}, key=len, reverse=True))
    return re.compile(joined, re.IGNORECASE) if joined else None
