"""Check a call's arguments against its tool's schema, and say in one sentence how to call it right.

Only the part of JSON Schema that our own schemas use. Models often send a number as text or an object as JSON text;
what has only one reading is converted, everything else is an error that helps. Whatever is checked or shown later sees
the arguments as they come from here, with every default filled in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from homarus.core.errors import ToolError
from homarus.core.text import single_line

_KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "string": (str, "a text"),
    "integer": (int, "a whole number"),
    "number": ((int, float), "a number"),
    "boolean": (bool, "true or false"),
    "array": (list, "a list"),
    "object": (dict, "an object"),
    "null": (type(None), "null"),
}
# Beyond that no argument of ours means anything, and arithmetic fails in odd places.
_HUGE = 10**15


def fit(arguments: Any, schema: Mapping[str, Any], *, aliases: Mapping[str, str], tool: str) -> dict[str, Any]:
    """Return the arguments as the tool expects them, or raise `ToolError` that tells the model what to change."""
    if isinstance(arguments, str):
        arguments = _from_json(arguments, dict)
    if not isinstance(arguments, dict):
        raise ToolError(f"{tool}: the arguments must be an object", cure=usage(schema, tool))
    known, required = schema.get("properties", {}), schema.get("required", ())
    renamed = {_rename(name, aliases, known, arguments): value for name, value in arguments.items()}
    problems = [] if len(renamed) == len(arguments) else ["an argument is given twice, under two names"]
    result: dict[str, Any] = {}
    for name, value in renamed.items():
        if name not in known and schema.get("additionalProperties") is not True:
            problems.append(f"there is no argument '{single_line(_written(name), 60)}'")
        elif name not in known or value is not None or name in required:  # null is a model's way to say "not given"
            part = known.get(name, {})
            try:
                # What was filled in is looked at again behind a hook, and a default is right as it is.
                result[name] = value if _is_default(value, part) else _value(value, part, name)
            except _MisfitError as misfit:
                problems.append(str(misfit))
    problems += [f"'{name}' is missing" for name in required if name not in renamed]
    if problems:
        raise ToolError(f"{tool}: {'; '.join(problems)}", cure=usage(schema, tool))
    for name, part in known.items():
        if "default" in part and str(result.get(name, "")).strip() == "":
            result[name] = part["default"]
    return result


def usage(schema: Mapping[str, Any], tool: str) -> str:
    required = schema.get("required", ())
    words = []
    for name, part in schema.get("properties", {}).items():
        kind = "|".join(map(str, part["enum"])) if "enum" in part else str(part.get("type", "any"))
        words.append(f"{name}: {kind}" if name in required else f"{name}?: {kind}")
    return f"call {tool}({', '.join(words)})"


def is_broken(value: Any) -> bool:
    """Say whether any text in a value cannot be written down: JSON can name half of a character."""
    if isinstance(value, str):
        return _written(value) != value
    if isinstance(value, dict):
        return any(map(is_broken, value)) or any(map(is_broken, value.values()))
    return isinstance(value, list) and any(map(is_broken, value))


class _MisfitError(Exception):
    """One value that does not fit."""


def _written(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _rename(name: str, aliases: Mapping[str, str], known: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    wanted = aliases.get(name, name)
    return wanted if name not in known and wanted in known and wanted not in given else name


def _value(value: Any, part: Mapping[str, Any], name: str) -> Any:
    if "anyOf" in part:
        return _any_of(value, part["anyOf"], name)
    kind = part.get("type")
    value = _convert(value, kind)
    if is_broken(name) or is_broken(value):
        raise _MisfitError(f"'{_written(name)}' holds half a character (a lone surrogate)")
    if kind and not (isinstance(value, _KINDS[kind][0]) and isinstance(value, bool) is (kind == "boolean")):
        raise _MisfitError(f"'{name}' must be {_KINDS[kind][1]}")
    if "enum" in part and value not in part["enum"]:
        raise _MisfitError(f"'{name}' must be one of {', '.join(map(str, part['enum']))}")
    if kind in {"integer", "number"}:
        _within(value, part, name)
    if kind == "string" and len(value) < part.get("minLength", 0):
        raise _MisfitError(f"'{name}' must not be empty")
    if kind == "array":
        if len(value) > part.get("maxItems", len(value)):
            raise _MisfitError(f"'{name}' takes at most {part['maxItems']} items")
        return [_value(item, _item(part, number), f"{name}[{number}]") for number, item in enumerate(value)]
    if kind == "object" and "properties" in part:
        for needed in part.get("required", ()):
            if needed not in value:
                raise _MisfitError(f"'{name}.{needed}' is missing")
        return {key: _value(item, part["properties"].get(key, {}), f"{name}.{key}") for key, item in value.items()}
    return value


def _is_default(value: Any, part: Mapping[str, Any]) -> bool:
    return "default" in part and type(value) is type(part["default"]) and value == part["default"]


def _item(part: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    """Return the schema of one item: those in front may have their own, and `false` allows no more behind them."""
    front = part.get("prefixItems", ())
    found = front[number] if number < len(front) else part.get("items", {})
    return found if isinstance(found, Mapping) else {}


def _any_of(value: Any, options: list[Mapping[str, Any]], name: str) -> Any:
    problem = _MisfitError(f"'{name}' does not fit")
    for option in options:
        try:
            return _value(value, option, name)
        except _MisfitError as misfit:
            problem = misfit
    raise problem


def _within(value: float, part: Mapping[str, Any], name: str) -> None:
    if not -_HUGE <= value <= _HUGE:
        raise _MisfitError(f"'{name}' is no number that means anything here")
    if value < part.get("minimum", value):
        raise _MisfitError(f"'{name}' must be at least {part['minimum']}")
    if value > part.get("maximum", value):
        raise _MisfitError(f"'{name}' must be at most {part['maximum']}")


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
    return [value] if kind == "array" and isinstance(value, dict) else value


def _from_json(text: str, wanted: type) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, wanted) else text
