"""Words that nobody asked for: brought to the right chat or to nobody, and said where that failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.chat import Platform, served
from tests.scenarios.home import until
from tests.scenarios.test_chat import GROUP, MAIN, house

from homarus.runtime.starter import TurnStarter


async def test_words_reach_the_chat_that_is_named_and_once(tmp_path: Path) -> None:
    home, chat = house(tmp_path), Platform()
    async with home.agent() as agent, served(agent, chat):
        starter = TurnStarter(agent.client.runtime)
        target = {"channel": "fake", "to": "8", "threadId": "t"}
        for _ in range(2):
            assert await starter.deliver(MAIN, target, "tea", "job:1") == ""
        await chat.sees(1)
    assert [(each.to, each.thread, each.text) for each in chat.shown] == [("8", "t", "tea")]


async def test_last_is_where_the_session_was_talked_in_last(tmp_path: Path) -> None:
    home, chat = house(tmp_path, "hi"), Platform()
    async with home.agent() as agent, served(agent, chat):
        starter = TurnStarter(agent.client.runtime)
        assert await starter.deliver(MAIN, {}, "nobody yet", "job:0") == "", "it stays in the session"
        await chat.says("hello")
        await chat.sees(1)
        assert starter.reaches(MAIN, {"channel": "last"}) == ""
        assert await starter.deliver(MAIN, {"channel": "last"}, "tea", "job:1") == ""
        await chat.sees(2)
    assert [(each.to, each.text) for each in chat.shown] == [("7", "hi"), ("7", "tea")]


async def test_a_chat_that_cannot_be_reached_is_never_another_chat(tmp_path: Path) -> None:
    home, chat = house(tmp_path, "hi"), Platform()
    async with home.agent() as agent, served(agent, chat) as board:
        await chat.says("hello")
        await chat.sees(1)
        starter, config = TurnStarter(agent.client.runtime), agent.client.home.config
        channels: dict[str, Any] = config.document["channels"]
        channels["fake"]["enabled"] = False
        await board.reload()
        for target in ({"channel": "last"}, {"channel": "fake", "to": "7"}, {"channel": "nosuch", "to": "7"}):
            assert starter.reaches(MAIN, target)
            assert await starter.deliver(MAIN, target, "tea", str(target))
    assert chat.texts == ["hi"]


async def test_the_owners_words_do_not_go_to_a_group(tmp_path: Path) -> None:
    home, chat = house(tmp_path, "hi", **GROUP, session={"groupScope": "main"}), Platform()
    async with home.agent() as agent, served(agent, chat):
        await chat.says("@bot hello", peer="g", chat_type="group", mentioned=True)
        await chat.sees(1)
        await until(lambda: home.row()["lastTo"] == "g")
        starter = TurnStarter(agent.client.runtime)
        assert await starter.deliver(MAIN, {"channel": "owner"}, "private", "job:1") == ""
        assert await starter.deliver(MAIN, {"channel": "last"}, "for all", "job:2") == ""
        await chat.sees(2)
    assert chat.texts == ["hi", "for all"]


@pytest.mark.parametrize("channel", ["terminal", "webchat", "cron"])
async def test_places_that_are_no_chats_are_no_targets(tmp_path: Path, channel: str) -> None:
    home, chat = house(tmp_path), Platform()
    async with home.agent() as agent, served(agent, chat) as board:
        assert board.reaches(channel, "default", "7")


async def test_who_writes_once_from_afar_does_not_move_the_route(tmp_path: Path) -> None:
    """One person is named in allowFrom; somebody who was let in by pairing is answered, and jobs do not follow them."""
    home, chat = house(tmp_path, "one", "two", channels={"fake": {"dmPolicy": "pairing"}}), Platform()
    async with home.agent() as agent, served(agent, chat) as board:
        await chat.says("hello")
        await chat.sees(1)
        request = board.pairing.request("fake", "default", "9", {})
        board.pairing.approve("fake", request[0].code)
        await chat.says("hello", sender="9")
        await chat.sees(2)
    assert home.row()["lastTo"] == "7"


async def test_hooks_hear_of_what_comes_and_goes(tmp_path: Path) -> None:
    folder = tmp_path / ".openclaw" / "hooks" / "ear"
    folder.mkdir(parents=True)
    events = '{"openclaw": {"events": ["message:received", "message:sent"]}}'
    (folder / "HOOK.md").write_text(f"---\nname: ear\ndescription: listens\nmetadata: {events}\n---\n")
    (folder / "handler.py").write_text(
        "from pathlib import Path\n\n\nasync def handle(event):\n"
        f"    with Path({str(tmp_path / 'heard')!r}).open('a') as file:\n"
        "        file.write(f\"{event.key} {event.context['content']}\\n\")\n"
    )
    hooks = {"hooks": {"internal": {"enabled": True, "entries": {"ear": {"enabled": True}}}}}
    home, chat = house(tmp_path, "hi there", **hooks), Platform()
    async with home.agent() as agent, served(agent, chat):
        await chat.says("hello")
        heard = tmp_path / "heard"
        await until(lambda: heard.exists() and len(heard.read_text().splitlines()) == 2)
    assert set(heard.read_text().splitlines()) == {"message:received hello", "message:sent hi there"}
