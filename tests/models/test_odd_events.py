"""Events of a stream that are not of the types that the protocol names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.models.providers.anthropic import AnthropicDecoder
from homarus.models.providers.openai import OpenAIDecoder
from homarus.models.providers.reading import Fault
from homarus.net.sse import SseEvent


def test_any_event_is_read_or_is_a_failure_of_the_server() -> None:
    """Nothing that a server sends may end a turn with a traceback."""

    @given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3), nested, max_leaves=12))
    def check(value: Any) -> None:
        for decoder in (OpenAIDecoder(), AnthropicDecoder()):
            for event in (
                {"choices": [value]},
                {"choices": [{"delta": value, "usage": value}]},
                {"type": "content_block_start", "content_block": value, "index": value},
                {"type": "content_block_start", "content_block": {"type": "tool_use", "input": value, "name": value}},
                {"type": "content_block_delta", "delta": value},
                {"type": "content_block_delta", "delta": {"type": "signature_delta", "signature": value}},
                {"type": "message_delta", "delta": value, "usage": value},
                {"type": "message_start", "message": value},
                value,
            ):
                try:
                    list(decoder.feed(SseEvent("", json.dumps(event).encode())))
                except Fault:
                    pass
            try:
                decoder.reply()
            except Fault:
                pass
            decoder.so_far()

    check()


NAMES = ("choices", "delta", "content", "tool_calls", "function", "arguments", "id", "index", "text", "reasoning_details",
         "function_call", "finish_reason", "usage", "prompt_tokens", "thinking", "extra_content", "error", "type")  # fmt: skip


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)


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
