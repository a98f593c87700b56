"""Every rule of the classification with messages that real providers sent."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from homarus.core.errors import ModelFailure as F
from homarus.models.errors import body_text, classify, failure, retry_after

TABLE = [
    # A request that no waiting can make fit is terminal; one that merely came too soon is a rate limit.
    (F.REQUEST_TOO_LARGE, 429, "request too large for this model: limit 30000, requested 45000 tokens per min"),
    (F.REQUEST_TOO_LARGE, 413, "Request too large for model `llama-3.3-70b` on tokens per minute (TPM): Limit 6000, Requested 9000, please reduce your message size"),
    (F.RATE_LIMIT, 429, "Rate limit reached for gpt-5 on tokens per min (TPM): Limit 30000, Used 25000, Requested 8000. Please try again in 6s."),
    (F.RATE_LIMIT, 429, "tokens per minute"),
    (F.RATE_LIMIT, 413, "tokens per minute quota"),
    # Reasoning settings that a model does not know.
    (F.THINKING_LEVEL, 400, "Unsupported value: 'reasoning_effort' does not support 'xhigh' with this model."),
    (F.THINKING_LEVEL, 400, '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort"'),
    (F.THINKING_LEVEL, 400, "Reasoning is mandatory for this endpoint and cannot be disabled."),
    (F.THINKING_LEVEL, 400, "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`"),
    (F.THINKING_LEVEL, 400, "messages.5.content.0: Invalid `signature` in `thinking` block"),
    (F.THINKING_LEVEL, 422, "output_config.effort: Extra inputs are not permitted"),
    # Money.
    (F.BILLING, 402, "Insufficient credits. Add more using https://example.invalid/credits"),
    (F.BILLING, 402, "This request requires more credits, or fewer max_tokens. You requested up to 64000 tokens, but can only afford 1200"),
    (F.BILLING, 429, "You exceeded your current quota, please check your plan and billing details. · insufficient_quota"),
    (F.BILLING, 400, "Your credit balance is too low to access the API. Please go to Plans & Billing to upgrade"),
    (F.BILLING, 402, "Insufficient Balance"),
    (F.BILLING, 400, "账户余额不足"),
    # A used-up window of time is a rate limit even when it comes with a payment status.
    (F.RATE_LIMIT, 402, "You have reached your weekly usage limit"),
    (F.RATE_LIMIT, 429, "Daily limit exceeded: 50 requests per day"),
    (F.RATE_LIMIT, 403, "monthly quota reached"),
    (F.RATE_LIMIT, 429, "You exceeded your current quota, please check your plan and billing details. * Quota exceeded for metric: generate_content_free_tier_requests, limit: 5 Please retry in 8.9s."),
    # Rate limits.
    (F.RATE_LIMIT, 429, ""),
    (F.RATE_LIMIT, 400, "ThrottlingException: Too many tokens, please wait before trying again."),
    (F.RATE_LIMIT, None, "Too many tokens, please wait"),
    (F.RATE_LIMIT, 200, "rate_limit_error: Number of request tokens has exceeded your rate limit"),
    (F.RATE_LIMIT, 503, "Resource_exhausted: try later"),
    # The conversation does not fit.
    (F.CONTEXT_OVERFLOW, 400, "prompt is too long: 210000 tokens > 200000 maximum"),
    (F.CONTEXT_OVERFLOW, 400, "This model's maximum context length is 128000 tokens. However, your messages resulted in 130001 tokens. · context_length_exceeded"),
    (F.CONTEXT_OVERFLOW, 400, "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."),
    (F.CONTEXT_OVERFLOW, 400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    (F.CONTEXT_OVERFLOW, 400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
    (F.CONTEXT_OVERFLOW, 400, "the request exceeds the available context size. try increasing the context size or enable context shift"),
    (F.CONTEXT_OVERFLOW, 400, "Invalid request: Your request exceeded model token limit: 65536 (requested: 70001)"),
    (F.CONTEXT_OVERFLOW, 413, ""),
    (F.CONTEXT_OVERFLOW, 413, "request_too_large: Request exceeds the maximum size"),
    (F.CONTEXT_OVERFLOW, 400, "Too many tokens in the prompt"),
    (F.CONTEXT_OVERFLOW, 400, "Please reduce the length of the messages or completion."),
    (F.CONTEXT_OVERFLOW, 500, "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with 4096"),
    (F.CONTEXT_OVERFLOW, 400, "输入内容过长"),
    (F.UNKNOWN, 400, "context window too small"),
    (F.UNKNOWN, None, "The context window of 4096 is below the minimum of 16000"),
    # Keys and accounts.
    (F.AUTH_PERMANENT, 401, "This API key has been revoked"),
    (F.AUTH_PERMANENT, 403, "This organization has been disabled."),
    (F.AUTH_PERMANENT, 401, "account_deactivated"),
    (F.AUTH, 401, "Incorrect API key provided: sk-12***. · invalid_api_key"),
    (F.AUTH, 403, "Forbidden"),
    (F.AUTH, 400, "API key not valid. Please pass a valid API key. · INVALID_ARGUMENT"),
    (F.AUTH, 401, "invalid x-api-key · authentication_error"),
    (F.REFUSAL, 403, "Your chosen model requires moderation and your input was flagged for violence"),
    (F.REFUSAL, 400, "The response was filtered due to the prompt triggering the content_filter policy"),
    # Servers in trouble.
    (F.OVERLOADED, 529, "Overloaded · overloaded_error"),
    (F.OVERLOADED, 200, "Overloaded · overloaded_error"),
    (F.OVERLOADED, 503, "The model is overloaded. Please try again later."),
    (F.OVERLOADED, 503, "Loading model · unavailable_error"),
    (F.SERVER, 500, "Internal server error"),
    (F.SERVER, 502, "<html>Bad gateway</html>"),
    (F.TIMEOUT, 504, "Gateway timeout"),
    (F.TIMEOUT, 524, ""),
    (F.TIMEOUT, 408, "Request timeout"),
    (F.TIMEOUT, None, "Connection reset by peer"),
    (F.TIMEOUT, None, "read timed out"),
    # Models that are not there, and requests that were wrong.
    (F.MODEL_NOT_FOUND, 404, "model: claude-nope · not_found_error"),
    (F.MODEL_NOT_FOUND, 400, "openai/gpt-99 is not a valid model ID"),
    (F.MODEL_NOT_FOUND, 404, "No endpoints found that support tool use"),
    (F.MODEL_NOT_FOUND, 400, "The model `x` has been decommissioned and is no longer supported."),
    (F.MODEL_NOT_FOUND, 404, "model 'qwen9' not found, try pulling it first"),
    (F.FORMAT, 400, "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after"),
    (F.FORMAT, 400, "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'"),
    (F.FORMAT, 400, "This model does not support assistant message prefill. The conversation must end with a user message."),
    (F.FORMAT, 422, "unexpected field"),
    (F.UNKNOWN, 418, "teapot"),
    (F.UNKNOWN, None, "something odd"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "status", "text"), TABLE)
def test_classification(kind: F, status: int | None, text: str):
    assert classify(status, text) is kind


@pytest.mark.parametrize(
    ("headers", "text", "seconds"),
    [
        ({"retry-after": "12"}, "", 12.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, "", 1.5),
        ({"retry-after": "Sun, 15 Nov 2026 08:00:30 GMT"}, "", 30.0),
        ({"retry-after": "Sun, 15 Nov 2026 07:00:00 GMT"}, "", 0.0),
        ({"retry-after": "soon"}, "try again in 2m5s", 125.0),
        ({}, "Please try again in 20ms.", 0.02),
        ({}, "Please retry in 8.9s.", 8.9),
        ({}, "Rate limit reached. Try again in 1h2m3s", 3723.0),
        ({}, "please try again later", None),
        ({}, "", None),
    ],
)
def test_retry_after(headers: dict[str, str], text: str, seconds: float | None):
    now = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)
    assert retry_after(headers, text, now) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"error":{"message":"Bad key","type":"invalid_request_error","code":"invalid_api_key"}}', "Bad key · invalid_request_error · invalid_api_key"),
        (b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', "Overloaded · overloaded_error"),
        (b'[{"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT"}}]', "API key not valid · 400 · INVALID_ARGUMENT"),
        (b'{"error":"model \'x\' not found"}', "model 'x' not found"),
        (b'{"detail":"Not authenticated"}', "Not authenticated"),
        (b'{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"upstream is rate-limited"}}}', "Provider returned error · 429 · upstream is rate-limited"),
        (b"<html><h1>502</h1></html>", "502"),
        (b"", ""),
        (b"[]", "{}"),
    ],
)  # fmt: skip
def test_body_text(body: bytes, text: str):
    assert body_text(body).strip() == text


def test_a_failure_names_place_status_and_cure():
    error = failure(401, "bad\nkey", where="openai/gpt-5", headers={"retry-after": "3"})
    assert error.kind is F.AUTH
    assert error.status == 401
    assert error.retry_after == 3.0
    assert str(error).startswith("openai/gpt-5: bad key (HTTP 401)")
    assert "homarus models status" in error.cure
