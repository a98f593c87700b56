"""Models behind Anthropic's messages protocol, at any base URL that speaks it: the provider, and the decoder of its streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from homarus.core.errors import ModelFailure
from homarus.core.events import TextDelta, ThinkingDelta
from homarus.core.messages import Message, Part, Text, Thinking, ToolCall, Usage
from homarus.models.info import Price, priced
from homarus.models.provider import ModelRequest, StreamEvent, ToolCallDelta
from homarus.models.providers import anthropic_wire
from homarus.models.providers.base import HttpProvider, Reply, stop_reason
from homarus.models.providers.reading import (  # fmt: skip
    BrokenArguments,
    Fault,
    fields,
    json_object,
    no_reply,
    parse_arguments,
    reported,
    text_of,
    was_cut,
)
from homarus.net.sse import SseEvent

VERSION = "2023-06-01"
# Tokens of a subscription go into another header than API keys, and the server wants to be told.
TOKEN_PREFIX = "sk-ant-oat"  # noqa: S105 - the public prefix, not a token
TOKEN_BETA = "oauth-2025-04-20"  # noqa: S105 - a protocol name


class AnthropicProvider(HttpProvider[anthropic_wire.Fragment]):
    def url(self) -> str:
        """Return the address of the messages endpoint; people write the base with and without its version."""
        base = self.endpoint.base_url.rstrip("/")
        return f"{base}/messages" if base.endswith("/v1") else f"{base}/v1/messages"

    def headers(self) -> dict[str, str]:
        headers = {"content-type": "application/json", "accept": "text/event-stream", "anthropic-version": VERSION}
        key = self.endpoint.key
        if key.startswith(TOKEN_PREFIX):
            headers |= {"authorization": f"Bearer {key}", "anthropic-beta": TOKEN_BETA}
        elif key and self.endpoint.auth == "bearer":
            headers["authorization"] = f"Bearer {key}"
        elif key:
            headers["x-api-key"] = key
        return headers

    def encode(self, message: Message) -> anthropic_wire.Fragment:
        return anthropic_wire.encode_message(message, self.info)

    def size_of(self, fragment: anthropic_wire.Fragment) -> int:
        return sum(map(len, fragment.blocks))

    def body(self, request: ModelRequest, fragments: list[anthropic_wire.Fragment]) -> list[bytes]:
        return anthropic_wire.body(request, fragments, self.info)

    def decoder(self, request: ModelRequest) -> AnthropicDecoder:
        return AnthropicDecoder(self.info.price)


open_provider = AnthropicProvider


class _Block:
    """A content block while it is being written."""

    def __init__(self, start: dict[str, Any]) -> None:
        self.kind, self.id, self.name = (text_of(start.get(key)) for key in ("type", "id", "name"))
        self.signature = text_of(start.get("signature")) or text_of(start.get("data"))
        self.pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def part(self) -> Part | None:
        """Return what the block says; a thinking block without its signature cannot go back."""
        if self.kind == "text" and self.text:
            return Text(self.text)
        if self.kind == "thinking" and (self.text or self.signature):
            return Thinking(self.text, self.signature or None)
        if self.kind == "redacted_thinking" and self.signature:
            return Thinking("", self.signature, redacted=True)
        return None


class AnthropicDecoder:
    def __init__(self, price: Price | None = None) -> None:
        self.finished = False
        self._price = price
        self._blocks: dict[int, _Block] = {}
        self._usage: dict[str, int] = {}
        self._reason = ""

    def feed(self, event: SseEvent) -> Iterator[StreamEvent]:
        if event.data.strip() == b"[DONE]":
            self.finished = bool(self._reason)
            return
        value = json_object(event.data)
        index = value.get("index")
        index = index if isinstance(index, int) else 0
        match value.get("type") or event.event:
            case "content_block_start":
                yield from self._start(index, fields(value.get("content_block")))
            case "content_block_delta":
                yield from self._delta(index, fields(value.get("delta")))
            case "message_start":
                self._count(fields(value.get("message")).get("usage"))
            case "message_delta":
                self._reason = text_of(fields(value.get("delta")).get("stop_reason")) or self._reason
                self._count(value.get("usage"))
            case "message_stop":
                self.finished = True
            case _:
                # `content_block_stop`, `ping` and event types of the future carry nothing for us.
                fault = no_reply(value) if event.event == "error" else reported(value)
                if fault is not None:
                    raise fault

    def feed_whole(self, body: bytes) -> Iterator[StreamEvent]:
        value = json_object(body)
        fault = reported(value)
        if fault is not None or not isinstance(value.get("content"), list):
            raise fault or no_reply(value)
        self._count(value.get("usage"))
        self._reason = text_of(value.get("stop_reason")) or "end_turn"
        for index, block in enumerate(value["content"]):
            yield from self._start(index, fields(block))
        self.finished = True

    def _start(self, index: int, start: dict[str, Any]) -> Iterator[StreamEvent]:
        block = self._blocks[index] = _Block(start)
        if block.kind == "tool_use":
            given = start.get("input")
            fragment = msgspec.json.encode(given).decode() if given else ""
            block.pieces += [fragment] if fragment else []
            yield ToolCallDelta(index, block.id, block.name, fragment)
        else:
            yield from self._delta(index, {**start, "signature": "", "type": f"{block.kind}_delta"})

    def _delta(self, index: int, delta: dict[str, Any]) -> Iterator[StreamEvent]:
        block = self._blocks.setdefault(index, _Block({"type": "text"}))
        match delta.get("type"):
            case "text_delta" if text := text_of(delta.get("text")):
                block.pieces.append(text)
                yield TextDelta(text)
            case "thinking_delta" if text := text_of(delta.get("thinking")):
                block.pieces.append(text)
                yield ThinkingDelta(text)
            case "signature_delta":
                block.signature += text_of(delta.get("signature"))
            case "input_json_delta" if text := text_of(delta.get("partial_json")):
                block.pieces.append(text)
                yield ToolCallDelta(index, block.id, block.name, text)

    def so_far(self) -> tuple[tuple[Part, ...], Usage]:
        parts = (block.part() for _, block in sorted(self._blocks.items()))
        return tuple(part for part in parts if part is not None), self._counted()

    def reply(self) -> Reply:
        """Return the complete reply, its parts in the order in which the model wrote them."""
        if not self.finished and not self._reason:
            raise Fault("the stream ended before the reply did", kind=ModelFailure.TIMEOUT)
        # A window that filled up while the model wrote leaves a reply that is cut; one that was full leaves none.
        full = self._reason == "model_context_window_exceeded" and bool(self._blocks)
        cut = full or was_cut(self._reason, empty=not self._blocks)
        made = [
            self._call(block, cut=cut) if block.kind == "tool_use" else block.part()
            for _, block in sorted(self._blocks.items())
        ]
        parts = tuple(part for part in made if part is not None)
        return Reply(parts, stop_reason(parts, cut), self._counted())

    @staticmethod
    def _call(block: _Block, *, cut: bool) -> ToolCall | None:
        try:
            if not block.name:
                raise BrokenArguments("a call without a name")
            return ToolCall(block.id or f"call_{block.name}", block.name, parse_arguments(block.text))
        except BrokenArguments as problem:
            if cut:
                return None
            text = f"broken arguments for tool '{block.name}': {problem}"
            raise Fault(text, kind=ModelFailure.UNKNOWN) from problem

    def _count(self, usage: Any) -> None:
        """Keep the newest figures; those of the final event are totals."""
        self._usage |= {key: value for key, value in fields(usage).items() if isinstance(value, int) and value >= 0}

    def _counted(self) -> Usage:
        read, write = (self._usage.get(f"cache_{name}_input_tokens", 0) for name in ("read", "creation"))
        fresh, output = (self._usage.get(f"{name}_tokens", 0) for name in ("input", "output"))
        return priced(Usage(fresh, output, read, write), self._price)
