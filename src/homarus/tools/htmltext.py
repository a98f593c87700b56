"""From HTML to the text that a person would read. Damaged pages are read as far as they go; nothing is run or loaded."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from homarus.core.patterns import late

_SKIPPED = {
    "script",
    "style",
    "noscript",
    "template",
    "svg",
    "canvas",
    "iframe",
    "object",
    "head",
    "nav",
    "footer",
    "form",
}
_BLOCKS = {
    "p",
    "div",
    "section",
    "article",
    "main",
    "header",
    "aside",
    "table",
    "tr",
    "ul",
    "ol",
    "dl",
    "dt",
    "dd",
    "figure",
    "br",
}
_BLOCKS |= {"blockquote", "pre", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "li"}
_VOID = {"br", "hr", "img", "input", "meta", "link", "source", "wbr", "area", "base", "col", "embed", "track"}
_HIDDEN = late(r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0|opacity\s*:\s*0(?![.\d])", re.IGNORECASE)
_MAX_DEPTH = 500


def readable(html: str) -> tuple[str, str]:
    """Return title and text of a page."""
    parser = _Reader()
    try:
        parser.feed(html)
        parser.close()
    except (AssertionError, ValueError):
        pass  # what was read until here counts
    lines = [" ".join(line.split()) for line in "".join(parser.out).split("\n")]
    return " ".join("".join(parser.title).split()), re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.out: list[str] = []
        self.title: list[str] = []
        self._open: list[tuple[str, bool]] = []
        self._in_title = False
        self._link = ""

    @property
    def _quiet(self) -> bool:
        return any(skipped for _, skipped in self._open)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "title" and not self.title:
            self._in_title = True
        if tag not in _VOID and len(self._open) < _MAX_DEPTH:
            # What a person would not see is the usual place for words meant for a machine.
            unseen = (
                "hidden" in values
                or values.get("aria-hidden") == "true"
                or bool(_HIDDEN.search(values.get("style", "")))
            )
            self._open.append((tag, tag in _SKIPPED or unseen))
        if self._quiet:
            return
        if tag in _BLOCKS:
            self.out.append("\n")
        if tag in {"h1", "h2", "h3", "h4", "h5", "h6"}:
            self.out.append("#" * int(tag[1]) + " ")
        elif tag == "li":
            self.out.append("- ")
        elif tag in {"td", "th"}:
            self.out.append(" | ")
        elif tag == "a":
            self._link = values.get("href", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        quiet = self._quiet
        for at in range(len(self._open) - 1, max(-1, len(self._open) - 20), -1):
            if self._open[at][0] == tag:
                del self._open[at:]
                break
        if quiet:
            return
        if tag == "a" and self._link.startswith(("http://", "https://")):
            self.out.append(f" ({self._link[:300]})")
            self._link = ""
        if tag in _BLOCKS:
            self.out.append("\n")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._quiet:
            self.out.append(data)
