"""Files in a chat: what people send reaches the model, and what the agent sends is what lies in its folders."""

from __future__ import annotations

import base64
import sys
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


def listening(words: str) -> dict[str, Any]:
    """A home that can write speech down, and a group that wants to be spoken to."""
    way = {"type": "cli", "command": sys.executable, "args": ["-c", f"print({words!r})"], "capabilities": ["audio"]}
    group = {"groupPolicy": "allowlist", "groupAllowFrom": ["7", "8"], "groups": {"*": {"requireMention": True}}}
    return {"tools": {"media": {"models": [way]}}, "channels": {"fake": group}}


VOICE = (Media("voice", "audio/ogg", "voice.ogg", 2000, "OggS" + "v" * 2000),)
GROUP = {"chat_type": "group", "peer": "room"}


async def test_a_voice_that_says_the_name_in_a_group_is_heard(tmp_path: Path) -> None:
    home, chat = house(tmp_path, "noon", **listening("Fake bot, what time is it?")), Platform()
    async with home.agent() as agent, served(agent, chat):
        await chat.says("", media=VOICE, **GROUP)
        await chat.says("", media=VOICE, id="m1", **GROUP)  # the same message again
        await chat.sees(1)
        assert chat.shown[0].to == "room"
    (prompt,) = home.model.prompts
    assert prompt.count("Fake bot, what time is it?") == 1
    assert "was spoken" in prompt


async def test_a_voice_that_speaks_to_others_is_kept_as_words_of_the_room(tmp_path: Path) -> None:
    home, chat = house(tmp_path, "yes", **listening("/stop it, Bob, it is noon")), Platform()
    async with home.agent() as agent, served(agent, chat) as board:
        await chat.says("", sender="8", media=VOICE, **GROUP)
        await until(lambda: not board.intake.waiting)
        assert not home.model.prompts
        await chat.says("Fake bot, did Bob say noon?", **GROUP)
        await chat.sees(1)
    (prompt,) = home.model.prompts
    assert "stop it, Bob, it is noon" in prompt


async def test_no_voice_of_somebody_who_is_not_heard_is_written_down(tmp_path: Path) -> None:
    home, chat = house(tmp_path, "yes", **listening("Fake bot, let me in")), Platform()
    async with home.agent() as agent, served(agent, chat):
        await chat.says("", sender="666", media=VOICE, **GROUP)
        await chat.says("Fake bot, hello", **GROUP)
        await chat.sees(1)
    assert not (home.state / "media").exists()
    assert "let me in" not in home.model.prompts[0]
