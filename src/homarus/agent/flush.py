"""The silent turn that saves memory before a compaction. It works on a copy: nothing of it enters the transcript."""

from __future__ import annotations

from datetime import date
from typing import Any

from homarus.agent.ports import Model
from homarus.agent.services import Prepared
from homarus.core.errors import Denied
from homarus.core.messages import Message, Text, User
from homarus.models.provider import Stop
from homarus.tools.execute import Toolbox, execute
from homarus.tools.tool import Tool, ToolContext

MAX_CALLS = 6
_ALLOWED = frozenset({"read", "memory_retain", "memory_search", "write"})


async def save_memory(
    messages: tuple[Message, ...], prompt: str, *, model: Model, prepared: Prepared, today: date
) -> bool:
    """Let the model write down what is worth keeping; return whether it came to an end by itself."""
    box, context = prepared.box, prepared.context
    note = f"memory/{today.isoformat()}.md"
    tools = {name: tool for name, tool in box.tools.items() if name in _ALLOWED}
    limited = Toolbox(tools, _only(note))
    history: tuple[Message, ...] = (*messages, User((Text(prompt.replace("{date}", today.isoformat())),)))
    for _ in range(MAX_CALLS):
        reply = None
        async for event in model.stream(history, tools=True, cancel=context.cancel):
            if isinstance(event, Stop):
                prepared.meter.add(event.message.usage)
                if event.error is not None:
                    return False
                reply = event.message
        if reply is None or context.cancel.cancelled:
            return False
        history = (*history, reply)
        if not reply.calls:
            return True
        for call in reply.calls:
            history = (*history, await execute(call, limited, context))
    return False


def _only(note: str) -> Any:
    """Return a gate that lets this turn add to today's note and change nothing else."""

    async def gate(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> None:
        if tool.name != "write":
            return
        path = str(arguments.get("path", "")).removeprefix("./").removeprefix(f"{context.workspace}/")
        if path != note:
            raise Denied(f"only {note} may be changed here", cure="use memory_retain")
        try:
            old = (context.workspace / note).read_text(encoding="utf-8", errors="replace")
        except OSError:
            old = ""
        if not str(arguments.get("content", "")).startswith(old.rstrip("\n")):
            raise Denied(f"{note} may only grow", cure="repeat what is in it, then add to it, or use memory_retain")

    return gate
