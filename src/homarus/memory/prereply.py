"""Recalled lines for the newest user turn, within their own budget. They ride below the cached part of the prompt."""

from __future__ import annotations

from homarus.core.text import escape_xml
from homarus.memory.memory import Memory
from homarus.memory.results import Answer
from homarus.memory.transcripts import RECALL_CLOSE, RECALL_OPEN


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
