"""Quotes with citations out of what a memory tool returned, and the answer made of them. Nothing is ever invented. Pure."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from homarus.core.patterns import late
from homarus.core.text import single_line
from homarus.models.notebook.grammar import content_words
from homarus.models.notebook.words import NOTHING_FOUND

CITATION = late(r"([\w./~@-]+\.\w{1,8})#L(\d+)(?:-L?(\d+))?")
MAX_QUOTES = 3
MAX_QUOTE = 300
_TEXT_KEYS = ("snippet", "content", "text", "quote", "line")
# A list mark with the kind of a retained fact behind it, or that kind alone (`W:`), as recall returns it.
_KIND = r"[WBOS](?:\([^)]*\))?(?:\s+@\S+)*"
_BULLET = late(rf"\A\s*(?:(?:[-*+•]|\d+[.)])\s+(?:{_KIND}:?\s+)?|{_KIND}:\s+)")


_TRAILER = late(r"\s*\n\s*Source: [^\n]*\s*\Z")


class Quote(Struct, frozen=True):
    """Words from a file and where they stand."""

    text: str
    source: str


def quotes(result: str) -> list[Quote]:
    """Return the quotes of a tool result in its order, from JSON or from lines that carry citations."""
    try:
        value = msgspec.json.decode(result)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _from_lines(result)
    return _from_json(value)


def _from_json(value: Any) -> list[Quote]:
    if isinstance(value, list):
        return [quote for item in value for quote in _from_json(item)]
    if not isinstance(value, dict):
        return []
    text = next((value[key] for key in _TEXT_KEYS if isinstance(value.get(key), str)), None)
    source = _source(value)
    if text is not None and source:
        return [Quote(_TRAILER.sub("", text), source)]
    return [quote for item in value.values() if isinstance(item, list | dict) for quote in _from_json(item)]


def _source(value: dict[str, Any]) -> str:
    for key in ("citation", "source", "ref"):
        found = CITATION.search(str(value.get(key, "")))
        if found:
            return found.group(0)
    path = value.get("path")
    start = value.get("startLine") or value.get("line") or value.get("from")
    if not isinstance(path, str):
        return ""
    end = value.get("endLine")
    span = f"-L{end}" if isinstance(end, int) and end != start else ""
    return f"{path}#L{start}{span}" if isinstance(start, int) else path


def _from_lines(text: str) -> list[Quote]:
    found: list[Quote] = []
    before: list[str] = []
    for line in text.splitlines():
        cited = CITATION.search(line)
        if cited is None:
            before.append(line)
            continue
        words = (line[: cited.start()] + line[cited.end() :]).strip(" \t()[]<>·-—:|")
        words = re.sub(r"\b(?:source|citation)\s*:?\s*\Z", "", words, flags=re.IGNORECASE).strip(" \t()[]·-—:|")
        if not content_words(words):
            # The citation stands on a line of its own, under the lines it is about.
            words = "\n".join(part for part in before if part.strip())
        before = []
        if words.strip():
            found.append(Quote(words.strip(), cited.group(0)))
    return found


def relevant(question: str, found: list[Quote]) -> list[Quote]:
    """Return the quotes that share a word with the question, best first, each cut to the lines that do."""
    wanted = content_words(question)
    if not wanted:
        first = ((quote, next(filter(_says_something, quote.text.splitlines()), "")) for quote in found)
        return [Quote(bare(line), _narrow(quote, line)) for quote, line in first if line][:MAX_QUOTES]
    scored: list[tuple[int, int, Quote]] = []
    for position, quote in enumerate(found):
        lines = [line for line in quote.text.splitlines() if _says_something(line)]
        best = max(lines, key=lambda line: len(wanted & content_words(line)), default="")
        score = len(wanted & content_words(best))
        if score:
            scored.append((-score, position, Quote(bare(best), _narrow(quote, best))))
    scored.sort(key=lambda item: item[:2])
    top = scored[0][0] if scored else 0
    # A quote with far fewer shared words than the best one only distracts.
    kept = [quote for score, _, quote in scored if score * 2 <= top]
    return list({quote.text: quote for quote in kept}.values())[:MAX_QUOTES]


def _narrow(quote: Quote, line: str) -> str:
    """Return the citation of one line inside a quote of several, where the lines can be counted."""
    cited = CITATION.fullmatch(quote.source)
    lines = quote.text.splitlines()
    if cited is None or cited.group(3) is None or line not in lines:
        return quote.source
    start, end = int(cited.group(2)), int(cited.group(3))
    if len(lines) != end - start + 1:
        return quote.source
    return f"{cited.group(1)}#L{start + lines.index(line)}"


def _says_something(line: str) -> bool:
    """Say whether a line is more than a heading, a blank or the name of a field that nobody has filled in."""
    return bool(line.strip()) and not line.lstrip().startswith("#") and not line.rstrip(" \t*_").endswith(":")


def bare(text: str) -> str:
    """Return a line of a note without its list mark and its kind."""
    return single_line(_BULLET.sub("", text), MAX_QUOTE)


def complaint(result: str) -> str:
    """Return what a tool says went wrong inside a result of its own form, or nothing."""
    try:
        value = msgspec.json.decode(result)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return ""
    return str(value["error"]) if isinstance(value, dict) and value.get("error") else ""


def place(result: str) -> str:
    """Return the citation of what a tool wrote, or nothing."""
    try:
        value = msgspec.json.decode(result)
    except (msgspec.DecodeError, UnicodeEncodeError):
        value = None
    if isinstance(value, dict) and _source(value):
        return _source(value)
    cited = CITATION.search(result)
    return cited.group(0) if cited else ""


def answer(question: str, result: str) -> str:
    """Return what the notes say about a question: quotes with citations, or that there is nothing."""
    found = relevant(question, quotes(result))
    if not found:
        return NOTHING_FOUND
    lines = [f"“{quote.text}” ({quote.source})" for quote in found]
    return (
        f"Your notes say: {lines[0]}"
        if len(lines) == 1
        else "Your notes say:\n" + "\n".join(f"- {line}" for line in lines)
    )
