"""The JSON Schema of what homarus reads, put together from the blocks table. Unknown keys are allowed everywhere."""

from __future__ import annotations

from typing import Any

import msgspec

from homarus.config.blocks import BLOCKS, load_block, path_of
from homarus.config.keypath import parse_path
from homarus.core.errors import HomarusError

Node = dict[str, Any]
_DEFAULTS, _ENTRY = ["agents", "defaults"], ["agents", "entries", "*"]


def build_schema(path: str = "") -> Node:
    """Return the schema of the whole file, or of the part at a path. Raises HomarusError where nothing is known."""
    names = list(BLOCKS)
    parts, definitions = msgspec.json.schema_components(
        [load_block(name) for name in names], ref_template="#/$defs/{name}"
    )
    root: Node = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "openclaw.json",
        "type": "object",
        "properties": {"$schema": {"type": "string"}, "$include": {"type": ["string", "array"]}},
    }
    for name, part in sorted(zip(names, parts, strict=True), key=lambda item: item[0].count(".")):
        steps = [str(step) for step in path_of(name)]
        _graft(root, steps, part)
        if steps[:2] == _DEFAULTS:
            _graft(root, [*_ENTRY, *steps[2:]], part)
    here = root
    for step in parse_path(path):
        here = _step(here, str(step), definitions, path)
    if path and ("$ref" in here or "allOf" in here):
        here = _opened(here, definitions)
    needed = {name: definitions[name] for name in sorted(_references(here, definitions, set()))}
    return {**here, "$defs": needed} if needed else here


def _step(here: Node, step: str, definitions: Node, path: str) -> Node:
    opened = _opened(here, definitions)
    inner = opened.get("properties", {}).get(step, opened.get("additionalProperties", opened.get("items")))
    if not isinstance(inner, dict):
        known = ", ".join(sorted(opened.get("properties", {}))) or "nothing"
        raise HomarusError(f"no schema is known for '{path}'", cure=f"known at that level: {known}")
    return inner


def _graft(root: Node, steps: list[str], part: Node) -> None:
    here = root
    for step in steps[:-1]:
        here = _below(here, step)
    target = here.setdefault("properties", {}) if steps[-1] != "*" else here
    key = steps[-1] if steps[-1] != "*" else "additionalProperties"
    old = target.get(key)
    if isinstance(old, dict):
        # Several owners of one object: all count.
        others = old["allOf"] if list(old) == ["allOf"] else [old]
        target[key] = {"allOf": [part, *others]}
    else:
        target[key] = dict(part)


def _below(here: Node, step: str) -> Node:
    table, key = (here.setdefault("properties", {}), step) if step != "*" else (here, "additionalProperties")
    inner = table.get(key)
    if not isinstance(inner, dict):
        inner = table[key] = {"type": "object"}
    elif "$ref" in inner:
        inner = table[key] = {"type": "object", "allOf": [inner]}
    assert isinstance(inner, dict)
    return inner


def _opened(node: Node, definitions: Node) -> Node:
    """Return a node with what its references say written out, one level deep."""
    merged: Node = {key: value for key, value in node.items() if key not in ("$ref", "allOf")}
    for part in [*([node] if "$ref" in node else []), *node.get("allOf", []), *node.get("anyOf", [])]:
        target = definitions.get(str(part.get("$ref", "")).rpartition("/")[2], part if part is not node else {})
        merged = {**target, **merged, "properties": {**target.get("properties", {}), **merged.get("properties", {})}}
    if not merged.get("properties"):
        merged.pop("properties", None)
    return merged


def _references(value: Any, definitions: Node, found: set[str]) -> set[str]:
    if isinstance(value, list):
        for inner in value:
            _references(inner, definitions, found)
    elif isinstance(value, dict):
        name = str(value.get("$ref", "")).rpartition("/")[2]
        if name in definitions and name not in found:
            found.add(name)
            _references(definitions[name], definitions, found)
        for inner in value.values():
            _references(inner, definitions, found)
    return found
