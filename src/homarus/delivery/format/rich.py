"""Markdown as blocks of plain text with spans: the one form between what a model writes and what platforms read.

A block is a paragraph, a heading, a piece of code or a rule. Quotes and lists are the boxes that it stands in. Nothing here
knows a platform; `cut` divides blocks, and the dialects write them.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.patterns import late
from homarus.core.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

SpanStyle = Literal["bold", "italic", "strike", "code", "spoiler", "link", "url"]
_STYLES: dict[str, SpanStyle] = {"strong": "bold", "em": "italic", "s": "strike", "spoiler": "spoiler"}
# A path or a page of the same site leads nowhere in a chat: such a target is said, not linked.
_LINKED = (
    "http://",
    "https://",
    "mailto:",
    "tel:",
    "tg://",
    "xmpp:",
    "matrix:",
    "irc://",
    "ircs://",
    "geo:",
    "signal:",
)
_URL = late(r"https?://[^\s<>\"`]+")
_URL_TAIL = ".,;:!?'\"*_~)]}"
_TAG = late(r"<br\s*/?>|</?details[^<>]*>|<summary[^<>]*>|</summary>", 2)
# Code points that no text may hold; dialects that take ranges mark places with them.
_NONE = dict.fromkeys(range(64976, 65008))


class Span(Struct, frozen=True):
    start: int
    end: int
    style: SpanStyle
    url: str = ""


class Box(Struct, frozen=True):
    """A quote, a list or an item that blocks stand in. `mark` is the number of an item, `ol` or `ul` of a list."""

    kind: Literal["quote", "list", "item"]
    id: int
    mark: str = ""


class Block(Struct, frozen=True):
    """A run of text. Spans stand in the order in which they begin, nest and never cross; `opens` are the boxes whose first block this is."""

    kind: Literal["text", "heading", "code", "rule"]
    text: str
    spans: tuple[Span, ...] = ()
    boxes: tuple[Box, ...] = ()
    opens: frozenset[int] = frozenset()
    # Line ends before it: one, or two for an empty line.
    gap: int = 2
    # The level of a heading, the language of code; `tight` for a text that is all that its item says.
    info: str = ""

    def part(self, start: int, end: int) -> Block:
        """Return a part of it. What goes on from an earlier part opens no box."""
        spans = [
            replace(span, start=max(span.start, start) - start, end=min(span.end, end) - start)
            for span in self.spans[: bisect_left(self.spans, end, key=_start)]
            if span.end > start
        ]
        opens = self.opens if start == 0 else frozenset[int]()
        return replace(self, text=self.text[start:end], spans=tuple(spans), opens=opens)


def _start(span: Span) -> int:
    return span.start


def parse(markdown: str, *, tables: str = "bullets", spoilers: bool = False) -> list[Block]:
    """Return the blocks of a text. Every text is Markdown; what is none is words."""
    text = printable(markdown).encode("utf-8", "replace").decode().translate(_NONE)
    return _Reader(text, tables).read(_parser(tables != "off", spoilers).parse(text))


@lru_cache
def _parser(tables: bool, spoilers: bool) -> MarkdownIt:
    from markdown_it import MarkdownIt  # here, because most commands show nothing to a platform

    parser = MarkdownIt("commonmark", {"html": False}).enable("strikethrough")
    if tables:
        parser.enable("table")
    if spoilers:
        parser.inline.add_terminator_char("|")
        parser.inline.ruler.before("emphasis", "spoiler", _spoiler)
    return parser


def _spoiler(state: StateInline, silent: bool) -> bool:
    """Read `||hidden||`. A pair with blanks inside its edges is an operator of some language."""
    start, source = state.pos, state.src
    if not source.startswith("||", start):
        return False
    end = source.find("||", start + 3, state.posMax)
    if end < 0 or source[start + 2].isspace() or source[end - 1].isspace():
        return False
    if not silent:
        last, state.pos, state.posMax = state.posMax, start + 2, end
        state.push("spoiler_open", "", 1)
        state.md.inline.tokenize(state)
        state.push("spoiler_close", "", -1)
        state.posMax = last
    state.pos = end + 2
    return True


class _Reader:
    """Walks over the tokens of a document once."""

    def __init__(self, source: str, tables: str) -> None:
        self._lines = source.split("\n")
        self._tables = tables
        self._blocks: list[Block] = []
        self._boxes: list[Box] = []
        self._opens: set[int] = set()
        self._count = 0

    def read(self, tokens: Sequence[Token]) -> list[Block]:
        at = 0
        while at < len(tokens):
            token = tokens[at]
            match token.type:
                case "blockquote_open":
                    self._enter("quote")
                case "bullet_list_open" | "ordered_list_open":
                    self._enter("list", "ol" if token.type.startswith("o") else "ul")
                case "list_item_open":
                    self._enter("item", token.info)
                case "blockquote_close" | "bullet_list_close" | "ordered_list_close" | "list_item_close":
                    self._leave(token)
                case "heading_open" | "paragraph_open":
                    heading = token.type == "heading_open"
                    text, spans = _inline(tokens[at + 1].children or ())
                    info = token.tag[1:] if heading else "tight" if token.hidden else ""
                    self._add("heading" if heading else "text", text, token, spans=spans, info=info)
                    at += 1
                case "fence" | "code_block":
                    language = token.info.split()[0] if token.info.split() else ""
                    self._add("code", token.content.removesuffix("\n"), token, info=language)
                case "hr":
                    self._add("rule", "───", token)
                case "table_open":
                    end = next(index for index in range(at, len(tokens)) if tokens[index].type == "table_close")
                    self._table(tokens[at:end])
                    at = end
            at += 1
        return self._blocks

    def _enter(self, kind: Literal["quote", "list", "item"], mark: str = "") -> None:
        self._count += 1
        self._boxes.append(Box(kind, self._count, mark))
        self._opens.add(self._count)

    def _leave(self, token: Token) -> None:
        box = self._boxes[-1]
        if box.kind == "item" and box.id in self._opens:
            self._add("text", "", token, info="tight")  # an empty item still has its number
        self._opens.discard(self._boxes.pop().id)

    def _add(
        self,
        kind: Literal["text", "heading", "code", "rule"],
        text: str,
        token: Token | None,
        *,
        spans: tuple[Span, ...] = (),
        info: str = "",
    ) -> None:
        if not text.strip() and kind != "code" and not self._opens:
            return
        line = token.map[0] if token is not None and token.map else 0
        apart = line > 0 and not self._lines[line - 1].strip(" \t>")
        gap = 0 if not self._blocks else 2 if apart else 1
        self._blocks.append(Block(kind, text, spans, tuple(self._boxes), frozenset(self._opens), gap, info))
        self._opens.clear()

    def _table(self, tokens: Sequence[Token]) -> None:
        rows: list[list[tuple[str, tuple[Span, ...]]]] = []
        for token in tokens:
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "inline":
                text, spans = _inline(token.children or ())
                rows[-1].append((text.replace("\n", " "), spans))
        if self._tables == "code":
            self._add("code", _aligned([[text for text, _ in row] for row in rows]), tokens[0])
            return
        head, *body = rows
        for number, row in enumerate(body or [head]):
            self._row(head if body else [], row, tokens[0] if number == 0 else None)

    def _row(
        self, head: list[tuple[str, tuple[Span, ...]]], row: list[tuple[str, tuple[Span, ...]]], token: Token | None
    ) -> None:
        """Say a row in words: two cells are a label and its value; of more, the first is the heading of the others."""
        (label, label_spans), *others = row
        bold = (Span(0, len(label), "bold"), *(span for span in label_spans if span.style != "bold")) if label else ()
        if len(row) <= 2:
            value, spans = others[0] if others else ("", ())
            text = f"{label}: {value}" if label and value else label or value
            self._bullet(text, (*bold, *_moved(spans, len(text) - len(value))), token)
            return
        if label:
            self._add("text", label, token, spans=bold)
            if token is None:
                self._blocks[-1] = replace(self._blocks[-1], gap=2)
        for (name, _), (value, spans) in zip(head[1:] or [("", ())] * len(others), others, strict=False):
            if value:
                text = f"{name}: {value}" if name else value
                self._bullet(text, _moved(spans, len(text) - len(value)), None)

    def _bullet(self, text: str, spans: tuple[Span, ...], token: Token | None) -> None:
        last = self._blocks[-1].boxes[len(self._boxes) : len(self._boxes) + 1] if self._blocks else ()
        joins = token is None and last and last[0].kind == "list"
        if joins:
            self._boxes.append(last[0])
        else:
            self._enter("list", "ul")
        self._enter("item")
        self._add("text", text, token, spans=spans, info="tight")
        del self._boxes[-2:]


def _moved(spans: tuple[Span, ...], by: int) -> tuple[Span, ...]:
    return tuple(replace(span, start=span.start + by, end=span.end + by) for span in spans)


def _aligned(rows: list[list[str]]) -> str:
    """Return a table in columns of equal width, as a terminal counts it."""
    from rich.cells import cell_len as width

    widths = [max(width(row[column]) for row in rows if column < len(row)) for column in range(len(rows[0]))]
    lines = [" | ".join(cell + " " * (widths[n] - width(cell)) for n, cell in enumerate(row)).rstrip() for row in rows]
    lines.insert(1, "-+-".join("-" * size for size in widths))
    return "\n".join(lines)


def _inline(tokens: Sequence[Token]) -> tuple[str, tuple[Span, ...]]:
    """Return the words of one block and their spans, outer spans before inner ones."""
    text, spans = "", list[Span]()
    opened: list[tuple[int, str]] = []
    linked = 0
    for token in tokens:
        name, _, edge = token.type.rpartition("_")
        start = len(text)
        if name == "link" and edge == "open":
            opened.append((start, str(token.attrs.get("href", ""))))
            linked += 1
        elif name == "link":
            begun, url = opened.pop()
            linked -= 1
            shown, span = _link(text[begun:], url, begun, auto=token.info == "auto")
            text += shown
            spans += [span] if span else []
        elif name in _STYLES and edge == "open":
            opened.append((start, ""))
        elif name in _STYLES:
            begun, _ = opened.pop()
            if start > begun:
                spans.append(Span(begun, start, _STYLES[name]))
        elif token.type == "code_inline":
            text += token.content
            spans.append(Span(start, len(text), "code"))
        elif token.type == "image":
            url = str(token.attrs.get("src", ""))
            text += token.content or url
            shown, span = _link(text[start:], url, start)
            text += shown
            spans += [span] if span and not linked else []
        elif token.type in {"softbreak", "hardbreak"}:
            text += "\n"
        else:
            text, found = _words(text, token.content, linked=bool(linked))
            spans += found
    return text, tuple(sorted(spans, key=lambda span: (span.start, -span.end)))


def _link(label: str, url: str, start: int, *, auto: bool = False) -> tuple[str, Span | None]:
    """Return what must be said after a label, and the span of the link if it is one."""
    same = auto or unquote(url).removeprefix("mailto:").rstrip("/") == label.rstrip("/")
    if not url.lower().startswith(_LINKED):
        return ("" if same or not url else f" ({unquote(url)})" if label else unquote(url)), None
    if not label:
        return url, Span(start, start + len(url), "url")
    end = start + len(label)
    if same:
        return "", Span(start, end, "url")
    # A label that names another address would hide where the link leads.
    if "://" in label:
        return f" ({url})", None
    return "", Span(start, end, "link", url)


def _words(text: str, more: str, *, linked: bool) -> tuple[str, list[Span]]:
    """Add words: the few tags that models write become what they mean, and addresses become spans that never break."""
    spans: list[Span] = []
    if "<" in more:
        begun = -1
        at = 0
        for tag in _TAG.finditer(more):
            text += more[at : tag.start()]
            at = tag.end()
            name = tag[0].lower()
            text += "\n" if name.startswith("<br") else ""
            if name.startswith("<summary"):
                begun = len(text)
            elif name == "</summary>" and 0 <= begun < len(text):
                spans.append(Span(begun, len(text), "bold"))
        more = more[at:]
    start = len(text)
    text += more
    if not linked and "://" in more:
        for found in _URL.finditer(more):
            url = found[0].rstrip(_URL_TAIL)
            # A closing bracket belongs to an address that has its opening one.
            while found[0][len(url) : len(url) + 1] == ")" and url.count("(") > url.count(")"):
                url += ")"
            spans.append(Span(start + found.start(), start + found.start() + len(url), "url"))
    return text, spans
