"""Chat-completion events to deltas and parts. Pure state: no network, no clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from homarus.core.errors import ModelFailure
from homarus.core.events import TextDelta, ThinkingDelta
from homarus.core.later import later
from homarus.core.messages import Part, Text, Thinking, ToolCall, Usage
from homarus.models.carrier import Carrier
from homarus.models.info import Price
from homarus.models.provider import StreamEvent, ToolCallDelta
from homarus.models.providers.base import Fault, Reply, stop_reason, was_cut
from homarus.models.providers.openai_chunks import Call, Chunk, Counts, Delta, decode_chunk, read_chunk
from homarus.models.usage import priced
from homarus.net.sse import SseEvent

if TYPE_CHECKING:
    from homarus.models import arguments as call_arguments
else:
    call_arguments = later("homarus.models.arguments")


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
        self._calls: list[_Pending] = []
        # The index that the server gives -> the call it means now.
        self._slots: dict[int, int] = {}
        self._reason = ""
        self._answered = False
        self._usage: Counts | None = None
        self._carrier: Carrier | None = None

    def feed(self, event: SseEvent) -> list[StreamEvent]:
        """Take one event of the stream."""
        data = event.data.strip()
        if data == b"[DONE]":
            self.finished = True
            return []
        return self._take(decode_chunk(data)) if data else []

    def feed_whole(self, body: bytes) -> list[StreamEvent]:
        """Take a completion that was not streamed."""
        said = self._take(read_chunk(body, said="message"))
        self.finished = True
        return said

    def _take(self, chunk: Chunk) -> list[StreamEvent]:
        if chunk.usage is not None:
            self._usage = chunk.usage
        if not chunk.choices:
            return []
        choice = chunk.choices[0]
        self._answered = True
        if choice.usage is not None:
            self._usage = choice.usage
        if choice.finish_reason:
            self._reason = choice.finish_reason
        return self._delta(choice.delta) if choice.delta is not None else []

    def _delta(self, delta: Delta) -> list[StreamEvent]:
        said: list[StreamEvent] = []
        if text := delta.reasoning_content or delta.reasoning or delta.reasoning_text:
            self._thinking.append(text)
            said.append(ThinkingDelta(text))
        if delta.reasoning_details:
            self._carried().details(delta.reasoning_details)
        if text := delta.content or delta.refusal:
            self._text.append(text)
            said.append(TextDelta(text))
        if delta.tool_calls:
            for position, call in enumerate(delta.tool_calls):
                said.append(self._call(call, position))
        return said

    def _carried(self) -> Carrier:
        if self._carrier is None:
            self._carrier = Carrier()
        return self._carrier

    def _call(self, call: Call, position: int) -> ToolCallDelta:
        index = self._slot(call, position)
        pending, function, fragment = self._calls[index], call.function, ""
        if call.id:
            pending.id = call.id
        if function is not None:
            pending.name = pending.name or function.name or ""
            fragment = function.arguments or ""
            pending.arguments.append(fragment)
        if call.extra_content:
            self._carried().hang(index, call.extra_content)
        return ToolCallDelta(index, pending.id, pending.name, fragment)

    def _slot(self, call: Call, position: int) -> int:
        """Return which call a fragment belongs to. Some servers leave out the index, some give every call the same one."""
        ident, calls = call.id, self._calls
        if ident:
            for slot, pending in enumerate(calls):
                if pending.id == ident:
                    return slot
        said = position if call.index is None else call.index
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
        signature = None
        if self._carrier is not None:
            signature = self._carrier.signature({index: self._id(index) for index in range(len(self._calls))})
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
                arguments = call_arguments.parse_arguments("".join(pending.arguments))
            except call_arguments.BrokenArguments as problem:
                if cut:
                    continue
                raise Fault(
                    f"broken arguments for tool '{pending.name}': {problem}", kind=ModelFailure.UNKNOWN
                ) from problem
            if pending.name:
                parts.append(ToolCall(self._id(index), pending.name, arguments))
        return Reply(tuple(parts), stop_reason(parts, cut), self._counted())

    def _id(self, index: int) -> str:
        return self._calls[index].id or f"{self._fallback_id}_{index}"

    def _counted(self) -> Usage:
        usage = self._usage
        if usage is None:
            return Usage()
        read, write, details = 0, 0, usage.prompt_tokens_details
        if details is not None:
            read, write = details.cached_tokens or 0, details.cache_write_tokens or 0
        read = read or usage.cached_tokens or usage.prompt_cache_hit_tokens or 0
        fresh = (usage.prompt_tokens or 0) - read - write
        counted = Usage(max(0, fresh), usage.completion_tokens or 0, read, write)
        return priced(counted, self._price, usage.cost)
