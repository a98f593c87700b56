"""What a crash left open is settled before a session goes on: the log says where the turn was, and every call gets a result.

A call that finished keeps its result, also where it still waited for an earlier call of its batch: `note_early` wrote it
down. A call whose tool only reads may simply run again. For any other nobody can know whether it ran, so it does not run
a second time: the model is told that, and can look.
"""

from __future__ import annotations

from collections.abc import Sequence

from homarus.core.clock import epoch_ms
from homarus.core.messages import Assistant, Text, ToolResult
from homarus.sessions.codec import cap_details, from_message, to_message
from homarus.sessions.entry import Custom, Entry, MessageEntry
from homarus.sessions.writer import SessionWriter
from homarus.tools.execute import Toolbox, execute
from homarus.tools.result import StepRoom
from homarus.tools.tool import ToolContext

INTERRUPTED = (
    "Interrupted: the program stopped while this call was running. It may or may not have had its effect, and it was not "
    "run again. Check before you repeat it."
)


# A result that is there before those of earlier calls. It is stored again in its place once they have come.
EARLY = "homarus.early-result"


def note_early(session: SessionWriter, result: ToolResult) -> None:
    """Make a result durable that must wait for its place in the transcript."""
    session.append("custom", {"customType": EARLY, "data": from_message(cap_details(result))})


def early_results(branch: Sequence[Entry]) -> dict[str, ToolResult]:
    """Return the results, by call, that came before their turn in the last batch of a branch."""
    found: dict[str, ToolResult] = {}
    for entry in reversed(branch):
        if isinstance(entry, MessageEntry) and isinstance(entry.message, Assistant):
            break
        if isinstance(entry, Custom) and entry.custom_type == EARLY:
            data = entry.data.get("data")
            message = to_message(data, entry.timestamp) if isinstance(data, dict) else None
            if isinstance(message, ToolResult):
                found.setdefault(message.call_id, message)
    return found


def cut_off(branch: Sequence[Entry]) -> bool:
    """Say whether a log ends in the middle of a turn: after words of the user, a call, or a result without an answer."""
    newest = next((entry for entry in reversed(branch) if isinstance(entry, MessageEntry)), None)
    message = newest.message if newest is not None else None
    return bool(message.calls) if isinstance(message, Assistant) else message is not None


async def settle_open_calls(session: SessionWriter, box: Toolbox, context: ToolContext) -> int:
    """Give every open call its result, in order, and return how many there were."""
    calls = session.open_calls
    early = early_results(session.branch) if calls else {}
    room = StepRoom(context.window_tokens, len(calls))
    for call in calls:
        tool = box.find(call.name)
        if call.id in early:
            result = early[call.id]
        elif tool is not None and tool.replay_safe:
            result = await execute(call, box, context)
        else:
            now = epoch_ms(context.clock.now())
            details = {"status": "interrupted"}
            result = ToolResult(call.id, call.name, (Text(INTERRUPTED),), now, is_error=True, details=details)
        session.append_message(room.fit(result, context.overflow_dir))
    return len(calls)
