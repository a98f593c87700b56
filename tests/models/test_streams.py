"""Replies as servers really send them: in every odd shape, with every label, and cut anywhere, they mean the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.models.servers import Answer, serving, sliced
from tests.models.test_conformance import collect, provider

from homarus.core.cancel import Cancel
from homarus.core.messages import Text, Thinking, User
from homarus.core.prompt import SystemPrompt
from homarus.models.provider import ModelRequest
from homarus.net.client import HttpClient

VECTORS = json.loads((Path(__file__).parent / "streams.json").read_text())
REQUEST = ModelRequest("m1", SystemPrompt(""), (User((Text("hello"),)),))


def test_there_are_enough():
    assert len(VECTORS) >= 60


@pytest.mark.parametrize("size", [1 << 20, 7], ids=["whole", "sliced"])
@pytest.mark.parametrize("row", VECTORS, ids=lambda row: f"{row['api']}: {row['name']}")
async def test_what_a_reply_means(row: dict[str, Any], size: int):
    answer = Answer(sliced([row["body"].encode()], size), headers={"content-type": row["label"]})
    http = HttpClient()
    async with serving(answer) as server:
        _, stop = await collect(provider(row["api"], server.url, http).stream(REQUEST, cancel=Cancel()))
        await http.aclose()
    message, error = stop.message, stop.error
    assert (error.kind.value if error else None) == row.get("error"), error
    assert message.text == row.get("text", "")
    assert "".join(part.text for part in message.parts if isinstance(part, Thinking)) == row.get("thinking", "")
    assert [[call.name, call.arguments] for call in message.calls] == row.get("calls", [])
    if "stop" in row:
        assert message.stop_reason.value == row["stop"]
    if "usage" in row:
        assert [message.usage.input, message.usage.output] == row["usage"]
