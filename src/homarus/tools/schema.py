"""Check a call's arguments against its tool's schema, and say in one sentence how to call it right.

Only the part of JSON Schema that our own schemas use. Models often send a number as text or an object as JSON text;
what has only one reading is converted, everything else is an error that helps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from homarus.core.errors import ToolError
from homarus.core.text import single_line

_WORDS = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
# Which arguments can be right as they are, by what a schema calls their type.
_PLAIN: dict[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,)}


# Beyond that no argument of ours means anything, and arithmetic fails in odd places.
HUGE = 10**15


class Usual:
    """Knows the calls of a tool that are right as they are: nothing to rename, to convert or to refuse. Most calls are.

    It never admits what `fit` would change; what it does not admit is for `fit` to decide.
    """

    __slots__ = ("_required", "_rules")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._required = frozenset(schema.get("required", ()))
        self._rules = {name: rule for name, part in schema.get("properties", {}).items() if (rule := _rule(part))}

    def admits(self, arguments: object) -> bool:
        """Say whether a call can be made with exactly these arguments."""
        if type(arguments) is not dict or not arguments.keys() >= self._required:
            return False
        for name, value in arguments.items():
            rule = self._rules.get(name)
            if rule is None or type(value) not in rule[0]:
                return False
            _, low, high, among = rule
            text = type(value) is str
            size = len(value) if text else value
            # What is no number at all is neither at least this nor at most that.
            if (low is not None and not low <= size) or (high is not None and not size <= high):
                return False
            if text and not value.isascii() and _is_broken(value):
                return False
            if among is not None and value not in among:
                return False
        return True


_Rule = tuple[tuple[type, ...], float | None, float | None, Sequence[Any] | None]


def _rule(part: Any) -> _Rule | None:
    """Return the types, the least and the most, and the choice of one argument; nothing where it takes more than that."""
    if not isinstance(part, dict) or "anyOf" in part or part.get("type") not in tuple(_PLAIN):
        return None
    kind = part["type"]
    low, high = (part.get("minLength"), None) if kind == "string" else (None, None)
    if kind in {"integer", "number"}:
        low, high = part.get("minimum", -HUGE), part.get("maximum", HUGE)
    return _PLAIN[kind], low, high, part.get("enum")


def fit(arguments: Any, schema: Mapping[str, Any], *, aliases: Mapping[str, str], tool: str) -> dict[str, Any]:
    """Return the arguments as the tool expects them, or raise `ToolError` that tells the model what to change."""
    if isinstance(arguments, str):
        arguments = _from_json(arguments, dict)
    if not isinstance(arguments, dict):
        raise ToolError(f"{tool}: the arguments must be an object", cure=usage(schema, tool))
    known = schema.get("properties", {})
    renamed = {_rename(name, aliases, known, arguments): value for name, value in arguments.items()}
    problems = [] if len(renamed) == len(arguments) else ["an argument is given twice, under two names"]
    result: dict[str, Any] = {}
    for name, value in renamed.items():
        if name not in known:
            if schema.get("additionalProperties") is not True:
                problems.append(f"there is no argument '{single_line(name, 60)}'")
            else:
                result[name] = value
        elif value is None and name not in schema.get("required", ()):
            continue  # a model's way to say "not given"
        else:
            try:
                result[name] = _value(value, known[name], name)
            except _MisfitError as misfit:
                problems.append(str(misfit))
    problems += [f"'{name}' is missing" for name in schema.get("required", ()) if name not in renamed]
    if problems:
        raise ToolError(f"{tool}: {'; '.join(problems)}", cure=usage(schema, tool))
    return result


def usage(schema: Mapping[str, Any], tool: str) -> str:
    """Return how to call a tool, in one line."""
    required = schema.get("required", ())
    words = []
    for name, part in schema.get("properties", {}).items():
        kind = "|".join(map(str, part["enum"])) if "enum" in part else str(part.get("type", "any"))
        words.append(f"{name}: {kind}" if name in required else f"{name}?: {kind}")
    return f"call {tool}({', '.join(words)})"


class _MisfitError(Exception):
    """One value that does not fit."""


def _rename(name: str, aliases: Mapping[str, str], known: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    wanted = aliases.get(name, name)
    return wanted if name not in known and wanted in known and wanted not in given else name


def _value(value: Any, part: Mapping[str, Any], name: str) -> Any:
    if "anyOf" in part:
        return _any_of(value, part["anyOf"], name)
    kind = part.get("type")
    value = _convert(value, kind)
    if kind and not _is(value, kind):
        raise _MisfitError(f"'{name}' must be {_WORDS[kind]}")
    if "enum" in part and value not in part["enum"]:
        raise _MisfitError(f"'{name}' must be one of {', '.join(map(str, part['enum']))}")
    if kind in {"integer", "number"}:
        _within(value, part, name)
    if kind == "string":
        if len(value) < part.get("minLength", 0):
            raise _MisfitError(f"'{name}' must not be empty")
        if _is_broken(value):
            raise _MisfitError(f"'{name}' holds half a character (a lone surrogate)")
    if kind == "array":
        if len(value) > part.get("maxItems", len(value)):
            raise _MisfitError(f"'{name}' takes at most {part['maxItems']} items")
        items = part.get("items", {})
        return [_value(item, items, f"{name}[{number}]") for number, item in enumerate(value)]
    if kind == "object" and "properties" in part:
        return _object(value, part, name)
    return value


def _object(value: dict[str, Any], part: Mapping[str, Any], name: str) -> dict[str, Any]:
    for needed in part.get("required", ()):
        if needed not in value:
            raise _MisfitError(f"'{name}.{needed}' is missing")
    known = part["properties"]
    return {key: _value(item, known[key], f"{name}.{key}") if key in known else item for key, item in value.items()}


def _any_of(value: Any, options: list[Mapping[str, Any]], name: str) -> Any:
    problem = _MisfitError(f"'{name}' does not fit")
    for option in options:
        try:
            return _value(value, option, name)
        except _MisfitError as misfit:
            problem = misfit
    raise problem


def _within(value: float, part: Mapping[str, Any], name: str) -> None:
    low, high = part.get("minimum"), part.get("maximum")
    if not -HUGE <= value <= HUGE:
        raise _MisfitError(f"'{name}' is no number that means anything here")
    if low is not None and value < low:
        raise _MisfitError(f"'{name}' must be at least {low}")
    if high is not None and value > high:
        raise _MisfitError(f"'{name}' must be at most {high}")


def _is_broken(text: str) -> bool:
    """Say whether a text cannot be written down: JSON can name half of a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    kinds: dict[str, type | tuple[type, ...]] = {
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "array": list,
        "object": dict,
    }
    return isinstance(value, kinds[kind])


def _convert(value: Any, kind: str | None) -> Any:
    if isinstance(value, str):
        text = value.strip()
        if kind in {"integer", "number"}:
            try:
                return int(text) if kind == "integer" or text.lstrip("-").isdigit() else float(text)
            except ValueError:
                return value
        if kind == "boolean" and text.lower() in {"true", "false"}:
            return text.lower() == "true"
        if kind in {"array", "object"}:
            return _from_json(text, list if kind == "array" else dict)
    if isinstance(value, float) and kind == "integer" and value.is_integer():
        return int(value)
    if kind == "array" and isinstance(value, dict):
        return [value]
    return value


def _from_json(text: str, wanted: type) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, wanted) else text
