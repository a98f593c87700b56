"""Models behind the chat-completions protocol, at any base URL: the provider, and the decoder of its streams.

OpenAI, OpenRouter, Groq, Mistral, Ollama, vLLM, llama.cpp … all say the same in slightly other shapes, so every field is read with care.
"""

from __future__ import annotations

from typing import Any

import msgspec

from homarus.core.errors import ModelFailure
from homarus.core.events import TextDelta, ThinkingDelta
from homarus.core.messages import Message, Part, Text, Thinking, ToolCall, Usage
from homarus.models.info import Price, priced
from homarus.models.provider import ModelRequest, StreamEvent, ToolCallDelta
from homarus.models.providers import openai_wire
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


class OpenAIProvider(HttpProvider[openai_wire.Fragment]):
    def url(self) -> str:
        return f"{self.endpoint.base_url.rstrip('/')}/chat/completions"

    def headers(self) -> dict[str, str]:
        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        key = self.endpoint.key
        if key and self.endpoint.auth == "x-api-key":
            headers["x-api-key"] = key
        elif key:
            headers["authorization"] = f"Bearer {key}"
        return headers

    def encode(self, message: Message) -> openai_wire.Fragment:
        return openai_wire.encode_message(message, self.endpoint.quirks, self.info)

    def size_of(self, fragment: openai_wire.Fragment) -> int:
        return len(fragment.data) + len(fragment.later)

    def body(self, request: ModelRequest, fragments: list[openai_wire.Fragment]) -> list[bytes]:
        return openai_wire.body(request, fragments, self.endpoint, self.info)

    def decoder(self, request: ModelRequest) -> OpenAIDecoder:
        return OpenAIDecoder(self.info.price, fallback_id=f"call_{len(request.messages)}")


open_provider = OpenAIProvider


class _Pending:
    """A tool call while it is being written."""

    def __init__(self) -> None:
        self.id = self.name = ""
        self.arguments: list[str] = []


