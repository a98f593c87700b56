"""What of a branch a model sees: the part after its last boundary, as messages. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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


def visible(branch: Sequence[Entry]) -> list[Entry]:
    """Return the entries of a branch that its last compaction or reset leaves in view, that boundary first."""
    at = next((i for i in range(len(branch) - 1, -1, -1) if isinstance(branch[i], Compaction | Reset)), None)
    if at is None:
        return list(branch)
    boundary = branch[at]
    assert isinstance(boundary, Compaction | Reset)
    kept: list[Entry] = []
    if boundary.first_kept:
        start = next((i for i in range(at) if branch[i].id == boundary.first_kept), at)
        kept = [entry for entry in branch[start:at] if not isinstance(entry, Compaction | Reset)]
    return [boundary, *kept, *branch[at + 1 :]]


def project(entries: Sequence[Entry]) -> list[Message]:
    """Return what `visible` entries say, in order. The volatile text of a turn joins the user message it rode on."""
    messages: list[Message] = []
    quiet = _kept_by_reset(entries)
    for place, entry in enumerate(entries):
        if isinstance(entry, CustomMessage) and entry.custom_type == RUNTIME_CONTEXT:
            _ride(messages, entry.text)
        elif isinstance(entry, MessageEntry | Compaction | BranchSummary | CustomMessage):
            message = entry.message
            if message is not None and place in quiet:
                message = _words_only(message)
            if message is not None:
                messages.append(message)
    return messages


def _ride(messages: list[Message], context: str) -> None:
    # A context whose user message is not directly before it says nothing to anybody any more.
    if messages and isinstance(last := messages[-1], User):
        joined = f"{last.context}\n\n{context}" if last.context else context
        messages[-1] = replace(last, context=joined)


def _kept_by_reset(entries: Sequence[Entry]) -> frozenset[int]:
    """Return the places of entries from before a reset: of those only the words are shown, not the work."""
    if not entries or not isinstance(entries[0], Reset):
        return frozenset()
    kept: list[int] = []
    parent = entries[0].parent_id
    by_id = {entry.id: place for place, entry in enumerate(entries) if place}
    while parent in by_id and by_id[parent] not in kept:
        kept.append(by_id[parent])
        parent = entries[by_id[parent]].parent_id
    return frozenset(kept)


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
