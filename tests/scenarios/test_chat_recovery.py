"""What a crash leaves between two steps of an answer, and what the next start makes of it.

A crash is made by copying the home at a chosen moment: the copy is what kill -9 would have left.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.scenarios.chat import Platform, served
from tests.scenarios.home import House, until
from tests.scenarios.script import Line
from tests.scenarios.test_chat import MAIN, Writer, house

from homarus.core.messages import Inbound, Outbound, User
from homarus.runtime.intake import _chat
from homarus.runtime.speech import INTERRUPTED
from homarus.runtime.switchboard import SHOWN, Switchboard


class Crashing(Switchboard):
    """Leaves a copy of its home before, or after, a message is in the outbox."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.before: Callable[[Outbound], None] = lambda _message: None
        self.after: Callable[[Outbound], None] = lambda _message: None

    def post(self, message: Outbound, **more: Any) -> bool:
        self.before(message)
        posted = super().post(message, **more)
        self.after(message)
        return posted


def left_behind(home: House, folder: Path, *lines: Line | str) -> House:
    """The home as it was copied, with a model of its own."""
    found = House.__new__(House)
    found.__dict__.update(home.__dict__)
    found.folder, found.state, found.model = folder, folder / ".openclaw", Writer(*lines)
    found.env = {**home.env, "HOME": str(folder)}
    return found


def copying(home: House, to: Path, when: Callable[[Outbound], bool]) -> Callable[[Outbound], None]:
    def copy(message: Outbound) -> None:
        if when(message) and not to.exists():
            shutil.copytree(home.folder, to)

    return copy


async def crash(home: House, chat: Platform, to: Path, text: str = "hello", *, late: bool = False) -> None:
    """Answer one message, and leave a copy from the moment before (or after) its last words were posted."""
    last = home.model.lines[-1].text[-10:]
    async with home.agent() as agent, served(agent, chat, Crashing) as board:
        setattr(board, "after" if late else "before", copying(home, to, lambda message: message.text.endswith(last)))
        await chat.says(text)
        await until(to.exists)
        await until(lambda: not board.outbox.pending() and not agent.client.runtime.lane(MAIN).busy)


async def test_an_answer_in_the_log_that_was_not_posted_is_posted_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    home = house(tmp_path / "a", "the answer")
    await crash(home, Platform(), tmp_path / "b")
    again, chat = left_behind(home, tmp_path / "b", "never asked"), Platform()
    for _ in range(2):  # and once more, because what is settled must stay settled
        async with again.agent() as agent, served(agent, chat):
            await chat.sees(1)
            await agent.client.runtime.lane(MAIN).idle()
    assert chat.texts == ["the answer"]
    assert again.model.requests == []


