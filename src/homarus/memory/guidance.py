"""What a prompt says about memory: the recall section, and recalled lines before a reply. Pure text; no clock in it."""

from __future__ import annotations

from homarus.core.text import escape_xml
from homarus.memory.memory import Memory
from homarus.memory.results import Answer
from homarus.memory.toolset import Citations, cites
from homarus.memory.transcripts import RECALL_CLOSE, RECALL_OPEN


def recall_section(tools: frozenset[str], *, citations: Citations = "auto", direct: bool = True) -> str:
    """Return the Memory Recall section, or nothing when no memory tool is offered. The same bytes on every turn."""
    if not tools & {"memory_search", "memory_get", "memory_recall"}:
        return ""
    lines = ["## Memory Recall"]
    if "memory_search" in tools or "memory_recall" in tools:
        tool = "memory_search" if "memory_search" in tools else "memory_recall"
        lines.append(
            f"What you know of earlier days is in notes, not in this conversation. Before you answer about past work, "
            f"decisions, dates, people, preferences or to-dos, call {tool}."
        )
    if "memory_get" in tools:
        lines.append("Then read only the lines you need with memory_get.")
    lines.append("If the notes do not settle it, say that you looked and are not sure.")
    if cites(citations, direct=direct):
        lines.append("Name the source of what you recall as `path#line`.")
    else:
        lines.append("Do not mention paths or line numbers of notes unless you are asked for them.")
    return "\n".join(lines)


def pre_reply(memory: Memory, message: str, *, budget_tokens: int | None = None) -> str:
    """Return recalled lines for the newest user turn, or nothing. They are marked, so that they are never re-learned."""
    settings = memory.settings.pre_reply
    if not settings.enabled or not message.strip():
        return ""
    answer = memory.recall(message, k=12, budget_tokens=budget_tokens or settings.budget_tokens)
    return render(answer)


def render(answer: Answer, least: float = 0.35) -> str:
    """Return hits as a marked block; weak ones are left out, because unasked text must earn its place."""
    lines = [f"- {escape_xml(hit.text)} ({hit.citation})" for hit in answer if hit.score >= least]
    return "\n".join([RECALL_OPEN, *lines, RECALL_CLOSE]) if lines else ""
