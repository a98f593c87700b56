"""What a person can ask of a session besides an answer: compact it, ask on the side, run one tool. No turn happens."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from homarus.agent.turn import Given, Turn
from homarus.context.compact import Compacted
from homarus.core.cancel import Cancel
from homarus.core.errors import Cancelled, ModelError
from homarus.core.events import RunEvent
from homarus.core.mailbox import Mailbox
from homarus.core.messages import Text, ToolCall, ToolResult, Trust, User
from homarus.core.routes import SessionKey
from homarus.runtime.runtime import Runtime
from homarus.models.provider import Stop
from homarus.tools.execute import execute


async def compact_now(runtime: Runtime, key: SessionKey, focus: str) -> Compacted:
    """Summarise the older part of a session; while that goes on, no turn runs in it, and `stop` ends it."""
    async with runtime.errand(key) as cancel, runtime.turns.staged(*_quiet(runtime, key, cancel)) as stage:
        try:
            return await stage.window.compact_now(focus, cancel)
        except Cancelled as stop:
            return Compacted(False, stop.message)


async def ask_aside(runtime: Runtime, key: SessionKey, question: str) -> str:
    """Answer from the session's history, without tools; nothing of it is stored."""
    async with runtime.errand(key) as cancel, runtime.turns.staged(*_quiet(runtime, key, cancel)) as stage:
        history = (*await stage.window.assemble(cancel), User((Text(question),)))
        answer, problem = "", None
        async for event in stage.model.stream(history, tools=False, cancel=cancel):
            if isinstance(event, Stop):
                answer, problem = event.message.text, event.error
    if isinstance(problem, ModelError):
        raise problem
    return answer


async def call_tool(
    runtime: Runtime, key: SessionKey, name: str, arguments: dict[str, Any], trust: Trust
) -> ToolResult:
    """Run one tool as a turn of this session would, behind the same gate."""
    async with runtime.errand(key) as cancel:
        turn, given = _quiet(runtime, key, cancel, trust)
        # Opening it lays out the workspace where this is the first that happens in a home.
        with runtime.opened(key):
            pass
        async with runtime.turns.staged(turn, given) as stage:
            call = ToolCall(f"call_{runtime.ids.short()}", name, arguments)
            return await execute(call, stage.prepared.box, stage.prepared.context)


def _quiet(runtime: Runtime, key: SessionKey, cancel: Cancel, trust: Trust = Trust.OWNER) -> tuple[Turn, Given]:
    turn = runtime.turn_for(key)

    def settle(*_keys: str) -> None:
        return None

    def emit(_event: RunEvent) -> None:
        return None

    return replace(turn, trust=trust), Given(Mailbox(), cancel, settle, emit)
