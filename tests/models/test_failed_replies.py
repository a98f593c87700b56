"""A reply with status 200 that is none, and one whose end is a failure, are errors: never an empty success."""

from __future__ import annotations

import json

import pytest

from homarus.core.errors import ModelFailure as F
from homarus.core.messages import StopReason
from homarus.models.errors import failure
from homarus.models.providers.anthropic import AnthropicDecoder
from homarus.models.providers.openai import OpenAIDecoder
from homarus.models.providers.reading import Fault
from homarus.net.sse import SseEvent

NO_REPLIES = [
    ({"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, F.BILLING),
    ({"id": "x", "choices": None, "base_resp": {"status_code": 1002, "status_msg": "rate limit"}}, F.RATE_LIMIT),
    ({"base_resp": {"status_code": 1004, "status_msg": "invalid api key"}}, F.AUTH),
    ({"object": "error", "message": "This model's maximum context length is 4096 tokens.", "type": "BadRequestError", "code": 400}, F.CONTEXT_OVERFLOW),
    ({"object": "error", "message": "The model `x` does not exist.", "type": "NotFoundError", "code": 404}, F.MODEL_NOT_FOUND),
    ({"detail": "Not authenticated"}, F.AUTH),
    ({"detail": [{"loc": ["body"], "msg": "field required"}]}, F.UNKNOWN),
    ({"message": "Internal failure", "code": 500}, F.SERVER),
    ({"error": "overloaded"}, F.OVERLOADED),
    ({"error": {"message": "upstream timed out", "code": 504}}, F.TIMEOUT),
    ({"errors": [{"message": "rate limit exceeded"}]}, F.RATE_LIMIT),
    ({"success": False, "msg": "token expired", "code": 401}, F.AUTH),
    ({}, F.UNKNOWN),
    ({"status": "ok"}, F.UNKNOWN),
    (None, F.UNKNOWN),
]  # fmt: skip


def kind_of(fault: Fault) -> F:
    return fault.kind or failure(fault.status, fault.text, where="x/y").kind


@pytest.mark.parametrize(("body", "kind"), NO_REPLIES)
@pytest.mark.parametrize("decoder", [OpenAIDecoder, AnthropicDecoder])
def test_a_body_that_is_no_reply(decoder: type, body: object, kind: F):
    with pytest.raises(Fault) as caught:
        list(decoder().feed_whole(json.dumps(body).encode()))
    assert kind_of(caught.value) is kind


@pytest.mark.parametrize(("body", "kind"), NO_REPLIES[:-3])
@pytest.mark.parametrize("decoder", [OpenAIDecoder, AnthropicDecoder])
def test_the_same_as_an_event_of_a_stream(decoder: type, body: object, kind: F):
    with pytest.raises(Fault) as caught:
        list(decoder().feed(SseEvent("", json.dumps(body).encode())))
    assert kind_of(caught.value) is kind


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("network_error", F.TIMEOUT),
        ("abort", F.TIMEOUT),
        ("model_context_window_exceeded", F.CONTEXT_OVERFLOW),
        ("insufficient_system_resource", F.OVERLOADED),
        ("error", F.SERVER),
        ("sensitive", F.REFUSAL),
        ("content_filter", F.REFUSAL),
        ("SAFETY", F.REFUSAL),
        ("PROHIBITED_CONTENT", F.REFUSAL),
        ("guardrail_intervened", F.REFUSAL),
        ("MALFORMED_FUNCTION_CALL", F.UNKNOWN),
    ],
)
def test_an_end_that_is_a_failure(reason: str, kind: F):
    chat = OpenAIDecoder()
    chat.feed(SseEvent("", json.dumps({"choices": [{"delta": {"content": "half"}, "finish_reason": reason}]}).encode()))
    with pytest.raises(Fault, match="finish reason") as caught:
        chat.reply()
    assert kind_of(caught.value) is kind
    assert chat.so_far()[0], "what came is kept"
    claude = AnthropicDecoder()
    list(claude.feed(SseEvent("", json.dumps({"type": "message_delta", "delta": {"stop_reason": reason}}).encode())))
    list(claude.feed(SseEvent("", b'{"type":"message_stop"}')))
    with pytest.raises(Fault) as caught:
        claude.reply()
    assert kind_of(caught.value) is kind


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("stop", StopReason.STOP),
        ("eos", StopReason.STOP),
        ("COMPLETE", StopReason.STOP),
        ("length", StopReason.LENGTH),
        ("max_tokens", StopReason.LENGTH),
        ("model_length", StopReason.LENGTH),
        ("somethingnew", StopReason.STOP),
    ],
)
def test_an_end_that_is_none(reason: str, stop: StopReason):
    chat = OpenAIDecoder()
    chat.feed(SseEvent("", json.dumps({"choices": [{"delta": {"content": "all"}, "finish_reason": reason}]}).encode()))
    assert chat.reply().stop_reason is stop


def test_an_unknown_end_of_nothing_and_a_stream_without_a_reply_are_failures():
    chat = OpenAIDecoder()
    chat.feed(SseEvent("", b'{"choices":[{"delta":{},"finish_reason":"somethingnew"}]}'))
    with pytest.raises(Fault, match="somethingnew"):
        chat.reply()
    silent = OpenAIDecoder()
    silent.feed(SseEvent("", b"[DONE]"))
    with pytest.raises(Fault, match="without a reply"):
        silent.reply()


@pytest.mark.parametrize(
    "event", [b"null", b" null ", b"{}", b'{"choices":[]}', b'{"id":"x","object":"chat.completion.chunk"}']
)
def test_an_event_that_says_nothing_is_passed_over(event: bytes):
    chat = OpenAIDecoder()
    assert chat.feed(SseEvent("", event)) == []
    assert list(AnthropicDecoder().feed(SseEvent("ping", event))) == []
