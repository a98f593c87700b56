"""The `---` block at the head of a Markdown file: cut off, and read into plain values.

Pure text in, plain values out; what the keys mean is the reader's business. Such a block may come from a stranger, so
nothing here raises, whatever the bytes say, and no depth of nesting reaches the YAML library's recursion in C.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from homarus.core.patterns import late

# A longer block is no header; YAML would spend seconds on it.
MAX_HEADER_CHARS = 65_536
_MAX_DEPTH = 40
_MAX_NODES = 5_000
_MAX_KEYS = 100
# With fewer of these characters than this, and less indentation, no nesting can grow deep enough to hurt.
_OPENERS, _FEW = "-?[{", 300

# What YAML refuses, takes for a line break, or gives a meaning of its own to.
_ODD = late("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_KEY = late(r"( *)([A-Za-z_][\w-]*):(?: +(.*))?")
_ITEM = late(r"( *)- +(.*)")
# A plain scalar that YAML reads as that very text: starts with a letter, holds no `: `, ` #` or quotes' meaning.
_PLAIN = late(r"[^\W\d_](?:[^:#]|:(?! |$)|(?<! )#)*")
_WORDS = late(r"\[ *(?:[A-Za-z][\w.-]*(?: *, *[A-Za-z][\w.-]*)*)? *\]")
_CONSTANTS = {
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
    **dict.fromkeys(("null", "Null", "NULL"), None),
}


class Header(NamedTuple):
    """What a block said. `problem` is empty unless the block was not clean YAML and was read key by key instead."""

    values: dict[str, Any]
    problem: str = ""


class _Unsure(Exception):
    """The cheap reader met something that only YAML can judge."""


def split(text: str) -> tuple[str | None, str]:
    """Return the header block (None when there is none) and the body after it; an unclosed block is body."""
    start = 1 if text.startswith("\ufeff") else 0
    first = text.find("\n", start)
    if first < 0 or text[start:first].rstrip() != "---":
        return None, text[start:]
    at = first
    while at >= 0:
        end = text.find("\n", at + 1)
        line = text[at + 1 : end if end >= 0 else len(text)]
        if line.startswith("---") and line.rstrip() == "---":
            return text[first + 1 : at + 1].replace("\r\n", "\n"), text[end + 1 :] if end >= 0 else ""
        at = text.find("\n---", end) if end >= 0 else -1
    return None, text[start:]


def parse(header: str) -> Header:
    """Return the block's values: by the cheap reader where that is certain, else by YAML, else key by key."""
    if len(header) > MAX_HEADER_CHARS:
        return Header(_by_key(header[:MAX_HEADER_CHARS]), f"the header is longer than {MAX_HEADER_CHARS} characters")
    try:
        return Header(_simple(header))
    except _Unsure:
        pass
    try:
        values = _yaml(header)
    except Exception as problem:  # noqa: BLE001 - on hostile text the YAML library raises nearly anything
        return Header(_by_key(header), f"not clean YAML: {_first_line(problem)}")
    return Header(values) if isinstance(values, dict) else Header(_by_key(header), "the header is no mapping")


def json5(text: str) -> Any:
    """Return the value of a JSON5 text, or None where it is not one."""
    import pyjson5

    try:
        return plain(pyjson5.decode(text, maxdepth=_MAX_DEPTH))
    except Exception:  # noqa: BLE001 - its errors share no base with the ones of our own limit
        return None


def plain(value: Any) -> Any:
    """Return the value made of JSON's types alone; raises ValueError where it is too deep or too large."""
    return _plain(value, 0, [0])


def _plain(value: Any, depth: int, seen: list[int]) -> Any:
    seen[0] += 1
    if depth > _MAX_DEPTH or seen[0] > _MAX_NODES:
        raise ValueError("nested too deep or too large")
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(item, depth + 1, seen) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1, seen) for item in value]
    return str(value)


