"""Directives inside a message: `/think high`, `/model opus`, `/queue collect`. Pure: text in, text and wishes out.

A directive is taken out of the text together with one space beside it; every other character stays where it was,
because a message may be code. Quoted lines, quoted passages and code are never read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from homarus.core.patterns import late
from homarus.models.levels import parse_level

CLEAR = "default"
_CLEARS = frozenset({"default", "inherit", "clear", "reset", "unpin"})
_SWITCHES: dict[str, dict[str, str]] = {
    "verbose": {"off": "off", "on": "on", "full": "full", "false": "off", "true": "on", "no": "off", "yes": "on"},
    "trace": {"off": "off", "on": "on"},
    "reasoning": {"off": "off", "on": "on", "stream": "stream", "hide": "off", "show": "on"},
    "elevated": {"off": "off", "on": "on", "ask": "ask", "full": "full"},
    "fast": {"auto": "auto", "on": "on", "off": "off"},
}
NAMES = {
    "think": "thinking",
    "thinking": "thinking",
    "t": "thinking",
    "fast": "fast",
    "verbose": "verbose",
    "v": "verbose",
    "trace": "trace",
    "reasoning": "reasoning",
    "reason": "reasoning",
    "elevated": "elevated",
    "elev": "elevated",
    "exec": "exec",
    "model": "model",
    "queue": "queue",
}
SHORTCUTS = {"help": "help", "commands": "commands", "status": "status", "whoami": "whoami", "id": "whoami"}
EXEC_KEYS = ("host", "security", "ask", "node")

_TOKEN = late(r"(?<!\S)/([A-Za-z][\w.-]*)(?=[\s:]|$)")
_FENCE = late(r"^ {0,3}(`{3,}|~{3,})")
_INLINE = late(r'(`+)[^\n]*?\1|(?<![^\s(\[])"[^"\n]*"')
_WORD = late(r"[ \t]*:?[ \t]*([^\s]+)")
_TWO_WORDS = late(r"[ \t]*:?[ \t]*([A-Za-z]+[ \t]+[A-Za-z]+)(?=\s|$)")
_PAIR = late(r"[ \t]*:?[ \t]*(host|security|ask|node)=(\S+)", re.IGNORECASE)


class Wishes(Struct, frozen=True):
    """What a message asks for besides its text. An empty text means: nothing was said; `CLEAR` removes an override."""

    thinking: str = ""
    fast: str = ""
    verbose: str = ""
    trace: str = ""
    reasoning: str = ""
    elevated: str = ""
    model: str = ""
    exec: dict[str, str] = {}
    # What the queue's own reader made of its words; this package does not know the queue.
    queue: Any = None
    shortcuts: tuple[str, ...] = ()

    @property
    def levels(self) -> dict[str, str]:
        """Return the levels that were named, by name."""
        named = {name: getattr(self, name) for name in ("thinking", *_SWITCHES)}
        return {name: value for name, value in named.items() if value}

    @property
    def empty(self) -> bool:
        """Say whether nothing was asked for."""
        return self == Wishes()


class Parsed(Struct, frozen=True):
    """A message without its directives."""

    text: str
    wishes: Wishes = Wishes()

    @property
    def only_directives(self) -> bool:
        """Say whether nothing is left for the model."""
        return not self.wishes.empty and not self.text.strip()


class Reader(Struct, frozen=True):
    """What a word can mean in one home. A reader returns None (or consumes nothing) for what it does not know."""

    model: Callable[[str], str | None] = lambda _: None
    # alias in lower case -> model
    aliases: Mapping[str, str] = {}
    queue: Callable[[str], tuple[Any, str]] = lambda text: (None, text)


class _Found(Struct, frozen=True):
    start: int
    end: int
    name: str
    value: Any


def parse(text: str, reader: Reader | None = None) -> Parsed:
    """Take the directives out of a message. Of two for the same thing the later one holds."""
    if "/" not in text:
        return Parsed(text)
    reader = reader or Reader()
    hidden = _hidden(text)
    found: list[_Found] = []
    at = 0
    while match := _TOKEN.search(text, at):
        at = match.end()
        if any(start <= match.start() < end for start, end in hidden):
            continue
        one = _read(text, match, reader)
        if one is not None:
            found.append(one)
            at = max(at, one.end)
    if not found:
        return Parsed(text)
    return Parsed(_without(text, found), _wishes(found))


def level_for(name: str, word: str) -> str | None:
    """Return the value that a word means for one of the levels, `CLEAR` for a word that removes it, or None."""
    folded = word.strip().lower()
    if folded in _CLEARS:
        return CLEAR
    return parse_level(folded) if name == "thinking" else _SWITCHES[name].get(folded)


def choices(name: str) -> tuple[str, ...]:
    """Return the values that a level can have, for people."""
    from homarus.models.levels import LEVELS

    return LEVELS if name == "thinking" else tuple(dict.fromkeys(_SWITCHES[name].values()))


def exec_pairs(text: str) -> tuple[dict[str, str], int]:
    """Read `host=… security=…` from the beginning of a text; return the pairs and how far they reach."""
    pairs: dict[str, str] = {}
    at = 0
    while match := _PAIR.match(text, at):
        pairs[match[1].lower()] = match[2]
        at = match.end()
    return pairs, at


def _read(text: str, match: re.Match[str], reader: Reader) -> _Found | None:
    """Return the directive at a token, or None where the words after it make no sense: then it is ordinary text."""
    word, start, end = match[1].lower(), match.start(), match.end()
    line_end = text.find("\n", end)
    rest = text[end : line_end if line_end >= 0 else len(text)]
    if word in SHORTCUTS and not rest.startswith(":"):
        return _Found(start, end, "shortcut", SHORTCUTS[word])
    name = NAMES.get(word)
    if name is None:
        target = reader.aliases.get(word)
        return _Found(start, end, "model", target) if target and not rest.startswith(":") else None
    if name == "queue":
        return _read_queue(rest, start, end, reader)
    if name == "exec":
        pairs, length = exec_pairs(rest)
        return _Found(start, end + length, name, pairs) if pairs else None
    if name == "thinking" and (two := _TWO_WORDS.match(rest)) and (level := level_for(name, two[1])):
        return _Found(start, end + two.end(), name, level)
    given = _WORD.match(rest)
    if given is None:
        return None
    value = reader.model(given[1]) if name == "model" else level_for(name, given[1])
    if name == "model" and given[1].lower() in _CLEARS:
        value = CLEAR
    return _Found(start, end + given.end(), name, value) if value else None


def _read_queue(rest: str, start: int, end: int, reader: Reader) -> _Found | None:
    lead = len(rest) - len(rest.lstrip(" \t:"))
    wish, left = reader.queue(rest[lead:])
    used = rest[: len(rest) - len(left)].rstrip() if left else rest.rstrip()
    return _Found(start, end + len(used), "queue", wish) if len(used) > lead and wish is not None else None


def _wishes(found: list[_Found]) -> Wishes:
    values: dict[str, Any] = {one.name: one.value for one in found if one.name != "shortcut"}
    shortcuts = tuple(dict.fromkeys(one.value for one in found if one.name == "shortcut"))
    return Wishes(**values, shortcuts=shortcuts)


def _without(text: str, found: list[_Found]) -> str:
    """Cut the directives out, each with one space beside it; lines, indentation and all other spacing stay."""
    kept: list[str] = []
    at = 0
    for one in found:
        start, end = one.start, one.end
        before = text[start - 1] if start else "\n"
        after = text[end] if end < len(text) else "\n"
        if before in " \t" and after.isspace() and start - 1 >= at:
            start -= 1
        elif after in " \t" and before.isspace():
            end += 1
        kept.append(text[at:start])
        at = end
    kept.append(text[at:])
    rest = "".join(kept)
    if not text[: found[0].start].strip():
        rest = rest.lstrip("\n") if rest.strip() else ""
    return rest.rstrip() if not text[found[-1].end :].strip() else rest


def _hidden(text: str) -> list[tuple[int, int]]:
    """Return the spans that nobody reads: fenced code, quoted lines, inline code and quoted passages."""
    spans: list[tuple[int, int]] = []
    fence = ""
    at = 0
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        closes = mark is not None and bool(fence) and mark[1][0] == fence[0] and len(mark[1]) >= len(fence)
        if fence or mark or line.lstrip().startswith(">"):
            spans.append((at, at + len(line)))
        else:
            spans += [(at + inner.start(), at + inner.end()) for inner in _INLINE.finditer(line)]
        if mark and not fence:
            fence = mark[1]
        elif closes:
            fence = ""
        at += len(line)
    return spans
