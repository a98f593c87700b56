"""Insert, replace and remove one member of a JSON5 text by its span. Pure; which member it is was decided before.

Every function returns a new text in which all bytes outside the member and its own comma are as they were.
"""

from __future__ import annotations

from typing import Any

import msgspec

from homarus.config.keypath import Step
from homarus.config.scan import Member, Node, comments
from homarus.config.style import Style, detect, line_start, margin_of, render, render_key
from homarus.core.patterns import late

Cut = tuple[int, int, str]

_LINE_REST = late(r"(?:[ \t]|/\*(?:[^*\r\n]|\*(?!/))*\*/)*(?://[^\r\n\u2028\u2029]*)?")
_BLANKS = late(r"[ \t]*")
_NEWLINE = late(r"\r\n|\n|\r")


def replace(text: str, root: Node, node: Node, at: int, value: Any) -> str:
    """Write another value in the place of one; `at` is where its key begins."""
    style = detect(text, root)
    if isinstance(value, str) and text[node.start] in "\"'":
        style = msgspec.structs.replace(style, quote=text[node.start])
    written = render(value, style, margin_of(text, at), lines=node is root or starts_line(text, at))
    return _spliced(text, [(node.start, node.end, written)])


def insert(text: str, root: Node, node: Node, step: Step, value: Any) -> str:
    """Add a member at the end of an object or an array."""
    style = detect(text, root)
    if not node.members:
        return _insert_first(text, root, node, step, value)
    last = node.members[-1]
    after = last.comma + 1 if last.comma >= 0 else last.node.end
    closing = "," if last.comma >= 0 else ""
    cuts: list[Cut] = [] if last.comma >= 0 else [(last.node.end, last.node.end, ",")]
    if not starts_line(text, last.key_start) or line_start(text, last.key_start) <= node.start:
        cuts.append((after, after, f" {_member(style, step, value, '', lines=False)}{closing}"))
        return _spliced(text, cuts)
    margin = margin_of(text, last.key_start)
    rest = _LINE_REST.match(text, after)
    end = rest.end() if rest and text[after : rest.end()].strip() else after
    cuts.append((end, end, f"{style.newline}{margin}{_member(style, step, value, margin)}{closing}"))
    return _spliced(text, cuts)


def _insert_first(text: str, root: Node, node: Node, step: Step, value: Any) -> str:
    style = detect(text, root)
    inner = (node.start + 1, node.end - 1)
    outer = margin_of(text, node.start)
    margin = outer + style.indent
    lines = node is root or "\n" in text[node.start : node.end] or _in_lines(text, root, node)
    kept = [span for span in comments(text[: inner[1]]) if span[0] >= inner[0]]
    if kept:
        # After the last comment, on a line of its own: a line comment would swallow what follows it.
        start = kept[-1][1]
        closing = "" if _NEWLINE.match(text, _skip_blanks(text, start)) else f"{style.newline}{outer}"
        written = f"{style.newline}{margin}{_member(style, step, value, margin)}{closing}"
        return _spliced(text, [(start, start, written)])
    blank = text[inner[0] : inner[1]]
    if lines:
        comma = "," if style.trailing_comma else ""
        written = f"{style.newline}{margin}{_member(style, step, value, margin)}{comma}"
        if not blank.strip(" \t"):
            return _spliced(text, [(*inner, f"{written}{style.newline}{outer}")])
        return _spliced(text, [(inner[0], inner[0], written)])
    pad = " " if style.bare_keys and node.kind == "object" else ""
    written = _member(style, step, value, "", lines=False)
    return _spliced(
        text, [(*inner, f"{pad}{written}{pad}")] if not blank.strip(" \t") else [(inner[0], inner[0], written)]
    )


def remove(text: str, node: Node, member: Member) -> str:
    """Take a member out, with its comma or, for a last one without, the comma before it. Comments around it stay."""
    index = next(i for i, other in enumerate(node.members) if other is member)
    start, end = member.key_start, member.node.end
    cuts: list[Cut] = []
    if member.comma >= 0:
        if text[end : member.comma].strip():
            cuts.append((member.comma, member.comma + 1, ""))
        else:
            end = member.comma + 1
    elif index > 0:
        comma = node.members[index - 1].comma
        if not text[comma + 1 : start].strip():
            return _spliced(text, [(comma, end, "")])
        cuts.append((comma, comma + 1, ""))
    before, after = line_start(text, start), _skip_blanks(text, end)
    newline = _NEWLINE.match(text, after)
    if starts_line(text, start) and before > node.start and newline:
        start, end = before, newline.end()
    elif not newline or not text[before:start].strip():
        end = after
    cuts.append((start, end, ""))
    return _spliced(text, cuts)


def starts_line(text: str, at: int) -> bool:
    """Say whether nothing but blanks stands before an offset on its line."""
    return not text[line_start(text, at) : at].strip(" \t\ufeff")


def _member(style: Style, step: Step, value: Any, margin: str, *, lines: bool = True) -> str:
    written = render(value, style, margin, lines=lines)
    return written if isinstance(step, int) else f"{render_key(step, style)}{style.colon}{written}"


def _in_lines(text: str, root: Node, node: Node) -> bool:
    """Say whether an empty value belongs to a member that has its line for itself."""
    for member in _walk(root):
        if member.node is node:
            return starts_line(text, member.key_start)
    return False


def _walk(node: Node) -> list[Member]:
    return [inner for member in node.members for inner in (member, *_walk(member.node))]


def _skip_blanks(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return match.end() if match else at


def _spliced(text: str, cuts: list[Cut]) -> str:
    parts, at = [], 0
    for start, end, written in sorted(cuts, key=lambda cut: cut[0]):
        parts += [text[at:start], written]
        at = end
    return "".join([*parts, text[at:]])
