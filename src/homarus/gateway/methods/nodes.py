"""Nodes: who is there, what each may be told, telling it, and what nodes themselves say."""

from __future__ import annotations

from typing import Any

import msgspec

from homarus.core.text import single_line
from homarus.gateway.connection import Connection
from homarus.gateway.methods import Call, Method, Params, passed
from homarus.gateway.nodes import HOST, surface_row
from homarus.gateway.protocol import Refused
from homarus.gateway.scopes import ADMIN, NODE, PAIRING, READ, WRITE

MAX_TEXT = 8_000_000
MAX_OFFERS = 64
_APPROVALS = ("system.execApprovals.get", "system.execApprovals.set")


class NodeParams(Params, frozen=True, kw_only=True):
    node_id: str


class RequestParams(Params, frozen=True, kw_only=True):
    request_id: str


class RenameParams(Params, frozen=True, kw_only=True):
    node_id: str
    display_name: str


class InvokeParams(Params, frozen=True, kw_only=True):
    node_id: str
    command: str
    idempotency_key: str
    params: Any = None
    timeout_ms: int | None = None
    PASSED = passed("sessionKey turnSourceChannel turnSourceTo turnSourceAccountId turnSourceThreadId")


class ResultParams(Params, frozen=True, kw_only=True):
    id: str
    node_id: str
    ok: bool
    payload: Any = None
    payload_json: str | None = msgspec.field(default=None, name="payloadJSON")
    error: Any = None


class EventParams(Params, frozen=True, kw_only=True):
    event: str
    payload: Any = None
    payload_json: str | None = msgspec.field(default=None, name="payloadJSON")


class SkillsParams(Params, frozen=True, kw_only=True):
    skills: list[dict[str, Any]]


class ToolsParams(Params, frozen=True, kw_only=True):
    tools: list[dict[str, Any]]


class RulesParams(Params, frozen=True, kw_only=True):
    node_id: str
    file: Any = None
    base_hash: str = ""


async def listed(call: Call, _params: Params) -> dict[str, Any]:
    return {"ts": call.gateway.now_ms, "nodes": call.gateway.nodes.rows()}


async def described(call: Call, params: NodeParams) -> dict[str, Any]:
    nodes = call.gateway.nodes
    return {"ts": call.gateway.now_ms, **nodes.row(nodes.find(params.node_id))}


async def waiting(call: Call, _params: Params) -> dict[str, Any]:
    book = call.gateway.devices.read()
    pending = [surface_row(wish) for wish in sorted(book.surfaces.values(), key=lambda each: -each.ts)]
    return {"pending": pending, "paired": call.gateway.nodes.rows()}


async def approve(call: Call, params: RequestParams) -> dict[str, Any]:
    device = call.gateway.nodes.approve(params.request_id, call.principal)
    return {"requestId": params.request_id, "node": call.gateway.nodes.row(device)}


async def reject(call: Call, params: RequestParams) -> dict[str, Any]:
    return {"requestId": params.request_id, "nodeId": call.gateway.nodes.reject(params.request_id).node_id}


async def remove(call: Call, params: NodeParams) -> dict[str, Any]:
    node = call.gateway.nodes.find(params.node_id)
    return {"nodeId": call.gateway.nodes.remove(node.device_id, call.principal).device_id, "removed": True}


async def rename(call: Call, params: RenameParams) -> dict[str, Any]:
    node = call.gateway.nodes.find(params.node_id)
    named = call.gateway.devices.rename(node.device_id, params.display_name, call.principal, "node")
    return {"nodeId": named.device_id, "displayName": named.display_name}


def _invoke_scope(params: InvokeParams) -> str:
    """Return what a command needs: whatever runs programs or reads files there is the administrator's."""
    acts = params.command in HOST - {"system.which", "system.run.prepare"}
    return ADMIN if acts or params.command.startswith(("browser.proxy", "terminal.")) else ""


