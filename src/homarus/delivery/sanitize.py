"""The one sanitiser: what a model says to the program never reaches a person, on any path.

It removes the silent token, the heartbeat token, reasoning tags and directives. All of it is pure; the streaming form
of the same rules is `stream`.
"""

from __future__ import annotations

import json
import re

from msgspec import Struct

from homarus.core.patterns import late
from homarus.delivery.directives import Directives, extract

SILENT = "NO_REPLY"
HEARTBEAT = "HEARTBEAT_OK"
ACK_CHARS = 300

EDGE = r"[\s*_`~\"'.,;:!?()\[\]{}<>|#-]*"
_HTML = r"(?:</?[A-Za-z][^>]{0,40}>|&nbsp;)*"
_SILENT_ONLY = late(rf"(?i){EDGE}(?:{SILENT}{EDGE})+")
_SILENT_TAIL = late(rf"(?i)(?<![A-Za-z0-9])[\s*_`~\"'(\[{{]*(?<![A-Za-z0-9_]){SILENT}[\s*_`~\"'.,;:!?)\]}}-]*$")
_HEARTBEAT_HEAD = late(rf"(?i)^[\s*_`~\"'(\[]*{_HTML}[\s*_`~\"'(\[]*{HEARTBEAT}\b[*_`~\"')\]]*{_HTML}[.!,;:]*")
_HEARTBEAT_TAIL = late(rf"(?i)[*_`~\"'(\[]*{_HTML}[*_`~\"'(\[]*\b{HEARTBEAT}[*_`~\"')\].!]*{_HTML}[\s*_`~.!]*$")
_THINK_OPEN = late(r"<[ \t]*(think|thinking|thought)[ \t]*>", re.IGNORECASE)
_THINK_BLOCK = late(
    r"<[ \t]*(think|thinking|thought)[ \t]*>.*?<[ \t]*/[ \t]*\1[ \t]*>[ \t]*\n?", re.IGNORECASE | re.DOTALL
)
_STRAY_CLOSE = late(r"<\s*/\s*(?:think|thinking|thought)\s*>", re.IGNORECASE)
_FINAL = late(r"<\s*final\s*>(.*?)(?:<\s*/\s*final\s*>|$)", re.IGNORECASE | re.DOTALL)
_FINAL_TAG = late(r"<\s*/?\s*final\s*>", re.IGNORECASE)
_CODE = late(r"(```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`)", re.DOTALL)


class Reply(Struct, frozen=True):
    """What is left for a person. Empty text with media still goes out; empty text alone is silence."""

    text: str
    directives: Directives = Directives()
    heartbeat_ok: bool = False

    @property
    def silent(self) -> bool:
        """Say whether there is nothing to deliver."""
        return not self.text and not self.directives.media


def shape(text: str, *, final_tags: bool = False, heartbeat: bool = False) -> Reply:
    """Return what may be shown of a model's text.

    `final_tags`: the model was told to answer inside `<final>`, and only that is visible. `heartbeat`: the turn was a
    heartbeat, so a short rest beside its token is an acknowledgement and not a message.
    """
    visible = without_reasoning(text, final_tags=final_tags)
    if is_silent(visible):
        return Reply("")
    clean, directives = extract(visible)
    clean = without_silent_tail(clean)
    clean, acknowledged = without_heartbeat(clean)
    if is_silent(clean) or (heartbeat and acknowledged and len(clean) <= ACK_CHARS):
        clean = ""
    return Reply(clean.strip(), directives, acknowledged)


def is_silent(text: str) -> bool:
    """Say whether a whole text is the silent token: bare, dressed in punctuation or Markdown, repeated, or as JSON."""
    if SILENT not in text.upper():
        return False
    bare = text.strip()
    if _SILENT_ONLY.fullmatch(bare):
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


def without_silent_tail(text: str) -> str:
    """Return text without a silent token at its end."""
    if SILENT not in text.upper():
        return text
    while True:
        shorter = _SILENT_TAIL.sub("", text).rstrip()
        if shorter == text.rstrip():
            return text
        text = shorter


def without_heartbeat(text: str) -> tuple[str, bool]:
    """Return text without a heartbeat token at its edges, and whether there was one; in the middle it is ordinary text."""
    if HEARTBEAT not in text.upper():
        return text, False
    rest = _HEARTBEAT_TAIL.sub("", _HEARTBEAT_HEAD.sub("", text)).strip()
    return (rest, True) if rest != text.strip() else (text, False)


def without_reasoning(text: str, *, final_tags: bool = False) -> str:
    """Return text without its reasoning blocks. Tags inside code are code.

    A reply that is wholly inside one unclosed block is shown with the tag removed: it is all the person would get.
    """
    if "<" not in text:
        return text
    if final_tags and (parts := _FINAL.findall(text)):
        return "\n".join(part.strip() for part in parts)
    parts = _CODE.split(text)
    masked = "".join(f"\x00{number}\x00" if number % 2 else part for number, part in enumerate(parts))
    shown = _THINK_BLOCK.sub("", masked)
    if opened := _THINK_OPEN.search(shown):
        before = shown[: opened.start()]
        shown = before.rstrip() if before.strip() else shown[opened.end() :].lstrip()
    shown = _FINAL_TAG.sub("", _STRAY_CLOSE.sub("", shown))
    return re.sub("\x00(\\d+)\x00", lambda match: parts[int(match[1])], shown)
