"""Anthropic stream events to deltas and parts. Pure state: no network, no clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from homarus.core.errors import ModelFailure
from homarus.core.events import TextDelta, ThinkingDelta
from homarus.core.messages import Part, Text, Thinking, ToolCall, Usage
from homarus.models.arguments import BrokenArguments, parse_arguments
from homarus.models.info import Price
from homarus.models.provider import StreamEvent, ToolCallDelta
from homarus.models.providers.base import Fault, Reply, json_object, no_reply, reported, stop_reason, was_cut
from homarus.models.usage import priced
from homarus.net.sse import SseEvent


class _Block:
    """A content block while it is being written."""

    __slots__ = ("done", "id", "kind", "name", "signature", "text")

    def __init__(self, start: dict[str, Any]) -> None:
        self.kind: str = start.get("type", "")
        self.id: str = start.get("id", "")
        self.name: str = start.get("name", "")
        self.signature: str = start.get("signature") or start.get("data") or ""
        self.text: list[str] = []
        self.done = False


class AnthropicDecoder:
    """Collects one streamed message."""

    def __init__(self, price: Price | None = None) -> None:
        self.finished = False
        self._price = price
        self._blocks: dict[int, _Block] = {}
        self._usage: dict[str, int] = {}
        self._reason = ""

    def feed(self, event: SseEvent) -> Iterator[StreamEvent]:
        """Take one event of the stream."""
        value = json_object(event.data)
        match value.get("type") or event.event:
            case "content_block_start":
                yield from self._start(value.get("index", 0), value.get("content_block") or {})
            case "content_block_delta":
                yield from self._delta(value.get("index", 0), value.get("delta") or {})
            case "content_block_stop":
                if value.get("index", 0) in self._blocks:
                    self._blocks[value.get("index", 0)].done = True
            case "message_start":
                self._count((value.get("message") or {}).get("usage"))
            case "message_delta":
                self._reason = (value.get("delta") or {}).get("stop_reason") or self._reason
                self._count(value.get("usage"))
            case "message_stop":
                self.finished = True
            case _:
                # `ping` and event types of the future carry nothing for us.
                fault = no_reply(value) if event.event == "error" else reported(value)
                if fault is not None:
                    raise fault

    def feed_whole(self, body: bytes) -> Iterator[StreamEvent]:
        """Take a message that was not streamed."""
        value = json_object(body)
        fault = reported(value)
        if fault is not None or not isinstance(value.get("content"), list):
            raise fault or no_reply(value)
        self._count(value.get("usage"))
        self._reason = value.get("stop_reason") or "end_turn"
        for index, block in enumerate(value.get("content") or ()):
            yield from self._start(index, block)
            self._blocks[index].done = True
        self.finished = True

    def _start(self, index: int, start: dict[str, Any]) -> Iterator[StreamEvent]:
        block = self._blocks[index] = _Block(start)
        if block.kind == "text" and start.get("text"):
            yield from self._delta(index, {"type": "text_delta", "text": start["text"]})
        elif block.kind == "thinking" and start.get("thinking"):
            yield from self._delta(index, {"type": "thinking_delta", "thinking": start["thinking"]})
        elif block.kind == "tool_use":
            given = start.get("input")
            fragment = msgspec.json.encode(given).decode() if given else ""
            block.text += [fragment] if fragment else []
            yield ToolCallDelta(index, block.id, block.name, fragment)

    def _delta(self, index: int, delta: dict[str, Any]) -> Iterator[StreamEvent]:
        block = self._blocks.setdefault(index, _Block({"type": "text"}))
        match delta.get("type"):
            case "text_delta" if delta.get("text"):
                block.text.append(delta["text"])
                yield TextDelta(delta["text"])
            case "thinking_delta" if delta.get("thinking"):
                block.text.append(delta["thinking"])
                yield ThinkingDelta(delta["thinking"])
            case "signature_delta":
                block.signature += delta.get("signature", "")
            case "input_json_delta" if delta.get("partial_json"):
                block.text.append(delta["partial_json"])
                yield ToolCallDelta(index, block.id, block.name, delta["partial_json"])

    def so_far(self) -> tuple[tuple[Part, ...], Usage]:
        """Return text and finished reasoning that arrived; a thinking block without its signature cannot go back."""
        parts: list[Part] = []
        for index in sorted(self._blocks):
            block = self._blocks[index]
            text = "".join(block.text)
            if block.kind == "text" and text:
                parts.append(Text(text))
            elif block.kind == "thinking" and (text or block.signature):
                parts.append(Thinking(text, block.signature or None))
            elif block.kind == "redacted_thinking" and block.signature:
                parts.append(Thinking("", block.signature, redacted=True))
        return tuple(parts), self._counted()

    def reply(self) -> Reply:
        """Return the complete reply, its parts in the order in which the model wrote them."""
        if not self.finished:
            raise Fault("the stream ended before the reply did", kind=ModelFailure.TIMEOUT)
        # A window that filled up while the model wrote leaves a reply that is cut; one that was full leaves none.
        full = self._reason == "model_context_window_exceeded" and bool(self._blocks)
        cut = full or was_cut(self._reason, empty=not self._blocks)
        parts: list[Part] = []
        plain = iter(self.so_far()[0])
        for index in sorted(self._blocks):
            block = self._blocks[index]
            if block.kind == "tool_use":
                call = self._call(block, cut=cut)
                parts += [call] if call else []
            elif block.kind in {"text", "thinking", "redacted_thinking"} and ("".join(block.text) or block.signature):
                parts.append(next(plain))
        return Reply(tuple(parts), stop_reason(tuple(parts), cut), self._counted())

    @staticmethod
    def _call(block: _Block, *, cut: bool) -> ToolCall | None:
        try:
            if not block.name:
                raise BrokenArguments("a call without a name")
            return ToolCall(block.id or f"call_{block.name}", block.name, parse_arguments("".join(block.text)))
        except BrokenArguments as problem:
            if cut:
                return None
            text = f"broken arguments for tool '{block.name}': {problem}"
            raise Fault(text, kind=ModelFailure.UNKNOWN) from problem

    def _count(self, usage: Any) -> None:
        """Keep the newest figures; those of the final event are totals."""
        if isinstance(usage, dict):
            self._usage |= {key: value for key, value in usage.items() if isinstance(value, int) and value >= 0}

    def _counted(self) -> Usage:
        usage = self._usage
        counted = Usage(
            input=usage.get("input_tokens", 0),
            output=usage.get("output_tokens", 0),
            cache_read=usage.get("cache_read_input_tokens", 0),
            cache_write=usage.get("cache_creation_input_tokens", 0),
        )
        return priced(counted, self._price)
