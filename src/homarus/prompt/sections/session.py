"""What is fixed for a session: the context engine's addition, messaging, voice, and the place the session stands in."""

from __future__ import annotations

from homarus.prompt.facts import SessionFacts, StableFacts
from homarus.prompt.guard import body, inline, under


def engine_addition(_: StableFacts, session: SessionFacts) -> str:
    """Return what the context engine adds, right after the boundary: before it, every recall would break the prefix."""
    return body(session.engine_addition)


def messaging(facts: StableFacts, session: SessionFacts) -> str:
    """Say where a reply goes, and how to reach anywhere else."""
    lines = ["## Messaging", "Your reply goes to the chat that asked; the runtime delivers it."]
    if facts.has("message"):
        lines.append(
            "To another chat: `message`, never a shell command. If it already sent all you have to say, reply NO_REPLY."
        )
    if facts.has("sessions_send"):
        lines.append("To another session: `sessions_send`.")
    lines += [f"- {inline(hint)}" for hint in session.messaging_hints if hint.strip()]
    return "\n".join(lines)


def voice(_: StableFacts, session: SessionFacts) -> str:
    """Say how to write for the ear."""
    return f"## Voice\n{under(session.voice)}" if session.voice.strip() else ""


def group_context(_: StableFacts, session: SessionFacts) -> str:
    """Return the extra prompt of a group or a channel."""
    return _extra("## Group Chat Context", session)


def subagent_context(_: StableFacts, session: SessionFacts) -> str:
    """Return the extra prompt of a sub-agent's task."""
    return _extra("## Subagent Context", session)


def _extra(heading: str, session: SessionFacts) -> str:
    return f"{heading}\n{under(session.extra)}" if session.extra.strip() else ""
