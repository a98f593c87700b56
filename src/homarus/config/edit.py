"""Edits of JSON5 text that touch one key and leave every other byte alone: comments, order, quotes, line ends. Pure.

Each function takes the whole text and returns a new one. They raise ConfigError where a path cannot be followed.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from homarus.config.keypath import KeyPath, Step, as_index, format_path
from homarus.config.scan import Member, Node, ScanError, comments, is_blank, line_and_column, parse, scan
from homarus.config.style import Style, detect, line_start, margin_of, render, render_key, starts_line
from homarus.core.errors import ConfigError
from homarus.core.patterns import late

Cut = tuple[int, int, str]

_LINE_REST = late(r"(?:[ \t]|/\*(?:[^*\r\n]|\*(?!/))*\*/)*(?://[^\r\n\u2028\u2029]*)?")
_BLANKS = late(r"[ \t]*")
_NEWLINE = late(r"\r\n|\n|\r")


def _replace(text: str, root: Node, node: Node, at: int, value: Any) -> str:
    """Write another value in the place of one; `at` is where its key begins."""
    style = detect(text, root)
    if isinstance(value, str) and text[node.start] in "\"'":
        style = msgspec.structs.replace(style, quote=text[node.start])
    written = render(value, style, margin_of(text, at), lines=node is root or starts_line(text, at))
    return _spliced(text, [(node.start, node.end, written)])


def _insert(text: str, root: Node, node: Node, step: Step, value: Any) -> str:
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


def _remove(text: str, node: Node, member: Member) -> str:
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


_REMOVED: Any = object()


def set_value(text: str, path: KeyPath, value: Any) -> str:
    """Return the text with this value at this path; what is missing on the way is made in the style of the file."""
    text = _with_document(text)
    node = root = scan(text)
    at = root.start
    for depth, raw in enumerate(path):
        if node.kind == "scalar":
            if node.value is not None:
                raise ConfigError(f"{format_path(path[:depth])} is a plain value, not an object", cure="unset it first")
            return _replace(text, root, node, at, _wrap(path[depth:], value))
        step = _step(node, raw, path[: depth + 1])
        found = node.child(step)
        if found is None:
            return _insert(text, root, node, step, _wrap(path[depth + 1 :], value))
        node, at = found.node, found.key_start
    return _replaced(text, root, node, at, path, value)


def unset_value(text: str, path: KeyPath) -> str:
    """Return the text without this key and its comma; a key written twice goes twice. Comments stay."""
    if not path:
        raise ConfigError("the whole document cannot be unset", cure="name a key")
    node = _follow(scan(_with_document(text)), path[:-1])
    member = _child(node, path[-1])
    if node is None or member is None:
        raise ConfigError(f"{format_path(path)} is not set", cure="'homarus config get' shows what is")
    once = node.kind == "array"
    while node is not None and member is not None:
        text = _remove(text, node, member)
        if once:
            break
        node = _follow(scan(text), path[:-1])
        member = _child(node, path[-1])
    return text


def apply_data(document: Any, path: KeyPath, value: Any = _REMOVED) -> Any:
    """Return what the document must be after an edit, worked out on plain data; the check that an edit did that alone."""
    if not path:
        return value
    if document is None and path[0] == 0:
        document = []
    index = as_index(path[0]) if isinstance(document, list) else None
    if isinstance(document, list) and index is not None:
        items = list(document)
        position = index if index >= 0 else len(items) + index
        if len(path) == 1 and value is _REMOVED:
            del items[position]
        elif position == len(items):
            items.append(apply_data(None, path[1:], value))
        else:
            items[position] = apply_data(items[position], path[1:], value)
        return items
    table = dict(document) if isinstance(document, dict) else {}
    key = str(path[0])
    if len(path) == 1 and value is _REMOVED:
        table.pop(key, None)
    else:
        table[key] = apply_data(table.get(key), path[1:], value)
    return table


def same(one: Any, other: Any) -> bool:
    """Say whether two values are written alike: 1, 1.0 and true differ, NaN is NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other)


def parse_text(text: str, name: str) -> Any:
    """Return the data of a text that is about to be edited, or raise ConfigError with the place of the mistake."""
    try:
        return parse(_with_document(text))
    except ScanError as problem:
        line, column = line_and_column(text, problem.offset)
        raise ConfigError(
            f"{name}:{line}: {problem.message} (column {column})", cure="correct it with 'homarus config edit' first"
        ) from None


def _with_document(text: str) -> str:
    if not is_blank(text):
        return text
    return text + ("\n" if text.strip("\ufeff") and not text.endswith(("\n", "\r")) else "") + "{}\n"


def _step(node: Node, step: Step, path: KeyPath) -> Step:
    if node.kind == "object":
        if isinstance(step, int) and node.child(str(step)) is None:
            where = format_path(path[:-1]) or "the document"
            raise ConfigError(
                f"{format_path(path)}: {where} is an object, not a list",
                cure=f"name a key of it; {format_path((*path[:-1], str(step)))} is the one called {step}",
            )
        return str(step)
    index = as_index(step)
    if index is None or not -len(node.members) <= index <= len(node.members):
        raise ConfigError(
            f"{format_path(path)}: the list has {len(node.members)} items", cure="use an index of it, or the next one"
        )
    return index


def _follow(root: Node, path: KeyPath) -> Node | None:
    node: Node | None = root
    for step in path:
        member = _child(node, step)
        node = member.node if member else None
    return node


def _child(node: Node | None, step: Step) -> Member | None:
    if node is None:
        return None
    key = as_index(step) if node.kind == "array" else str(step)
    return node.child(key) if key is not None else None


def _wrap(rest: KeyPath, value: Any) -> Any:
    for step in reversed(rest):
        if isinstance(step, int) and step != 0:
            raise ConfigError(f"there is no list yet that could have an item {step}", cure="begin with item 0")
        value = [value] if isinstance(step, int) else {step: value}
    return value


def _replaced(text: str, root: Node, node: Node, at: int, path: KeyPath, value: Any) -> str:
    """Change a value to another; of two objects or two lists only what differs is touched."""
    old = node.data()
    if same(old, value):
        return text
    if node.kind == "object" and isinstance(value, dict):
        for key in [key for key in old if key not in value]:
            text = unset_value(text, (*path, key))
        for key in [key for key in value if key not in old or not same(old[key], value[key])]:
            text = set_value(text, (*path, key), value[key])
        return text
    if node.kind == "array" and isinstance(value, list):
        for index in range(len(old) - 1, len(value) - 1, -1):
            text = unset_value(text, (*path, index))
        for index, item in enumerate(value):
            if index >= len(old) or not same(old[index], item):
                text = set_value(text, (*path, index), item)
        return text
    return _replace(text, root, node, at, value)
