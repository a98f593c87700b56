"""Directives in a reply: where it answers to, what it carries. They are taken out of the text and become facts."""

from __future__ import annotations

import re

from msgspec import Struct

from homarus.core.patterns import late

_TAG = late(r"\[\[\s*(reply_to_current|audio_as_voice|reply_to\s*:\s*([^\]\n]{1,200}?))\s*\]\]", re.IGNORECASE)
_MEDIA = late(r"^[ \t]*MEDIA:[ \t]*(\S.*?)[ \t]*$")
_FENCE = late(r"^ {0,3}(`{3,}|~{3,})")
_BLANKS = late(r"\n{3,}")


class Directives(Struct, frozen=True):
    """What a reply asked for besides being shown."""

    reply_to_current: bool = False
    reply_to: str = ""
    as_voice: bool = False
    media: tuple[str, ...] = ()


def extract(text: str) -> tuple[str, Directives]:
    """Return the text without its directives, and the directives. Text inside a code fence is never touched."""
    if "[[" not in text and "MEDIA:" not in text:
        return text, Directives()
    lines: list[str] = []
    media: list[str] = []
    found = Directives()
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1][0] == fence[0] and len(mark[1]) >= len(fence):
            fence = ""
        elif not fence:
            if carried := _MEDIA.match(line):
                media.append(carried[1].strip("`\"'"))
                continue
            line, found = _tags(line, found)
        lines.append(line)
    clean = _BLANKS.sub("\n\n", "\n".join(lines)) if media else "\n".join(lines)
    return clean.strip(), Directives(found.reply_to_current, found.reply_to, found.as_voice, tuple(media))


def _tags(line: str, found: Directives) -> tuple[str, Directives]:
    if "[[" not in line:
        return line, found
    current, target, voice = found.reply_to_current, found.reply_to, found.as_voice
    for match in _TAG.finditer(line):
        word = match[1].lower()
        current = current or word == "reply_to_current"
        voice = voice or word == "audio_as_voice"
        target = match[2].strip() if match[2] else target
    return _TAG.sub("", line).strip(" ") if _TAG.search(line) else line, Directives(current, target, voice)
