"""The `---` block at the head of a Markdown file: cut off, and read into plain values.

Pure text in, plain values out; what the keys mean is the reader's business. Such a block may come from a stranger, so
nothing here raises, whatever the bytes say, and no depth of nesting reaches the YAML library's recursion in C. The library
is loaded by the first block that is read: most commands read none.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from homarus.core.patterns import late

# A longer block is no header; YAML would spend seconds on it.
MAX_HEADER_CHARS = 65_536
_MAX_DEPTH = 40
_MAX_NODES = 5_000
_MAX_KEYS = 100
# With fewer of these characters than this, and less indentation, no nesting can grow deep enough to hurt.
_OPENERS, _FEW = "-?[{", 300

_KEY = late(r"( *)([A-Za-z_][\w-]*):(?: +(.*))?")
# A line that means the same to everyone: a key with nothing, with words in quotes, a list of those, JSON, or plain words.
_PLAIN_LINE = late(
    r"((?:  )*)([A-Za-z][\w-]*):(?: (?:"
    r"\"([^\"\\\x00-\x1f\x7f-\x9f\ufeff\u2028\u2029\ud800-\udfff\ufffe\uffff]*)\"|"
    r"'([^'\x00-\x1f\x7f-\x9f\ufeff\u2028\u2029\ud800-\udfff\ufffe\uffff]*)'|"
    r"\[(\"[\w./-]+\"(?:, \"[\w./-]+\")*)\]|"
    r"(\{\"[^\\\x00-\x1f\x7f-\x9f\ufeff\u2028\u2029\ud800-\udfff\ufffe\uffff]{0,1000}\})|"
    r"([A-Za-z](?:[A-Za-z0-9 ,.'()/*-]*(?::(?! )[A-Za-z0-9 ,.'()/*-]*)*[A-Za-z0-9.)])?))?)?"
)
_STRING, _DIGIT = late(r'"[^"]*"'), late(r"\d")
_SWITCHES = {"true": True, "false": False}
_SPECIAL = frozenset({"true", "false", "yes", "no", "on", "off", "null"})
_ANY_KEY = late(r"[A-Za-z0-9_][\w .-]*:(?:[ \t]|$)")


class Header(NamedTuple):
    """What a block said. `problem` is empty unless the block was not clean YAML and was read key by key instead."""

    values: dict[str, Any]
    problem: str = ""


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


def without_header(text: str) -> str:
    """Return text without the block at its head; text whose first block is anything but key/value lines stays whole."""
    if not text.startswith("---"):
        return text
    header, body = split(text)
    return text if header is None or not _is_mapping(header) else body.lstrip("\r\n")


def _is_mapping(block: str) -> bool:
    """Say whether every line is a key, a comment, or belongs to the key above it; at least one must be a key."""
    keys = 0
    for line in block.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if _ANY_KEY.match(line):
            keys += 1
        elif not keys or not (line.startswith((" ", "\t", "- ")) or line.strip() in {"}", "]", "},", "],"}):
            return False
    return keys > 0


def parse(header: str) -> Header:
    """Return the block's values as YAML has them; where it is not clean YAML, each key is read alone."""
    if len(header) > MAX_HEADER_CHARS:
        return Header(_by_key(header[:MAX_HEADER_CHARS]), f"the header is longer than {MAX_HEADER_CHARS} characters")
    if (simple := _simple(header)) is not None:
        return Header(simple)
    try:
        values = _yaml(header)
    except Exception as problem:  # noqa: BLE001 - on hostile text the YAML library raises nearly anything
        return Header(_by_key(header), f"not clean YAML: {_first_line(problem)}")
    if values is None:
        return Header({})  # blank, or comments alone
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


def _simple(header: str) -> dict[str, Any] | None:
    """Read a block of plain lines without the YAML library, which takes longer to load than a thousand of them to read.

    None where a single line is anything else.
    """
    levels: list[dict[str, Any]] = [{}]
    opened = ""  # the key above, if it has no value yet
    for line in header.removesuffix("\n").split("\n"):
        match = _PLAIN_LINE.fullmatch(line)
        if match is None or (level := len(match[1]) // 2) > len(levels) - (not opened):
            return None
        if opened and level == len(levels):
            levels[-1][opened] = {}
            levels.append(levels[-1][opened])
        del levels[level + 1 :]
        key, double, single, listed, block, word = match.groups()[1:]
        special = word is not None and word.lower() in _SPECIAL and word not in _SWITCHES
        if special or key in levels[level] or key.lower() in _SPECIAL:
            return None
        value: Any = double if double is not None else single
        if listed:
            value = listed[1:-1].split('", "')
        elif block and (value := _json(block)) is None:
            return None
        elif word:
            value = _SWITCHES.get(word, word)
        levels[level][key] = value
        opened = key if value is None else ""
    return levels[0]


def _json(block: str) -> Any:
    """Read an object of JSON that YAML reads alike; None where it is none, or the two may differ, as they do about numbers."""
    import msgspec

    if _DIGIT.search(_STRING.sub("", block)):
        return None
    try:
        return plain(msgspec.json.decode(block))
    except (ValueError, RecursionError):
        return None


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
    try:
        return _yaml("\n".join(lines))[key]
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
