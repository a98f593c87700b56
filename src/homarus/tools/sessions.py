"""The tools for conversations and for sub-agents. What they show is text: bounded, and without secrets or signatures.

What a child may do is decided by whoever fills `Spawner`; its tools only say what was asked for and what came of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from homarus.core.errors import ToolError
from homarus.core.redact import redacted
from homarus.core.tools import Risk, ToolSpec
from homarus.tools.tool import RunTool, Tool, ToolContext, ToolOutput, allowing, said, spec

if TYPE_CHECKING:
    from homarus.tools.services import SessionsSend, SessionsView, Spawner, StatusSource

MAX_LIST_BYTES, MAX_HISTORY_BYTES, MAX_TEXT = 65_536, 80_000, 4_000
_HIDDEN = frozenset({"signature", "thinkingSignature", "image", "images", "data"})
_TEXT: dict[str, Any] = {"type": "string"}
_FLAG: dict[str, Any] = {"type": "boolean"}


def _one_of(*words: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words)}


AGENTS = spec("agents_list")
LIST = spec("sessions_list")
HISTORY = spec("sessions_history")
FIND = spec("sessions_search")
SEND = spec("sessions_send")
SPAWN = spec("sessions_spawn")
YIELD = spec("sessions_yield")
SUBAGENTS = spec("subagents")
STATUS = spec("session_status")


def sessions_tools(view: SessionsView | None, send: SessionsSend | None, status: StatusSource | None) -> list[Tool]:
    aliases = {"session_key": "sessionKey", "key": "sessionKey", "agent_id": "agentId", "timeout": "timeoutSeconds"}

    def tool(spec: ToolSpec, run: RunTool, risk: Risk = Risk.READ, **facts: Any) -> Tool:
        return Tool(spec=spec, risk=risk, run=run, aliases=aliases, **{"group": "sessions", **facts})

    tools: list[Tool] = []
    if status:
        tools.append(tool(AGENTS, _agents(status), group="agents", children="none"))
        tools.append(tool(STATUS, _status(status), children="none"))
    if view:
        tools.append(tool(LIST, _list(view), children="parents", schema=allowing(LIST, archived=_FLAG)))
        tools.append(tool(HISTORY, _history(view), children="parents"))
        tools.append(tool(FIND, _find(view), children="parents"))
    if send:
        tools.append(tool(SEND, _send(send), Risk.SEND, children="none"))
    return tools


def child_tools(spawner: Spawner) -> list[Tool]:
    """Return the tools through which a model has children."""
    aliases = {"prompt": "task", "agent_id": "agentId", "timeout": "runTimeoutSeconds", "id": "target"}

    def tool(spec: ToolSpec, run: RunTool, risk: Risk, **facts: Any) -> Tool:
        return Tool(spec=spec, risk=risk, run=run, group="sessions", aliases=aliases, children="parents", **facts)

    spawn = allowing(
        SPAWN,
        taskName=_TEXT,
        thinking=_TEXT,
        cwd=_TEXT,
        mode=_one_of("run", "session"),
        sandbox=_one_of("inherit", "require"),
        thread=_FLAG,
    )
    wait = allowing(YIELD, acknowledgment=_TEXT)
    return [
        tool(SPAWN, _spawn(spawner), Risk.EXEC, schema=spawn),
        tool(
            SUBAGENTS,
            _manage(spawner),
            Risk.READ,
            schema=allowing(SUBAGENTS, action=_one_of("list", "cancel", "steer", "info", "log", "kill")),
        ),
        tool(YIELD, _yield(spawner), Risk.READ, schema=wait, sequential=True, ends_turn=True),
    ]


def _list(view: SessionsView) -> RunTool:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        query = {**arguments, "limit": _within(arguments, "limit", 100, 200)}
        query["messageLimit"] = _within(arguments, "messageLimit", 0, 20)
        rows = await view.rows(context, query)
        return _rows([_shown(row) for row in rows], MAX_LIST_BYTES, "sessions")

    return run


def _history(view: SessionsView) -> RunTool:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        limit = _within(arguments, "limit", 50, 200)
        tools = arguments.get("includeTools", False)
        rows = await view.history(
            context, arguments["sessionKey"], limit, _within(arguments, "offset", 0, 1_000_000), tools=tools
        )
        return _rows([_shown(row) for row in rows], MAX_HISTORY_BYTES, "messages", newest_last=True)

    return run


def _find(view: SessionsView) -> RunTool:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        rows = await view.search(context, arguments["query"], _within(arguments, "limit", 20, 100))
        return _rows([_shown(row) for row in rows], MAX_LIST_BYTES, "matches")

    return run


def _send(send: SessionsSend) -> RunTool:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        target = {key: arguments[key] for key in ("sessionKey", "label", "agentId") if arguments.get(key)}
        if not target:
            raise ToolError("sessions_send needs a target", cure="give sessionKey, label or agentId")
        reply = await send.send(context, target, arguments["message"], float(arguments.get("timeoutSeconds", 30)))
        return _json(_shown(reply))

    return run


def _status(status: StatusSource) -> RunTool:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        return said(await status.status(context, arguments.get("sessionKey", ""), arguments.get("model", "")))

    return run


def _agents(status: StatusSource) -> Any:
    async def run(context: ToolContext, _arguments: dict[str, Any]) -> ToolOutput:
        return _rows(await status.agents(context), MAX_LIST_BYTES, "agents")

    return run


def _spawn(spawner: Spawner) -> RunTool:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        if not arguments["task"].strip():
            raise ToolError("the task is empty", cure="say what the sub-agent should do")
        if arguments.get("thread"):
            raise ToolError("a sub-agent has no chat thread of its own here", cure="leave thread out")
        return _json(await spawner.spawn(context, arguments))

    return run


def _manage(spawner: Spawner) -> RunTool:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        action, target = arguments.get("action", "list"), arguments.get("target", "")
        if action != "list" and not target:
            raise ToolError(f"subagents {action} needs target", cure="see the ids with action list")
        return _json(await spawner.manage(context, action, target, arguments.get("message", "")))

    return run


def _yield(spawner: Spawner) -> RunTool:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        count = spawner.waiting(context)
        if not count:
            raise ToolError("there is nothing to wait for", cure="start a sub-agent first, or answer now")
        return said(
            f"Waiting for {count} sub-agent{'s' if count > 1 else ''}.",
            waiting=count,
            message=arguments.get("message", ""),
            acknowledgment=arguments.get("acknowledgment", ""),
        )

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
