"""`homarus chat`: the parts that need no terminal, the pipe, and the screen with keys that a test presses."""

import asyncio
import io
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from tests.scenarios.family import Family, Scene, spawn
from tests.scenarios.home import House, until
from tests.scenarios.script import Line

from homarus.cli.chat import talk_in_lines
from homarus.cli.chat_input import MAX_LINES, ChatHistory, Words, dropped, referenced, suggest
from homarus.cli.chat_paint import Painter, entered, is_light
from homarus.cli.chat_screen import Screen
from homarus.cli.chat_view import HESITATION_SECONDS, Block, ChatView, Kind, Markdown, difference, past
from homarus.cli.output import width, wrapped
from homarus.core.clock import Clock, SystemClock
from homarus.core.events import (
    ApprovalAsked,
    CompactionEnded,
    CompactionStarted,
    ModelCalled,
    RunStarted,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from homarus.core.messages import Assistant, Text, ToolResult, User
from homarus.runtime.client import RunOptions
from homarus.runtime.library import Agent


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


# Markdown in pieces.


def test_a_block_is_printed_when_it_is_complete() -> None:
    blocks = Markdown()
    assert blocks.feed("One para") == []
    assert blocks.pending == "One para"
    assert blocks.feed("graph.\n\nTwo") == ["One paragraph."]
    assert blocks.feed(" more\n```py\na = 1\n\nb = 2\n") == ["Two more"]
    assert blocks.feed("```\nrest") == ["```py\na = 1\n\nb = 2\n```"]
    assert blocks.finish() == ["rest"]
    assert blocks.finish() == []


@given(st.text(alphabet="ab \n`~#-", max_size=200), st.integers(1, 20))
def test_however_text_arrives_the_blocks_are_the_same_and_nothing_is_lost(text: str, size: int) -> None:
    whole, pieces = Markdown(), Markdown()
    expected = whole.feed(text) + whole.finish()
    got = [block for at in range(0, len(text), size) for block in pieces.feed(text[at : at + size])] + pieces.finish()
    assert got == expected
    assert "".join("".join(expected).split()) == "".join(text.split())


# What is shown of a turn.


def test_tools_fold_to_a_line_and_open_again() -> None:
    view = ChatView(lambda: 0.0)
    view.take(RunStarted("r", "k", "s", "script/model"))
    view.take(ToolStarted("c1", "read", {"path": "notes.md"}))
    assert view.doing == "read notes.md"
    (line,) = view.take(ToolEnded(ToolResult("c1", "read", (Text("x" * 1500),)), 0.012))
    assert line == Block("tool", "read notes.md · 12 ms · 1.5 kB")
    opened = view.expand()
    assert opened is not None
    assert '"path": "notes.md"' in opened.text
    assert "x" * 1500 in opened.text


def test_a_command_that_failed_does_not_look_like_one_that_worked() -> None:
    view = ChatView(lambda: 0.0)
    view.take(ToolStarted("c1", "exec", {"command": "exit 3"}))
    (line,) = view.take(ToolEnded(ToolResult("c1", "exec", (Text("x"),), details={"exitCode": 3}), 1.5))
    assert line == Block("failed", "exec exit 3 · 1.5 s · exit 3 · 1 B")
    view.take(ToolStarted("c2", "exec", {"command": "true"}))
    (line,) = view.take(ToolEnded(ToolResult("c2", "exec", (Text("x"),), details={"exitCode": 0}), 1.5))
    assert line.kind == "tool"


def test_whoever_asks_for_a_compaction_is_told_once_that_there_was_none() -> None:
    view, ended = ChatView(lambda: 0.0), CompactionEnded(ok=False, reason="too short")
    view.take(CompactionStarted("manual"))
    assert view.take(ended) == []
    view.take(CompactionStarted("threshold"))
    assert view.take(ended) == [Block("note", "🧹 not compacted: too short")]


def test_a_retry_voids_what_was_not_printed_yet() -> None:
    view = ChatView(lambda: 0.0)
    view.take(TextDelta("half a th"))
    assert view.live == "half a th"
    view.take(ModelCalled("script/model", 2))
    assert view.live == ""


def test_what_the_model_says_to_the_program_never_shows() -> None:
    view = ChatView(lambda: 0.0)
    for piece in ("NO_", "RE", "PLY"):
        view.take(TextDelta(piece))
        assert view.live == ""


@pytest.mark.parametrize("color", [True, False])
def test_a_painted_block_has_colours_only_where_they_are_wanted(color: bool) -> None:
    painter = Painter(color=color)
    text = painter.paint(Block("markdown", "# Title\n\n**bold** `code`\n\n```py\nx = 1\n```"), 60)
    text += painter.paint(Block("error", "broken"), 60)
    assert ("\x1b[" in text) is color
    assert "Title" in text
    assert "x = 1" in click.unstyle(text)


def test_a_terminal_cannot_be_driven_by_what_a_tool_returns() -> None:
    painter = Painter(color=False)
    for kind in ("markdown", "detail", "error"):
        assert "\x1b" not in painter.paint(Block(kind, "a\x1b]0;owned\x07b\x1b[2J"), 60)


# Completion and history.


def test_commands_arguments_skills_and_files_complete(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "setup.md").write_text("")
    (tmp_path / ".hidden").write_text("")
    words = Words(
        commands={"model": "choose", "models": "list", "think": "level"},
        arguments={"think": ("off", "high")},
        skills={"trip": "plan trips"},
        folder=str(tmp_path),
    )

    def texts(before: str) -> list[str]:
        return [found.text for found in suggest(before, words)]

    assert texts("/mo") == ["/model", "/models"]
    assert texts("/think h") == ["high"]
    assert texts("use $tr") == ["$trip"]
    assert texts("look at @s") == ["src/", "setup.md"]
    assert texts("look at ./.h") == ["./.hidden"]
    assert texts("plain text") == []
    assert texts("@nowhere/x") == []


def test_history_is_private_bounded_and_forgets_what_begins_with_a_space(tmp_path: Path) -> None:
    history = ChatHistory(tmp_path / "homarus" / "chat-history")
    for number in range(2 * MAX_LINES + 10):
        history.add(f"line {number}")
    history.add(" secret")
    lines = history.load()
    assert len(lines) == MAX_LINES
    assert lines[-1] == f"line {2 * MAX_LINES + 9}"
    assert stat.S_IMODE(history.path.stat().st_mode) == 0o600
    assert len(history.path.read_text().splitlines()) == MAX_LINES


def test_a_damaged_history_is_no_reason_to_fail(tmp_path: Path) -> None:
    path = tmp_path / "chat-history"
    path.write_bytes(b'{"text":"one"}\nnonsense\n{"text":3}\n{"te')
    assert ChatHistory(path).load() == ["one"]


# A pipe.


async def test_each_line_of_a_pipe_is_a_message(house: House) -> None:
    out, err = io.StringIO(), io.StringIO()
    async with house.agent() as agent:
        assert await talk_in_lines(agent, io.StringIO("one\n\n/whoami\ntwo\n/exit\nthree\n"), out, err) == 0
    assert house.model.prompts == ["one", "two"]
    assert out.getvalue().splitlines() == [
        "answer 1",
        "Channel: terminal · Sender: this terminal · You are the owner.",
        "answer 2",
    ]
    assert "\x1b" not in out.getvalue()


# A screen.


class Terminal:
    """A chat screen whose keys a test presses."""

    def __init__(
        self,
        house: House,
        tmp_path: Path,
        *,
        pace: int = 1,
        clock: Clock | None = None,
        client: Callable[[Any], Any] = lambda client: client,
    ) -> None:
        self.house = house
        self.client = client  # what stands between the screen and the home
        self.clock = clock  # of the home
        self.pace = pace  # how fast the clock of the view goes
        self.history = ChatHistory(tmp_path / "chat-history")
        self.words = Words(folder=str(tmp_path))
        self.printed: list[Block] = []

    async def play(self, steps: Any) -> None:
        async with self.house.agent(clock=self.clock) as opened:
            agent = Agent(self.client(opened.client), opened.key)
            with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
                clock = asyncio.get_running_loop().time
                view = ChatView(lambda: self.pace * clock())
                painter = Painter(color=False)
                screen = Screen(agent, view, self.words, self.history, painter)
                self.agent, self.line = agent, screen.session.default_buffer
                plain = painter.paint

                def remember(block: Block, width: int) -> str:
                    self.printed.append(block)
                    return plain(block, width)

                painter.paint = remember  # type: ignore[method-assign]
                chat = asyncio.ensure_future(screen.run())
                try:
                    await steps(keys.send_text, view, self)
                    keys.send_text("\x04")
                    await asyncio.wait_for(chat, 60)
                finally:
                    chat.cancel()

    def has(self, kind: str, text: str) -> bool:
        return any(block.kind == kind and text in block.text for block in self.printed)


@pytest.fixture
def terminal(house: House, tmp_path: Path) -> Iterator[Terminal]:
    yield Terminal(house, tmp_path)


async def test_a_line_is_sent_answered_and_remembered(terminal: Terminal) -> None:
    async def steps(press, _view, screen) -> None:
        press("hello there\r")
        await until(lambda: screen.has("markdown", "answer 1"))
        press("/whoami\r")
        await until(lambda: screen.has("detail", "You are the owner"))

    await terminal.play(steps)
    assert terminal.has("user", "hello there")
    assert terminal.history.load() == ["hello there", "/whoami"]


async def test_typing_while_it_works_steers_and_escape_stops(terminal: Terminal) -> None:
    gate = terminal.house.model.hold()
    terminal.house.model.lines = [Line("", (("ls", {"path": "."}),)), Line("second", hang=True)]

    async def steps(press, view, screen) -> None:
        press("start\r")
        await terminal.house.model.entered.wait()
        press("and this too\r")
        await until(lambda: screen.has("user", "and this too"))
        gate.set()
        await until(lambda: screen.has("note", "steered"))
        await until(lambda: terminal.house.model.active == 1)
        press("\x1b")
        await until(lambda: screen.has("note", "stopped"))
        assert not view.running

    await terminal.play(steps)
    assert terminal.house.model.prompts == ["start", "and this too"]


class Distant:
    """A client as that of a gateway can be: a turn tells that it has heard a message before the sender is told that it came."""

    def __init__(self, client: Any, answered: Callable[[], bool]) -> None:
        self._client = client
        self._answered = answered

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def send(self, session: Any, text: str, options: RunOptions) -> Any:
        taken = await self._client.send(session, text, options)
        await until(self._answered)
        return taken


async def test_a_message_that_is_answered_before_its_sender_hears_that_it_came_is_shown_once_and_stays_sent(
    house: House, tmp_path: Path
) -> None:
    def is_answered() -> bool:
        return terminal.has("markdown", "answer 1")

    terminal = Terminal(house, tmp_path, client=lambda client: Distant(client, is_answered))

    async def steps(press, view, screen) -> None:
        press("hello there\r")
        await until(lambda: is_answered() and not view.running)
        press("/whoami\r")
        await until(lambda: screen.has("detail", "You are the owner"))
        assert screen.line.text == ""

    await terminal.play(steps)
    assert [block.text for block in terminal.printed if block.kind == "user"] == ["hello there", "/whoami"]


async def test_what_no_turn_has_heard_comes_back_into_the_line_when_the_session_starts_over(terminal: Terminal) -> None:
    terminal.house.model.lines = [Line("half", hang=True)]

    async def steps(press, _view, screen) -> None:
        press("start\r")
        await terminal.house.model.entered.wait()
        press("and this too\r")
        await until(lambda: screen.has("user", "and this too"))
        press("/new\r")
        await until(lambda: screen.has("detail", "A new session begins"))
        await until(lambda: screen.line.text == "and this too")
        press("\r")
        await until(lambda: screen.has("markdown", "answer 2"))

    await terminal.play(steps)
    assert terminal.house.model.prompts == ["start", "and this too"]


async def test_what_was_forgotten_while_no_turn_ran_comes_back_into_the_line(tmp_path: Path) -> None:
    house = House(tmp_path, config={"messages": {"queue": {"mode": "collect", "debounceMs": 3_000}}})
    gate, terminal = house.model.hold(), Terminal(house, tmp_path, clock=SystemClock())

    async def steps(press, view, screen) -> None:
        press("start\r")
        await house.model.entered.wait()
        press("one\rtwo\r")
        await until(lambda: screen.has("user", "two"))
        gate.set()
        await until(lambda: screen.has("markdown", "answer 1") and not view.running)
        press("/stop\r")
        await until(lambda: screen.line.text == "one\ntwo")
        press("\x03")

    await terminal.play(steps)


async def test_what_a_turn_heard_together_does_not_come_back(tmp_path: Path) -> None:
    house = House(
        tmp_path, "first", "both", Line("half", hang=True), config={"messages": {"queue": {"mode": "collect"}}}
    )
    gate, terminal = house.model.hold(), Terminal(house, tmp_path)

    async def steps(press, view, screen) -> None:
        press("start\r")
        await house.model.entered.wait()
        press("one\rtwo\r")
        await until(lambda: screen.has("user", "two"))
        gate.set()
        await until(lambda: screen.has("markdown", "first") and not view.running)
        await until(lambda: screen.has("markdown", "both") and not view.running)
        press("three\r")
        await until(lambda: view.running and house.model.active == 1)
        press("\x1b")
        await until(lambda: screen.has("note", "stopped"))
        await asyncio.sleep(0.1)
        assert screen.line.text == ""

    await terminal.play(steps)


async def test_what_waited_for_something_else_to_end_comes_back_into_the_line(terminal: Terminal) -> None:
    async def steps(press, view, screen) -> None:
        press("hello\r")
        await until(lambda: screen.has("markdown", "answer 1") and not view.running)
        async with screen.agent.client.runtime.exclusively(screen.agent.key) as cancel:
            press("important\r")
            await until(lambda: screen.has("user", "important"))
            press("/stop\r")
            await until(lambda: cancel.cancelled)
        await until(lambda: screen.line.text == "important")
        assert "important" not in str(terminal.house.transcript())
        press("\r")
        await until(lambda: screen.has("markdown", "answer 2"))

    await terminal.play(steps)
    assert terminal.house.model.prompts == ["hello", "important"]


async def test_a_new_line_is_typed_with_ctrl_j_and_ctrl_o_opens_a_tool(terminal: Terminal) -> None:
    terminal.house.model.lines = [Line("", (("ls", {"path": "."}),)), Line("done")]

    async def steps(press, _view, screen) -> None:
        press("one\ntwo\r")
        await until(lambda: screen.has("markdown", "done"))
        press("\x0f")
        await until(lambda: screen.has("detail", '"path": "."'))

    await terminal.play(steps)
    assert terminal.house.model.prompts[0] == "one\ntwo"


@pytest.mark.parametrize(("key", "ran"), [("y", True), ("n", False)])
async def test_a_question_of_the_running_turn_is_answered_with_one_key(tmp_path: Path, key: str, ran: bool) -> None:
    command = Line("", (("exec", {"command": "echo made > made.txt"}),))
    config = {"agents": {"defaults": {"sandbox": {"mode": "off"}}}, "tools": {"exec": {"mode": "ask"}}}
    house = House(tmp_path, command, "done", config=config)
    terminal = Terminal(house, tmp_path, pace=1_000)

    async def steps(press, view, screen) -> None:
        press("make it\r")
        await until(lambda: screen.has("warning", "echo made"))
        await until(lambda: view.answerable)
        press(key)
        await until(lambda: screen.has("markdown", "done"))

    await terminal.play(steps)
    assert (house.workspace / "made.txt").exists() is ran


async def test_what_can_be_allowed_once_only_is_not_lost_to_an_answer_for_good(tmp_path: Path) -> None:
    command = Line("", (("exec", {"command": "echo made > made.txt && cat made.txt"}),))
    config = {"agents": {"defaults": {"sandbox": {"mode": "off"}}}, "tools": {"exec": {"mode": "ask"}}}
    house = House(tmp_path, command, "done", config=config)
    terminal = Terminal(house, tmp_path, pace=1_000)

    async def steps(press, view, screen) -> None:
        press("make it\r")
        await until(lambda: screen.has("warning", "echo made") and view.answerable)
        press("a")
        await until(lambda: screen.has("note", "once only"))
        press("y")
        await until(lambda: screen.has("markdown", "done"))

    await terminal.play(steps)
    assert (house.workspace / "made.txt").exists()


def test_a_key_pressed_as_a_question_comes_up_is_no_answer() -> None:
    now = 0.0
    view = ChatView(lambda: now)
    assert not view.answerable
    for ident in ("a1", "a2"):
        view.take(ApprovalAsked(ident, "run rm", "rm -rf x", 0))
    assert not view.answerable
    now += HESITATION_SECONDS
    assert view.answerable
    assert view.answered()[0] == "a1"
    assert not view.answerable  # the next one has not been read yet
    now += HESITATION_SECONDS
    assert view.answered()[0] == "a2"
    assert not view.answerable


class FamilyHouse(Family):
    """A home whose chat has sub-agents."""

    def agent(self, session: str = "main", **_more: Any) -> Any:
        return self.open(session)


async def test_leaving_while_a_sub_agent_works_takes_a_second_word(tmp_path: Path) -> None:
    def rule(scene: Scene) -> Line | str:
        if scene.task:
            return "done"
        return "started" if scene.results else Line("", (spawn("slow"),))

    family = FamilyHouse(tmp_path, rule)
    family.cast.hold("slow")

    async def steps(press, view, screen) -> None:
        press("go\r")
        await until(lambda: screen.has("note", "sub-agent started") and not view.running)
        press("\x04")
        await until(lambda: screen.has("error", "1 sub-agent is still at work"))

    await Terminal(family, tmp_path).play(steps)  # and `play` says it once more


async def test_the_status_line_names_the_model_of_the_next_turn(house: House) -> None:
    async with house.agent() as agent:
        assert (await agent.client.status(agent.key)).model == "script/model"  # before anything was said
        await agent.send("/model script/other")
        assert (await agent.client.status(agent.key)).model == "script/other"


# What is typed and what is shown of it.


@given(st.text(alphabet="ab cd日\t", max_size=120), st.integers(10, 40))
def test_a_wrapped_line_loses_nothing_and_fits(line: str, columns: int) -> None:
    rows = wrapped(line, columns)
    assert "".join("".join(rows).split()) == "".join(line.split())
    assert all(width(row.rstrip()) <= columns for row in rows)
    for word in line.split():
        assert width(word) > columns or any(word in row for row in rows)


def test_files_are_named_with_an_at_sign_and_anything_else_is_words(tmp_path: Path) -> None:
    here, workspace = tmp_path / "here", tmp_path / "workspace"
    for folder in (here, workspace):
        folder.mkdir()
        (folder / "both.md").write_text(folder.name)
    (workspace / "only.md").write_text("")
    (here / "with space.md").write_text("")
    words = Words(folder=str(here), workspace=str(workspace), home=str(tmp_path))

    def found(text: str) -> list[str]:
        return [str(path.relative_to(tmp_path)) for path in referenced(text, words)]

    assert found("see @both.md, @only.md.") == ["here/both.md", "workspace/only.md"]
    assert found('(@both.md) "@both.md" a@both.md') == []
    assert found('@"with space.md" twice @"with space.md"') == ["here/with space.md"]
    assert found("@~/here/both.md") == ["here/both.md"]
    assert found(f"@nobody @{'x' * 5000} @ @a\x00b") == []
    assert [each.text for each in suggest("@bo", words)] == ["both.md"]
    assert [(each.text, each.note) for each in suggest("@on", words)] == [("only.md", "workspace")]
    assert [each.text for each in suggest('look @"with s', words)] == ['"with space.md"']


@pytest.mark.parametrize(
    ("pasted", "line"),
    [
        ("'{0}/a pic.png'", '@"{0}/a pic.png" '),
        ("{0}/a\\ pic.png", '@"{0}/a pic.png" '),
        ("file://{0}/a%20pic.png", '@"{0}/a pic.png" '),
        ("{0}/n.txt {0}/n.txt", "@{0}/n.txt @{0}/n.txt "),
        ("{0}/program", "{0}/program"),  # neither text nor a picture: meant as words
        ("{0}/gone.txt", "{0}/gone.txt"),
        ("{0}/n.txt\r\nand more", "{0}/n.txt\nand more"),
        ("'half a quote", "'half a quote"),
        ("/etc/passwd; rm -rf /", "/etc/passwd; rm -rf /"),
    ],
)
def test_what_is_dropped_on_a_terminal_becomes_a_name(tmp_path: Path, pasted: str, line: str) -> None:
    (tmp_path / "a pic.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    (tmp_path / "n.txt").write_text("words")
    (tmp_path / "program").write_bytes(b"\x7fELF\0\0")
    assert dropped(pasted.format(tmp_path), Words(folder=str(tmp_path))) == line.format(tmp_path)


@pytest.mark.parametrize(
    ("pasted", "line"),
    [
        ("one\r\n\r\ntwo\r\nthree", "one\n\ntwo\nthree"),
        ("one\r\rtwo\rthree", "one\n\ntwo\nthree"),
        ("one\r\r\r\rtwo\r\rthree\r\r", "one\n\ntwo\nthree\n"),  # CR LF whose LF became a CR
        ("a paragraph\r\ranother\r\rthird", "a paragraph\n\nanother\n\nthird"),
        ("one\r\r\r\rtwo\rthree", "one\n\n\n\ntwo\nthree"),
    ],
)
def test_line_breaks_are_pasted_as_they_were_and_no_empty_line_is_lost(pasted: str, line: str) -> None:
    assert dropped(pasted, Words()) == line


@pytest.mark.parametrize(
    ("answer", "variable", "light"),
    [
        ("\x1b]11;rgb:ffff/ffff/ffff\x07", "", True),
        ("\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\", "0;15", False),
        ("", "0;15", True),
        ("", "15;0", False),
        ("\x1b]11;nonsense\x07", "", False),
    ],
)
def test_a_light_terminal_is_known_by_its_answer(answer: str, variable: str, light: bool) -> None:
    assert is_light({"COLORFGBG": variable}, answer) is light


def test_enter_that_came_as_a_line_feed_is_enter_except_in_a_paste() -> None:
    paste = "\x1b[200~two\nlines\x1b[201~"
    assert entered(f"one\n{paste}\nthree\x1b[D\n") == f"one\r{paste}\rthree\x1b[D\r"


@pytest.mark.parametrize("light", [True, False])
def test_nothing_is_cyan_or_yellow_on_white(light: bool) -> None:
    table = "1. one `code`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\nx = 1  # why\n```"
    painter = Painter(color=True, light=light)
    kinds: tuple[Kind, ...] = ("tool", "failed", "note", "warning", "error", "user", "detail")
    blocks = [Block("markdown", table), Block("diff", "@@ -1 +1 @@\n-a\n+b"), *(Block(kind, "x") for kind in kinds)]
    painted = "".join(painter.paint(block, 60) for block in blocks)
    codes = {code for style in re.findall(r"\x1b\[([0-9;]+)m", painted) for code in style.split(";")}
    assert bool(codes & {"33", "36", "93", "96"}) is not light, "and on black they are used"


def test_code_and_tables_have_no_empty_lines_that_nobody_wrote() -> None:
    text = "before\n\n```python\na = 1\n\n\nb = 2\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nafter"
    lines = [line.strip() for line in Painter(color=False).paint(Block("markdown", text), 60).split("\n")]
    assert lines == ["before", "", "a = 1", "", "", "b = 2", "", "a  b", "────", "1  2", "", "after", "", ""]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Put <name> into vector<int>, <b>x</b>.", "Put <name> into vector<int>, <b>x</b>."),
        ("<details>\n  *hidden* block\n</details>\n\nEnd.", "<details>\n  *hidden* block\n</details>\n\nEnd."),
        ("- a <!-- b -->\n- <div>c</div>", "• a <!-- b -->\n • <div>c</div>"),
        ("> <p>quoted</p>", "▌ <p>quoted</p>"),
        ("before ![a cat](cat.png) after", "before 🌆 a cat (cat.png) after"),
        ("[1]: http://a.example", "[1]: http://a.example"),
        (f"| a |\n|---|\n| {'x' * 30}{'y' * 30} |", f"a\n{'─' * 40}\n{'x' * 30}{'y' * 10}\n{'y' * 20}"),
    ],
)
def test_what_is_not_rendered_is_shown_as_it_was_written(text: str, shown: str) -> None:
    assert Painter(color=False).paint(Block("markdown", text), 40).strip() == shown


_MARKS = [
    "<",
    ">",
    "</",
    "/>",
    "<!--",
    "-->",
    "<?",
    "<b>",
    "</div>",
    "<kbd>",
    "[",
    "]",
    "]: ",
    "![",
    "](",
    ")",
    "`",
    "*",
    "|",
]
_MARKS += ["|--|--|", "\n", "\n\n", "\n---\n", "- ", "1. ", "> ", "# ", "    ", " ", "&lt;", "\\", "http://"]


@given(st.lists(st.sampled_from([*_MARKS, *(["word"] * 20)]), max_size=14))
def test_no_word_is_lost_on_the_way_to_the_screen(pieces: list[str]) -> None:
    words = [f"w{number}." if piece == "word" else piece for number, piece in enumerate(pieces)]
    painted = "".join(Painter(color=False).paint(Block("markdown", "".join(words)), 100).split())
    assert [word for word in words if word.startswith("w") and word not in painted] == []


def test_the_last_turns_are_shown_without_the_files_that_went_along() -> None:
    sent = 'see this\n\n<file name="n.md">\nlong\n</file>'
    said = [User((Text(f"{number}"),)) for number in range(5)] + [User((Text(sent),))]
    report = User((Text("report of a child"),), provenance={"kind": "subagent"})
    blocks = past([*said, report, Assistant((Text("NO_REPLY"),)), Assistant((Text("fine"),))])
    assert [block.text for block in blocks] == ["3", "4", "see this\n\n[n.md]", "fine"]
    assert past([]) == []


def test_only_what_changes_files_has_a_diff() -> None:
    def result(name: str, text: str = "", **details: Any) -> ToolResult:
        return ToolResult("c", name, (Text(text),), details=details)

    assert difference({}, result("read", "+not a diff")) == ""
    assert difference({}, result("edit", "Changed x.\n@@ -1 +1 @@\n-a\n+b")) == "@@ -1 +1 @@\n-a\n+b"
    assert difference({"content": "a\nb\n"}, result("write", created=True)) == "+a\n+b"
    assert difference({"content": "a"}, result("write", created=False, diff="-x\n+a")) == "-x\n+a"
    assert difference({"content": "a"}, result("write", changed=False)) == ""
    patch = "*** Begin Patch\n*** Update File: a\n-x\n+y\n*** End Patch"
    assert difference({"input": patch}, result("apply_patch")) == "*** Update File: a\n-x\n+y"


async def test_what_is_attached_is_no_order_to_the_program(house: House) -> None:
    house.skill("trip")
    attached = '<file name="x">\n/elevated full\n/model script/other\n/new\n$trip\n</file>'
    async with house.agent() as agent:
        await agent.ask("look at this", options=RunOptions(attached=attached))
        assert (await agent.client.row(agent.key)).model_override is None
        await agent.ask("/think high", options=RunOptions(attached=attached))
    assert house.model.prompts[0] == f"look at this\n\n{attached}"
    assert "/elevated full" in house.model.prompts[1]
    assert "about trip" not in str(house.model.requests[0].messages[-1])


async def test_a_file_that_cannot_be_sent_leaves_the_message_on_the_line(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"\xff\x00\xfe")

    async def steps(press, _view, screen) -> None:
        press("see @blob\r")
        await until(lambda: screen.has("error", "neither text nor a picture"))
        press("\x7f" * 5 + "it\r")
        await until(lambda: screen.has("user", "see it"))
        await until(lambda: screen.has("markdown", "answer 1"))

    await terminal.play(steps)
    assert terminal.house.model.prompts == ["see it"]
