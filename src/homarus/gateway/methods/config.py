"""The configuration: read with its secrets hidden, changed only on top of what the caller saw."""

from __future__ import annotations

from typing import Any

import pyjson5

from homarus.config.blocks import build_schema
from homarus.config.edit import apply_data
from homarus.config.keypath import parse_path
from homarus.config.reload import plan_reload
from homarus.config.write import Operation
from homarus.core.errors import HomarusError
from homarus.gateway.methods import Call, Method, Params, passed
from homarus.gateway.protocol import Refused
from homarus.gateway.scopes import ADMIN, READ
from homarus.runtime.operations import ConfigState


class PatchParams(Params, frozen=True, kw_only=True):
    raw: str
    base_hash: str = ""
    note: str = ""
    replace_paths: tuple[str, ...] = ()
    PASSED = passed("sessionKey deliveryContext restartDelayMs")


class LookupParams(Params, frozen=True, kw_only=True):
    path: str


async def get(call: Call, _params: Params) -> dict[str, Any]:
    return _shown(call.client.operations.config())


def _shown(state: ConfigState) -> dict[str, Any]:
    errors = [row for row in state.problems if row["severity"] == "error"]
    warnings = [row for row in state.problems if row["severity"] == "warning"]
    views = dict.fromkeys(("parsed", "sourceConfig", "resolved", "runtimeConfig", "config"), state.document)
    return {
        "path": state.path,
        "exists": state.exists,
        "raw": state.raw,
        **views,
        "valid": not errors,
        "hash": state.hash,
        "configRevisionHash": state.hash,
        "appliedConfigHash": state.hash,
        "issues": errors,
        "warnings": warnings,
        "legacyIssues": [],
    }


def _parsed(method: str, raw: str) -> dict[str, Any]:
    try:
        found = pyjson5.decode(raw, maxdepth=100)
    except (ValueError, RecursionError, pyjson5.Json5Exception):
        raise Refused(f"invalid {method} params: raw is no JSON5") from None
    if not isinstance(found, dict):
        raise Refused(f"invalid {method} params: raw must be an object")
    return found


async def patch(call: Call, params: PatchParams) -> dict[str, Any]:
    wish = _parsed("config.patch", params.raw)
    operations = [Operation("patch", (), wish)]
    return await _change(call, operations, params.base_hash)


async def replace(call: Call, params: PatchParams) -> dict[str, Any]:
    """Write a whole document: what it does not name goes."""
    wish, now = _parsed(call.method, params.raw), call.client.operations.config().document
    operations = [Operation("unset", (key,)) for key in now if key not in wish]
    operations += [Operation("set", (key,), value) for key, value in wish.items() if value != now.get(key)]
    return await _change(call, operations, params.base_hash)


async def _change(call: Call, operations: list[Operation], base: str) -> dict[str, Any]:
    before = call.client.operations.config()
    try:
        after = await call.client.operations.change_config(operations, base)
    except HomarusError as problem:
        raise Refused(str(problem), details={"issues": [{"path": "", "message": problem.message}]}) from None
    changed = [".".join(map(str, each.path)) for each in plan_reload(before.document, after.document)]
    call.gateway.hub.tell("config.changed", {"path": after.path, "hash": after.hash, "ts": call.gateway.now_ms})
    sentinel = {"kind": call.method.replace(".", "-"), "status": "ok", "ts": call.gateway.now_ms}
    facts = {"ok": True, "path": after.path, "hash": after.hash, "config": after.document}
    return {**facts, "changedPaths": changed, "sentinel": {"path": "", "payload": sentinel}}


async def schema(call: Call, _params: Params) -> dict[str, Any]:
    facts = {"schema": inlined(build_schema()), "uiHints": {}, "version": call.gateway.version}
    return {**facts, "generatedAt": str(call.gateway.now_ms)}


async def look_up(_call: Call, params: LookupParams) -> dict[str, Any]:
    try:
        found = build_schema(params.path)
    except HomarusError as problem:
        raise Refused(problem.message) from None
    children = [
        {
            "key": key,
            "path": f"{params.path}.{key}".lstrip("."),
            "type": row.get("type", "any"),
            "required": key in found.get("required", ()),
            "hasChildren": bool(row.get("properties") or row.get("additionalProperties")),
            "reloadKind": _kind(f"{params.path}.{key}".lstrip(".")),
        }
        for key, row in found.get("properties", {}).items()
        if isinstance(row, dict)
    ]
    return {"path": params.path, "schema": found, "reloadKind": _kind(params.path), "children": children}


def inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without references and joined parts: forms of the original draw no other."""
    named = schema.get("$defs", {})

    def opened(node: Any, inside: tuple[str, ...]) -> Any:
        if isinstance(node, list):
            return [opened(each, inside) for each in node]
        if not isinstance(node, dict):
            return node
        name = str(node.get("$ref", "")).rpartition("/")[2]
        if name:
            return {} if name in inside else opened(named.get(name, {}), (*inside, name))
        made = {key: opened(value, inside) for key, value in node.items() if key not in ("$defs", "allOf", "anyOf")}
        choices = [opened(each, inside) for each in node.get("anyOf", ()) if each != {"type": "null"}]
        parts = [*(opened(each, inside) for each in node.get("allOf", ())), *(choices if len(choices) == 1 else ())]
        if len(choices) > 1:
            made["anyOf"] = choices
        for part in parts:
            properties = {**part.get("properties", {}), **made.get("properties", {})}
            made = {**part, **made, **({"properties": properties} if properties else {})}
        return made

    found: dict[str, Any] = opened(schema, ())
    return found


def _kind(path: str) -> str:
    """Return what a change there asks of a running gateway."""
    steps = parse_path(path)
    found = {change.reload for change in plan_reload({}, apply_data({}, steps, 1))} if steps else {"hot"}
    return "restart" if "restart" in found else "none" if found == {"none"} else "hot"


METHODS = {
    "config.get": Method(READ, get),
    "config.schema": Method(READ, schema),
    "config.schema.lookup": Method(READ, look_up, LookupParams),
    "config.patch": Method(ADMIN, patch, PatchParams, write=True),
    "config.apply": Method(ADMIN, replace, PatchParams, write=True),
    "config.set": Method(ADMIN, replace, PatchParams, write=True),
}
