"""A message from a chat goes to its session and its answer comes back to the same chat: once, in order, and to nobody else."""

from __future__ import annotations

from pathlib import Path

from tests.scenarios.chat import CONFIG, Platform, served
from tests.scenarios.home import House, merge
from tests.scenarios.script import Line

from homarus.core.clock import SystemClock


def house(folder: Path, *lines: Line | str, **config: object) -> House:
    found = House(folder, *lines, config=merge(CONFIG, dict(config)))
    found.clock = SystemClock()  # type: ignore[assignment]
    return found


async def test_an_answer_goes_back_to_the_chat_that_asked(tmp_path: Path) -> None:
    home, chat = house(tmp_path, "hello yourself"), Platform()
    async with home.agent() as agent, served(agent, chat):
        await chat.says("hello")
        (shown,) = await chat.sees(1)
    assert (shown.to, shown.text, shown.thread) == ("7", "hello yourself", "")
    assert home.row()["lastChannel"] == "fake"
    assert home.row()["lastTo"] == "7"
