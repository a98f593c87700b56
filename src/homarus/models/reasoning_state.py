"""Opaque reasoning data that a chat-completions server wants back, kept in the signature of a thinking part. Pure.

Two kinds exist: OpenRouter's `reasoning_details` and Google's thought signatures on tool calls (`extra_content`). Without
them Gemini refuses the next step of a tool loop. They go back only to the model that made them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from homarus.core.messages import Assistant, Thinking
from homarus.models.wire import encode

_JOINED = ("text", "summary", "data")


class ReasoningState:
    def __init__(self) -> None:
        self._details: list[dict[str, Any]] = []
        self._extra: dict[int, Any] = {}

    def details(self, items: Any) -> None:
        """Take streamed reasoning details; pieces of the same item are joined."""
        for item in items if isinstance(items, list) else ():
            if not isinstance(item, dict):
                continue
            last = self._details[-1] if self._details else None
            if last and (last.get("type"), last.get("index")) == (item.get("type"), item.get("index")):
                joined = {key: f"{last.get(key) or ''}{item[key]}" for key in _JOINED if isinstance(item.get(key), str)}
                self._details[-1] = {**last, **{k: v for k, v in item.items() if v is not None}, **joined}
            else:
                self._details.append(item)

    @staticmethod
    def words(items: Any) -> str:
        found = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
        return "".join(str(item.get("text") or item.get("summary") or "") for item in found)

    def hang(self, index: int, content: Any) -> None:
        """Take what a server hung on one tool call."""
        if content:
            self._extra[index] = content

    def signature(self, ids: dict[int, str]) -> str | None:
        """Return all of it as one text, by the ids that the calls have; None when the server sent nothing of the kind."""
        extra = {ids[index]: content for index, content in self._extra.items() if index in ids}
        kept = {key: value for key, value in (("details", self._details), ("extra", extra)) if value}
        return encode(kept).decode() if kept else None


def unpack(message: Assistant) -> tuple[list[Any], dict[str, Any]]:
    """Return the reasoning details and the per-call extras of a stored reply."""
    for part in message.parts:
        if isinstance(part, Thinking) and part.signature and part.signature.startswith("{"):
            try:
                value = msgspec.json.decode(part.signature)
            except msgspec.DecodeError:
                continue
            if isinstance(value, dict):
                details, extra = value.get("details"), value.get("extra")
                return details if isinstance(details, list) else [], extra if isinstance(extra, dict) else {}
    return [], {}
