"""Key paths: `a.b[0]["x.y"]` to a tuple of names and indexes, and back. Pure."""

from __future__ import annotations

import json
import re
from typing import Any, TypeAlias

from homarus.core.errors import ConfigError

Step: TypeAlias = str | int
KeyPath: TypeAlias = tuple[Step, ...]

_PLAIN = re.compile(r"[^.\[\]\"'\s]+")
_TOKEN = re.compile(
    r"""(?P<dot>\.)?(?:(?P<name>[^.\[\]"']+)
        |\[\s*(?P<index>-?\d+)\s*\]
        |\[\s*(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*\]
        |(?P<bare>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'))""",
    re.VERBOSE,
)


def parse_path(text: str) -> KeyPath:
    """Read a path as people write it; `""` is the whole document. Raises ConfigError for text that is no path."""
    steps: list[Step] = []
    at = 0
    text = text.strip()
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
            out += f"[{json.dumps(step, ensure_ascii=False)}]"
    return out


def lookup(document: Any, path: KeyPath, default: Any = None) -> Any:
    """Return the value at a path, or the default where a step leads nowhere."""
    here = document
    for step in path:
        if isinstance(step, str):
            if not isinstance(here, dict) or step not in here:
                return default
        elif not isinstance(here, list) or not -len(here) <= step < len(here):
            return default
        here = here[step]
    return here


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
