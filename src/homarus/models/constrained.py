"""Tool calls from a model that cannot make them by itself: its output is constrained to JSON, and read back. Pure.

A local model writes one object, either `{"reply": "…"}` or `{"tool": "…", "arguments": {…}}`; a grammar leaves it no other
choice. So even a very small model makes calls that parse, and its reply still streams.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from homarus.core.messages import Assistant, Message, ToolCall, ToolResult, User
from homarus.core.patterns import late
from homarus.core.tools import ToolSpec
from homarus.models.wire import encode, inert

_OPENING = late(r'\s*\{\s*"reply"\s*:\s*"')
# An escape that is still being written, or the first half of a surrogate pair.
_UNFINISHED = late(r"\\(?:u[0-9a-fA-F]{0,3})?\Z|\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?\Z")
_KEPT = ("type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "minimum", "maximum", "minItems", "maxItems")  # fmt: skip


def output_schema(tools: Sequence[ToolSpec], choice: str | None) -> dict[str, Any]:
    """Return the schema of what the model may write: a reply, unless a tool is demanded, or a call of a tool."""
    options: list[dict[str, Any]] = []
    if choice in {None, "auto", "none"}:
        options.append(_object({"reply": {"type": "string"}}))
    if choice != "none":
        for spec in tools:
            if choice in {None, "auto", "required", spec.name}:
                arguments = _simple({"type": "object", **spec.parameters})
                options.append(_object({"tool": {"const": spec.name}, "arguments": arguments}))
    return options[0] if len(options) == 1 else {"anyOf": options}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _simple(schema: Any) -> Any:
    """Keep of a tool's schema what shapes a grammar; descriptions, patterns and references only make it fail or slow."""
    if isinstance(schema, list):
        return [_simple(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for key in _KEPT:
        if key not in schema:
            continue
        value = schema[key]
        if key == "properties":
            kept[key] = {name: _simple(item) for name, item in value.items()} if isinstance(value, dict) else {}
        else:
            kept[key] = value if key in {"enum", "const", "required"} else _simple(value)
    if kept.get("type") == "object" and "properties" in kept:
        kept["additionalProperties"] = False
    return kept


def instructions(tools: Sequence[ToolSpec]) -> str:
    """Return what the model is told about this form; part of the system prompt, so the same for every turn."""
    lines = [
        'Answer with one JSON object: {"reply": "your words"} to talk, or {"tool": "name", "arguments": {}} to act.',
        "Tools:",
    ]
    for spec in tools:
        names = ", ".join(spec.parameters.get("properties") or {})
        lines.append(f"- {spec.name}({names}): {(spec.summary or spec.description).splitlines()[0][:160]}")
    return "\n".join(lines)


def plain_messages(system: str, messages: Sequence[Message], *, tooled: bool) -> list[dict[str, str]]:
    """Return a conversation in the two roles that every chat template knows, calls and results as text."""
    out = [{"role": "system", "content": system}] if system else []
    for message in map(inert, messages):
        role, text = _plain(message, tooled=tooled)
        if not text:
            continue
        if out and out[-1]["role"] == role:
            out[-1] = {"role": role, "content": f"{out[-1]['content']}\n\n{text}"}
        else:
            out.append({"role": role, "content": text})
    return out


def _plain(message: Message, *, tooled: bool) -> tuple[str, str]:
    if isinstance(message, User):
        return "user", f"{message.text}\n\n{message.context}" if message.context else message.text
    if isinstance(message, ToolResult):
        return "user", f"Result of {message.tool_name}:\n{message.text or '(no output)'}"
    assert isinstance(message, Assistant)
    calls = [encode({"tool": call.name, "arguments": call.arguments}).decode() for call in message.calls]
    if calls:
        return "assistant", "\n".join(calls)
    return "assistant", encode({"reply": message.text}).decode() if tooled and message.text else message.text


class Reader:
    """Reads constrained output as it arrives: gives the reply's new text at once, and a call only when it is whole."""

    def __init__(self) -> None:
        self._raw = ""
        self._start: int | None = None
        self._given = ""

    def feed(self, text: str) -> str:
        self._raw += text
        if self._start is None:
            opened = _OPENING.match(self._raw)
            if opened is None:
                return ""
            self._start = opened.end()
        decoded = self._decoded()
        new, self._given = decoded[len(self._given) :], decoded
        return new

    def _decoded(self) -> str:
        rest = self._raw[self._start :]
        closed = re.search(r'(?<!\\)(?:\\\\)*"', rest)
        body = rest[: closed.end() - 1] if closed else _UNFINISHED.sub("", rest)
        try:
            return str(json.loads(f'"{body}"', strict=False))
        except ValueError:
            return self._given

    @property
    def reply(self) -> str:
        return self._given

    def call(self, call_id: str) -> ToolCall | None:
        """Return the call that the output is, or None when it is a reply or was cut."""
        try:
            value = msgspec.json.decode(self._raw.encode("utf-8", "replace"))
        except msgspec.DecodeError:
            return None
        if isinstance(value, dict) and isinstance(value.get("tool"), str) and isinstance(value.get("arguments"), dict):
            return ToolCall(call_id, value["tool"], value["arguments"])
        return None
