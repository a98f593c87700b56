"""From HTML to the text that a person would read. Damaged pages are read as far as they go; nothing is run or loaded.

A page is somebody else's program for our parser. Each step here goes forward and none looks back, so that a page costs
time by its length; the standard library's parser takes minutes for two hundred kilobytes of the wrong kind.
"""

from __future__ import annotations

import re
from html import unescape

from homarus.core.patterns import late

_UNREAD = "script style noscript template svg canvas iframe object head nav footer form textarea xmp noframes"
_SKIPPED = frozenset(_UNREAD.split())
# What stands in these is text up to their own end, whatever it looks like.
_RAW = frozenset(["script", "style", "title", "textarea", "xmp", "noframes", "iframe"])
_HEADS = frozenset(["h1", "h2", "h3", "h4", "h5", "h6"])
_PARTS = "p div section article main header aside table tr ul ol dl dt dd figure br blockquote pre hr li"
_BLOCKS = _HEADS | frozenset(_PARTS.split())
_VOID = frozenset(
    ["br", "hr", "img", "input", "meta", "link", "source", "wbr", "area", "base", "col", "embed", "track"]
)
_TAG = late(r"(/?)([a-zA-Z][^\s/>]*)")
_ATTRIBUTE = late(r"[\s/=]*([^\s/>=]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>]*)))?")
_BLANKS = late(r"[\s/=]*")
_HIDDEN = late(r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0|opacity\s*:\s*0(?![.\d])", re.IGNORECASE)
_MAX_DEPTH = 5_000
# How far up an end is looked for: one that fits nothing closes nothing.
_MAX_UP = 20


def readable(html: str) -> tuple[str, str]:
    """Return title and text of a page."""
    reader = _Reader()
    reader.read(html)
    lines = [" ".join(line.split()) for line in "".join(reader.out).split("\n")]
    return " ".join(reader.title.split()), re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def links(html: str) -> list[str]:
    """Return where the links of a page lead, as they are written there; those that nobody sees do not count."""
    reader = _Reader()
    reader.read(html)
    return reader.links


def plain(text: str) -> str:
    """Return text with its named and numbered characters as such; a number that is none stays as it is."""
    try:
        return unescape(text)
    except ValueError:  # thousands of digits
        return text


class _Reader:
    def __init__(self) -> None:
        self.out: list[str] = []
        self.title = ""
        self.links: list[str] = []
        # The tags that are open, each with whether it hides what is in it; and how many of them do.
        self._open: list[tuple[str, bool]] = []
        self._hiding = 0
        self._link = ""

    def read(self, html: str) -> None:
        at = 0
        while at < len(html):
            sign = html.find("<", at)
            self._text(html[at:] if sign < 0 else html[at:sign])
            if sign < 0:
                return
            at = self._markup(html, sign + 1)

    def _markup(self, html: str, at: int) -> int:
        """Take what follows a `<`, and return where to go on; what has no end takes the rest of the page with it."""
        if html.startswith("!--", at):
            return _after(html, "-->", at + 3)
        if html.startswith(("!", "?"), at):
            return _after(html, ">", at)
        tag = _TAG.match(html, at)
        if tag is None:
            self._text("<")
            return at
        name = tag[2].lower()
        if tag[1]:
            self._close(name)
            return _after(html, ">", tag.end())
        values, at = _attributes(html, tag.end())
        self._begin(name, values)
        return self._raw(name, html, at) if name in _RAW else at

    def _raw(self, name: str, html: str, at: int) -> int:
        end = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(html, at)
        if name == "title" and not self.title:
            self.title = plain(html[at : end.start() if end else len(html)])
        return end.start() if end else len(html)

    def _begin(self, name: str, values: dict[str, str]) -> None:
        if name not in _VOID and len(self._open) < _MAX_DEPTH:
            # What a person would not see is the usual place for words meant for a machine.
            unseen = (
                "hidden" in values
                or values.get("aria-hidden") == "true"
                or bool(_HIDDEN.search(values.get("style", "")))
            )
            hides = unseen or name in _SKIPPED
            self._open.append((name, hides))
            self._hiding += hides
        if self._hiding:
            return
        if name in _BLOCKS:
            self.out.append("\n")
        if name in _HEADS:
            self.out.append("#" * int(name[1]) + " ")
        elif name == "li":
            self.out.append("- ")
        elif name in {"td", "th"}:
            self.out.append(" | ")
        elif name == "a":
            self._link = values.get("href", "")
            self.links += [self._link] if self._link else []

    def _close(self, name: str) -> None:
        quiet = self._hiding
        for at in range(len(self._open) - 1, max(-1, len(self._open) - _MAX_UP), -1):
            if self._open[at][0] == name:
                self._hiding -= sum(hides for _, hides in self._open[at:])
                del self._open[at:]
                break
        if quiet:
            return
        if name == "a" and self._link.startswith(("http://", "https://")):
            self.out.append(f" ({self._link[:300]})")
            self._link = ""
        if name in _BLOCKS:
            self.out.append("\n")

    def _text(self, text: str) -> None:
        if text and not self._hiding:
            self.out.append(plain(text))


def _attributes(html: str, at: int) -> tuple[dict[str, str], int]:
    """Return the attributes of a tag, the first of each name, and the place after the tag."""
    if html.find(">", at) < 0:
        return {}, len(html)
    values: dict[str, str] = {}
    while found := _ATTRIBUTE.match(html, at):
        values.setdefault(found[1].lower(), plain(found[2] or found[3] or found[4] or ""))
        at = found.end()
    end = _BLANKS.match(html, at)
    at = end.end() if end else at
    return values, at + 1 if html.startswith(">", at) else at


def _after(html: str, end: str, at: int) -> int:
    place = html.find(end, at)
    return place + len(end) if place >= 0 else len(html)
