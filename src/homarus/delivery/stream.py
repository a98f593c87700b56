"""The sanitiser for text that is still arriving: it shows early what is surely visible and holds back what may not be.

What was shown is never taken back, and what is shown in the end does not depend on how the text was cut. It is the text
of `sanitize.shape`, with one exception: reasoning whose opening tag was lost has been shown before its end arrives.
"""

from __future__ import annotations

from homarus.core.patterns import late
from homarus.delivery.markup import Directives, Scanner
from homarus.delivery.sanitize import (
    AFTER,
    BEFORE,
    EDGE,
    HEARTBEAT,
    SILENT,
    Visible,
    shape,
    without_tail,
    without_tokens,
)

_TOKENS = f"{SILENT}|{HEARTBEAT}"
_PREFIXES = "|".join(
    sorted({token[:size] for token in (SILENT, HEARTBEAT) for size in range(1, len(token) + 1)}, key=len, reverse=True)
)
# A tail that may become a token, with whatever dresses it before and after.
_TOKEN_TAIL = late(
    rf"(?i)(?:(?<![A-Za-z0-9])|(?=\*))\s*{BEFORE}\s*(?:(?:{_TOKENS}){AFTER}{BEFORE}\s*)*(?:{_PREFIXES})?(?:<[^<>\n]{{0,8}}|&\w{{0,5}})?\Z"
)
# A beginning that is silent if a token comes, whatever dresses it.
_MAYBE_SILENT = late(rf"(?i){EDGE}(?:(?:{_TOKENS}){EDGE})*(?:{_PREFIXES})?{EDGE}")
_JSON_START = late(r'^\s*(?:\{[^}\n]{0,60}\}?|"[^"\n]{0,20}"?)\s*$')
_THOUGHT_START = late(r"(?is)\w{0,4}|think[ \t]*(?:\n(?:(?!\n\s*\n\s*\S).)*)?")
_TAIL = 260


class StreamFilter:
    """Takes a model's text as it comes and gives out what a person may see, in order and never twice."""

    def __init__(self, *, heartbeat: bool = False) -> None:
        self._heartbeat = heartbeat
        self._scanner = Scanner()
        self._raw = ""
        self._shown = 0  # how far the visible text was given out

    @property
    def raw(self) -> str:
        return self._raw

    @property
    def directives(self) -> Directives:
        """Return what the text has asked for so far."""
        return self._scanner.directives

    def feed(self, delta: str) -> str:
        """Take more text and return what can be shown of it now."""
        self._raw += delta
        # A heartbeat's rest may turn out to be an acknowledgement.
        if self._heartbeat:
            return ""
        self._scanner.feed(delta)
        visible = self._scanner.visible
        return self._advance(visible[: len(visible) - _held(visible)])

    def finish(self) -> str:
        """End the message and return what is still to be shown."""
        if self._heartbeat:
            return self.whole().text
        self._scanner.feed("", ended=True)
        visible = self._scanner.visible
        return self._advance(without_tail(visible) if self._shown else visible)

    def whole(self) -> Visible:
        """Return the reply as one who heard nothing before would be shown it."""
        return shape(self._raw, heartbeat=self._heartbeat)

    def _advance(self, settled: str) -> str:
        """Return what is new. Only the beginning is asked for tokens: at the end they were held back."""
        new = settled[self._shown :].rstrip() if self._shown else without_tokens(settled)[0]
        if new:
            self._shown = len(settled.rstrip())
        return new


def _held(visible: str) -> int:
    """Return how many characters at the end may still turn out to belong to a token."""
    if len(visible) <= 80 and _JSON_START.match(visible):
        return len(visible)
    if len(visible) <= _TAIL and _MAYBE_SILENT.fullmatch(visible):
        return len(visible)
    begun = visible.lstrip()
    if "think".startswith(begun[:5].lower()) and _THOUGHT_START.fullmatch(begun):
        return len(visible)
    tail = visible[-_TAIL:]
    found = _TOKEN_TAIL.search(tail)
    return len(tail) - found.start() if found else 0
