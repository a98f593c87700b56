"""Every rule of the classification with messages that real providers sent."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pytest

from homarus.core.errors import ModelFailure as F
from homarus.models.errors import body_text, classify, failure, hidden, retry_after

VECTORS = json.loads((Path(__file__).parent / "failures.json").read_text())


@pytest.mark.parametrize("kind", list(VECTORS))
def test_what_providers_say(kind: str):
    """Messages out of providers' documentation and public bug reports, with the status they came with, if any."""
    wrong = [(*row, found) for row in VECTORS[kind] if (found := classify(*row).value) != kind]
    assert wrong == []


def test_every_kind_that_a_server_can_cause_has_messages():
    assert set(VECTORS) == {kind.value for kind in F} - {F.ABORTED.value}
    assert sum(map(len, VECTORS.values())) >= 400


def test_a_web_page_is_judged_by_its_status_alone():
    page = "<!doctype html><html><head><title>Busy</title></head><body>Rate limit exceeded. Forbidden.</body></html>"
    assert failure(503, page, where="x/y").kind is F.SERVER
    assert failure(403, page, where="x/y").kind is F.AUTH
    assert failure(429, page, where="x/y").kind is F.RATE_LIMIT
    assert failure(503, page, where="x/y").message == "x/y: Busy (HTTP 503)"


def test_a_400_without_a_word_is_an_overflow_only_where_that_is_how_it_is_said():
    assert failure(400, "", where="cerebras/zai-glm").kind is F.CONTEXT_OVERFLOW
    assert failure(400, "", where="openai/gpt-5").kind is F.UNKNOWN


@pytest.mark.parametrize("said", ["{}", "key '{}' is wrong", "Bearer {}", "x-api-key: {},", '{{"k":"{}"}}'])
@pytest.mark.parametrize("form", ["as it is", "quoted", "base64"])
def test_a_key_that_a_server_repeats_is_hidden(said: str, form: str):
    key = "s3cret/key with+odd"
    sent = {"as it is": key, "quoted": quote(key, safe=""), "base64": base64.b64encode(key.encode()).decode()}[form]
    assert sent not in hidden(said.format(sent), ["", "ab", key])
    assert "plain words" in hidden(f"plain words {sent}", [key])


def test_what_looks_like_a_key_is_hidden_too():
    for said in ('"sk-proj-1234567890abcdef".', "sk-proj-1234567890abcdef,", "https://x.example/?key=1234567890abcdef"):
        assert "1234567890abcdef" not in hidden(f"Incorrect API key provided: {said}", [])


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
        (b"<html><h1>502</h1></html>", "<html><h1>502</h1></html>"),
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
