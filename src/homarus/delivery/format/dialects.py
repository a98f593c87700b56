"""Every platform's way of writing blocks: marks around words, HTML, or plain text with ranges. One table, one weaver."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.patterns import late
from homarus.delivery.format.rich import Block, Box, Span
from homarus.delivery.place import Style

Marks = tuple[str, str]
Link = Callable[[str, str], str]

_TOKENS = late(r"<(?:@[UW][A-Z0-9]{2,}|#[CG][A-Z0-9]{2,})(?:\|[^<>|\n]{0,80})?>")
# What Discord would read as markup: edges of words, pairs, and the beginnings of lines.
_DISCORD = late(
    r"\\|`|\*(?!\s)|(?<=\S)\*|(?<!\w)_|_(?!\w)|~~|\|\||(?m:^[ \t]*(?:>|(?:#{1,6}|-#|[-+*]|\d+\.)(?=\s|\Z)))"
)
_RANGES = ["BOLD", "ITALIC", "STRIKETHROUGH", "MONOSPACE", "SPOILER"]
_EDGE = {chr(0xFDD0 + number): name for number, name in enumerate(_RANGES)}
_END = "\ufdef"
_MARKS = frozenset("*_~|`")
_EDGES = late("[\ufdd0-\ufdd4\ufdef]")


def _said(label: str, url: str) -> str:
    return f"{label} ({url.removeprefix('mailto:')})"


def _same(text: str) -> str:
    return text


def html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _html_link(label: str, url: str) -> str:
    return f'<a href="{html(url)}">{label}</a>'


def _slack(text: str) -> str:
    """Escape all but mentions of a person or a channel; those of everybody stay words."""
    parts, at = [], 0
    for found in _TOKENS.finditer(text):
        parts += [text[at : found.start()], found[0]]
        at = found.end()
    parts.append(text[at:])
    return "".join(
        part if number % 2 else part.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        for number, part in enumerate(parts)
    )


def _slack_link(label: str, url: str) -> str:
    address = _slack(url).replace("|", "%7C")
    return f"<{address}|{label.replace(chr(10), ' ')}>"


def _discord(text: str) -> str:
    return _DISCORD.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    """Put a backslash before each character that would be markup; of a number, before its dot."""
    mark = found[0].strip()
    first = "." if mark[0].isdigit() else mark[0]
    return found[0].replace(first, f"\\{first}")


def _discord_link(label: str, url: str) -> str:
    label = label.replace("\n", " ").replace("[", "\\[").replace("]", "\\]")
    return f"[{label}]({url.replace('(', '%28').replace(')', '%29')})"


class Dialect(Struct, frozen=True):
    """How a platform wants its text. A style without marks is shown as words."""

    bold: Marks | None = None
    italic: Marks | None = None
    strike: Marks | None = None
    code: Marks | None = None
    spoiler: Marks | None = None
    # Marks around code: the first may name the language.
    fence: Marks | None = None
    fence_language: str = ""
    quote: Marks | None = None  # instead of `> ` before each line
    bullet: str = "•"
    headings: int = 0  # levels that the platform knows as `#`
    link: Link = _said
    escape: Callable[[str], str] = _same
    # Marks count only at the edges of words.
    strict: bool = False
    html: bool = False
    ranges: bool = False
    # Marks are tags, so that code inside them needs no care.
    tags: bool = False


_FENCE = ("```\n", "\n```")
_STARS = Dialect(bold=("*", "*"), italic=("_", "_"), strike=("~", "~"), code=("`", "`"), fence=_FENCE, strict=True)

DIALECTS: dict[str, Dialect] = {
    "plain": Dialect(),
    "telegram-html": Dialect(
        bold=("<b>", "</b>"),
        italic=("<i>", "</i>"),
        strike=("<s>", "</s>"),
        code=("<code>", "</code>"),
        spoiler=("<tg-spoiler>", "</tg-spoiler>"),
        fence=("<pre>", "</pre>"),
        fence_language='<code class="language-{}">',
        quote=("<blockquote>", "</blockquote>"),
        link=_html_link,
        escape=html,
        tags=True,
    ),
    "discord": Dialect(
        bold=("**", "**"),
        italic=("*", "*"),
        strike=("~~", "~~"),
        code=("`", "`"),
        spoiler=("||", "||"),
        fence=_FENCE,
        fence_language="```{}\n",
        bullet="-",
        headings=3,
        link=_discord_link,
        escape=_discord,
    ),
    "slack-mrkdwn": replace(_STARS, link=_slack_link, escape=_slack),
    "whatsapp": replace(_STARS, bullet="-"),
    "xmpp": replace(_STARS, fence_language="```{}\n"),
    "irc": Dialect(),
    "irc-codes": Dialect(
        bold=("\x02", "\x02"), italic=("\x1d", "\x1d"), strike=("\x1e", "\x1e"), code=("\x11", "\x11")
    ),
    "signal": Dialect(
        bold=("\ufdd0", _END),
        italic=("\ufdd1", _END),
        strike=("\ufdd2", _END),
        code=("\ufdd3", _END),
        spoiler=("\ufdd4", _END),
        fence=("\ufdd3", _END),
        ranges=True,
        tags=True,
    ),
    "matrix-html": Dialect(
        bold=("<strong>", "</strong>"),
        italic=("<em>", "</em>"),
        strike=("<del>", "</del>"),
        code=("<code>", "</code>"),
        spoiler=("<span data-mx-spoiler>", "</span>"),
        link=_html_link,
        escape=html,
        html=True,
        tags=True,
    ),
    "email": Dialect(
        bold=("<strong>", "</strong>"),
        italic=("<em>", "</em>"),
        strike=("<del>", "</del>"),
        code=("<code>", "</code>"),
        link=_html_link,
        escape=html,
        html=True,
        tags=True,
    ),
}


class Bodies:
    """What blocks look like by themselves in a dialect. A block is written once, however often its message is measured."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._known: dict[int, tuple[Block, str]] = {}

    def of(self, block: Block) -> str:
        known = self._known.get(id(block))
        if known is None or known[0] is not block:
            body = _html_block(block, self.dialect) if self.dialect.html else _body(block, self.dialect)
            known = self._known[id(block)] = (block, body)
        return known[1]


