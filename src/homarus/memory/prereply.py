"""Recalled passages for the newest user turn, within their own budget. They ride below the cached part of the prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from homarus.core.text import estimate_tokens
from homarus.memory.files import CORE_FILES

if TYPE_CHECKING:
    from homarus.memory.memory import Memory

LEAD = "A heading that is a path with lines, here and in later turns, is followed by that passage of the notes."
LEAST = 0.35  # unasked text must earn its place
HEADING = 8  # tokens of what stands around a passage
MOST, ASKED = 12, 600


def pre_reply(memory: Memory, message: str, *, session_id: str = "") -> tuple[tuple[str, str], ...]:
    """Return (citation, text) of passages that bear on a message, best first; nothing where the settings ask for none.

    What the prompt shows anyway is left out: the core files, and the conversation that goes on now. So are the words of
    strangers: nobody asked for them, and they would taint the turn.
    """
    settings = memory.settings.pre_reply
    if not settings.enabled or not message.strip():
        return ()
    answer = memory.recall(_asked(message), k=MOST, budget_tokens=settings.budget_tokens)
    here = f"sessions/{session_id}"
    spent = 0
    chosen: list[tuple[str, str]] = []
    for hit in answer:
        if hit.origin or hit.score < LEAST or hit.path in CORE_FILES or (session_id and hit.path.startswith(here)):
            continue
        spent += estimate_tokens(f"{hit.citation}\n{hit.text}") + HEADING
        if spent > settings.budget_tokens:
            break
        chosen.append((hit.citation, hit.text))
    return tuple(chosen)


def _asked(message: str) -> str:
    """Return what of a message is asked with: of a long one, how it begins and how it ends."""
    text = " ".join(message.split())
    return text if len(text) <= ASKED else f"{text[: ASKED // 2]} {text[-ASKED // 2 :]}"
