"""Key paths: `a.b[0]["x.y"]` to a tuple of names and indexes, and back. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeAlias

from homarus.core.errors import ConfigError
from homarus.core.patterns import late

Step: TypeAlias = str | int
KeyPath: TypeAlias = tuple[Step, ...]

_PLAIN = late(r"[^.\[\]\"'\s]+")
_TOKEN = late(
    r"""(?P<dot>\.)?(?:(?P<name>[^.\[\]"']+)
        |\[\s*(?P<index>-?\d+)\s*\]
        |\[\s*(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*\]
        |(?P<bare>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'))""",
    re.VERBOSE,
)


@lru_cache(maxsize=512)
def parse_path(text: str) -> KeyPath:
    """Read a path as people write it; `""` is the whole document. Raises ConfigError for text that is no path."""
    text = text.strip()
    if text.replace(".", "a").isalnum() and all(names := text.split(".")):
        return tuple(names)  # names and dots alone: nothing to take apart
    steps: list[Step] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        needs_dot = bool(steps) and match is not None and (match["name"] is not None or match["bare"] is not None)
        if match is None or needs_dot != (match["dot"] is not None):
            raise ConfigError(
                f"'{text}' is no key path (at character {at + 1})",
                cure='write it like agents.defaults.model, list[0] or channels["name.with.dots"]',
            )
        if match["index"] is not None:
            steps.append(int(match["index"]))
        elif match["name"] is not None:
            steps.append(match["name"].strip())
        else:
            steps.append(_unquote(match["quoted"] or match["bare"]))
        at = match.end()
    return tuple(steps)


def format_path(path: KeyPath) -> str:
    """Write a path so that `parse_path` reads the same one back."""
    out = ""
    for step in path:
        if isinstance(step, int):
            out += f"[{step}]"
        elif _PLAIN.fullmatch(step):
            out += f".{step}" if out else step
        else:
            out += f"[{_quote(step)}]"
    return out


def lookup(document: Any, path: KeyPath, default: Any = None) -> Any:
    """Return the value at a path, or the default where a step leads nowhere; `list.0` is as good as `list[0]`."""
    here = document
    for step in path:
        if isinstance(here, dict):
            name = step if step in here else str(step)
            if name not in here:
                return default
            here = here[name]
        elif isinstance(here, list):
            index = as_index(step)
            if index is None or not -len(here) <= index < len(here):
                return default
            here = here[index]
        else:
            return default
    return here


def as_index(step: Step) -> int | None:
    """Return a step as the index of a list, or None where it is a name."""
    if isinstance(step, int):
        return step
    return int(step) if step.isascii() and step.isdigit() and len(step) < 10 else None


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)


def merge(base: Any, over: Any) -> Any:
    """Lay one value over another: objects merge key by key, `null` erases, everything else replaces."""
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    merged = dict(base)
    for key, value in over.items():
        if value is None:
            merged.pop(key, None)
        elif key in merged:
            merged[key] = merge(merged[key], value)
        else:
            merged[key] = value
    return merged


def merge_include(base: Any, over: Any) -> Any:
    """Lay a file over what it includes, by the rule such files were written for: lists are joined, the rest as above.

    A `null` stays as it is here, because what it erases is decided later, between defaults and entries.
    """
    if isinstance(base, list) and isinstance(over, list):
        return [*base, *over]
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    merged = dict(base)
    for key, value in over.items():
        merged[key] = merge_include(merged[key], value) if key in merged else value
    return merged


def clashing(under: Any, over: Any, path: KeyPath) -> Iterator[KeyPath]:
    """Yield where an object or a list lies under something of another shape; a `null` is meant to take it away."""
    if isinstance(under, dict) and isinstance(over, dict):
        for key in under.keys() & over.keys():
            yield from clashing(under[key], over[key], (*path, key))
    elif isinstance(under, dict | list) and under and over is not None and type(under) is not type(over):
        yield path


def differing(under: Any, over: Any, path: KeyPath = (), *, merged: bool = True) -> Iterator[KeyPath]:
    """Yield where one value says something that another one, laid over it or put in its place, says otherwise or not at all.

    Of objects that are merged, what only the lower one has stays. A `null` says nothing, and an empty object that it is there.
    """
    if isinstance(under, dict) and (isinstance(over, dict) or (under and over is _ABSENT)):
        for key, value in under.items():
            other = over.get(key, _ABSENT) if isinstance(over, dict) else _ABSENT
            if other is not _ABSENT or not merged:
                yield from differing(value, other, (*path, key), merged=merged)
    elif under is not None and (type(under) is not type(over) or under != over):
        yield path


_ABSENT: Any = object()


def merge_agent(defaults: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """Return an agent's settings. A model of its own without fallbacks is strict: it does not inherit any."""
    merged: dict[str, Any] = merge(defaults, entry)
    for key in ("model", "imageModel"):
        own = entry.get(key)
        if isinstance(own, dict) and own.get("primary") and "fallbacks" not in own and isinstance(merged[key], dict):
            merged[key] = {**merged[key], "fallbacks": []}
    return merged
