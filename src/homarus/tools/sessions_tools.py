"""The tools for conversations. What they show is text: bounded, and without secrets or signatures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from homarus.core.errors import ToolError
from homarus.core.redact import redacted
from homarus.core.tools import Risk, ToolSpec
from homarus.tools.tool import Tool, ToolContext, ToolOutput, said

if TYPE_CHECKING:
    from homarus.tools.ports import SessionsSend, SessionsView, StatusSource

MAX_LIST_BYTES, MAX_HISTORY_BYTES, MAX_TEXT = 65_536, 80_000, 4_000
_HIDDEN = frozenset({"signature", "thinkingSignature", "image", "images", "data"})
_TEXT: dict[str, Any] = {"type": "string"}
_NUMBER: dict[str, Any] = {"type": "integer"}


def _spec(
    name: str, summary: str, description: str, required: tuple[str, ...] = (), **properties: dict[str, Any]
) -> ToolSpec:
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        parameters["required"] = list(required)
    return ToolSpec(name, description, parameters, summary)


LIST = _spec(
    "sessions_list",
    "list conversations",
    "List conversations.",
    kinds={"type": "array", "items": _TEXT},
    limit=_NUMBER,
    activeMinutes=_NUMBER,
    messageLimit=_NUMBER,
    label=_TEXT,
    agentId=_TEXT,
    search=_TEXT,
)
HISTORY = _spec(
    "sessions_history",
    "read a conversation",
    "Read a conversation.",
    ("sessionKey",),
    sessionKey=_TEXT,
    limit=_NUMBER,
    offset=_NUMBER,
    includeTools={"type": "boolean"},
)
FIND = _spec("sessions_search", "search conversations", "Search conversations.", ("query",), query=_TEXT, limit=_NUMBER)
SEND = _spec(
    "sessions_send",
    "speak to another session",
    "Send a message to another session; timeoutSeconds 0 does not wait for the reply.",
    ("message",),
    message=_TEXT,
    sessionKey=_TEXT,
    label=_TEXT,
    agentId=_TEXT,
    timeoutSeconds={"type": "number", "minimum": 0},
)
STATUS = _spec(
    "session_status", "show the session's status", "Show status, usage and the time.", sessionKey=_TEXT, model=_TEXT
)
AGENTS = _spec("agents_list", "list agents", "List agents that sessions_spawn can use.")


def sessions_tools(view: SessionsView | None, send: SessionsSend | None, status: StatusSource | None) -> list[Tool]:
    """Return the tools whose contracts are filled."""
    tools: list[Tool] = []
    if status:
        tools += [_tool(AGENTS, Risk.READ, _agents(status), "agents"), _tool(STATUS, Risk.READ, _status(status))]
    if view:
        tools += [
            replace(_tool(LIST, Risk.READ, _list(view)), schema=_with_archived(LIST.parameters)),
            _tool(HISTORY, Risk.READ, _history(view)),
            _tool(FIND, Risk.READ, _find(view)),
        ]
    if send:
        tools.append(_tool(SEND, Risk.SEND, _send(send)))
    return tools


def _with_archived(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return what may be said besides: few ask for it, and the others are not charged for it with every turn."""
    return {**parameters, "properties": {**parameters["properties"], "archived": {"type": "boolean"}}}


def _tool(spec: ToolSpec, risk: Risk, run: Any, group: str = "sessions") -> Tool:
    aliases = {
        "session_key": "sessionKey",
        "key": "sessionKey",
        "agent_id": "agentId",
        "timeout": "timeoutSeconds",
    }
    return Tool(spec=spec, risk=risk, run=run, group=group, aliases=aliases)


def _list(view: SessionsView) -> Any:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        query = {**arguments, "limit": _within(arguments, "limit", 100, 200)}
        query["messageLimit"] = _within(arguments, "messageLimit", 0, 20)
        rows = await view.rows(context, query)
        return _rows([_shown(row) for row in rows], MAX_LIST_BYTES, "sessions")

    return run


def _history(view: SessionsView) -> Any:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        limit = _within(arguments, "limit", 50, 200)
        tools = arguments.get("includeTools", False)
        rows = await view.history(
            context, arguments["sessionKey"], limit, _within(arguments, "offset", 0, 1_000_000), tools=tools
        )
        return _rows([_shown(row) for row in rows], MAX_HISTORY_BYTES, "messages", newest_last=True)

    return run


def _find(view: SessionsView) -> Any:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        rows = await view.search(context, arguments["query"], _within(arguments, "limit", 20, 100))
        return _rows([_shown(row) for row in rows], MAX_LIST_BYTES, "matches")

    return run


def _send(send: SessionsSend) -> Any:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        target = {key: arguments[key] for key in ("sessionKey", "label", "agentId") if arguments.get(key)}
        if not target:
            raise ToolError("sessions_send needs a target", cure="give sessionKey, label or agentId")
        reply = await send.send(context, target, arguments["message"], float(arguments.get("timeoutSeconds", 30)))
        return _json(_shown(reply))

    return run


def _status(status: StatusSource) -> Any:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        return said(await status.status(context, arguments.get("sessionKey", ""), arguments.get("model", "")))

    return run


def _agents(status: StatusSource) -> Any:
    async def run(context: ToolContext, _arguments: dict[str, Any]) -> ToolOutput:
        return _rows(await status.agents(context), MAX_LIST_BYTES, "agents")

    return run


def _within(arguments: dict[str, Any], name: str, default: int, most: int) -> int:
    return max(0, min(arguments.get(name, default), most)) or default


def _shown(value: Any) -> Any:
    """Return what may be shown of a row, however deep: no secrets, images and signatures, its texts cut."""
    if isinstance(value, str):
        text = redacted(value)
        return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} […]"
    if isinstance(value, dict):
        return {key: _shown(inner) for key, inner in value.items() if key not in _HIDDEN}
    return [_shown(inner) for inner in value] if isinstance(value, list) else value


def _rows(rows: list[dict[str, Any]], limit: int, what: str, *, newest_last: bool = False) -> ToolOutput:
    """Return as many rows as fit; of a conversation the newest stay."""
    size, kept = 0, []
    for row in reversed(rows) if newest_last else rows:
        size += len(msgspec.json.encode(row)) + 1
        if size > limit:
            break
        kept.append(row)
    if newest_last:
        kept.reverse()
    left = len(rows) - len(kept)
    body: dict[str, Any] = {"count": len(kept), what: kept}
    return _json({**body, "truncated": left} if left else body)


def _json(value: dict[str, Any]) -> ToolOutput:
    failed = bool(value.get("error")) or value.get("status") in {"error", "forbidden"}
    return said(msgspec.json.encode(value).decode(), is_error=failed)
