"""A session that another process holds takes messages all the same: queued there, answered there, or taken over."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.scenarios.home import House, until

from homarus.core.events import Notice
from homarus.core.messages import Inbound
from homarus.runtime.client import RunOptions
from homarus.runtime.reply import ReplyFold


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