def write(blocks: Sequence[Block], bodies: Bodies) -> tuple[str, tuple[Style, ...]]:
    """Return the blocks as one message in a dialect, with ranges where it has no marks."""
    if bodies.dialect.html:
        return _as_html(blocks, bodies), ()
    text = _as_lines(blocks, bodies)
    return _ranges(text) if bodies.dialect.ranges else (text, ())


# --- lines of text ---


def _as_lines(blocks: Sequence[Block], bodies: Bodies) -> str:
    out: list[str] = []
    dialect = bodies.dialect
    quoted = False
    for number, block in enumerate(blocks):
        depth = _quotes(block)
        if quoted and not depth and dialect.quote:
            out.append(dialect.quote[1])
        if number:
            shared = min(depth, _quotes(blocks[number - 1]))
            empty = "" if dialect.quote else "> " * shared
            out.append("\n" + f"{empty.rstrip()}\n" * (block.gap - 1))
        if depth and not quoted and dialect.quote:
            out.append(dialect.quote[0])
        quoted = bool(depth)
        out += _lines(block, bodies) if block.boxes else (bodies.of(block),)
    if quoted and dialect.quote:
        out.append(dialect.quote[1])
    return "".join(out)


def _quotes(block: Block) -> int:
    return sum(box.kind == "quote" for box in block.boxes) if block.boxes else 0


def _lines(block: Block, bodies: Bodies) -> Iterable[str]:
    for number, line in enumerate(bodies.of(block).split("\n")):
        prefix = "".join(_prefix(box, block, bodies.dialect, first=number == 0) for box in block.boxes)
        yield ("\n" if number else "") + (prefix + line if line else prefix.rstrip())


def _prefix(box: Box, block: Block, dialect: Dialect, *, first: bool) -> str:
    """Return what a line begins with in one of its boxes: the mark of an item, or room for it."""
    if box.kind == "quote":
        return "" if dialect.quote else "> "
    if box.kind == "list":
        return ""
    mark = f"{box.mark}." if box.mark else dialect.bullet
    if first and box.id in block.opens:
        return f"{dialect.escape(mark) if dialect.tags else mark} "
    return "" if block.kind == "code" else " " * (len(mark) + 1)


def _body(block: Block, dialect: Dialect) -> str:
    if block.kind == "code":
        return _fenced(block, dialect)
    if block.kind == "rule":
        return block.text
    if block.kind == "heading":
        if int(block.info) <= dialect.headings:
            return f"{'#' * int(block.info)} {_words(block, block.spans, dialect)}"
        inner = [span for span in block.spans if span.style != "bold"]
        return _words(block, [Span(0, len(block.text), "bold"), *inner], dialect)
    return _words(block, block.spans, dialect)


def _fenced(block: Block, dialect: Dialect) -> str:
    if dialect.fence is None:
        return dialect.escape(block.text)
    opened, closed = dialect.fence
    language = re.sub(r"[^\w+#.-]", "", block.info)
    if not dialect.tags:
        # A fence inside code would end it: a space of no width keeps the marks apart.
        text = _literal(block.text.replace("```", "`\u200b``"), dialect)
        opened = dialect.fence_language.format(language) if language and dialect.fence_language else opened
        return f"{opened}{text}{closed}"
    if language and dialect.fence_language:
        opened, closed = opened + dialect.fence_language.format(language), f"</code>{closed}"
    return f"{opened}{dialect.escape(block.text)}{closed}"


def _literal(text: str, dialect: Dialect) -> str:
    """Return code or an address: backslashes would be seen there, entities are read everywhere."""
    return dialect.escape(text) if dialect.tags or dialect.escape is _slack else text


class _Run(NamedTuple):
    """Words of a block between two places, with the spans inside them."""

    text: str
    start: int
    end: int
    spans: Sequence[Span]


