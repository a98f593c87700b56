"""A session that another process holds takes messages all the same: queued there, answered there, or taken over."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.home import House, until
from tests.scenarios.script import Line, tool

from homarus.core.cancel import TAKEN_BACK
from homarus.core.events import MessageEnded, Notice, RunEnded, RunEvent
from homarus.core.messages import Assistant, Inbound, StopReason
from homarus.queue.inbox import Inbox
from homarus.queue.modes import Overrides
from homarus.runtime.client import RunOptions
from homarus.runtime.reply import ReplyFold
from homarus.tools.tool import ToolContext, ToolOutput, said


async def test_an_open_chat_answers_what_another_process_says_to_its_session(tmp_path: Path) -> None:
    house = House(tmp_path, "hello", "the second answer")
    async with house.agent() as chat:
        await chat.ask("are you there?")
        leave = chat.client.attend(chat.session)
        async with house.agent() as other:
            fold, notices = ReplyFold(), []
            async for event in other.run("and for me?"):
                fold.take(event)
                notices += [event.kind for event in [event] if isinstance(event, Notice)]
        leave()
        assert fold.reply().text == "the second answer"
        assert notices == ["queued"]
    assert house.model.prompts == ["are you there?", "and for me?"]
    assert [line["message"]["role"] for line in house.transcript() if line["type"] == "message"] == [
        "user",
        "assistant",
    ] * 2


async def test_a_message_is_taken_over_when_the_other_process_ends(tmp_path: Path) -> None:
    house = House(tmp_path, "hello", "taken over")
    chat = house.agent()
    await chat.ask("are you there?")
    async with house.agent() as other:
        asked = asyncio.ensure_future(other.ask("and for me?"))
        await until(lambda: bool(list((house.state / "homarus/letters").glob("*.json"))))
        await chat.aclose()
        assert (await asked).text == "taken over"
    assert not list((house.state / "homarus/letters").iterdir())
    assert house.model.prompts == ["are you there?", "and for me?"]


def test_a_letter_counts_once(tmp_path: Path) -> None:
    house = House(tmp_path)

    async def leave() -> None:
        async with house.agent() as agent:
            runtime = agent.client.runtime
            await agent.ask("one", options=RunOptions(message_id="m1"))
            inbound = Inbound(id="m1", channel="terminal", text="one", timestamp=1)
            runtime.leave_letter(agent.key, inbound)
            runtime._take_letters(runtime.lane(agent.key), agent.key)
            await runtime.lane(agent.key).idle()

    asyncio.run(leave())
    assert house.model.prompts == ["one"]


async def test_a_letter_that_a_full_queue_refuses_is_kept(tmp_path: Path) -> None:
    house = House(tmp_path, config={"messages": {"queue": {"mode": "followup", "cap": 1, "drop": "new"}}})
    gate = house.model.hold()
    async with house.agent() as agent:
        runtime = agent.client.runtime
        await agent.send("first")
        await house.model.entered.wait()
        for name in ("second", "third"):
            runtime.leave_letter(agent.key, Inbound(id=name, channel="terminal", text=name, timestamp=1))
        runtime._take_letters(runtime.lane(agent.key), agent.key)
        assert len(runtime.letters.waiting()) == 1
        gate.set()
        await runtime.lane(agent.key).idle()
        runtime._take_letters(runtime.lane(agent.key), agent.key)
        await runtime.lane(agent.key).idle()
    assert sorted(house.model.prompts) == ["first", "second", "third"]


def together(folder: Path, count: int, session: str) -> list[subprocess.CompletedProcess[str]]:
    env = {"HOME": str(folder), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    line = [sys.executable, "-m", "homarus", "agent", "--model", "builtin/notebook", "--session"]
    running = [
        subprocess.Popen(
            [*line, session.format(number), "-m", f"Remember that box {number} holds item {number}."],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    return [subprocess.CompletedProcess(each.args, each.wait(), *each.communicate()) for each in running]


@pytest.mark.parametrize("session", ["main", "s{}"])
@pytest.mark.parametrize("count", [6, pytest.param(200, marks=pytest.mark.deep)])
def test_many_one_shots_at_once_are_all_answered(tmp_path: Path, session: str, count: int) -> None:
    done = together(tmp_path, count, session)
    assert [(each.returncode, each.stderr) for each in done if each.returncode] == []
    for number, each in enumerate(done):
        assert f"box {number} holds item {number}" in each.stdout
    notes = "".join(path.read_text() for path in (tmp_path / ".openclaw/workspace/memory").glob("*.md"))
    assert [notes.count(f"box {number} holds item {number}.") for number in range(count)] == [1] * count


@pytest.mark.parametrize("calls", [(), (("work", {}),)], ids=["in an answer", "in a call"])
async def test_a_turn_that_another_process_waits_for_goes_on_there_when_its_program_is_left(
    tmp_path: Path, calls: tuple[tuple[str, dict[str, Any]], ...]
) -> None:
    first = Line("", calls) if calls else Line("half", hang=True)
    house = House(tmp_path, "hello", first, "the whole answer")
    began = asyncio.Event()

    async def work(context: ToolContext, _arguments: dict[str, Any]) -> ToolOutput:
        began.set()
        with context.cancel.interrupting():
            await asyncio.sleep(3600)
        return said("done")

    chat = house.agent()
    chat.client.add_tool(tool("work", work))
    await chat.ask("are you there?")
    chat.client.attend(chat.session)
    async with house.agent() as other, house.agent() as later:
        told: list[RunEvent] = []
        fold = ReplyFold()

        async def ask() -> None:
            async for event in other.run("and for me?"):
                fold.take(event)
                told.append(event)

        asked = asyncio.ensure_future(ask())
        await asyncio.wait_for(began.wait() if calls else house.model.entered.wait(), 60)
        await until(lambda: house.model.prompts[-1:] == ["and for me?"])
        (farewell,) = chat.client.leaving()
        assert "is answered by whoever opens that session next" in farewell
        await chat.aclose()
        await asyncio.wait_for(asked, 60)
        assert (fold.reply().status, fold.reply().text) == ("ok", "the whole answer")
        assert any(isinstance(event, MessageEnded) for event in told)  # which is what a terminal shows
        assert await later.client.history(later.key, 9)
    said_there = [line["message"] for line in house.transcript() if line["type"] == "message"]
    assert [each["role"] for each in said_there if each["role"] != "toolResult"] == [
        *("user", "assistant", "user"),
        *(("assistant", "assistant") if calls else ("assistant",)),
    ]
    assert house.model.prompts == ["are you there?", "and for me?", "and for me?"]
    assert not [item for path in (house.state / "homarus/inbox").glob("*.jsonl") for item in Inbox(path).pending]


async def test_a_turn_that_heard_another_process_goes_on_too_and_one_that_nobody_else_asked_for_ends(
    tmp_path: Path,
) -> None:
    house = House(tmp_path, Line("", (("work", {}),)), Line("half", hang=True), "for both", Line("half", hang=True))
    began, gate = asyncio.Event(), asyncio.Event()

    async def work(_context: ToolContext, _arguments: dict[str, Any]) -> ToolOutput:
        began.set()
        await gate.wait()
        return said("done")

    chat = house.agent()
    chat.client.add_tool(tool("work", work))
    chat.client.attend(chat.session)
    await chat.send("mine")
    await asyncio.wait_for(began.wait(), 60)
    other = house.agent()
    await other.send("theirs", options=RunOptions(queue=Overrides()))  # as a chat that follows
    await until(lambda: not list((house.state / "homarus/letters").glob("*.json")))
    gate.set()
    await until(lambda: house.model.prompts[-1:] == ["theirs"])
    await chat.aclose()
    await asyncio.wait_for(other.client.follow(other.key), 60)
    await other.client.runtime.lane(other.key).idle()
    assert (await other.client.history(other.key, 1))[0].text == "for both"
    await other.send("and mine")
    await until(lambda: house.model.active == 1)
    assert other.client.leaving() == ["what ran in agent:main:main is stopped"]
    await other.aclose()
    async with house.agent() as last:
        last.client.runtime.lane(last.key)
        assert not last.client.runtime.lane(last.key).busy
        newest = (await last.client.history(last.key, 1))[0]
        assert isinstance(newest, Assistant)
        assert newest.stop_reason is StopReason.ABORTED
    assert house.model.prompts == ["mine", "theirs", "theirs", "and mine"]


@pytest.mark.parametrize("taken", [False, True], ids=["that nobody took", "that waits"])
async def test_a_message_whose_asker_goes_away_is_taken_back(tmp_path: Path, taken: bool) -> None:
    house = House(tmp_path, Line("half", hang=True))
    letters = house.state / "homarus/letters"
    async with house.agent() as chat, house.agent() as other:
        if taken:
            chat.client.attend(chat.session)
        await chat.send("mine")
        await until(lambda: house.model.active == 1)
        asked = asyncio.ensure_future(other.ask("never mind"))
        await until(lambda: bool(list(letters.glob("*.json"))))
        if taken:
            await until(lambda: not list(letters.glob("*.json")))
        asked.cancel()
        await asyncio.wait([asked])
        await until(lambda: not list(letters.glob("*.json")))
        lane = chat.client.runtime.lane(chat.key)
        await until(lambda: not lane.waiting)
        assert lane.busy  # what runs there is somebody else's
        assert chat.stop()
        await lane.idle()
    assert house.model.prompts == ["mine"]


async def test_whoever_stops_what_they_asked_for_is_told_and_only_their_own_turn_ends(tmp_path: Path) -> None:
    house = House(tmp_path, "mine is answered", Line("half", hang=True), "and theirs")
    gate = house.model.hold()
    async with house.agent() as chat, house.agent() as other, house.agent() as third:
        chat.client.attend(chat.session)
        lane = chat.client.runtime.lane(chat.key)
        mine = asyncio.ensure_future(chat.ask("mine"))
        await until(lambda: house.model.active == 1)
        asked = asyncio.ensure_future(other.ask("never mind"))
        await until(lambda: bool(lane.waiting))
        assert other.stop("interrupted")
        reply = await asyncio.wait_for(asked, 60)
        assert (reply.status, reply.error) == ("aborted", TAKEN_BACK)
        asked = asyncio.ensure_future(other.ask("this one begins"))
        await until(lambda: len(lane.waiting) == 1)
        theirs = asyncio.ensure_future(third.ask("and from a third"))
        await until(lambda: len(lane.waiting) == 2)
        gate.set()
        assert (await mine).text == "mine is answered"
        await until(lambda: house.model.prompts[-1:] == ["this one begins"])
        assert other.stop("interrupted")
        assert (await asyncio.wait_for(asked, 60)).status == "aborted"
        assert (await asyncio.wait_for(theirs, 60)).text == "and theirs"
    assert house.model.prompts == ["mine", "this one begins", "and from a third"]


async def test_what_cannot_be_taken_back_is_said_to_stay(tmp_path: Path) -> None:
    house = House(tmp_path, Line("", (("work", {}),)), Line("half", hang=True))
    began, gate = asyncio.Event(), asyncio.Event()

    async def work(_context: ToolContext, _arguments: dict[str, Any]) -> ToolOutput:
        began.set()
        await gate.wait()
        return said("done")

    async with house.agent() as chat, house.agent() as other:
        chat.client.add_tool(tool("work", work))
        chat.client.attend(chat.session)
        await chat.send("mine")
        await asyncio.wait_for(began.wait(), 60)
        told: list[RunEvent] = []

        async def ask() -> None:
            async for event in other.run("joins it", options=RunOptions(queue=Overrides())):
                told.append(event)

        asked = asyncio.ensure_future(ask())
        letters = house.state / "homarus/letters"
        await until(lambda: bool(told) and not list(letters.glob("*.json")))
        gate.set()
        await until(lambda: house.model.prompts[-1:] == ["joins it"])
        assert other.stop("interrupted")
        await asyncio.wait_for(asked, 60)
        warning, ended = told[-2:]
        assert isinstance(warning, Notice)
        assert f"stays queued in process {os.getpid()}" in warning.text
        assert isinstance(ended, RunEnded)
        assert ended.status == "aborted"
        assert chat.client.runtime.lane(chat.key).busy
        assert chat.stop()
