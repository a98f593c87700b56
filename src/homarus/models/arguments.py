"""Tool arguments as models write them: strict JSON first, then the few mistakes that have one meaning only. Pure."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from homarus.core.patterns import late

_decode = msgspec.json.Decoder().decode
_FENCE = late(r"\A```(?:json)?\s*\n(.*?)\n?```\Z", re.DOTALL)


class BrokenArguments(ValueError):
    """The text is no JSON object and cannot be read as one without guessing."""


def parse_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call. Nothing is completed or guessed: half a call must not run as a whole one."""
    try:
        value = _decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return _repaired(text.strip())
    return value if type(value) is dict else _repaired(text.strip())


def _repaired(text: str) -> dict[str, Any]:
    if not text or text == "null":
        return {}
    try:
        value = _decode(text.encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        value = _lenient(text, problem)
    if isinstance(value, str) and value.strip().startswith("{"):
        # Encoded twice.
        return parse_arguments(value)
    if not isinstance(value, dict):
        raise BrokenArguments(f"expected an object, got {type(value).__name__}")
    return value


def _lenient(text: str, problem: Exception) -> Any:
    """Read JSON5 (trailing commas, single quotes, bare line breaks in strings) or an object inside a code fence."""
    import json

    import pyjson5

    fenced = _FENCE.match(text)
    inner = fenced.group(1) if fenced else text
    try:
        return json.loads(inner, strict=False)
    except ValueError:
        pass
    try:
        return pyjson5.decode(inner)
    except (pyjson5.Json5DecoderException, ValueError):
        raise BrokenArguments(f"{problem} in {text[:80]!r}") from problem
