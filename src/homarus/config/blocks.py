"""Which package owns which block, as a table of names, and what follows from it: validation and the JSON Schema.

Nothing is imported before it is asked for. The owner of a block adds its line here and keeps the defaults in its class.
A path below `agents.defaults` is checked for the defaults and, merged, for every agent; a `*` stands for every key.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterator
from typing import Any

import msgspec

from homarus.config.keypath import KeyPath, format_path, lookup
from homarus.config.redact import MARKER
from homarus.config.report import Problem
from homarus.config.view import Config

BLOCKS: dict[str, str] = {}

_DEFAULTS = ("agents", "defaults")


def load_block(path: str) -> Any:
    """Import and return the settings class of a block."""
    module, _, name = BLOCKS[path].partition(":")
    return getattr(importlib.import_module(module), name)


def validate(config: Config) -> list[Problem]:
    """Check every block and return all problems of the configuration; start, `config validate` and `doctor` call this."""
    for name in BLOCKS:
        into = load_block(name)
        steps = tuple(name.split("."))
        for path in _instances(config.document, steps):
            value = lookup(config.document, path)
            if value is not None:
                config.convert_block(value, into, path)
                _misspelt(config, value, into, path)
        if steps[: len(_DEFAULTS)] == _DEFAULTS:
            for agent in config.agents:
                agent.block(format_path(steps[len(_DEFAULTS) :]), into)
    for path in _markers(config.document, ()):
        config.report("error", path, "holds the marker that stands for a hidden secret", "write the real value here")
    return config.problems


def schema(path: str = "") -> dict[str, Any]:
    """Return the JSON Schema of the whole file, or of the part at a path. Unknown keys are allowed everywhere."""
    from homarus.core.errors import ConfigError

    classes = {name: load_block(name) for name in BLOCKS}
    found, definitions = msgspec.json.schema_components(list(classes.values()), ref_template="#/$defs/{name}")
    root: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "openclaw.json",
        "type": "object",
        "properties": {"$schema": {"type": "string"}, "$include": {}},
    }
    for name, part in zip(classes, found, strict=True):
        _graft(root, name.split("."), part)
    for steps in [name.split(".") for name in BLOCKS if name.startswith("agents.defaults.")]:
        _graft(root, ["agents", "entries", "*", *steps[2:]], found[list(classes).index(".".join(steps))])
    here = root
    for step in path.split(".") if path else []:
        here = _resolve_ref(here, definitions)
        named = here.get("properties", {}).get(step)
        inner = named if named is not None else here.get("additionalProperties")
        if not isinstance(inner, dict):
            known = ", ".join(sorted(here.get("properties", {}))) or "nothing"
            raise ConfigError(f"no schema is known for '{path}'", cure=f"known at that level: {known}")
        here = inner
    return {**here, "$defs": definitions} if definitions else here


def _instances(document: Any, steps: tuple[str, ...], at: KeyPath = ()) -> Iterator[KeyPath]:
    if not steps:
        yield at
    elif steps[0] == "*":
        table = lookup(document, at)
        for name in table if isinstance(table, dict) else ():
            yield from _instances(document, steps[1:], (*at, name))
    else:
        yield from _instances(document, steps[1:], (*at, steps[0]))


def _misspelt(config: Config, value: Any, into: Any, path: KeyPath) -> None:
    # Unknown keys are somebody else's and stay unmentioned, unless one is nearly a key of ours.
    if not isinstance(value, dict) or not (isinstance(into, type) and issubclass(into, msgspec.Struct)):
        return
    known = {field.encode_name for field in msgspec.structs.fields(into)}
    for key in value.keys() - known:
        near = difflib.get_close_matches(key, known - value.keys(), n=1, cutoff=0.85)
        if near:
            config.report("warning", (*path, key), "is no key that is used here", f"did you mean '{near[0]}'?")


def _markers(value: Any, path: KeyPath) -> Iterator[KeyPath]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _markers(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _markers(inner, (*path, index))
    elif value == MARKER:
        yield path


def _graft(root: dict[str, Any], steps: list[str], part: dict[str, Any]) -> None:
    here = root
    for step in steps[:-1]:
        here = _below(here, step)
    last = steps[-1]
    old = here["additionalProperties"] if last == "*" else here.setdefault("properties", {}).get(last)
    if isinstance(old, dict) and old:
        part = {"allOf": [old, part]}
    if last == "*":
        here["additionalProperties"] = part
    else:
        here["properties"][last] = part


def _below(here: dict[str, Any], step: str) -> dict[str, Any]:
    if step == "*":
        inner = here.get("additionalProperties")
        if not isinstance(inner, dict):
            inner = here["additionalProperties"] = {"type": "object"}
        return inner
    table: dict[str, Any] = here.setdefault("properties", {})
    inner = table.setdefault(step, {"type": "object"})
    if "properties" not in inner and "$ref" in inner:
        inner = table[step] = {"type": "object", "allOf": [inner]}
    assert isinstance(inner, dict)
    return inner


def _resolve_ref(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    merged = dict(node)
    for part in [node, *node.get("allOf", [])]:
        name = str(part.get("$ref", "")).rpartition("/")[2]
        if name in definitions:
            target = definitions[name]
            merged["properties"] = {**target.get("properties", {}), **merged.get("properties", {})}
            if "additionalProperties" in target:
                merged.setdefault("additionalProperties", target["additionalProperties"])
    return merged
