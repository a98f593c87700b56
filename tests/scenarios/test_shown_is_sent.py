"""What `homarus prompt` prints is what a model gets, byte for byte."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from homarus.cli.app import App
from homarus.cli.main import run
from homarus.cli.prompt import prompt_of
from homarus.core.cancel import Cancel
from homarus.core.messages import Assistant, Text
from homarus.gateway.library import Agent
from homarus.models.provider import ModelRequest, Stop, StreamEvent


class Recorder:
    """A provider that keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest, *, cancel: Cancel) -> AsyncIterator[StreamEvent]:
        del cancel
        self.requests.append(request)
        yield Stop(Assistant((Text("ok"),)))


async def test_the_shown_prompt_is_the_sent_prompt(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TZ": "UTC"}
    recorder = Recorder()
    async with Agent.open(env=env) as agent:
        agent.runtime.models.registry.register("test", lambda _ref, _credential: recorder)
        for text in ("one", "two"):
            assert (await agent.ask(text, model="test/model")).ok
    first, second = recorder.requests
    assert first.system == second.system
    assert first.tools == second.tools
    assert "memory_recall" in second.system.text
    shown = prompt_of(App(env=env), mode=None, session_key=None, agent_id=None)
    assert shown.composed.prompt.system == second.system
    assert shown.composed.request.tools == second.tools


def test_the_command_prints_the_tools_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(["setup"]) == 0
    capsys.readouterr()
    assert run(["context", "list"]) == 0
    assert "Tool schemas" in capsys.readouterr().out
