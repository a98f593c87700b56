"""The llama.cpp provider with a scripted engine; the real one runs in tests/live."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.models.test_constrained import LS, READ
from tests.models.test_gguf import PAIRS, head

from homarus.core.cancel import Cancel
from homarus.core.clock import ManualClock
from homarus.core.errors import ConfigError, ModelFailure
from homarus.core.events import TextDelta
from homarus.core.messages import StopReason, Text, ToolCall, User
from homarus.core.prompt import SystemPrompt
from homarus.models.info import ModelInfo
from homarus.models.provider import ModelRequest, Stop
from homarus.models.providers.llama import LlamaProvider, describe, open_gguf


class Engine:
    """Stands in for the library's server: gives scripted chunks and hears when to stop."""

    def __init__(self, *chunks: object, wait: threading.Event | None = None) -> None:
        self.chunks = chunks
        self.wait = wait
        self.bodies: list[dict[str, object]] = []
        self.stopped = False

    def handle_chat_completions(self, body: bytes, give: Callable[[bytes], bool]) -> None:
        self.bodies.append(json.loads(body))
        for chunk in self.chunks:
            if isinstance(chunk, Exception):
                raise chunk
            if give(json.dumps(chunk).encode()):
                self.stopped = True
                return
            if self.wait is not None:
                self.wait.wait(60)


def words(*texts: str, finish: str = "stop") -> list[object]:
    deltas: list[object] = [{"choices": [{"index": 0, "delta": {"content": text}}]} for text in texts]
    end = {
        "choices": [{"index": 0, "delta": {}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2},
    }
    return [*deltas, end]


def provider(engine: Engine) -> LlamaProvider:
    info = ModelInfo(provider="local", id="tiny", context_window=2048, max_output=512)
    clock = ManualClock(datetime(2026, 11, 15, tzinfo=UTC))
    return LlamaProvider(Path("tiny.gguf"), info, clock=clock, load=lambda *_: engine, threads=1)


def ask(**changes: object) -> ModelRequest:
    return ModelRequest("tiny", SystemPrompt("Be brief."), (User((Text("hi"),)),), **changes)  # type: ignore[arg-type]


async def play(model: LlamaProvider, request: ModelRequest, *, stop: bool = False) -> tuple[str, Stop]:
    """Return what the model said and how it ended; `stop` ends it with its first word."""
    cancel, events = Cancel(), []
    async for event in model.stream(request, cancel=cancel):
        events.append(event)
        if stop:
            cancel.cancel("user")
    assert isinstance(events[-1], Stop)
    return "".join(event.text for event in events if isinstance(event, TextDelta)), events[-1]


async def test_plain_words():
    engine = Engine(*words("Hel", "lo"))
    said, stop = await play(provider(engine), ask())
    assert said == "Hello" == stop.message.text
    assert (stop.message.usage.input, stop.message.usage.output) == (5, 2)
    assert "response_format" not in engine.bodies[0]
    assert engine.bodies[0]["messages"][0] == {"role": "system", "content": "Be brief."}


async def test_a_reply_under_a_schema_streams_as_text():
    engine = Engine(*words('{"rep', 'ly": "Hel', 'lo"}'))
    said, stop = await play(provider(engine), ask(tools=(READ, LS)))
    assert said == "Hello" == stop.message.text
    assert stop.message.stop_reason is StopReason.STOP
    assert "- read(path, limit)" in engine.bodies[0]["messages"][0]["content"]


async def test_a_call_under_a_schema():
    engine = Engine(*words('{"tool": "read", ', '"arguments": {"path": "A"}}'))
    said, stop = await play(provider(engine), ask(tools=(READ, LS), tool_choice="required"))
    assert said == ""
    assert stop.message.parts == (ToolCall("call_1", "read", {"path": "A"}),)
    assert stop.message.stop_reason is StopReason.TOOL_USE
    schema = engine.bodies[0]["response_format"]["json_schema"]["schema"]
    assert len(schema["anyOf"]) == 2


async def test_a_call_that_was_cut_does_not_run():
    engine = Engine(*words('{"tool": "read", "argum', finish="length"))
    _, stop = await play(provider(engine), ask(tools=(READ,)))
    assert stop.error is None
    assert stop.message.calls == ()
    assert stop.message.stop_reason is StopReason.LENGTH


async def test_abort_is_at_once_and_reaches_the_engine():
    gate = threading.Event()
    engine = Engine(*words("one ", "two ", "three "), wait=gate)
    said, stop = await play(provider(engine), ask(), stop=True)
    assert stop.error is not None
    assert stop.error.kind is ModelFailure.ABORTED
    assert said == "one " == stop.message.text
    assert not gate.is_set(), "nobody waited for the engine"
    gate.set()
    async with asyncio.timeout(60):
        while not engine.stopped:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("chunk", "kind"),
    [
        ({"error": {"code": 400, "message": "request (10030 tokens) exceeds the available context size (2048 tokens)"}}, ModelFailure.CONTEXT_OVERFLOW),
        (RuntimeError("out of memory"), ModelFailure.UNKNOWN),
        (ConfigError("no library", cure="install it"), ModelFailure.MODEL_NOT_FOUND),
        ({"choices": [{"index": 0, "delta": {"content": "x"}}]}, ModelFailure.TIMEOUT),
    ],
)  # fmt: skip
async def test_failures(chunk: object, kind: ModelFailure):
    _, stop = await play(provider(Engine(chunk)), ask())
    assert stop.error is not None
    assert stop.error.kind is kind
    assert "local/tiny" in stop.error.message


async def test_a_silent_engine_is_given_up():
    gate = threading.Event()
    _, stop = await play(provider(Engine(*words("x"), wait=gate)), ask(idle_timeout=0.05))
    gate.set()
    assert stop.error is not None
    assert stop.error.kind is ModelFailure.TIMEOUT


def test_the_file_decides_the_window(tmp_path: Path):
    (tmp_path / "tiny.gguf").write_bytes(head(*PAIRS))
    info = describe("tiny", tmp_path)
    assert (info.window, info.name, info.provider) == (8192, "Tiny", "local")
    clock = ManualClock(datetime(2026, 11, 15, tzinfo=UTC))
    assert open_gguf("tiny", tmp_path, clock=clock).path == tmp_path / "tiny.gguf"
    (tmp_path / "bad.gguf").write_bytes(b"no")
    with pytest.raises(ConfigError, match="no GGUF"):
        describe("bad", tmp_path)
