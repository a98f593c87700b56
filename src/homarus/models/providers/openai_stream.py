"""Chat-completion events to deltas and parts. Pure state: no network, no clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from homarus.core.errors import ModelFailure
from homarus.core.events import TextDelta, ThinkingDelta
from homarus.core.later import later
from homarus.core.messages import Part, Text, Thinking, ToolCall, Usage
from homarus.models.carrier import Carrier
from homarus.models.info import Price
from homarus.models.provider import StreamEvent, ToolCallDelta
from homarus.models.providers.base import Fault, Reply, stop_reason
from homarus.models.sse import SseEvent
from homarus.models.usage import priced

if TYPE_CHECKING:
    from homarus.models import arguments as call_arguments
else:
    call_arguments = later("homarus.models.arguments")


_decode = msgspec.json.Decoder().decode
_REASONING_KEYS = ("reasoning_content", "reasoning", "reasoning_text")


class _Pending:
    """A tool call while it is being written."""

    __slots__ = ("arguments", "id", "name")

    def __init__(self) -> None:
        self.id = self.name = ""
        self.arguments: list[str] = []


class OpenAIDecoder:
    """Collects one streamed chat completion."""

    def __init__(self, price: Price | None = None, *, fallback_id: str = "call") -> None:
        self.finished = False
        self._price = price
        # For servers that give their calls no id; unique in the session, because it names the length of the history.
        self._fallback_id = fallback_id
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: dict[int, _Pending] = {}
        # The index that the server gives -> the call it means now.
        self._slots: dict[int, int] = {}
        self._reason = ""
        self._usage: dict[str, Any] = {}
        self._carrier = Carrier()

    def feed(self, event: SseEvent) -> list[StreamEvent]:
        """Take one event of the stream."""
        data = event.data.strip()
        if data == b"[DONE]":
            self.finished = True
            return []
        return self._take(self._object(data)) if data else []

    def feed_whole(self, body: bytes) -> list[StreamEvent]:
        """Take a completion that was not streamed."""
        value = self._object(body)
        for choice in value.get("choices") or ():
            choice["delta"] = choice.pop("message", {})
        said = self._take(value)
        self.finished = True
        return said

    @staticmethod
    def _object(data: bytes) -> dict[str, Any]:
        try:
            value = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise Fault(f"an event that is no JSON: {problem}", kind=ModelFailure.SERVER) from problem
        if not isinstance(value, dict):
            raise Fault("an event that is no object", kind=ModelFailure.SERVER)
        return value

    def _take(self, value: dict[str, Any]) -> list[StreamEvent]:
        """Take one event that is already an object, as a model inside this process gives it."""
        if value.get("error"):
            from homarus.models.errors import error_text

            inner = value["error"]
            code = inner.get("code") if isinstance(inner, dict) else None
            raise Fault(error_text(value), status=code if isinstance(code, int) else None)
        if isinstance(value.get("usage"), dict):
            self._usage = value["usage"]
        choices = value.get("choices")
        if not choices:
            return []
        choice = choices[0]
        if isinstance(choice.get("usage"), dict):
            self._usage = choice["usage"]
        said = self._delta(choice.get("delta") or {})
        self._reason = choice.get("finish_reason") or self._reason
        return said

    def _delta(self, delta: dict[str, Any]) -> list[StreamEvent]:
        said: list[StreamEvent] = []
        for key in _REASONING_KEYS:
            text = delta.get(key)
            if isinstance(text, str) and text:
                self._thinking.append(text)
                said.append(ThinkingDelta(text))
                break
        if "reasoning_details" in delta:
            self._carrier.details(delta["reasoning_details"])
        text = delta.get("content") or delta.get("refusal")
        if isinstance(text, list):
            text = "".join(block.get("text", "") for block in text if isinstance(block, dict))
        if isinstance(text, str) and text:
            self._text.append(text)
            said.append(TextDelta(text))
        for position, call in enumerate(delta.get("tool_calls") or ()):
            said.append(self._call(call, position))
        return said

    def _call(self, call: dict[str, Any], position: int) -> ToolCallDelta:
        index = self._slot(call, position)
        function = call.get("function") or {}
        pending = self._calls.setdefault(index, _Pending())
        pending.id = call.get("id") or pending.id
        pending.name = pending.name or function.get("name") or ""
        self._carrier.hang(index, call.get("extra_content"))
        fragment = function.get("arguments") or ""
        if not isinstance(fragment, str):
            fragment = msgspec.json.encode(fragment).decode()
        pending.arguments.append(fragment)
        return ToolCallDelta(index, pending.id, pending.name, fragment)

    def _slot(self, call: dict[str, Any], position: int) -> int:
        """Return which call a fragment belongs to. Some servers leave out the index, some give every call the same one."""
        ident, said = call.get("id"), call.get("index")
        if ident:
            known = next((slot for slot, pending in self._calls.items() if pending.id == ident), None)
            if known is not None:
                return known
        wire = said if isinstance(said, int) else position
        slot = self._slots.get(wire)
        fresh = slot is None or (ident and self._calls[slot].id and self._calls[slot].id != ident)
        if slot is None or fresh:
            slot = self._slots[wire] = len(self._calls)
        return slot

    def so_far(self) -> tuple[tuple[Part, ...], Usage]:
        """Return reasoning and text that arrived, and the usage if it did."""
        parts: list[Part] = []
        signature = self._carrier.signature({index: self._id(index) for index in self._calls})
        if self._thinking or signature:
            parts.append(Thinking("".join(self._thinking), signature))
        if self._text:
            parts.append(Text("".join(self._text)))
        return tuple(parts), self._counted()

    def reply(self) -> Reply:
        """Return the complete reply; a stream without an end was cut, and a call without a name or object is broken."""
        if not self.finished and not self._reason:
            raise Fault("the stream ended before the reply did", kind=ModelFailure.TIMEOUT)
        if self._reason == "content_filter":
            raise Fault("the provider's content filter stopped the reply", kind=ModelFailure.REFUSAL)
        parts, usage = self.so_far()
        cut = self._reason == "length"
        calls: list[Part] = []
        for index in sorted(self._calls):
            pending = self._calls[index]
            try:
                arguments = call_arguments.parse_arguments("".join(pending.arguments))
            except call_arguments.BrokenArguments as problem:
                if cut:
                    continue
                raise Fault(
                    f"broken arguments for tool '{pending.name}': {problem}", kind=ModelFailure.UNKNOWN
                ) from problem
            if pending.name:
                calls.append(ToolCall(self._id(index), pending.name, arguments))
        parts = (*parts, *calls)
        return Reply(parts, stop_reason(parts, cut), usage)

    def _id(self, index: int) -> str:
        return self._calls[index].id or f"{self._fallback_id}_{index}"

    def _counted(self) -> Usage:
        usage = self._usage
        prompt, output = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
        details = usage.get("prompt_tokens_details")
        details = details if isinstance(details, dict) else {}
        read = (
            _count(details, "cached_tokens")
            or _count(usage, "cached_tokens")
            or _count(usage, "prompt_cache_hit_tokens")
        )
        write = _count(details, "cache_write_tokens")
        fresh = max(0, prompt - read - write)
        cost = usage.get("cost")
        counted = Usage(input=fresh, output=output, cache_read=read, cache_write=write)
        return priced(counted, self._price, float(cost) if isinstance(cost, int | float) else None)


def _count(usage: dict[str, Any], key: str) -> int:
    value = usage.get(key)
    return value if isinstance(value, int) and value > 0 else 0
