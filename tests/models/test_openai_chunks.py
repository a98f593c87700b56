"""Events of a chat stream: decoded straight into their fields, they are what reading them field by field makes of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.models.providers.base import Fault
from homarus.models.providers.openai_chunks import Chunk, decode_chunk, read_chunk
from homarus.models.providers.openai_stream import OpenAIDecoder
from homarus.net.sse import SseEvent

texts = st.sampled_from(["", "a", "ü", '{"path":"A"}', "null"])
odd = st.sampled_from([None, 0, 7, -1, 1.5, True, [], {}, [{"type": "text", "text": "b"}], {"x": 1}])


def fields(required: dict[str, Any], usual: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """Objects that have some of the usual fields, fields nobody knows, and now and then a value of another type."""
    known = {name: st.one_of(value, value, value, value, st.none(), odd) for name, value in usual.items()}
    return st.fixed_dictionaries(required, optional={**known, "unknown": odd})


counts = fields({}, {
    "prompt_tokens": st.integers(0, 9), "completion_tokens": st.integers(0, 9), "cached_tokens": st.integers(0, 9),
    "prompt_cache_hit_tokens": st.integers(0, 9), "cost": st.floats(0, 1),
    "prompt_tokens_details": fields({}, {"cached_tokens": st.integers(0, 9), "cache_write_tokens": st.integers(0, 9)}),
})  # fmt: skip
calls = fields({}, {
    "index": st.integers(0, 2), "id": st.sampled_from(["", "c1", "c2"]),
    "function": fields({}, {"name": st.sampled_from(["", "ls"]), "arguments": texts}), "extra_content": odd,
})  # fmt: skip
deltas = fields({}, {
    "role": st.just("assistant"), "content": texts, "refusal": texts, "reasoning_content": texts, "reasoning": texts,
    "reasoning_text": texts, "reasoning_details": st.lists(odd, max_size=2), "tool_calls": st.lists(calls, max_size=3),
})  # fmt: skip
choices = fields(
    {}, {"delta": deltas, "finish_reason": st.sampled_from(["stop", "length", "tool_calls"]), "usage": counts}
)
events = fields({}, {"choices": st.lists(choices, max_size=2), "usage": counts})


def outcome(decoder: OpenAIDecoder, chunks: list[Chunk]) -> Any:
    """Everything that comes out of a stream, or how it failed."""
    said = [decoder._take(chunk) for chunk in chunks]
    decoder.finished = True
    try:
        return said, decoder.reply(), decoder.so_far()
    except Fault as fault:
        return said, str(fault), decoder.so_far()


@given(st.lists(events, max_size=5))
def test_both_ways_of_reading_an_event_come_to_the_same(given_events: list[Any]):
    data = [json.dumps(event).encode() for event in given_events]
    straight, slowly = ([read(item) for item in data] for read in (decode_chunk, read_chunk))
    assert outcome(OpenAIDecoder(), straight) == outcome(OpenAIDecoder(), slowly)


def fed(*given_events: Any) -> OpenAIDecoder:
    decoder = OpenAIDecoder(fallback_id="call_9")
    for event in given_events:
        decoder.feed(SseEvent("", json.dumps(event).encode()))
    decoder.feed(SseEvent("", b"[DONE]"))
    return decoder


def test_servers_with_their_own_types_are_understood():
    call = {"index": "0", "id": 7, "function": {"name": "ls", "arguments": {"path": "A"}}}
    decoder = fed(
        {"choices": [{"delta": {"content": [{"type": "text", "text": "Hi"}, "x", {"type": "text"}]}}]},
        {"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]},
        {"choices": {}, "usage": {"prompt_tokens": 12.0, "completion_tokens": 3, "cached_tokens": -1}},
    )
    reply = decoder.reply()
    assert [part.text for part in reply.parts[:1]] == ["Hi"]  # type: ignore[union-attr]
    assert (reply.parts[1].id, reply.parts[1].arguments) == ("call_9_0", {"path": "A"})  # type: ignore[union-attr]
    assert (reply.usage.input, reply.usage.output) == (0, 3)


@pytest.mark.parametrize(
    ("data", "says", "status"),
    [
        (b'{"error":{"message":"too many","code":429}}', "too many", 429),
        (b'{"error":"gone"}', "gone", None),
        (b'{"choices":', "no JSON", None),
        (b'"words"', "no object", None),
        (b"\xff", "no JSON", None),
    ],
)
def test_failures_inside_the_stream(data: bytes, says: str, status: int | None):
    with pytest.raises(Fault, match=says) as fault:
        OpenAIDecoder().feed(SseEvent("", data))
    assert fault.value.status == status