class OpenAIDecoder:
    def __init__(self, price: Price | None = None, *, fallback_id: str = "call") -> None:
        self.finished = False
        self._price = price
        # For servers that give their calls no id; unique in the session, because it names the length of the history.
        self._fallback_id = fallback_id
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[_Pending] = []
        # The index that the server gives -> the call it means now.
        self._slots: dict[int, int] = {}
        self._reason = ""
        self._answered = False
        self._usage: dict[str, Any] = {}
        self._state = openai_wire.ReasoningState()

    def feed(self, event: SseEvent) -> list[StreamEvent]:
        data = event.data.strip()
        if data == b"[DONE]":
            self.finished = True
            return []
        if not data:
            return []
        value = json_object(data)
        if event.event == "error":
            raise no_reply(value)
        return self._take(value)

    def feed_whole(self, body: bytes) -> list[StreamEvent]:
        value = json_object(body)
        said = self._take(value)
        if not self._answered:
            raise no_reply(value)
        self.finished = True
        return said

    def _take(self, value: dict[str, Any]) -> list[StreamEvent]:
        fault = reported(value)
        if fault is not None:
            raise fault
        choices = value.get("choices")
        choice = fields(choices[0]) if isinstance(choices, list) and choices else {}
        self._usage = fields(choice.get("usage")) or fields(value.get("usage")) or self._usage
        if not choice:
            return []
        self._answered = True
        self._reason = text_of(choice.get("finish_reason")) or self._reason
        # Some servers stream whole messages, and some the words of a plain completion.
        return self._delta(fields(choice.get("delta") or choice.get("message") or {"content": choice.get("text")}))

    def _delta(self, delta: dict[str, Any]) -> list[StreamEvent]:
        said: list[StreamEvent] = []
        words, thought = _blocks(delta.get("content"))
        for name in ("reasoning_content", "reasoning", "reasoning_text", "thinking"):
            thought = thought or text_of(delta.get(name))
        if details := delta.get("reasoning_details"):
            # The same words stand there once more, or there alone.
            thought = thought or self._state.words(details)
            self._state.details(details)
        if thought:
            self._thinking.append(thought)
            said.append(ThinkingDelta(thought))
        if words := words or text_of(delta.get("refusal")):
            self._text.append(words)
            said.append(TextDelta(words))
        calls = delta.get("tool_calls")
        if not calls and fields(delta.get("function_call")):
            calls = [{"index": 0, "function": delta["function_call"]}]  # the form before there were several
        for position, call in enumerate(calls if isinstance(calls, list) else ()):
            said.append(self._call(fields(call), position))
        return said

    def _call(self, call: dict[str, Any], position: int) -> ToolCallDelta:
        index = self._slot(call, position)
        pending, function = self._calls[index], fields(call.get("function"))
        pending.id = text_of(call.get("id")) or pending.id
        pending.name = pending.name or text_of(function.get("name"))
        arguments = function.get("arguments")
        fragment = (
            text_of(arguments)
            if not arguments or isinstance(arguments, str)
            else msgspec.json.encode(arguments).decode()
        )
        pending.arguments.append(fragment)
        self._state.hang(index, call.get("extra_content"))
        return ToolCallDelta(index, pending.id, pending.name, fragment)

    def _slot(self, call: dict[str, Any], position: int) -> int:
        """Return which call a fragment belongs to. Some servers leave out the index, some give every call the same one."""
        ident, calls, given = text_of(call.get("id")), self._calls, call.get("index")
        for slot, pending in enumerate(calls if ident else ()):
            if pending.id == ident:
                return slot
        said = given if isinstance(given, int) else position
        known = self._slots.get(said)
        if known is not None and not (ident and calls[known].id):
            return known
        self._slots[said] = len(calls)
        calls.append(_Pending())
        return self._slots[said]

    def so_far(self) -> tuple[tuple[Part, ...], Usage]:
        """Return reasoning and text that arrived, and the usage if it did."""
        return tuple(self._said()), self._counted()

    def _said(self) -> list[Part]:
        parts: list[Part] = []
        signature = self._state.signature({index: self._id(index) for index in range(len(self._calls))})
        if self._thinking or signature:
            parts.append(Thinking("".join(self._thinking), signature))
        if self._text:
            parts.append(Text("".join(self._text)))
        return parts

    def reply(self) -> Reply:
        """Return the complete reply; a stream without an end was cut, and a call without a name or object is broken."""
        if not self.finished and not self._reason:
            raise Fault("the stream ended before the reply did", kind=ModelFailure.TIMEOUT)
        parts = self._said()
        if not self._answered:
            raise Fault("the stream ended without a reply", kind=ModelFailure.SERVER)
        cut = was_cut(self._reason, empty=not parts and not self._calls)
        for index, pending in enumerate(self._calls):
            try:
                arguments = parse_arguments("".join(pending.arguments))
            except BrokenArguments as problem:
                if cut:
                    continue
                text = f"broken arguments for tool '{pending.name}': {problem}"
                raise Fault(text, kind=ModelFailure.UNKNOWN) from problem
            if pending.name:
                parts.append(ToolCall(self._id(index), pending.name, arguments))
        return Reply(tuple(parts), stop_reason(parts, cut), self._counted())

    def _id(self, index: int) -> str:
        return self._calls[index].id or f"{self._fallback_id}_{index}"

    def _counted(self) -> Usage:
        usage, details = self._usage, fields(self._usage.get("prompt_tokens_details"))
        read, write = _count(details, "cached_tokens"), _count(details, "cache_write_tokens")
        read = read or _count(usage, "cached_tokens") or _count(usage, "prompt_cache_hit_tokens")
        fresh = max(0, _count(usage, "prompt_tokens") - read - write)
        cost = usage.get("cost")
        counted = Usage(fresh, _count(usage, "completion_tokens"), read, write)
        return priced(counted, self._price, float(cost) if isinstance(cost, int | float) else None)


def _count(value: dict[str, Any], key: str) -> int:
    found = value.get(key)
    return found if isinstance(found, int) and found > 0 else 0


def _blocks(content: Any) -> tuple[str, str]:
    """Return the words and the reasoning of content, which some servers (Mistral, Cohere) send in blocks."""
    words: list[str] = []
    thought: list[str] = []
    for block in content if isinstance(content, list) else ():
        inner = fields(block).get("thinking") or fields(block).get("reasoning")
        if inner:
            thought.append(_blocks(inner)[0])
        else:
            words.append(text_of(fields(block).get("text")))
    return (text_of(content) or "".join(words)), "".join(thought)