def _words(block: Block, spans: Sequence[Span], dialect: Dialect) -> str:
    spans = _whole_words(block.text, spans, dialect) if not dialect.tags else spans
    return _weave(_Run(block.text, 0, len(block.text), spans), dialect)


def _weave(run: _Run, dialect: Dialect) -> str:
    """Write words with their spans, which nest: outer ones come first."""
    out, at, number = [], run.start, 0
    while number < len(run.spans):
        span = run.spans[number]
        number += 1
        first = number
        while number < len(run.spans) and run.spans[number].start < span.end:
            number += 1
        out.append(dialect.escape(run.text[at : span.start]))
        styled = _styled(_Run(run.text, span.start, span.end, run.spans[first:number]), span, dialect)
        # Marks that touch would be read as other marks: a space of no width keeps them apart.
        before = out[-1] or (out[-2] if len(out) > 1 else "")
        touching = styled[:1] in _MARKS and before.endswith(styled[:1]) and not dialect.tags
        out.append(f"\u200b{styled}" if touching else styled)
        at = span.end
    out.append(dialect.escape(run.text[at : run.end]))
    return "".join(out)


def _styled(run: _Run, span: Span, dialect: Dialect) -> str:
    raw = run.text[span.start : span.end]
    if span.style == "url":
        return _literal(raw, dialect)
    if span.style == "link":
        return dialect.link(_weave(run, dialect), span.url)
    marks: Marks | None = getattr(dialect, span.style)
    if span.style == "code":
        if marks is None:
            return dialect.escape(raw)
        if marks[0] != "`" or "`" not in raw:
            return f"{marks[0]}{_literal(raw, dialect)}{marks[1]}"
        return f"`` {raw} ``" if dialect.escape is _discord and "``" not in raw else dialect.escape(raw)
    inner = _weave(run, dialect)
    return f"{marks[0]}{inner}{marks[1]}" if marks else inner


def _whole_words(text: str, spans: Sequence[Span], dialect: Dialect) -> list[Span]:
    """Return spans whose marks a platform will read as marks: line by line, without blanks at their edges and, where it is
    strict, never inside a word."""
    found: list[Span] = []
    reached: dict[str, int] = {}
    for span in spans:
        if span.style in {"link", "url", "code"}:
            found.append(span)
            continue
        start = span.start
        for line in text[span.start : span.end].split("\n"):
            begin = start + len(line) - len(line.lstrip())
            end = start + len(line.rstrip())
            start += len(line) + 1
            inside = text[begin - 1 : begin].isalnum() or text[end : end + 1].isalnum()
            # A style inside itself is the same style, and its marks would end the outer one.
            if begin < end and end > reached.get(span.style, 0) and not (dialect.strict and inside):
                found.append(Span(begin, end, span.style))
                reached[span.style] = end
    return sorted(found, key=lambda span: (span.start, -span.end))


def _ranges(text: str) -> tuple[str, tuple[Style, ...]]:
    """Take the marks out of a text and say where they were, in UTF-16 units."""
    out, styles, opened = "", list[Style](), list[tuple[int, str]]()
    at = length = 0
    for found in _EDGES.finditer(text):
        part = text[at : found.start()]
        out += part
        length += utf16(part)
        at = found.end()
        if found[0] != _END:
            opened.append((length, _EDGE[found[0]]))
            continue
        start, name = opened.pop()
        if length > start:
            styles.append(Style(start, length - start, name))
    return out + text[at:], tuple(sorted(styles, key=lambda style: (style.start, -style.length)))


def utf16(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


# --- HTML ---


def _as_html(blocks: Sequence[Block], bodies: Bodies) -> str:
    out: list[str] = []
    opened: list[Box] = []
    for block in blocks:
        shared = 0
        while shared < min(len(opened), len(block.boxes)) and opened[shared].id == block.boxes[shared].id:
            shared += 1
        while len(opened) > shared:
            out.append(_tag(opened.pop(), block, close=True))
        for box in block.boxes[shared:]:
            out.append(_tag(box, block))
            opened.append(box)
        out.append(bodies.of(block))
    out += [_tag(box, blocks[-1], close=True) for box in reversed(opened)]
    return "".join(out)


def _tag(box: Box, block: Block, *, close: bool = False) -> str:
    name = {"quote": "blockquote", "list": box.mark, "item": "li"}[box.kind]
    if close:
        return f"</{name}>"
    # A list that goes on in another message counts on.
    inner = block.boxes[block.boxes.index(box) + 1].mark if name == "ol" else ""
    return f'<{name} start="{inner}">' if inner not in {"", "1"} else f"<{name}>"


def _html_block(block: Block, dialect: Dialect) -> str:
    if block.kind == "rule":
        return "<hr>"
    if block.kind == "code":
        language = re.sub(r"[^\w+#.-]", "", block.info)
        named = f' class="language-{language}"' if language else ""
        return f"<pre><code{named}>{html(block.text)}</code></pre>"
    words = _words(block, block.spans, dialect).replace("\n", "<br>")
    if block.info == "tight":
        return words
    tag = f"h{block.info}" if block.kind == "heading" else "p"
    return f"<{tag}>{words}</{tag}>"
