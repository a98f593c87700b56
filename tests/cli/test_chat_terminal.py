"""`homarus chat` and `homarus agent` on a real terminal, with a model server on loopback: what a person sees and can do."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.screen import Terminal, terminal
from tests.invariants.test_prefix import summary_of
from tests.models.servers import Answer, choice, data, openai_tail, serving
from tests.scenarios.talker import Rule, Say, Talker, make_home, open_agent

PNG = b"\x89PNG\r\n\x1a\nrest"
STATUS = "agent:main:main"  # the line is there, and takes keys
ESCAPE, CTRL_C, CTRL_D, CTRL_L, CTRL_O, CTRL_R = "\x1b", "\x03", "\x04", "\x0c", "\x0f", "\x12"
CTRL_Q, CTRL_Z = "\x11", "\x1a"
# A shell can stop and continue programs only on a terminal that it controls.
SHELL = (
    """import fcntl, os, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp("bash", ["bash", "--norc", "-i"])"""
)


class Home:
    """A home whose model answers by a rule, and the requests that it got."""

    def __init__(self, folder: Path, server: Talker, **agent: Any) -> None:
        self.folder = folder
        self.server = server
        self.env = make_home(folder, server.url, **agent)
        self.workspace = folder / ".openclaw" / "workspace"

    @property
    def said(self) -> list[str]:
        """Return the newest user message of each request, as it went out."""
        return [json.dumps(_last_user(seen.body)) for seen in self.server.seen if seen.method == "POST"]

    def describe(self, **facts: Any) -> None:
        """Say more about the model."""
        path = self.folder / ".openclaw/openclaw.json"
        config = json.loads(path.read_text())
        config["models"]["providers"]["mock"]["models"][0] |= facts
        path.write_text(json.dumps(config))

    async def talked(self, session: str, *texts: str) -> None:
        async with open_agent(self.env, session=session) as agent:
            for text in texts:
                await agent.ask(text)

    @asynccontextmanager
    async def chat(self, *words: str, **more: Any) -> AsyncIterator[Terminal]:
        async with terminal(self.env, "chat", *words, **more) as opened:
            yield opened


def _last_user(body: Any) -> Any:
    return next(each["content"] for each in reversed(body["messages"]) if each["role"] == "user")


def typed(body: Any) -> str:
    """Return what somebody typed, without what rides on it."""
    content = _last_user(body)
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    return re.sub(r"<<<BEGIN_.*?<<<END_\w+>>>|<file .*?</file>", "", text, flags=re.DOTALL).strip()


def echo(body: Any, _number: int) -> Say:
    return Say(f"answer to {typed(body)}")


@asynccontextmanager
async def home(folder: Path, rule: Rule = echo, **agent: Any) -> AsyncIterator[Home]:
    async with serving(server=Talker(rule)) as server:
        assert isinstance(server, Talker)
        yield Home(folder, server, **agent)


def hanging(text: str) -> Say:
    """A model that has written this and goes on thinking."""
    return Say(answer=Answer(data(choice({"content": text}), end=False), hang=True))


async def test_a_conversation_goes_on_with_its_last_turns_and_a_list_leads_to_another(tmp_path: Path) -> None:
    async with home(tmp_path) as house:
        await house.talked("work", "about the boiler")
        await house.talked("main", "one", "two", "three", "four")
        async with house.chat("--resume") as screen:
            await screen.until("Go on with which session?", "about the boiler", "four")
            screen.type("boil")
            await screen.until("1 of 2")
            screen.type("\r")
            await screen.until(
                "› about the boiler", "answer to about the boiler", "2 messages so far", "agent:main:work"
            )
            screen.type("/sessions\r")
            await screen.until("Go on with which session?", "1 of 1")
            screen.type("\r")
            await screen.until("8 messages so far", "› two", "answer to four")
            assert "› one" not in screen.text  # the last three turns
            screen.type("five\r")
            await screen.until("answer to five")
            screen.type(CTRL_D)
            assert await screen.ended() == 0


async def test_a_turn_that_is_left_and_come_back_to_is_seen_stopped_and_whole(tmp_path: Path) -> None:
    said = ["The first half, ", "which nobody", " saw from", " the other session.\n\n", "And the end."]
    pieces = [piece for text in said for piece in data(choice({"content": text}), end=False)]

    def rule(body: Any, number: int) -> Say:
        if "long" in typed(body):
            return Say(answer=Answer([*pieces, *data(*openai_tail("stop"))], pause=1.0))
        return hanging("never ends, and") if "slow" in typed(body) else echo(body, number)

    async def go(screen: Terminal, name: str) -> None:
        screen.type("/sessions\r")
        await screen.until(when=lambda lines: any(line.startswith(" 1 of 1") for line in lines))
        screen.type("\r")
        await screen.until(
            gone="Go on with which session?", when=lambda lines: any(f"agent:main:{name}" in line for line in lines)
        )

    async with home(tmp_path, rule) as house:
        await house.talked("other", "about the boiler")
        async with house.chat(size=(100, 40)) as screen:
            await screen.until("a new session", STATUS)
            screen.type("slow\r")
            await screen.until("never ends, and")
            await go(screen, "other")
            await screen.until("goes on; its answer will be there", gone="esc stops")
            assert "never ends" not in "\n".join(screen.lines)
            screen.type("hello there\r")
            await screen.until("answer to hello there")
            await go(screen, "main")
            await screen.until("esc stops")
            screen.type(ESCAPE)
            await screen.until("■ stopped", gone="esc stops")
            screen.type("long\r")
            await screen.until("The first half, which nobody")
            await go(screen, "other")
            await go(screen, "main")
            await screen.until("esc stops")
            await screen.until(
                "The first half, which nobody saw from the other session.", "And the end.", gone="esc stops"
            )
            assert screen.text.count("And the end.") == 1
            screen.type(CTRL_C)
            assert await screen.ended() == 0


async def test_who_comes_to_a_running_turn_of_another_terminal_can_stop_it(tmp_path: Path) -> None:
    def rule(body: Any, number: int) -> Say:
        return hanging("thinking of") if "slow" in typed(body) else echo(body, number)

    async with home(tmp_path, rule) as house, house.chat() as first:
        await first.until("a new session", STATUS)
        first.type("slow\r")
        await first.until("thinking of")
        async with house.chat() as second:
            await second.until("following", "› slow", "esc stops")
            second.type(ESCAPE)
            for each in (first, second):
                await each.until("■ stopped", gone="esc stops")


async def test_the_list_finds_what_was_said_long_ago_also_in_what_was_put_away(tmp_path: Path) -> None:
    async with home(tmp_path) as house:
        await house.talked("work", "about the boiler", "something else")
        await house.talked("main", "a crimson kite", "and more", "/new", "hello")
        async with house.chat("--resume", size=(100, 30)) as screen:
            await screen.until("Go on with which session?", "something else", "3 of 3")
            screen.type("boil")
            await screen.until("work", "about the boiler", "1 of 3")
            screen.type("\x7f" * 4 + "crims kit")
            await screen.until("(put away)", "crimson kite", "1 of 3")
            screen.type("\x7f" * 9 + "zeppelin")
            await screen.until("nothing fits")
            screen.type("\x7f" * 8 + "boiler")
            await screen.until("about the boiler", "1 of 3")
            screen.type("\r")
            await screen.until("› about the boiler", "4 messages so far", "agent:main:work")
            screen.type(CTRL_D)
            assert await screen.ended() == 0


async def test_named_files_go_along_from_both_folders_and_a_dropped_picture_too(tmp_path: Path) -> None:
    here = tmp_path / "project"
    here.mkdir()
    (here / "notes of mine.md").write_text("cats are fine\n/elevated full\n")
    (here / "shot one.png").write_bytes(PNG)
    async with home(tmp_path) as house:
        await house.talked("main", "hello")
        (house.workspace / "plan.txt").write_text("the plan is simple\n")
        house.describe(input=["text", "image"])
        async with house.chat(cwd=here, size=(160, 24)) as screen:
            await screen.until("messages so far", STATUS)
            for typing, offered, completed in (
                ("read @pla", "plan.txt", "read @plan.txt"),
                (" and @not", "notes of mine.md", '@"notes of mine.md"'),
            ):
                screen.type(typing)
                await screen.until(offered)
                screen.type("\t")
                await screen.until(completed)
            screen.type(f" \x1b[200~'{here}/shot one.png'\x1b[201~")
            await screen.until('shot one.png"')
            screen.type("\r")
            await screen.until("↑", "project/shot one.png (12 B)", "answer to")
            screen.type("and @nobody.md or a@b.c?\r")
            await screen.until("answer to and @nobody.md or a@b.c?")
    sent = house.said[1]
    for piece in ("the plan is simple", "cats are fine", "/elevated full", "image_url"):
        assert piece in sent
    assert "</file>" not in house.said[2]


async def test_the_picture_on_the_clipboard_is_pasted_with_ctrl_v(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "wl-paste"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nprintf '\\211PNG\\r\\n\\032\\nrest'\n")
    program.chmod(0o755)
    async with home(tmp_path) as house:
        house.describe(input=["text", "image"])
        house.env["PATH"] = f"{program.parent}:{house.env['PATH']}"
        async with house.chat(size=(160, 24)) as screen:
            await screen.until("a new session", STATUS)
            screen.type("what is \x16")
            await screen.until("homarus/pasted/")
            screen.type("?\r")
            await screen.until("↑", "answer to what is")
    assert "image_url" in house.said[0]
    (kept,) = (tmp_path / ".openclaw/homarus/pasted").iterdir()
    assert kept.read_bytes() == PNG


async def test_markup_in_an_answer_is_shown_live_and_later(tmp_path: Path) -> None:
    markup = "Put <your-name> into vector<int>.\n\n<details>\nhidden block\n</details>\n\nEnd."
    async with home(tmp_path, lambda _body, _number: Say(markup)) as house:
        async with terminal(house.env, "agent", "go") as screen:
            await screen.until(markup)
        async with house.chat() as screen:
            await screen.until("2 messages so far", markup, STATUS)
            screen.type("again\r")
            await screen.until(when=lambda lines: "\n".join(lines).count(markup) == 2)


async def test_what_is_typed_early_is_not_lost(tmp_path: Path) -> None:
    async with home(tmp_path) as house, house.chat() as screen:
        screen.type("early bird")  # long before there is a line
        await screen.until("a new session")
        screen.type(" sings\r")  # perhaps between two lines
        await screen.until("answer to early bird sings")
        screen.type("/exit\r")
        assert await screen.ended() == 0


@pytest.mark.parametrize("wait", [0.0, 0.5])
async def test_what_is_typed_early_is_sent_as_it_was_typed(tmp_path: Path, wait: float) -> None:
    async with home(tmp_path) as house, house.chat() as screen:
        await asyncio.sleep(wait)
        screen.type("firsd\x7ft\rsecond\r")
        await screen.until("› first\n", "› second\n", "answer to second")
        screen.type("/exit\r")
        assert await screen.ended() == 0


async def test_two_terminals_share_a_session(tmp_path: Path) -> None:
    async with home(tmp_path) as house, house.chat() as first:
        await first.until("a new session", STATUS)
        first.type("said first\r")
        await first.until("answer to said first")
        async with house.chat() as second:
            await second.until("› said first", "another terminal has this session open")
            first.type("heard by both\r")
            await second.until("› heard by both", "answer to heard by both")
            second.type("from the second\r")
            for each in (second, first):
                await each.until("› from the second", "answer to from the second")
            assert second.text.count("› from the second") == 1
            second.type("/name the trip\r")
            await first.until("(from another terminal)")
            await second.until("the trip")
            first.type(CTRL_D)
            assert await first.ended() == 0
            await second.until(gone="following")
            second.type("and now alone\r")
            await second.until("answer to and now alone")
            second.type(CTRL_D)
            assert await second.ended() == 0
    assert "lock" not in second.text


async def test_a_session_is_shown_by_its_name(tmp_path: Path) -> None:
    async with home(tmp_path) as house:
        async with house.chat() as screen:
            await screen.until("a new session", STATUS)
            screen.type("hello\r/name attic\r")
            await screen.until(gone=STATUS, when=lambda lines: any(line.endswith("· attic") for line in lines))
        async with house.chat() as screen:
            await screen.until("🦞 main · attic · 2 messages so far")


async def test_a_chat_in_a_folder_that_is_gone_is_a_chat(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    words = ("bash", "-c", f'rmdir {tmp_path}/gone && exec {sys.executable} -m homarus "$@"', "homarus")
    async with home(tmp_path) as house, house.chat(cwd=tmp_path / "gone", program=words) as screen:
        await screen.until("a new session", STATUS)
        screen.type("hello @no")
        screen.type("\r")
        await screen.until("answer to hello")


async def test_two_terminals_go_on_together_after_one_starts_over_and_the_list_leads_back(tmp_path: Path) -> None:
    async with home(tmp_path) as house, house.chat(size=(100, 30)) as first:
        await first.until("a new session", STATUS)
        first.type("said before\r")
        await first.until("answer to said before")
        async with house.chat(size=(100, 30)) as second:
            await second.until("following")
            first.type("/new\r")
            await first.until("A new session begins")
            await second.until("the session starts over")
            first.type("from the first\r")
            second.type("from the second\r")
            for each in (first, second):
                await each.until("answer to from the first", "answer to from the second")
            second.type("/new\r")
            await second.until("A new session begins")
            first.type("first again\r")
            second.type("second again\r")
            for each in (first, second):
                await each.until("answer to first again", "answer to second again")
            second.type(CTRL_D)
            assert await second.ended() == 0
        assert len(list((tmp_path / ".openclaw/agents/main/sessions").glob("*.jsonl"))) == 1
        first.type("/sessions\r")
        await first.until("(put away)", "said before")
        first.type("said before\r")
        await first.until("› said before", "2 messages so far", "-again")
        first.type("and on\r")
        await first.until("answer to and on")


async def test_the_status_stands_under_the_line_a_long_paste_is_folded_and_a_blind_model_said(tmp_path: Path) -> None:
    def close(lines: list[str]) -> bool:
        at = next((number for number, line in enumerate(lines) if STATUS in line), 0)
        return lines[at - 1].startswith("›")

    picture = tmp_path / "shot.png"
    picture.write_bytes(PNG)
    async with home(tmp_path) as house, house.chat(size=(100, 30)) as screen:
        await screen.until("a new session", STATUS, when=close)
        screen.type("/th")
        await screen.until("how hard the model thinks")
        screen.type(CTRL_C)
        await screen.until(gone="how hard", when=close)
        pasted = "\r".join(f"line {number} of it" for number in range(60))
        screen.type(f"\x1b[200~{pasted}\x1b[201~")
        await screen.until("line 59 of it")
        screen.type("\r")
        await screen.until("… 48 more lines", "answer to line 0 of it", when=close)
        assert "line 59 of it" in house.said[0]
        screen.type(f"what is @{picture}\r")
        await screen.until("mock/loop does not see pictures", "answer to what is")


async def test_escape_in_the_second_terminal_stops_the_first(tmp_path: Path) -> None:
    def rule(body: Any, number: int) -> Say:
        return hanging("thinking of") if "slow" in typed(body) else echo(body, number)

    async with home(tmp_path, rule) as house, house.chat() as first:
        await first.until("a new session", STATUS)
        first.type("hello\r")
        await first.until("answer to hello")
        async with house.chat() as second:
            await second.until("following")
            first.type("slow\r")
            await second.until("› slow", "esc stops")
            second.type(ESCAPE)
            await first.until("■ stopped")
            await second.until("■ stopped")


async def test_the_second_terminal_says_that_the_first_is_asked_and_rests_when_it_was_stopped(tmp_path: Path) -> None:
    def rule(body: Any, number: int) -> Say:
        return Say(calls=(("exec", {"command": "sleep 30"}),)) if "slow" in typed(body) else echo(body, number)

    async with home(tmp_path, rule, sandbox={"mode": "off"}) as house, house.chat() as first:
        await first.until("a new session", STATUS)
        async with house.chat() as second:
            await second.until("following")
            second.type("slow\r")
            await first.until("allow “sleep 30”?")
            await second.until("? sleep 30", "(answer it in the other terminal)", "esc stops")
            await asyncio.sleep(1)  # a key pressed as the question comes up is not taken for an answer
            first.type("y")
            await first.until("allow-once: sleep 30")
            first.type(ESCAPE)
            for each in (first, second):
                await each.until("■ stopped", gone="esc stops")


async def test_what_was_not_heard_comes_back_into_the_line_of_the_second_terminal(tmp_path: Path) -> None:
    def rule(body: Any, number: int) -> Say:
        return hanging("word by word") if "slow" in typed(body) else echo(body, number)

    async with home(tmp_path, rule) as house, house.chat() as first:
        await first.until("a new session", STATUS)
        async with house.chat() as second:
            await second.until("following")
            second.type("slow\r")
            await first.until("› slow", "word by word")
            await second.until("esc stops")
            second.type("and the weather\r")
            await second.until("› and the weather")
            second.type(ESCAPE)
            await second.until("■ stopped")
            await second.until(when=lambda lines: lines.count("› and the weather") == 2)
            second.type(" of today\r")
            for each in (first, second):
                await each.until("answer to and the weather of today")
            first.type("slow again\r")
            await second.until("› slow again", "esc stops")
            second.type("said in the second\r")
            await second.until("› said in the second")
            await asyncio.sleep(1)  # the first one takes it up within half a second
            first.type("said in the first\r")
            await first.until("› said in the first")
            first.type(ESCAPE)
            for each, text in ((first, "› said in the first"), (second, "› said in the second")):
                await each.until(when=lambda lines, text=text: lines.count(text) == 2)
    assert len(house.said) == 3


async def test_what_was_not_heard_comes_back_into_the_line(tmp_path: Path) -> None:
    def rule(body: Any, number: int) -> Say:
        return hanging("word by word") if "slow" in typed(body) else echo(body, number)

    async with home(tmp_path, rule) as house, house.chat() as screen:
        await screen.until("a new session", STATUS)
        screen.type("slow\r")
        await screen.until("word by word")
        screen.type("and the weather\r")
        await screen.until("› and the weather")
        screen.type(ESCAPE)
        await screen.until("■ stopped")
        await screen.until("› and the weather\n")
        screen.type(" of today\r")
        await screen.until("answer to and the weather of today")
    assert len(house.said) == 2


async def test_words_stay_whole_and_the_screen_is_clean_after_a_resize_and_ctrl_l(tmp_path: Path) -> None:
    words = " ".join(f"wording{number:03d}" for number in range(24))

    def rule(body: Any, number: int) -> Say:
        return hanging(words) if "slow" in typed(body) else echo(body, number)

    def is_clean(lines: list[str]) -> bool:
        def count(text: str) -> int:
            return sum(text in line for line in lines)

        whole = all(count(word) for word in words.split())
        return whole and lines.count("›") == count("esc stops") == count("mock/loop") == 1

    async with home(tmp_path, rule) as house, house.chat(size=(64, 30)) as screen:
        await screen.until("a new session", STATUS)
        screen.type("hello\r")
        await screen.until("answer to hello")
        screen.type("slow\r")
        await screen.until("wording023")
        await screen.until(when=is_clean)
        for columns, rows in ((45, 28), (100, 30)):
            screen.resize(columns, rows)
            await asyncio.sleep(0.8)
            await screen.until("wording023", "answer to hello", when=is_clean)
        screen.type(CTRL_L)
        await asyncio.sleep(0.5)
        await screen.until(when=is_clean)
        assert "› hello" in screen.lines
        assert screen.text.count("› hello") == screen.text.count("answer to hello") == 1


async def test_a_paste_that_is_taller_than_the_screen_leaves_only_its_echo(tmp_path: Path) -> None:
    async with home(tmp_path) as house, house.chat() as screen:
        await screen.until("a new session", STATUS)
        pasted = "\r".join(f"line {number} of it" for number in range(30))
        screen.type(f"\x1b[200~{pasted}\x1b[201~")
        await screen.until("line 29 of it")
        screen.type("\r")
        await screen.until("… 18 more lines", "answer to line 0 of it", gone="thinking")
        shown = [line for line in screen.text.split("\n") if "more lines" not in line]
        before = shown[: next(at for at, line in enumerate(shown) if "answer to" in line)]
    assert [line for line in before if line][1:] == ["› line 0 of it", *(f"  line {at} of it" for at in range(1, 12))]


async def test_ctrl_z_suspends_the_chat_and_its_line_is_there_again_afterwards(tmp_path: Path) -> None:
    async with (
        home(tmp_path) as house,
        terminal({**house.env, "PS1": "ready> "}, SHELL, program=(sys.executable, "-c")) as screen,
    ):
        screen.type(f"{sys.executable} -m homarus chat\r")
        await screen.until("a new session", STATUS)
        screen.type("half typed")
        await screen.until("› half typed")
        screen.type(CTRL_Z)
        await screen.until("Stopped", gone="› half typed")
        screen.type("echo $((6*7))\r")
        await screen.until("echo $((6*7))\n42\n")  # the shell has its terminal back
        screen.type("fg\r")
        await screen.until("› half typed")
        screen.type(" and more\r")
        await screen.until("answer to half typed and more")
        screen.type(CTRL_D)
        await screen.until(when=lambda lines: [line for line in lines if line][-1] == "ready>")


async def test_no_control_character_gets_into_a_message(tmp_path: Path) -> None:
    async with home(tmp_path) as house, house.chat() as screen:
        await screen.until("a new session", STATUS)
        screen.type(f"a{CTRL_Z}b\x1b[200~ \x1b[31mred\x00\x1b[201~ c{CTRL_Q}\x07\x9b\r")
        await screen.until("answer to ab [31mred c")
        assert [typed(seen.body) for seen in house.server.seen] == ["ab [31mred c"]


async def test_earlier_lines_are_found_in_any_case_and_ctrl_c_leaves_the_search(tmp_path: Path) -> None:
    async with home(tmp_path) as house, house.chat() as screen:
        await screen.until("a new session", STATUS)
        screen.type("Water the Plants\r")
        await screen.until("answer to Water the Plants")
        screen.type(f"{CTRL_R}PLANTS".lower().replace("plants", "pLANTS"))
        await screen.until("i-search", "Water the Plants")
        screen.type(CTRL_C)
        await screen.until(gone="i-search")
        assert screen.process.poll() is None
        screen.type("still here\r")
        await screen.until("answer to still here")


async def test_a_change_shows_as_a_diff_and_the_status_line_has_window_and_cost(tmp_path: Path) -> None:
    def rule(body: Any, number: int) -> Say:
        calls = (
            ("write", {"path": "poem.txt", "content": "\n".join(f"line {at}" for at in range(30))}),
            ("edit", {"path": "poem.txt", "oldText": "line 7", "newText": "line seven\nand more"}),
            ("write", {"path": "poem.txt", "content": "short"}),
        )
        return Say(calls=(calls[number],)) if number < len(calls) else Say("done", tokens=50_000)

    async with home(tmp_path, rule, sandbox={"mode": "off"}) as house:
        house.describe(cost={"input": 3, "output": 15})
        async with house.chat(size=(80, 60)) as screen:
            await screen.until("a new session", STATUS)
            screen.type("go\r")
            await screen.until("+30 −0", "18 more lines (Ctrl-O)", "+2 −1", "-line 7", "+line seven", "+1 −31", "done")
            assert screen.color_of("+line seven") == "green"
            assert screen.color_of("-line 7") == "red"
            await screen.until("50,009/200,000 tok (25 %)", "$0.")
            screen.type(CTRL_O + CTRL_O + CTRL_O)
            await screen.until("+line 29")


async def test_the_status_line_has_what_the_session_took_in_every_terminal(tmp_path: Path) -> None:
    def rule(_body: Any, number: int) -> Say:
        return Say(f"answer {number}", tokens=1_000 * (number + 1))

    def has(status: str) -> Callable[[list[str]], bool]:
        return lambda lines: any(f"mock/loop{status} · {STATUS}" in line for line in lines)

    async with home(tmp_path, rule) as house:
        house.describe(cost={"input": 3, "output": 15})
        async with house.chat(size=(100, 30)) as first:
            await first.until("a new session", STATUS)
            first.type("one\r")
            await first.until("answer 0", when=has(" · 1,009/200,000 tok (1 %) · $0.0031"))
            async with house.chat(size=(100, 30)) as second:
                await second.until("following")
                for speaker, text, status in (
                    (first, "two", " · 2,009/200,000 tok (1 %) · $0.0093"),
                    (first, "/new three", " · 3,009/200,000 tok (2 %) · $0.0091"),
                    (second, "four", " · 4,009/200,000 tok (2 %) · $0.0213"),
                    (first, "/new", ""),
                ):
                    speaker.type(f"{text}\r")
                    for each in (first, second):
                        await each.until(when=has(status))


async def test_after_a_compaction_the_status_line_says_what_was_announced(tmp_path: Path) -> None:
    def rule(body: Any, _number: int) -> Say:
        text = str(_last_user(body))
        return Say(summary_of(text)) if "<conversation>" in text else Say("a long answer " * 300)

    async with home(tmp_path, rule) as house:
        await house.talked("main", "question 1", "question 2", "question 3")
        async with house.chat(size=(120, 60)) as screen:
            await screen.until("6 messages so far", "/200,000 tok")
            screen.type("/compact\r")
            await screen.until("Compacted: ~", "undo takes it back")
            announced = re.search(r"Compacted: ~[\d,]+ → ~([\d,]+) tokens", screen.text)
            assert announced
            await screen.until(f"{announced[1]}/200,000 tok")
            screen.type("and now?\r")
            await screen.until("and now?", when=lambda _lines: "and now?" in house.said[-1])
        sent = [len(seen.raw) // 4 for seen in house.server.seen if seen.method == "POST"][-1]
    assert 0.9 < sent / int(announced[1].replace(",", "")) < 1.1  # the next request, prompt and tools included


async def test_without_colours_there_are_none(tmp_path: Path) -> None:
    async with home(tmp_path) as house:
        house.env["NO_COLOR"] = "1"
        async with house.chat() as screen:
            await screen.until("a new session", STATUS)
            screen.type("hello\r")
            await screen.until("answer to hello")
        assert b"\x1b[3" not in screen.raw.replace(b"\x1b[39", b"")


async def test_an_unknown_command_is_refused_with_what_it_may_have_been(tmp_path: Path) -> None:
    async with home(tmp_path) as house, house.chat() as screen:
        await screen.until("a new session", STATUS)
        screen.type("/compat now\r")
        await screen.until("There is no command /compat", "/compact")
        screen.type("/sesions\r/quti\r/exit now\r")
        await screen.until("no command /sesions. Did you mean /sessions", "no command /quti. Did you mean /quit")
        await screen.until("/exit stands alone")
    assert house.said == []


# One answer.


@asynccontextmanager
async def careful_home(folder: Path) -> AsyncIterator[Home]:
    """A home in which a person is asked before a command runs, and a model that wants to run one."""

    def rule(_body: Any, number: int) -> Say:
        return Say("all **done**") if number else Say(calls=(("exec", {"command": "echo made > made.txt"}),))

    config: dict[str, Any] = {"sandbox": {"mode": "off"}}
    async with home(folder, rule, **config) as house:
        path = folder / ".openclaw/openclaw.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "tools": {"exec": {"mode": "ask"}}}))
        yield house


async def test_somebody_at_a_terminal_sees_what_is_done_and_is_asked(tmp_path: Path) -> None:
    async with careful_home(tmp_path) as house:
        async with terminal(house.env, "agent", "make it") as screen:
            await screen.until("echo made", "y once")
            screen.type("y\r")
            await screen.until("exec echo made", "all done")
            assert await screen.ended() == 0
        assert (house.workspace / "made.txt").exists()


@pytest.mark.parametrize(("answer", "made"), [("y", True), ("n", False)])
async def test_a_person_behind_a_pipe_is_asked_at_the_terminal(tmp_path: Path, answer: str, made: bool) -> None:
    """As with `cat notes.txt | homarus agent …`."""
    (tmp_path / "notes.txt").write_text("what is piped in\ny\n")
    async with careful_home(tmp_path) as house:
        with subprocess.Popen(["cat", tmp_path / "notes.txt"], stdout=subprocess.PIPE) as cat:
            async with terminal(house.env, "agent", "make it", stdin=cat.stdout) as screen:
                await screen.until("echo made", "y once")
                screen.type(f"{answer}\r")
                await screen.until("all done")
                assert await screen.ended() == 0
        assert (house.workspace / "made.txt").exists() is made
        assert "what is piped in" in house.said[0]


async def test_ctrl_c_at_a_question_leads_back_to_the_shell_at_once(tmp_path: Path) -> None:
    async with careful_home(tmp_path) as house, terminal(house.env, "agent", "make it") as screen:
        await screen.until("y once")
        screen.type(CTRL_C)
        assert await screen.ended() == 130
        assert "\nhomarus: stopped" in screen.text
        assert "\n⏺ exec" in screen.text
        assert not (house.workspace / "made.txt").exists()


async def test_ctrl_c_leaves_a_chat_in_lines_at_once(tmp_path: Path) -> None:
    async with home(tmp_path) as house, terminal(house.env, "chat", "--plain") as screen:
        screen.type("hello\r")
        await screen.until("answer to hello")
        screen.type(f"half a li{CTRL_C}")
        assert await screen.ended() == 130
        assert "homarus: stopped" in screen.text


async def test_a_chat_in_lines_shows_progress_and_takes_no_line_that_was_typed_before_for_an_answer(
    tmp_path: Path,
) -> None:
    async with careful_home(tmp_path) as house:

        def rule(body: Any, number: int) -> Say:
            call = Say(calls=(("exec", {"command": "echo made > made.txt; sleep 1"}),))
            return echo(body, number) if number else call

        house.server.rule = rule
        async with terminal(house.env, "chat", "--plain") as screen:
            screen.type("make it\ryesterday\ry\r")
            await screen.until("y once · n no:")
            await asyncio.sleep(0.5)
            screen.type("y\r")
            await screen.until("allow-once: echo made", "Ctrl-C stops")
            await screen.until("⏺ exec echo made", "answer to make it", "answer to yesterday", "answer to y\n")
            screen.type(CTRL_D)
            assert await screen.ended() == 0
        assert (house.workspace / "made.txt").exists()


async def test_progress_shows_before_anything_is_answered(tmp_path: Path) -> None:
    gate = asyncio.Event()

    class Slow(Talker):
        async def answer(self, writer: asyncio.StreamWriter, answer: Answer) -> bool:
            await gate.wait()
            return await super().answer(writer, answer)

    async with serving(server=Slow(echo)) as server:
        env = make_home(tmp_path, server.url)
        async with terminal(env, "agent", "hello") as screen:
            await screen.until("Ctrl-C stops")
            gate.set()
            await screen.until("answer to hello")
            assert await screen.ended() == 0


async def test_progress_stays_on_the_screen_while_a_long_paragraph_comes_quickly(tmp_path: Path) -> None:
    pieces = [piece for number in range(250) for piece in data(choice({"content": f"word{number} "}), end=False)]

    def rule(_body: Any, _number: int) -> Say:
        return Say(answer=Answer([*pieces, *data(*openai_tail("stop"))], pause=0.02))

    async with home(tmp_path, rule) as house, terminal(house.env, "agent", "go") as screen:
        await screen.until("writing")
        for _ in range(100):
            assert "Ctrl-C stops" in screen.text
            await asyncio.sleep(0.02)
        await screen.until("word249", gone="Ctrl-C stops")
        assert await screen.ended() == 0


async def test_a_stream_at_a_terminal_shows_what_is_done_asks_and_keeps_its_text_whole(tmp_path: Path) -> None:
    said = "It is made, and a line is not broken by what goes on beside it."
    pieces = [piece for word in said.split(" ") for piece in data(choice({"content": f"{word} "}), end=False)]
    async with careful_home(tmp_path) as house:

        def rule(_body: Any, number: int) -> Say:
            call = Say("I make it.", calls=(("exec", {"command": "sleep 2; echo made > made.txt"}),))
            return Say(answer=Answer([*pieces, *data(*openai_tail("stop"))], pause=0.1)) if number else call

        house.server.rule = rule
        async with terminal(house.env, "agent", "--stream", "make it") as screen:
            await screen.until("I make it.\n? sleep 2", "y once · n no")
            screen.type("a\r")
            await screen.until("once only")
            screen.type("y\r")
            await screen.until("exec sleep 2", "Ctrl-C stops")
            await screen.until("⏺ exec sleep 2; echo made > made.txt · 2", said, gone="Ctrl-C stops")
            assert await screen.ended() == 0
        assert (house.workspace / "made.txt").exists()


async def test_what_a_program_gets_is_the_answer_while_a_person_watches(tmp_path: Path) -> None:
    """Standard output is a pipe, and standard error is the terminal: as with `homarus agent … > answer.txt`."""

    def rule(_body: Any, number: int) -> Say:
        return Say("all **done**") if number else Say(calls=(("ls", {"path": "."}),))

    async with home(tmp_path, rule) as house:
        with (tmp_path / "answer.txt").open("wb") as file:
            async with terminal(house.env, "agent", "go", stdout=file) as screen:
                await screen.until("⏺ ls .")
                assert await screen.ended() == 0
        assert (tmp_path / "answer.txt").read_text() == "all **done**\n"
        assert "done" not in screen.text


async def lent(house: Home, *words: str, cwd: Path) -> tuple[int, str]:
    async with terminal(house.env, "agent", "go", *words, cwd=cwd, size=(200, 40)) as screen:
        return await screen.ended(), screen.text


def writer(path: str) -> Rule:
    def rule(_body: Any, number: int) -> Say:
        call = ("write", {"path": path, "content": "made"})
        return Say("finished") if number % 2 else Say(calls=(call,))

    return rule


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
async def test_a_run_works_in_the_folder_that_it_is_lent_and_nowhere_else(tmp_path: Path) -> None:
    project, other = tmp_path / "project", tmp_path / "other"
    project.mkdir()
    other.mkdir()
    async with home(tmp_path, writer("made.txt")) as house:
        code, shown = await lent(house, "--workspace", ".", cwd=project)
        assert (code, (project / "made.txt").read_text()) == (0, "made"), shown
        assert not list(project.glob("*.md"))  # nobody moves in
    async with home(tmp_path, writer(f"{other}/made.txt")) as house:
        code, shown = await lent(house, "--workspace", ".", cwd=project)
        assert "Denied: " in shown
        assert not (other / "made.txt").exists()
        code, shown = await lent(house, "--add-dir", str(other), cwd=project)
        assert (other / "made.txt").read_text() == "made", shown
        for folder in ("/", str(tmp_path), str(tmp_path / ".openclaw/agents")):
            code, shown = await lent(house, "--add-dir", folder, cwd=project)
            assert code == 1, shown
            assert "holds keys" in shown


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
async def test_commands_of_a_run_start_in_the_folder_that_it_is_lent(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()

    def rule(_body: Any, number: int) -> Say:
        return Say("finished") if number else Say(calls=(("exec", {"command": "pwd > where.txt"}),))

    async with home(tmp_path, rule) as house:
        code, shown = await lent(house, "--workspace", ".", cwd=project)
    assert code == 0, shown
    assert (project / "where.txt").read_text().strip() == str(project)
