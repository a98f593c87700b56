"""The handwriting of a JSON5 file, and new values written in it. Pure.

What is inserted looks like what stands around it: quotes, indentation, line ends, commas, the space after a colon.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from homarus.config.scan import Member, Node
from homarus.core.patterns import late

_BARE = late(r"[A-Za-z_$][A-Za-z0-9_$]*")
_ESCAPED = late('[\x00-\x1f\x7f"\\\\\u2028\u2029]')
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f", "\\": "\\\\"}
_WIDTH = 100


class Style(msgspec.Struct, frozen=True):
    """How a file is written. The defaults are plain JSON, which every other program reads too."""

    newline: str = "\n"
    indent: str = "  "
    bare_keys: bool = False
    quote: str = '"'
    colon: str = ": "
    trailing_comma: bool = False


def detect(text: str, root: Node) -> Style:
    members = list(_members(root))
    named = [member for member in members if isinstance(member.key, str)]
    first = [text[member.key_start] for member in named]
    scalars = [text[member.node.start] for member in members if member.node.kind == "scalar"]
    quotes = [char for char in [*first, *scalars] if char in "\"'"]
    newline = re.search(r"\r\n|\n|\r", text)
    return Style(
        newline=newline.group() if newline else "\n",
        indent=_indent(text, root),
        bare_keys=any(char not in "\"'" for char in first),
        quote="'" if quotes.count("'") > quotes.count('"') else '"',
        colon=_colon(text, named),
        trailing_comma=_trailing(text, root),
    )


def render_key(name: str, style: Style) -> str:
    return name if style.bare_keys and _BARE.fullmatch(name) else render_text(name, style.quote)


def render_text(text: str, quote: str = '"') -> str:
    """Write a string; only what must be escaped is."""
    if "\n" in text or quote == '"':
        quote = '"'

    def escape(match: re.Match[str]) -> str:
        char = match.group()
        if char == '"':
            return '\\"' if quote == '"' else '"'
        return _SHORT.get(char) or f"\\u{ord(char):04x}"

    body = _ESCAPED.sub(escape, text)
    return f"{quote}{body.replace(quote, chr(92) + quote) if quote != chr(34) else body}{quote}"


def render(value: Any, style: Style, margin: str = "", *, lines: bool = True) -> str:
    """Write a value. `margin` stands before the line on which it begins; without `lines` it stays on that line."""
    if isinstance(value, str):
        return render_text(value, style.quote)
    if isinstance(value, dict):
        items = [f"{render_key(key, style)}{style.colon}" for key in value]
        brackets, values = "{}", list(value.values())
    elif isinstance(value, list):
        items, brackets, values = ["" for _ in value], "[]", value
    else:
        return _render_plain(value)
    if not values:
        return brackets
    flat = [key + render(inner, style, lines=False) for key, inner in zip(items, values, strict=True)]
    pad = " " if brackets == "{}" and style.bare_keys else ""
    one_line = f"{brackets[0]}{pad}{', '.join(flat)}{pad}{brackets[1]}"
    plain_list = brackets == "[]" and not any(isinstance(inner, dict | list) for inner in values)
    if not lines or (plain_list and len(one_line) + len(margin) <= _WIDTH):
        return one_line
    inside = margin + style.indent
    parts = [inside + key + render(inner, style, inside) for key, inner in zip(items, values, strict=True)]
    comma = "," if style.trailing_comma else ""
    return f"{brackets[0]}{style.newline}{(',' + style.newline).join(parts)}{comma}{style.newline}{margin}{brackets[1]}"


def margin_of(text: str, offset: int) -> str:
    start = line_start(text, offset)
    match = re.compile(r"[ \t]*").match(text, start)
    return match.group() if match else ""


def line_start(text: str, offset: int) -> int:
    return max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1


def _render_plain(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value)
    return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(text, text)


def _members(node: Node) -> list[Member]:
    return [inner for member in node.members for inner in (member, *_members(member.node))]


def _indent(text: str, root: Node) -> str:
    for member in _members(root):
        for inner in member.node.members:
            outer, own = margin_of(text, member.key_start), margin_of(text, inner.key_start)
            if own != outer and own.startswith(outer) and starts_line(text, inner.key_start):
                return own[len(outer) :]
    for member in root.members:
        own = margin_of(text, member.key_start)
        if own and starts_line(text, member.key_start):
            return own
    return "  "


def starts_line(text: str, offset: int) -> bool:
    return not text[line_start(text, offset) : offset].strip(" \t\ufeff")


def _colon(text: str, named: list[Member]) -> str:
    for member in named:
        between = text[member.key_end : member.node.start]
        if re.fullmatch(r"[ \t]*:[ \t]*", between):
            return between
    return ": "


def _trailing(text: str, root: Node) -> bool:
    for node in [root, *(member.node for member in _members(root))]:
        if node.members and "\n" in text[node.members[-1].node.end : node.end]:
            return node.members[-1].comma >= 0
    return False
