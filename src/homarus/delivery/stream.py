"""The sanitiser for text that is still arriving: it shows early what is surely visible and holds back what may not be.

What was shown is never taken back. The end of a message always agrees with `sanitize.shape` of the whole.
"""

from __future__ import annotations

import re

from homarus.core.patterns import late
from homarus.delivery.sanitize import EDGE, HEARTBEAT, SILENT, Reply, shape

_TOKENS = f"{SILENT}|{HEARTBEAT}"
_PREFIXES = "|".join(
    sorted({token[:size] for token in (SILENT, HEARTBEAT) for size in range(1, len(token) + 1)}, key=len, reverse=True)
)
_HTML = r"</?[A-Za-z][^<>\n]{0,40}>"
_BEFORE, _AFTER = r"[\s*_`~\"'(\[{]", r"[\s*_`~\"'.,;:!?)\]}-]"
# A tail that may become a token, with whatever dresses it before and after.
_TOKEN_TAIL = late(rf"(?i)(?<![A-Za-z0-9])(?:{_BEFORE}|{_HTML})*(?:(?:{_TOKENS}){_AFTER}*)*(?:{_PREFIXES})?{_AFTER}*$")
# A beginning that is silent if a token comes, whatever dresses it.
_MAYBE_SILENT = late(rf"(?i){EDGE}(?:(?:{_TOKENS}){EDGE})*(?:{_PREFIXES})?{EDGE}")
_OPEN_THINK = late(r"<\s*(?:think|thinking|thought|final)\s*>", re.IGNORECASE)
_OPEN_TICK = late(r"`[^`\n]*$")
_TAG_TAIL = late(r"<[^<>\n]{0,40}$")
_DIRECTIVE_TAIL = late(r"\[(?:\[[^\]\n]{0,220}\]?)?$")
_MEDIA_LINE = late(r"(?:^|\n)[ \t]*M(?:E(?:D(?:I(?:A(?::[^\n]*)?)?)?)?)?$")
_JSON_START = late(r'^\s*(?:\{[^}\n]{0,60}\}?|"[^"\n]{0,20}"?)\s*$')
_CLOSE_THINK = late(r"<\s*/\s*(?:think|thinking|thought|final)\s*>", re.IGNORECASE)
_TAILS = (_TOKEN_TAIL, _TAG_TAIL, _DIRECTIVE_TAIL, _MEDIA_LINE, _OPEN_TICK)
_TAIL = 260


class StreamFilter:
    """Takes a model's text as it comes and gives out what a person may see, in order and never twice."""

    def __init__(self, *, final_tags: bool = False, heartbeat: bool = False) -> None:
        self._final_tags = final_tags
        # A heartbeat's rest may turn out to be an acknowledgement, so nothing of it is shown before its end.
        self._hold_all = heartbeat
        self._heartbeat = heartbeat
        self._raw = ""
        self._shown = ""

    @property
    def raw(self) -> str:
        """Return everything that came in."""
        return self._raw

    def feed(self, delta: str) -> str:
        """Take more text and return what can be shown of it now."""
        self._raw += delta
        if self._hold_all:
            return ""
        safe = len(self._raw) - _held(self._raw)
        if safe <= 0:
            return ""
        visible = shape(self._raw[:safe], final_tags=self._final_tags).text if self._marked(safe) else self._raw[:safe]
        return self._advance(visible.rstrip())

    def finish(self) -> tuple[str, Reply]:
        """End the message: return what is still to be shown, and the whole reply."""
        reply = shape(self._raw, final_tags=self._final_tags, heartbeat=self._heartbeat)
        return self._advance(reply.text), reply

    def _marked(self, safe: int) -> bool:
        head = self._raw[:safe]
        return any(mark in head for mark in ("<", "[[", "MEDIA:", "_")) or head[:1].isspace()

    def _advance(self, visible: str) -> str:
        """Return what is new. A text that no longer begins with what was shown stays as it was shown."""
        if not visible.startswith(self._shown):
            return ""
        new = visible[len(self._shown) :]
        self._shown = visible
        return new


def _held(raw: str) -> int:
    """Return how many characters at the end may still turn out to be invisible."""
    if len(raw) <= 80 and _JSON_START.match(raw):
        return len(raw)
    if len(raw) <= _TAIL and _MAYBE_SILENT.fullmatch(raw):
        return len(raw)
    tail = raw[-_TAIL:]
    found = [match.start() - len(tail) for pattern in _TAILS if (match := pattern.search(tail))]
    safe = len(raw) + min(found, default=0)
    if "<" in raw:
        # Reasoning is hidden once its block ends, and everything behind its first open tag waits for that.
        done = max((end.end() for end in _CLOSE_THINK.finditer(raw, 0, safe)), default=0)
        if match := _OPEN_THINK.search(raw, done, safe):
            safe = match.start()
    return len(raw) - safe