async def invoke(call: Call, params: InvokeParams) -> dict[str, Any]:
    if params.command in _APPROVALS:
        raise Refused("the rules of a node are read and changed with exec.approvals.node.get and .set")
    if not 0 < len(params.idempotency_key) <= 200:
        raise Refused("idempotencyKey must be 1 to 200 characters")
    found = await call.gateway.nodes.invoke(
        params.node_id, params.command, params.params, ms=params.timeout_ms, key=params.idempotency_key
    )
    node_id = call.gateway.nodes.find(params.node_id).device_id
    return {"ok": True, "nodeId": node_id, "command": params.command, **found}


async def node_rules(call: Call, params: RulesParams) -> Any:
    found = await call.gateway.nodes.invoke(params.node_id, _APPROVALS[0], {})
    return found["payload"]


async def set_node_rules(call: Call, params: RulesParams) -> Any:
    wish = {"file": params.file, **({"baseHash": params.base_hash} if params.base_hash else {})}
    found = await call.gateway.nodes.invoke(params.node_id, _APPROVALS[1], wish)
    return found["payload"]


# What nodes say.


def _self(call: Call) -> Connection:
    if call.connection is None:
        raise Refused("this needs a connection that stays")
    return call.connection


async def result(call: Call, params: ResultParams) -> dict[str, Any]:
    own = _self(call)
    if params.node_id != call.principal.device_id:
        raise Refused("a node answers for itself alone")
    text, payload = params.payload_json, params.payload
    if text is not None:
        if len(text) > MAX_TEXT:
            raise Refused(f"payloadJSON is longer than {MAX_TEXT} characters")
        try:
            payload = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise Refused("payloadJSON is no JSON") from None
    found = {"payload": payload, "payloadJSON": text}
    error = None if params.ok else params.error or "the node could not do it"
    taken = call.gateway.nodes.answered(own, params.id, found, error)
    return {"ok": True} if taken else {"ok": True, "ignored": True}


async def event(call: Call, params: EventParams) -> dict[str, Any]:
    """Take note of a node that is awake; nothing else that a node tells has a meaning here."""
    known = params.event == "node.presence.alive"
    if known:
        call.gateway.nodes.alive(call.principal.device_id, "alive")
    reason = "persisted" if known else "not handled here"
    return {"ok": True, "event": params.event[:80], "handled": known, "reason": reason}


async def skills(call: Call, params: SkillsParams) -> dict[str, Any]:
    return _offers(call, "skills", params.skills)


async def tools(call: Call, params: ToolsParams) -> dict[str, Any]:
    return _offers(call, "pluginTools", params.tools)


async def runners(call: Call, params: dict[str, Any]) -> dict[str, Any]:
    """A node says how many workers it could run; none are sent to nodes from here."""
    return {"ok": True, "handled": False, "reason": "no work is sent to nodes' runners"}


def _offers(call: Call, what: str, offered: list[dict[str, Any]]) -> dict[str, Any]:
    """Note by name what a node offers to agents, for whoever looks at it. No agent is given it: it is a stranger's text."""
    names = [single_line(str(each.get("name") or ""), 100) for each in offered[:MAX_OFFERS]]
    _self(call).offers[what] = sorted(filter(None, names))
    return {"ok": True, "nodeId": call.principal.device_id, "count": len(names)}


METHODS = {
    "node.list": Method(READ, listed),
    "node.describe": Method(READ, described, NodeParams),
    "node.pair.list": Method(PAIRING, waiting),
    "node.pair.approve": Method(PAIRING, approve, RequestParams, write=True),
    "node.pair.reject": Method(PAIRING, reject, RequestParams, write=True),
    "node.pair.remove": Method(PAIRING, remove, NodeParams, write=True),
    "node.rename": Method(PAIRING, rename, RenameParams, write=True),
    "node.invoke": Method(WRITE, invoke, InvokeParams, raised=_invoke_scope),
    "exec.approvals.node.get": Method(ADMIN, node_rules, RulesParams),
    "exec.approvals.node.set": Method(ADMIN, set_node_rules, RulesParams, write=True),
    "node.invoke.result": Method(NODE, result, ResultParams),
    "node.event": Method(NODE, event, EventParams),
    "node.skills.update": Method(NODE, skills, SkillsParams),
    "node.pluginTools.update": Method(NODE, tools, ToolsParams),
    "node.runnerInventory.update": Method(NODE, runners, dict),
}
