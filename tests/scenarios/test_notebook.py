"""A whole home with the built-in model: no key, no network, real files."""

import os
from pathlib import Path

import pytest

import homarus
from homarus import Agent, RunOptions
from homarus.core.errors import HomarusError
from homarus.core.events import RunEnded, RunStarted, ToolEnded, UserAccepted


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TZ": "UTC"}


async def test_what_it_is_told_it_finds_again_with_a_citation(env: dict[str, str]) -> None:
    async with Agent.open(env=env) as agent:
        kept = await agent.ask("Remember that my sister Ann lives in Lisbon.")
        assert kept.ok
        assert "memory/" in kept.text
        found = await agent.ask("Where does Ann live?")
        assert "Lisbon" in found.text
        assert "#L" in found.text
    notes = list((Path(env["HOME"]) / ".openclaw" / "workspace" / "memory").glob("*.md"))
    assert "Ann lives in Lisbon" in notes[0].read_text()


async def test_a_run_starts_once_ends_once_and_every_call_has_a_result(env: dict[str, str]) -> None:
    async with Agent.open(env=env) as agent:
        events = [event async for event in agent.run("list files")]
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunEnded)
    assert sum(isinstance(event, RunStarted | RunEnded) for event in events) == 2
    assert [event.result.tool_name for event in events if isinstance(event, ToolEnded)] == ["ls"]


async def test_a_conversation_goes_on_after_a_restart(env: dict[str, str]) -> None:
    for number in range(3):
        async with Agent.open(env=env) as agent:
            assert (await agent.ask(f"Note that item {number} is ready.")).ok
    async with Agent.open(env=env) as agent:
        assert (await agent.ask("what time is it?")).ok
    (transcript,) = (Path(env["HOME"]) / ".openclaw" / "agents" / "main" / "sessions").glob("*.jsonl")
    assert transcript.read_text().count('"role":"user"') == 4


async def test_a_second_process_is_answered_by_the_one_that_has_the_session(env: dict[str, str]) -> None:
    async with Agent.open(env=env) as first:
        await first.ask("Remember that the gate code is 4711.")
        first.client.attend(first.key)
        async with Agent.open(env=env) as second:
            assert "4711" in (await second.ask("What is the gate code?")).text


async def test_the_same_message_twice_is_answered_once(env: dict[str, str]) -> None:
    async with Agent.open(env=env) as agent:
        events = [event async for event in agent.run("hello", options=RunOptions(message_id="m1"))]
        assert any(isinstance(event, UserAccepted) for event in events)
        with pytest.raises(HomarusError, match="refused"):
            await agent.ask("hello", options=RunOptions(message_id="m1"))


def test_a_program_without_an_event_loop_can_ask(env: dict[str, str]) -> None:
    assert homarus.ask("what time is it?", env=env).ok


async def test_what_was_told_today_is_listed_and_work_for_a_model_is_declined(env: dict[str, str]) -> None:
    async with Agent.open(env=env) as agent:
        assert "language model" in (await agent.ask("write me a poem about the sea")).text
        assert "no note of today" in (await agent.ask("what did I tell you today?")).text
        await agent.ask("My name is Anna.")
        assert "cannot remind you" in (await agent.ask("remind me on Friday to water the plants")).text
        listed = (await agent.ask("what did I tell you today?")).text
    assert listed.splitlines() == ["Today's note:", "- My name is Anna.", "- Todo: on Friday: water the plants"]