async def test_an_answer_in_the_outbox_whose_question_is_open_is_not_posted_again(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    home = house(tmp_path / "a", "the answer")
    await crash(home, Platform(), tmp_path / "b", late=True)
    again, chat = left_behind(home, tmp_path / "b"), Platform()
    async with again.agent() as agent, served(agent, chat):
        await chat.sees(1)
        await agent.client.runtime.lane(MAIN).idle()
    assert chat.texts == ["the answer"]


async def test_a_turn_that_goes_on_knows_which_words_were_seen(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    streaming = {"channels": {"fake": {"streaming": {"block": {"enabled": True}}}}}
    small = {"blockStreamingChunk": {"minChars": 5, "maxChars": 30}, "blockStreamingCoalesce": {"enabled": False}}
    home = house(tmp_path / "a", **streaming, agents={"defaults": small})
    text = "First a paragraph.\n\nThen one more of them.\n\nThen the end."
    home.model = Writer(text)
    chat = Platform()
    async with home.agent() as agent, served(agent, chat, Crashing) as board:
        board.after = copying(home, tmp_path / "b", lambda message: "one more" in message.text)
        await chat.says("hello")
        await until((tmp_path / "b").exists)
        seen = list(chat.texts)
        await until(lambda: any("the end" in each for each in chat.texts))
    for name, answer in (("same", text), ("on", "And that was all.")):
        shutil.copytree(tmp_path / "b", tmp_path / name)
        again, chat = left_behind(home, tmp_path / name, answer), Platform()
        async with again.agent() as agent, served(agent, chat):
            await until(lambda: any(each.endswith(answer[-8:]) for each in chat.texts))  # noqa: B023
        last = "Then the end." if answer == text else answer
        assert list(dict.fromkeys(seen + chat.texts)) == ["First a paragraph.", "Then one more of them.", last]
        told = [each.text for each in again.model.requests[0].messages if isinstance(each, User)][-1]
        assert told == f"{SHOWN}First a paragraph.\n\nThen one more of them."


async def test_a_turn_that_may_not_go_on_says_so(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    look = Line("Let me see.", calls=(("read", {"path": "AGENTS.md"}),))
    home = house(tmp_path / "a", look, "done", agents={"defaults": {"resume": "end"}})
    async with home.agent() as agent, served(agent, Platform(), Crashing) as board:
        board.after = copying(home, tmp_path / "b", lambda message: message.text == "Let me see.")
        await board.intake.take(Inbound("m1", "fake", "look", sender="7", peer="7"))
        await until((tmp_path / "b").exists)
        await until(lambda: not agent.client.runtime.lane(MAIN).busy)
    again, seen = left_behind(home, tmp_path / "b"), Platform()
    async with again.agent() as agent, served(agent, seen):
        await seen.sees(2)
    assert seen.texts == ["Let me see.", INTERRUPTED]
    assert again.model.requests == []


async def test_a_process_without_channels_leaves_their_messages_alone(tmp_path: Path) -> None:
    """A chat in a terminal would answer where nobody in the other chat can hear it."""
    (tmp_path / "a").mkdir()
    home = house(tmp_path / "a", "the answer")
    async with home.agent() as agent, served(agent, Platform()) as board:
        gate = home.model.hold()
        await board.intake.take(Inbound("m1", "fake", "hello", sender="7", peer="7"))
        await home.model.entered.wait()
        shutil.copytree(home.folder, tmp_path / "b")
        gate.set()
        await until(lambda: not agent.client.runtime.lane(MAIN).busy)
    again, chat = left_behind(home, tmp_path / "b", "in the terminal", "late, but here"), Platform()
    async with again.agent() as agent:
        assert (await agent.ask("anybody?")).text == "in the terminal"
    assert len(again.model.requests) == 1
    async with again.agent() as agent, served(agent, chat):
        await chat.sees(1)
    assert chat.shown[0].to == "7"


async def test_a_message_that_waits_for_more_survives_a_crash(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    home, chat = house(tmp_path / "a", "unused", messages={"inbound": {"debounceMs": 60_000}}), Platform()
    async with home.agent() as agent, served(agent, chat):
        await chat.says("hello")
        shutil.copytree(home.folder, tmp_path / "b")
    again, seen = left_behind(home, tmp_path / "b", "welcome"), Platform()
    async with again.agent() as agent, served(agent, seen):
        await seen.sees(1)
        await seen.says("hello", id="m1")
    assert again.model.prompts == ["hello"]


async def test_a_command_is_not_given_twice(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    home, chat = house(tmp_path / "a", "one"), Platform()
    async with home.agent() as agent, served(agent, chat, Crashing) as board:
        board.before = copying(home, tmp_path / "b", lambda message: message.id.startswith("said."))
        await chat.says("/model status")
        await chat.sees(1)
    again, seen = left_behind(home, tmp_path / "b"), Platform()
    async with again.agent() as agent, served(agent, seen):
        await seen.says("/model status", id="m1")
        await seen.says("go on")
        await seen.sees(1)
    assert seen.texts == ["answer 1"], "the command that was cut off is not given again"


async def test_messages_that_became_one_are_not_handed_over_again_one_by_one(tmp_path: Path) -> None:
    home = house(tmp_path, "to both", messages={"inbound": {"debounceMs": 3_600_000}})
    async with home.agent() as agent, served(agent, chat := Platform()) as board:
        await chat.says("one")
        await chat.says("two")
        for whole in board.intake._debounce.flush():  # an hour later
            board.intake._begin(whole, tuple(board.intake._merged.pop(_chat(whole))))
        await chat.sees(1)
        await agent.client.runtime.lane(MAIN).idle()
    journal = home.state / "homarus" / "channels" / "intake.jsonl"
    kept = [line for line in journal.read_text().splitlines() if "settled" not in line]  # those notes a crash may take
    assert len(kept) == 3
    journal.write_text("".join(f"{line}\n" for line in kept))
    again = left_behind(home, tmp_path, "to one of them again")
    async with again.agent() as agent, served(agent, seen := Platform()) as board:
        await until(lambda: not board.intake.waiting)
        await agent.client.runtime.lane(MAIN).idle()
    assert (again.model.requests, seen.texts) == ([], [])
