"""What a crash left open is settled before a session goes on: the log says where the turn was, and every call gets a result.

A call whose tool only reads may simply run again. For any other nobody can know whether it ran, so it does not run a
second time: the model is told that, and can look.
"""

from __future__ import annotations

from collections.abc import Sequence

from homarus.core.clock import epoch_ms
from homarus.core.messages import Assistant, Text, ToolResult
from homarus.sessions.entry import Entry, MessageEntry
from homarus.sessions.writer import SessionWriter
from homarus.tools.execute import Toolbox, execute
from homarus.tools.tool import ToolContext

INTERRUPTED = (
    "Interrupted: the program stopped while this call was running. It may or may not have had its effect, and it was not "
    "run again. Check before you repeat it."
)


def cut_off(branch: Sequence[Entry]) -> bool:
    """Say whether a log ends in the middle of a turn: after words of the user, a call, or a result without an answer."""
    newest = next((entry for entry in reversed(branch) if isinstance(entry, MessageEntry)), None)
    message = newest.message if newest is not None else None
    return bool(message.calls) if isinstance(message, Assistant) else message is not None


async def settle_open_calls(session: SessionWriter, box: Toolbox, context: ToolContext) -> int:
    """Give every open call its result, in order, and return how many there were."""
    calls = session.open_calls
    for call in calls:
        tool = box.find(call.name)
        if tool is not None and tool.replay_safe:
            result = await execute(call, box, context)
        else:
            now = epoch_ms(context.clock.now())
            details = {"status": "interrupted"}
            result = ToolResult(call.id, call.name, (Text(INTERRUPTED),), now, is_error=True, details=details)
        session.append_message(result)
    return len(calls)
