"""The pydantic-ai adapter, with the library's own function model in place of a vendor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the 'providers' extra is not installed")

from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelRequest as Asked
from pydantic_ai.messages import ModelResponse, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from tests.models.test_constrained import READ

from homarus.core.cancel import Cancel
from homarus.core.clock import ManualClock
from homarus.core.errors import ConfigError, ModelFailure
from homarus.core.events import TextDelta, ThinkingDelta
from homarus.core.messages import Assistant, Image, StopReason, Text, Thinking, ToolCall, ToolResult, User
from homarus.core.prompt import SystemPrompt
from homarus.models.info import Endpoint, ModelInfo
from homarus.models.provider import ModelRequest, Stop
from homarus.models.providers.pydantic_ai import LibraryProvider, infer, messages, settings

ENDPOINT = Endpoint(provider="vertex", api="google-vertex", base_url="", key="k")
INFO = ModelInfo(provider="vertex", id="gemini", levels=("off", "high"))


def request(**changes: object) -> ModelRequest:
    return ModelRequest("gemini", SystemPrompt("sys"), (User((Text("hi"),), context="ctx"),), (READ,), **changes)  # type: ignore[arg-type]


def provider(stream: Any) -> LibraryProvider:
    clock = ManualClock(datetime(2026, 11, 15, tzinfo=UTC))
    return LibraryProvider(ENDPOINT, INFO, clock=clock, open_model=lambda *_: FunctionModel(stream_function=stream))


async def play(stream: Any, cancel: Cancel | None = None, **changes: object) -> tuple[list[Any], Stop]:
    events = [event async for event in provider(stream).stream(request(**changes), cancel=cancel or Cancel())]
    assert isinstance(events[-1], Stop)
    assert sum(isinstance(event, Stop) for event in events) == 1
    return events[:-1], events[-1]


async def test_text_and_thinking():
    async def stream(asked: list[Any], info: AgentInfo) -> AsyncIterator[Any]:
        assert [tool.name for tool in info.function_tools] == ["read"]
        yield {0: DeltaThinkingPart(content="hmm")}
        yield "Hel"
        yield "lo"

    events, stop = await play(stream)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Hello"
    assert "".join(event.text for event in events if isinstance(event, ThinkingDelta)) == "hmm"
    assert stop.error is None
    assert stop.message.text == "Hello"
    assert any(isinstance(part, Thinking) for part in stop.message.parts)
    assert (stop.message.provider, stop.message.model) == ("vertex", "gemini")


async def test_tool_calls():
    async def stream(asked: list[Any], info: AgentInfo) -> AsyncIterator[Any]:
        yield {0: DeltaToolCall(name="read", json_args='{"path"', tool_call_id="c1")}
        yield {0: DeltaToolCall(json_args=': "A"}')}

    _, stop = await play(stream)
    assert stop.message.calls == (ToolCall("c1", "read", {"path": "A"}),)
    assert stop.message.stop_reason is StopReason.TOOL_USE


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        (ModelHTTPError(429, "gemini", {"error": {"message": "slow"}}, retry_after=9.0), ModelFailure.RATE_LIMIT),
        (ModelHTTPError(503, "gemini", {"error": {"message": "The model is overloaded"}}), ModelFailure.OVERLOADED),
        (RuntimeError("connection reset"), ModelFailure.TIMEOUT),
        (ImportError("no module named boto3"), ModelFailure.MODEL_NOT_FOUND),
    ],
)
async def test_failures_are_typed(problem: Exception, kind: ModelFailure):
    async def stream(asked: list[Any], info: AgentInfo) -> AsyncIterator[Any]:
        raise problem
        yield ""

    _, stop = await play(stream)
    assert stop.error is not None
    assert stop.error.kind is kind
    if kind is ModelFailure.RATE_LIMIT:
        assert stop.error.retry_after == 9.0


async def test_broken_arguments_and_cut_streams_make_no_call():
    async def broken(asked: list[Any], info: AgentInfo) -> AsyncIterator[Any]:
        yield {0: DeltaToolCall(name="read", json_args='{"path"', tool_call_id="c1")}

    _, stop = await play(broken)
    assert stop.error is not None
    assert stop.error.kind is ModelFailure.UNKNOWN
    assert stop.message.calls == ()

    async def cut(asked: list[Any], info: AgentInfo) -> AsyncIterator[Any]:
        yield "half"
        raise ConnectionResetError("connection reset by peer")

    _, stop = await play(cut)
    assert stop.message.text == "half"
    assert stop.message.stop_reason is StopReason.ERROR


async def test_abort():
    async def stream(asked: list[Any], info: AgentInfo) -> AsyncIterator[Any]:
        yield "one"
        await asyncio.sleep(30)
        yield "two"

    cancel = Cancel()
    asyncio.get_running_loop().call_later(0.05, cancel.cancel, "user")
    _, stop = await play(stream, cancel)
    assert stop.error is not None
    assert stop.error.kind is ModelFailure.ABORTED
    assert stop.message.text == "one"


def test_conversation_in_the_librarys_types():
    own = {"api": "bedrock-converse-stream", "provider": INFO.provider, "model": INFO.id}
    history = (
        User((Text("look"), Image("aGk=", "image/png"))),
        Assistant((Thinking("t", "sig"), Text("ok"), ToolCall("c", "read", {"path": "A"})), **own),
        ToolResult("c", "read", (Text("body"), Image("aGk=", "image/png"))),
        User((Text("steer"),)),
        Assistant(()),
    )
    asked = ModelRequest("m", SystemPrompt("sys"), history)
    found = messages(asked, own["api"], INFO)
    assert [type(message) for message in found] == [Asked, ModelResponse, Asked]
    assert [type(part).__name__ for part in found[0].parts] == ["SystemPromptPart", "UserPromptPart"]
    assert [type(part).__name__ for part in found[1].parts] == ["ThinkingPart", "TextPart", "ToolCallPart"]
    result, image, steer = found[2].parts
    assert isinstance(result, ToolReturnPart)
    assert result.tool_call_id == "c"
    assert isinstance(image, UserPromptPart)
    assert isinstance(steer, UserPromptPart)
    assert steer.content == "steer"
    foreign = messages(asked, "google-vertex", INFO)
    assert [type(part).__name__ for part in foreign[1].parts] == ["TextPart", "ToolCallPart"]


def test_settings():
    assert settings(request(thinking="max", tool_choice="read", max_tokens=9), INFO) == {
        "max_tokens": 9,
        "thinking": "high",
        "tool_choice": ["read"],
    }
    assert settings(request(thinking="off"), INFO)["thinking"] is False


def test_a_protocol_that_nobody_knows_is_named():
    with pytest.raises(ConfigError, match="'openai-completion' is no protocol that is known here") as caught:
        infer(Endpoint(provider="mine", api="openai-completion", base_url="http://127.0.0.1:1/v1"), INFO)
    assert "models.providers.mine.api" in caught.value.cure


def test_a_vendor_that_is_not_installed_says_so():
    with pytest.raises((ConfigError, ImportError)):
        infer(Endpoint(provider="bedrock", api="bedrock-converse-stream", base_url=""), INFO)
