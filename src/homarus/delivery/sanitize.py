"""The one sanitiser: what a model says to the program never reaches a person, on any path.

`markup` takes out what the text holds for the program; this module takes out the silent token and the heartbeat token.
All of it is pure. `stream` applies the same rules to text that is still arriving.
"""

from __future__ import annotations

import json

from msgspec import Struct

from homarus.core.patterns import late
from homarus.delivery.markup import Directives, scan

SILENT = "NO_REPLY"
HEARTBEAT = "HEARTBEAT_OK"
ACK_CHARS = 300

EDGE = r"[\s*_`~\"'.,;:!?()\[\]{}<>|#-]*"
HTML = r"</?(?:b|i|em|strong|code|span|div|p|br)(?: ?/)?>|&nbsp;"
BEFORE, AFTER = rf"(?:[*_`~\"'(\[{{]|{HTML})*", rf"(?:[\s*_`~\"'.,;:!?)\]}}-]|{HTML})*"
_SILENT = late(rf"(?ai:{SILENT})")
_HEARTBEAT = late(rf"(?ai:{HEARTBEAT})")
_TOKEN = late(rf"(?ai:{SILENT}|{HEARTBEAT})")
_SILENT_ONLY = late(rf"(?i){EDGE}(?:{SILENT}{EDGE})+")
# A token that the answer follows without a blank is a slip; one that a blank follows is what the sentence is about.
_SILENT_HEAD = late(rf"(?i)^\s*{SILENT}(?=[^\W_])")
# Some models name their reasoning in words; a paragraph of it that ends with the token is silence.
_SILENT_THOUGHT = late(rf"(?is)\s*think[ \t]*\n(?:(?!\n\s*\n).)*{SILENT}{EDGE}")
_HEARTBEAT_HEAD = late(rf"(?i)^\s*{BEFORE}{HEARTBEAT}\b(?:[*_`~\"')\]]|{HTML})*[.!,;:-]*")
_DRESS = late(rf"{BEFORE}\Z")
_DRESSED = late(AFTER)
_MARKS = ("<", "[", "◁", "MEDIA:", "to=functions.", "🛠")


class Visible(Struct, frozen=True):
    """What is left for a person. Empty text with media still goes out; empty text alone is silence."""

    text: str
    directives: Directives = Directives()
    heartbeat_ok: bool = False

    @property
    def silent(self) -> bool:
        return not self.text and not self.directives.media


def shape(text: str, *, heartbeat: bool = False, ack_chars: int = ACK_CHARS) -> Visible:
    """Return what may be shown of a model's text.

    `heartbeat`: the turn was a heartbeat, so a rest of at most `ack_chars` beside its token is an acknowledgement and not a message.
    """
    visible, directives = scan(text) if any(mark in text for mark in _MARKS) else (text, Directives())
    clean, acknowledged = without_tokens(visible)
    if heartbeat and acknowledged and len(clean) <= ack_chars:
        clean = ""
    return Visible(clean, directives, acknowledged)


def without_tokens(text: str) -> tuple[str, bool]:
    """Return text without the tokens at its edges, and whether one was a heartbeat's. In the middle they are ordinary text."""
    if not _TOKEN.search(text):
        return text.strip(), False
    if is_silent(text):
        return "", False
    clean = without_tail(_HEARTBEAT_HEAD.sub("", _SILENT_HEAD.sub("", text))).strip()
    return clean, len(_HEARTBEAT.findall(clean)) < len(_HEARTBEAT.findall(text))


def is_silent(text: str) -> bool:
    """Say whether a whole text is the silent token: bare, dressed in punctuation or Markdown, repeated, or as JSON."""
    if not _SILENT.search(text):
        return False
    bare = text.strip()
    if _SILENT_ONLY.fullmatch(bare) or _SILENT_THOUGHT.fullmatch(bare):
        return True
    if bare[:1] in {"{", '"'}:
        try:
            value = json.loads(bare)
        except ValueError:
            return False
        if isinstance(value, dict):
            value = value.get("action") if len(value) == 1 else None
        return isinstance(value, str) and value.strip().upper() == SILENT
    return False


def without_tail(text: str) -> str:
    """Return text without the tokens at its end and their dress. One that is glued to a word is part of that word."""
    while found := list(_TOKEN.finditer(text)):
        before = text[: found[-1].start()]
        dress = _DRESS.search(before, max(0, len(before) - 100))
        bare = before[: dress.start()] if dress else before
        glued = bare[-1:].isalnum() and "*" not in before[len(bare) :]
        if glued or not _DRESSED.fullmatch(text, found[-1].end()):
            break
        stop = text[found[-1].end() :].strip(" \n\t*_`~\"'")
        text = bare.rstrip()
        # The full stop of a sentence that ends with the token is the sentence's.
        text += stop if text[-1:].isalnum() and stop and not stop.strip(".!?") else ""
    return text
