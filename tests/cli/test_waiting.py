"""Nobody at a terminal is left without a word, and a pipe is left alone."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from pathlib import Path

import pytest
from tests.cli.screen import terminal
from tests.cli.tree import every_command
from tests.models.servers import Answer, serving
from tests.scenarios.talker import Say, Talker, make_home

from homarus.cli.options import TALKING
from homarus.cli.output import Waiting, speak


class Screen(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal, self.spoke = terminal, threading.Event()

    def isatty(self) -> bool:
        return self._terminal

    def write(self, text: str) -> int:
        self.spoke.set()
        return super().write(text)


def test_long_work_is_named_on_a_terminal_and_the_line_is_taken_back() -> None:
    screen = Screen(terminal=True)
    with Waiting(screen, "adding up", after=0.0):
        assert screen.spoke.wait(30)
    assert screen.getvalue() == "\r\x1b[Kadding up ...\r\x1b[K"


def test_quick_work_and_a_pipe_show_nothing() -> None:
    for screen, after in ((Screen(terminal=True), 3600.0), (Screen(terminal=False), 0.0)):
        with Waiting(screen, "adding up", after=after):
            pass
        assert screen.getvalue() == ""


def test_silence_after_a_word_is_named_again_and_who_knows_more_speaks_first() -> None:
    screen = Screen(terminal=True)
    with Waiting(screen, "the command", after=0.01):
        assert screen.spoke.wait(30)
        speak()
        screen.spoke.clear()
        assert screen.spoke.wait(30), "silent again"
        with Waiting(screen, "its part", after=0.01):
            screen.spoke.clear()
            assert screen.spoke.wait(30)
        speak(for_good=True)
        kept = screen.getvalue()
    assert kept.count("the command ...") >= 2 and "its part ..." in kept
    assert screen.getvalue() == kept, "after a question of its own it says nothing more"


def test_every_command_is_watched_or_speaks_for_itself() -> None:
    """The wrapper that watches a command is the one that hands it its invocation."""
    commands = dict(every_command())
    assert [path for path, command in commands.items() if path not in TALKING and not _watched(command.callback)] == []
    assert commands.keys() >= TALKING


def _watched(function: object) -> bool:
    while function is not None:
        code = getattr(function, "__code__", None)
        if code is not None and code.co_filename.endswith("cli/options.py"):
            return True
        function = getattr(function, "__wrapped__", None)
    return False


class Tarpit(Talker):
    """A server that takes everything and answers when it is told to."""

    def __init__(self) -> None:
        super().__init__(lambda _body, _number: Say("at last"))
        self.gate = asyncio.Event()

    async def answer(self, writer: asyncio.StreamWriter, answer: Answer) -> bool:
        await self.gate.wait()
        return await super().answer(writer, answer)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("models", "test", "mock/loop"), "asking the model"),
        (("agent", "hello"), "Ctrl-C stops"),
        (("mcp", "probe", "slow"), "mcp probe"),
    ],
)
async def test_whoever_waits_for_somebody_else_says_so(tmp_path: Path, words: tuple[str, ...], shown: str) -> None:
    server = Tarpit()
    async with serving(server=server):
        env = make_home(tmp_path, server.url)
        path = tmp_path / ".openclaw/openclaw.json"
        config = json.loads(path.read_text()) | {"mcp": {"servers": {"slow": {"url": f"{server.url}/mcp"}}}}
        path.write_text(json.dumps(config))
        async with terminal(env, *words) as screen:
            try:
                await screen.until(shown)
            finally:
                server.gate.set()
