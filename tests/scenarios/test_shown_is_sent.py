"""What `homarus prompt` prints is what a model gets, byte for byte."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.scenarios.family import Family, Scene, spawn
from tests.scenarios.home import House
from tests.scenarios.script import Line

from homarus.cli.app import App
from homarus.cli.main import run
from homarus.cli.prompt import prompt_of
from homarus.core.cancel import Cancel
from homarus.core.messages import Assistant, Text
from homarus.models.provider import ModelRequest, Stop, StreamEvent
from homarus.runtime.library import Agent


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
        agent.client.runtime.home.models.registry.register("test", lambda _ref, _credential: recorder)
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


async def test_a_run_leaves_its_figures_with_the_session(tmp_path: Path) -> None:
    house = House(tmp_path)
    async with house.agent() as agent:
        assert "System prompt (estimate):" in (await agent.ask("/context list")).text
        await agent.ask("hello")
        agent.client.runtime.index_flusher.close()  # else it is written a moment later
        kept = house.row()["systemPromptReport"]
        assert kept["source"] == "run"
        assert (kept["provider"], kept["model"]) == ("script", "model")
        assert kept["sessionId"] == house.row()["sessionId"]
        assert kept["systemPrompt"]["chars"] == len(house.model.requests[0].system.text)
        assert [row["name"] for row in kept["tools"]["entries"]] == [
            tool.name for tool in house.model.requests[0].tools
        ]
        house.clock.advance(3600)
        await agent.ask("again")
        agent.client.runtime.index_flusher.close()
        assert house.row()["systemPromptReport"] == kept
        shown = (await agent.ask("/context detail")).text
        assert f"System prompt (run): {kept['systemPrompt']['chars']:,} chars" in shown
        assert "Sections:" in shown
        (house.workspace / "SOUL.md").write_text("Somebody else.")
        shown = (await agent.ask("/context list")).text
        assert f"System prompt (run): {kept['systemPrompt']['chars']:,} chars" in shown
        assert "changed since: the next turn's would be" in shown
        await agent.ask("who are you?")
    after = house.row()["systemPromptReport"]
    assert after["generatedAt"] > kept["generatedAt"]
    assert after["systemPrompt"]["stableSha256"] != kept["systemPrompt"]["stableSha256"]
    async with house.agent() as agent:
        await agent.ask("and after a restart?")
    assert house.row()["systemPromptReport"] == after


async def test_the_command_line_shows_the_last_run_or_an_estimate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    house = House(tmp_path)
    async with house.agent() as agent:
        await agent.ask("hello")
    (house.workspace / "SOUL.md").write_text("Somebody else.")
    for name, value in house.env.items():
        monkeypatch.setenv(name, value)

    async def chars(*options: str) -> tuple[str, int]:
        assert await asyncio.to_thread(run, ["context", "list", "--json", *options]) == 0
        document = json.loads(capsys.readouterr().out)
        return document["source"], document["systemPrompt"]["chars"]

    sent = len(house.model.requests[0].system.text)
    assert await chars() == ("run", sent)
    assert (await chars("--estimate"))[0] == (await chars("--mode", "minimal"))[0] == "estimate"
    assert (await chars("--estimate"))[1] < sent
    assert (await chars("--session", "agent:main:telegram:group:1"))[0] == "estimate"


async def test_a_row_says_how_full_the_window_was(tmp_path: Path) -> None:
    house = House(tmp_path)
    async with house.agent() as agent:
        await agent.ask("hello")
    row = house.row()
    assert row["totalTokens"] == row["inputTokens"] + row["cacheRead"] + row["cacheWrite"] > 0
    assert row["totalTokensFresh"] is True


async def test_the_shown_prompt_of_a_child_is_the_one_it_was_sent(tmp_path: Path) -> None:
    def rule(scene: Scene) -> Line | str:
        if scene.task:
            return "done"
        return "started" if scene.results else Line("", (spawn("count the boats"),))

    family = Family(tmp_path, rule)
    async with family.open() as agent:
        await agent.ask("go")
        await agent.client.runtime.children.gone(20)
    (sent,) = family.cast.asked("count the boats")
    (key,) = [key for key in family.rows() if ":subagent:" in key]
    shown = prompt_of(App(env=family.env), mode=None, session_key=key, agent_id=None)
    assert "## Subagent Context" in sent.request.system.text
    assert shown.composed.request.tools == sent.request.tools
    assert shown.composed.prompt.system == sent.request.system


async def test_a_standing_instruction_is_shown_with_the_next_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    house = House(tmp_path)
    for name, value in house.env.items():
        monkeypatch.setenv(name, value)
    async with house.agent() as agent:
        await agent.ask("hello")
        await agent.ask("/pin Never sail at night.")
    assert await asyncio.to_thread(run, ["prompt", "--turn"]) == 0
    shown = capsys.readouterr().out
    async with house.agent() as agent:
        await agent.ask("again")
    context = house.model.requests[-1].messages[-1].context
    assert "- Never sail at night." in context
    assert "- Never sail at night." in shown


def test_what_rides_on_the_next_turn_is_shown_byte_for_byte(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}

    def said(*words: str) -> str:
        line = [sys.executable, "-m", "homarus", *words]
        return subprocess.run(
            line, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
        ).stdout

    for message in ("hello", "/pin Never sail at night."):
        said("agent", message)
    shown = said("prompt", "--turn")
    said("agent", "hello again")
    entries = json.loads(said("sessions", "show", "main", "--json"))["entries"]
    assert shown == [each["content"] for each in entries if each["type"] == "custom_message"][-1]
    assert said("prompt", "--turn") == ""  # what was said is not said again
