"""Cut what is shown of a long line: the stretch where the words of the question stand. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
    stems = {stem(form) for term in terms for form in forms(term)}
    found = []
    for match in re.finditer(r"[^\W_]+", text):
        word = plain(match[0])
        if stem(word) in stems or any(not s.isascii() and s in word for s in stems):
            found.append(match)
    return found
