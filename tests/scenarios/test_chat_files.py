"""Files in a chat: what people send reaches the model, and what the agent sends is what lies in its folders."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from tests.scenarios.chat import CONFIG, Platform, served
from tests.scenarios.home import House, merge, until

from homarus.core.clock import SystemClock
from homarus.core.messages import Image, Media

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def house(folder: Path, *lines: str, **config: Any) -> House:
    found = House(folder, *lines, config=merge(CONFIG, config))
    found.clock = SystemClock()  # type: ignore[assignment]
    return found


async def test_files_come_with_their_message(tmp_path: Path) -> None:
    home, chat = house(tmp_path, "got it"), Platform()
    files = (Media("file", "text/html", "notes.md", 0, "# what I know"), Media("file", "", "b", 0, "gone"))
    async with home.agent() as agent, served(agent, chat):
        await chat.says("read this", media=files)
        await chat.sees(1)
    (kept,) = (home.state / "media" / "inbound").iterdir()
    assert kept.read_text() == "# what I know"
    assert kept.name.startswith("notes---")
    (prompt,) = home.model.prompts
    assert prompt.startswith("read this")
    assert str(kept) in prompt
    assert "the file is gone" in prompt


async def test_a_picture_is_seen(tmp_path: Path) -> None:
    home, chat = house(tmp_path, "a dot"), Platform()
    chat.files = {"dot": base64.b64decode(PNG)}
    async with home.agent() as agent, served(agent, chat):
        await chat.says("what is this?", media=(Media("file", "", "dot", 0, "dot"),))
        await chat.sees(1)
    parts = home.model.requests[0].messages[-1].parts
    assert [part.mime_type for part in parts if isinstance(part, Image)] in (["image/png"], ["image/jpeg"])


async def test_nothing_is_fetched_for_somebody_who_is_not_heard(tmp_path: Path) -> None:
    home, chat = house(tmp_path, "one"), Platform()
    async with home.agent() as agent, served(agent, chat):
        await chat.says("look", sender="666", media=(Media("file", "", "a", 0, "words"),))
        await chat.says("hello")
        await chat.sees(1)
    assert not (home.state / "media").exists()


async def test_what_is_too_large_is_not_taken(tmp_path: Path) -> None:
    home, chat = house(tmp_path, "no", channels={"fake": {"mediaMaxMb": 0.000001}}), Platform()
    async with home.agent() as agent, served(agent, chat):
        await chat.says("", media=(Media("file", "", "big", 0, "more than a byte"),))
        await until(lambda: home.model.prompts)
    assert "larger than" in home.model.prompts[0]


async def test_a_file_that_the_platform_does_not_take_is_not_sent(tmp_path: Path) -> None:
    home, chat = house(tmp_path, "Here.\nMEDIA:./big.bin", channels={"fake": {"mediaMaxMb": 0.001}}), Platform()
    home.workspace.mkdir(parents=True, exist_ok=True)
    (home.workspace / "big.bin").write_bytes(b"x" * 2000)
    async with home.agent() as agent, served(agent, chat) as board:
        await chat.says("send it")
        await until(lambda: not board.outbox.pending() and chat.shown)
        assert ("fake", "partial") in board.counts.settled
    assert not any(each.file for each in chat.shown)
    assert "Here." in chat.texts[0]