def _simple(header: str) -> dict[str, Any]:
    """Read nested `key: scalar` lines and lists of scalars; raises _Unsure where YAML could mean anything else."""
    # Nothing odd is printable, and asking for that costs less than the pattern.
    if not header.replace("\n", "").isprintable() and _ODD.search(header):
        raise _Unsure
    root: dict[str, Any] = {}
    # One entry per open mapping: its indentation and itself.
    stack: list[tuple[int, dict[str, Any]]] = [(0, root)]
    empty: _Empty | None = None
    for line in header.split("\n"):
        start = line.lstrip()[:1]
        if not start or start == "#":
            continue
        match = _KEY.fullmatch(line)
        if match is None:
            empty = _list_item(line, empty)
            continue
        indent, (key, value) = len(match[1]), (match[2], match[3])
        if indent > stack[-1][0]:
            if empty is None or empty.owner[empty.key] is not None:
                raise _Unsure
            child: dict[str, Any] = {}
            empty.owner[empty.key] = child
            stack.append((indent, child))
        while indent < stack[-1][0]:
            stack.pop()
        owner = stack[-1][1]
        if indent != stack[-1][0] or key in owner or key in _CONSTANTS or len(stack) > _MAX_DEPTH:
            raise _Unsure
        owner[key] = None
        empty = _Empty(owner, key, indent)
        if value is not None and value.strip():
            owner[key] = _scalar(value.strip())
            empty = None
    return root


class _Empty(Struct, frozen=True):
    """A key whose value has not come yet, or has come in part as a list whose items stand at `indent`."""

    owner: dict[str, Any]
    key: str
    indent: int


def _list_item(line: str, empty: _Empty | None) -> _Empty:
    match = _ITEM.fullmatch(line)
    if match is None or empty is None or len(match[1]) < empty.indent:
        raise _Unsure
    owner, key, indent = empty.owner, empty.key, empty.indent
    if owner[key] is None:
        owner[key], indent = [], len(match[1])
    item = _scalar(match[2].strip())
    # A line indented deeper than the first item goes on with the text of the item above it.
    if indent != len(match[1]) or isinstance(item, dict | list):
        raise _Unsure
    owner[key].append(item)
    return _Empty(owner, key, indent)


def _scalar(text: str) -> Any:
    quote = text[:1]
    if quote in {'"', "'"}:
        inner = text[1:-1]
        if len(text) < 2 or text[-1] != quote or quote in inner or (quote == '"' and "\\" in inner):
            raise _Unsure
        return inner
    if quote in {"{", "["}:
        if _WORDS.fullmatch(text):
            return [_scalar(word.strip()) for word in text[1:-1].split(",") if word.strip()]
        try:
            value = msgspec.json.decode(text)
            return value if isinstance(value, list) and all(type(item) is str for item in value) else plain(value)
        except (ValueError, RecursionError):
            raise _Unsure from None
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if not _PLAIN.fullmatch(text):
        raise _Unsure
    return text


def _yaml(header: str) -> Any:
    import yaml

    indent = max((len(line) - len(line.lstrip(" ")) for line in header.split("\n")), default=0)
    if indent + sum(map(header.count, _OPENERS)) > _FEW:
        depth = 0
        # The event parser keeps its state in a list; only the composer above it recurses.
        for event in yaml.parse(header, Loader=_loader()):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > _MAX_DEPTH:
                raise ValueError("nested too deep")
    return plain(yaml.load(header, Loader=_loader()))  # noqa: S506 - a safe loader without dates


@cache
def _loader() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    stamp = "tag:yaml.org,2002:timestamp"
    resolvers = {
        first: [pair for pair in pairs if pair[0] != stamp] for first, pairs in base.yaml_implicit_resolvers.items()
    }
    # `2026-11-15` stays the text that stands there.
    return type("HeaderLoader", (base,), {"yaml_implicit_resolvers": resolvers})


def _by_key(header: str) -> dict[str, Any]:
    """Read each top-level key alone, so that one bad line costs one value; that one becomes the text that stands there."""
    chunks: list[tuple[str, list[str]]] = []
    for line in header.splitlines():
        match = _KEY.match(line)
        if match and not match[1]:
            chunks.append((match[2], [line]))
        elif chunks and line.strip():
            chunks[-1][1].append(line)
    values: dict[str, Any] = {}
    for count, (key, lines) in enumerate(chunks):
        values[key] = _alone(key, lines) if count < _MAX_KEYS else _as_text(lines)
    return values


def _alone(key: str, lines: list[str]) -> Any:
    chunk = "\n".join(lines)
    try:
        return _simple(chunk)[key]
    except _Unsure:
        pass
    try:
        return _yaml(chunk)[key]
    except Exception:  # noqa: BLE001 - as in parse
        return _as_text(lines)


def _as_text(lines: list[str]) -> str:
    first = _unquote(lines[0].partition(":")[2].strip())
    return "\n".join([first, *(line.strip() for line in lines[1:])]).strip()


def _unquote(text: str) -> str:
    return text[1:-1] if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'" else text


def _first_line(problem: Exception) -> str:
    lines = str(problem).strip().splitlines()
    return (lines[0] if lines else type(problem).__name__)[:200]
