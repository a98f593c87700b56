"""The tools for sub-agents: start one, wait for what they report, look after those that run.

What a child may do is decided by whoever fills `Spawner`; these tools only say what was asked for and what came of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from homarus.core.errors import ToolError
from homarus.core.tools import Risk, ToolSpec
from homarus.tools.tool import RunTool, Tool, ToolContext, ToolOutput, said

if TYPE_CHECKING:
    from homarus.tools.ports import Spawner


_TEXT: dict[str, Any] = {"type": "string"}
_ACTIONS = ["list", "cancel", "steer", "info", "log"]


def _spec(name: str, summary: str, description: str, *required: str, **properties: dict[str, Any]) -> ToolSpec:
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        parameters["required"] = list(required)
    return ToolSpec(name, description, parameters, summary)


SPAWN = _spec(
    "sessions_spawn",
    "start a sub-agent",
    "Start a sub-agent for a task. Its result comes later as a message.",
    "task",
    task=_TEXT,
    label=_TEXT,
    agentId=_TEXT,
    model=_TEXT,
    runTimeoutSeconds={"type": "integer"},
    context={"type": "string", "enum": ["isolated", "fork"]},
    cleanup={"type": "string", "enum": ["keep", "delete"]},
    workspace=_TEXT,
)
# What a model that knows more may say besides; the others are not charged for it with every turn.
_MORE: dict[str, Any] = {
    "taskName": _TEXT,
    "thinking": _TEXT,
    "cwd": _TEXT,
    "mode": {"type": "string", "enum": ["run", "session"]},
    "sandbox": {"type": "string", "enum": ["inherit", "require"]},
    "thread": {"type": "boolean"},
}
YIELD = _spec("sessions_yield", "wait for sub-agents", "End this turn; go on when a sub-agent reports.", message=_TEXT)
SUBAGENTS = _spec(
    "subagents",
    "look after sub-agents",
    "Look after your sub-agents.",
    action={"type": "string", "enum": _ACTIONS},
    target=_TEXT,
    message=_TEXT,
)


def child_tools(spawner: Spawner) -> list[Tool]:
    """Return the tools through which a model has children."""
    aliases = {"prompt": "task", "agent_id": "agentId", "timeout": "runTimeoutSeconds", "id": "target"}
    spawn = _with(SPAWN, _MORE)
    look_after = _with(SUBAGENTS, {"action": {"type": "string", "enum": [*_ACTIONS, "kill"]}})
    wait = _with(YIELD, {"acknowledgment": _TEXT})
    return [
        Tool(spec=SPAWN, risk=Risk.EXEC, run=_spawn(spawner), group="sessions", aliases=aliases, schema=spawn),
        Tool(
            spec=SUBAGENTS, risk=Risk.READ, run=_manage(spawner), group="sessions", aliases=aliases, schema=look_after
        ),
        Tool(
            spec=YIELD,
            risk=Risk.READ,
            run=_yield(spawner),
            group="sessions",
            sequential=True,
            ends_turn=True,
            schema=wait,
        ),
    ]


def _with(spec: ToolSpec, more: dict[str, Any]) -> dict[str, Any]:
    return {**spec.parameters, "properties": {**spec.parameters["properties"], **more}}


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


def _json(value: dict[str, Any]) -> ToolOutput:
    failed = bool(value.get("error")) or value.get("status") in {"error", "forbidden"}
    return said(msgspec.json.encode(value).decode(), is_error=failed)
