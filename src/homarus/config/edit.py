"""Edits of JSON5 text that touch one key and leave every other byte alone: comments, order, quotes, line ends. Pure.

Each function takes the whole text and returns a new one. They raise ConfigError where a path cannot be followed.
"""

from __future__ import annotations

import math
from typing import Any

from homarus.config import splice
from homarus.config.keypath import KeyPath, Step, as_index, format_path
from homarus.config.scan import Member, Node, ScanError, is_blank, line_and_column, parse, scan
from homarus.core.errors import ConfigError

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
            return splice.replace(text, root, node, at, _wrap(path[depth:], value))
        step = _step(node, raw, path[: depth + 1])
        found = node.child(step)
        if found is None:
            return splice.insert(text, root, node, step, _wrap(path[depth + 1 :], value))
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
        text = splice.remove(text, node, member)
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
    return splice.replace(text, root, node, at, value)
