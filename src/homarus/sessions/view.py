"""What of a branch a model sees: the part after its last boundary, as messages. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.messages import Assistant, Message, Text, ToolCall, ToolResult, User
from homarus.sessions.entry import (
    RUNTIME_CONTEXT,
    BranchSummary,
    Compaction,
    CustomMessage,
    Entry,
    MessageEntry,
    Reset,
)


class View(Struct, frozen=True):
    """The part of a branch that is in view: its last boundary, what that keeps from before, and all that followed."""

    boundary: Compaction | Reset | None
    kept: tuple[Entry, ...]
    after: tuple[Entry, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Return all of it in the order of the conversation."""
        return (*self.kept, *((self.boundary,) if self.boundary else ()), *self.after)


def visible(branch: Sequence[Entry]) -> View:
    """Return what the last compaction or reset of a branch leaves in view."""
    for place in range(len(branch) - 1, -1, -1):
        boundary = branch[place]
        if isinstance(boundary, Compaction | Reset):
            start = next((i for i in range(place) if branch[i].id == boundary.first_kept), place)
            kept = tuple(entry for entry in branch[start:place] if not isinstance(entry, Compaction | Reset))
            return View(boundary, kept, tuple(branch[place + 1 :]))
    return View(None, (), tuple(branch))


def project(view: View) -> list[Message]:
    """Return what is in view as messages, a summary first."""
    messages: list[Message] = [view.boundary.message] if isinstance(view.boundary, Compaction) else []
    words = isinstance(view.boundary, Reset)
    speak(view.kept, messages, words_only=words)
    speak(view.after, messages)
    return messages


def speak(entries: Iterable[Entry], messages: list[Message], *, words_only: bool = False) -> None:
    """Add what entries say to a list. The volatile text of a turn joins the user message it rode on."""
    for entry in entries:
        if isinstance(entry, CustomMessage) and entry.custom_type == RUNTIME_CONTEXT:
            _ride(messages, entry.text)
        elif isinstance(entry, MessageEntry | BranchSummary | CustomMessage):
            message = entry.message
            if message is not None and words_only:
                message = _words_only(message)
            if message is not None:
                messages.append(message)


def _ride(messages: list[Message], context: str) -> None:
    # A context whose user message is not directly before it says nothing to anybody any more.
    if messages and isinstance(last := messages[-1], User):
        joined = f"{last.context}\n\n{context}" if last.context else context
        messages[-1] = replace(last, context=joined)


def _words_only(message: Message) -> Message | None:
    if isinstance(message, ToolResult):
        return None
    if isinstance(message, Assistant):
        words = tuple(part for part in message.parts if not isinstance(part, ToolCall))
        said = any(isinstance(part, Text) and part.text.strip() for part in words)
        return replace(message, parts=words) if said else None
    return message


def labels(entries: Iterable[Entry]) -> dict[str, str]:
    """Return the names that label entries give to others; the last word on each wins, and an empty one clears it."""
    found: dict[str, str] = {}
    for entry in entries:
        if entry.type == "label" and isinstance(target := entry.data.get("targetId"), str):
            name = entry.data.get("label")
            if isinstance(name, str) and name:
                found[target] = name
            else:
                found.pop(target, None)
    return found


def state(entries: Iterable[Entry]) -> dict[str, str]:
    """Return the model, the thinking level and the name that a branch ends with, as far as it says them."""
    found: dict[str, str] = {}
    for entry in entries:
        if entry.type == "model_change":
            found |= _strings(entry, provider="provider", model="modelId")
        elif entry.type == "thinking_level_change":
            found |= _strings(entry, thinking="thinkingLevel")
        elif entry.type == "session_info":
            found |= _strings(entry, name="name")
    return found


def _strings(entry: Entry, **fields: str) -> dict[str, str]:
    return {name: value for name, field in fields.items() if isinstance(value := entry.data.get(field), str)}
