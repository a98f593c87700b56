"""A child that begins with its parent's conversation: a copy of the branch up to the words that asked for it."""

from __future__ import annotations

from homarus.agent.home import Home
from homarus.core.messages import Assistant
from homarus.core.routes import SessionKey
from homarus.core.text import estimate_tokens
from homarus.sessions.entry import Entry, MessageEntry
from homarus.subagents.child import MAX_FORK_TOKENS
from homarus.tools.tool import ToolContext

ALONE = "You begin without your parent's conversation: {}."


def fork_for(home: Home, context: ToolContext, child: SessionKey) -> str:
    """Copy the parent's branch into a child's session; return a note where the child begins alone instead."""
    if child.agent_id != context.agent_id:
        return ALONE.format("it belongs to another agent")
    with home.opened(context.session) as live:
        tokens = sum(estimate_tokens(message.text) for message in live.writer.history())
        before = _before_call(live.writer.branch, context.call_id)
    if tokens > MAX_FORK_TOKENS:
        return ALONE.format(f"with about {tokens:,} tokens it is too long to copy")
    store = home.store(context.agent_id)
    info = store.find(context.session)
    if before is None or info is None:
        return ALONE.format("nothing was said in it before")
    store.fork(info.place, at=before, key=child)
    return ""


def _before_call(branch: list[Entry], call_id: str) -> str | None:
    """Return the entry before the message with this call: what follows it has no results yet."""
    for place in range(len(branch) - 1, -1, -1):
        entry = branch[place]
        message = entry.message if isinstance(entry, MessageEntry) else None
        if isinstance(message, Assistant) and any(call.id == call_id for call in message.calls):
            return branch[place - 1].id if place else None
    return branch[-1].id if branch else None
