"""Say why a value does not fit, in the words of a configuration and not in those of a type checker. Pure."""

from __future__ import annotations

import enum
import re
import typing
from collections.abc import Iterator
from typing import Any

import msgspec

_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_EXPECTED = re.compile(r"Expected '([^']*)'(.*?)(?:, got '([^']*)')?")
_GIVEN = {
    "bool": "a flag",
    "str": "text",
    **{name: _KINDS[name] for name in ("int", "float", "array", "object", "null")},
}


def reason(problem: msgspec.ValidationError, into: Any) -> str:
    """Return what a value must be and what it is instead; of a choice, all that may stand there."""
    text = str(problem).split(" - at `")[0].replace("`", "'")
    if text.startswith("Invalid enum value"):
        chosen = text.removeprefix("Invalid enum value ")
        names = list(dict.fromkeys(_choices(into)))
        return f"{chosen} is none of {', '.join(names)}" if names else f"{chosen} is not known here"
    match = _EXPECTED.fullmatch(text)
    if "matching regex" in text:
        return f"must be {' or '.join(_described(into)) or 'written differently'}"
    if match is None:
        return text
    kinds = [_KINDS.get(kind, kind) for kind in match[1].split(" | ")]
    wanted = " or ".join(dict.fromkeys(kinds)) + match[2]
    return f"must be {wanted}" + (f", not {_GIVEN.get(match[3], match[3])}" if match[3] else "")


def _described(into: Any) -> Iterator[str]:
    """Yield what texts that must look a certain way are, in the words of their owner."""
    if typing.get_origin(into) is typing.Annotated:
        yield from (
            meta.description for meta in into.__metadata__ if isinstance(meta, msgspec.Meta) and meta.description
        )
    for part in typing.get_args(into):
        yield from _described(part)


def _choices(into: Any) -> Iterator[str]:
    if isinstance(into, type) and issubclass(into, enum.Enum):
        yield from (str(member.value) for member in into)
    elif typing.get_origin(into) is typing.Literal:
        yield from map(str, typing.get_args(into))
    elif typing.get_origin(into) is not dict:
        for part in typing.get_args(into):
            yield from _choices(part)
