"""Nobody at a terminal is left without a word, and a pipe is left alone."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.screen import terminal
from tests.cli.tree import every_command
from tests.models.servers import Answer, serving
from tests.scenarios.talker import Say, Talker, make_home

from homarus.cli.options import TALKING
from homarus.cli.output import Bar, Waiting, hushed, speak


class Screen(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal, self.spoke = terminal, threading.Event()

    def isatty(self) -> bool:
        return self._terminal

    def write(self, text: str) -> int:
        self.spoke.set()
        return super().write(text)


def until(done: Callable[[], object]) -> None:
    for _ in range(6000):
        if done():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come")


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
        with hushed():
            kept = screen.getvalue()
            screen.spoke.clear()
            assert not screen.spoke.wait(0.2) and screen.getvalue() == kept, "nothing is written over a question"
        assert screen.spoke.wait(30), "once it is answered, silence counts again"
    assert kept.count("the command ...") >= 2 and "its part ..." in kept


def test_a_bar_is_not_written_over_and_silence_after_it_is_named() -> None:
    screen = Screen(terminal=True)
    with Waiting(screen, "the command", after=0.01):
        with Bar(screen, "reading", after=3600) as bar:
            until(lambda: bar.update(1, 2) or "reading [" in screen.getvalue())
            drawn = screen.getvalue()
            screen.spoke.clear()
            assert not screen.spoke.wait(0.2) and screen.getvalue() == drawn
        screen.spoke.clear()
        assert screen.spoke.wait(30)
    assert "the command ..." in screen.getvalue()[len(drawn) :]


def test_a_bar_that_stands_still_says_so_and_never_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    screen = Screen(terminal=True)
    with Bar(screen, "saving", after=0.01) as bar:
        until(lambda: bar.update(1, 2, "a-database-with-a-long-name.sqlite") or "saving [####" in screen.getvalue())
        until(lambda: " ..." in screen.getvalue())
    lines = screen.getvalue().split("\r\x1b[K")
    assert lines[-1] == "" and max(map(len, lines)) < 60


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


async def test_the_trial_of_a_new_key_says_that_it_waits(tmp_path: Path) -> None:
    server = Tarpit()
    async with serving(server=server):
        env = make_home(tmp_path, server.url)
        path = tmp_path / ".openclaw/openclaw.json"
        path.write_text(path.read_text().replace('"sk-test"', '"${NOT_SET_YET}"'))
        async with terminal(env, "configure", "model") as screen:
            try:
                await screen.until("by its name")
                screen.type("mock/loop\r")
                await screen.until("Your key for mock")
                screen.type("sk-new\r")
                await screen.until("Trying it", "waiting for mock ...")
            finally:
                server.gate.set()


HUNG = [
    ("channels", "status"),
    ("channels", "login", "irc"),
    ("agent", "hello"),
    ("chat",),
    ("health",),
    ("sessions", "rename", "main", "x"),
]


@pytest.mark.parametrize("words", HUNG, ids=" ".join)
async def test_a_gateway_that_does_not_answer_leaves_nobody_without_a_word(words: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory(prefix="w") as name:  # a socket's path must be short
        folder = Path(name)
        env = make_home(folder, "http://127.0.0.1:9")
        own = folder / ".openclaw/homarus"
        sessions = folder / ".openclaw/agents/main/sessions"
        for each in (own, sessions):
            each.mkdir(parents=True)
        (sessions / "sessions.json").write_text('{"agent:main:main": {"sessionId": "a-b", "updatedAt": 1}}')
        gate = asyncio.Event()

        async def hang(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await gate.wait()
            writer.close()

        async with await asyncio.start_unix_server(hang, own / "gateway.sock"), terminal(env, *words) as screen:
            try:
                await screen.until(" ...")
            finally:
                gate.set()


# A machine on which whatever fits a pattern (a file, a program, an address) takes until a gate opens, which it never does.
SLOW = """
import os, re, sys, time
fits, mark = re.compile(os.environ["SLOW"]), os.environ["SLOW_MET"]
def hook(event, args):
    if event not in ("open", "os.scandir", "os.listdir", "sqlite3.connect", "socket.connect", "socket.getaddrinfo", "subprocess.Popen"):
        return
    named = str(args[0])
    if event in ("open", "os.scandir", "os.listdir", "sqlite3.connect") and not (named.startswith(os.environ["HOME"]) or named in ("b.tar.gz", "dice")):
        return  # the program's own files are as quick as ever
    if fits.search(f"{event} {args[0] if event != 'socket.connect' else args[1]}"):
        open(mark, "w").close()
        while True:
            time.sleep(60)
sys.addaudithook(hook)
"""
NOTES, TALKS = r"^(?:open|sqlite3\.connect|os\.\w+) .*(?:workspace|memory)", r"^(?:open|os\.\w+) .*(?:sessions|\.jsonl)"
LONG = {
    "doctor": r"^(?:open|os\.scandir|os\.listdir|socket|subprocess)(?!.*openclaw\.json)",
    "status": TALKS,
    "health": r"^(?:socket|open .*gateway)",
    "setup": r"^open .*workspace",
    "security audit": r"^(?:open|os\.scandir|os\.listdir) .*\.openclaw/",
    "models list": r"^socket",
    "models status": r"^socket",
    "models test mock/loop": r"^socket",
    "mcp list": r"^open .*\.openclaw",
    "mcp probe slow": r"^socket",
    "memory index": NOTES,
    "memory rebuild": NOTES,
    "memory search gate": NOTES,
    "memory recall gate": NOTES,
    "memory reflect": NOTES,
    "memory dream": NOTES,
    "memory bench --limit 1": r"^(?:open|os\.\w+|sqlite3\.connect) .*/scratch/",
    "memory doctor": NOTES,
    "skills install git+https://127.0.0.1:9/x.git": r"^(?:subprocess|socket)",
    "skills list": r"^(?:open|os\.scandir|os\.listdir) .*skills",
    "skills audit": r"^(?:open|os\.scandir|os\.listdir) .*skills",
    "plugins install dice": r"^(?:open|os\.\w+) .*dice",
    "plugins list": r"^(?:open|os\.\w+) .*plugins",
    "backup create c.tar.gz": r"^open .*(?:sessions|workspace)",
    "backup verify b.tar.gz": r"^open .*b\.tar\.gz",
    "backup restore b.tar.gz": r"^open .*b\.tar\.gz",
    "sessions list": TALKS,
    "sessions search gate": TALKS,
    "sessions export": TALKS,
    "sessions import": TALKS,
    "sessions usage": TALKS,
    "sessions check": TALKS,
    "sessions repair main": TALKS,
    "sessions cleanup --dry-run": TALKS,
    "context list": TALKS,
    "prompt": NOTES,
    "chat": TALKS,
    "agent hello": TALKS,
    "channels login irc": r"^open .*\.openclaw",
    "message send -t irc:#a -m hi": r"^(?:socket|open .*(?:gateway|channels|delivery))",
    "gateway status": r"^(?:socket|open .*gateway|subprocess)",
    "gateway stop": r"^(?:socket|open .*gateway|subprocess)",
    "gateway restart": r"^(?:socket|open .*gateway|subprocess)",
    "cron run gate": r"^(?:socket|open .*(?:cron|gateway)|sqlite3)",
    "sandbox probe": r"^subprocess",
}


FEW = [
    "doctor",
    "models list",
    "memory index",
    "skills install git+https://127.0.0.1:9/x.git",
    "backup verify b.tar.gz",
]


@pytest.mark.parametrize(
    "lines", [FEW, pytest.param([line for line in LONG if line not in FEW], marks=pytest.mark.deep)], ids=["few", "all"]
)
async def test_no_command_is_silent_when_what_it_needs_is_slow(tmp_path: Path, lines: list[str]) -> None:
    env = make_home(tmp_path / "home", "http://127.0.0.1:9")
    env |= {"PYTHONPATH": os.pathsep.join(sys.path), "OLLAMA_HOST": "http://127.0.0.1:9"}
    path = tmp_path / "home/.openclaw/openclaw.json"
    mcp = {"servers": {"slow": {"url": "http://127.0.0.1:9/mcp"}}}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"mcp": mcp}))
    (tmp_path / "home/scratch").mkdir()
    env["TMPDIR"] = str(tmp_path / "home/scratch")
    remember = "agent --model builtin/notebook -m 'Remember the gate code 4711.'"
    for line in (remember, "backup create b.tar.gz", "plugins new old", "plugins install old", "plugins new dice"):
        words = [sys.executable, "-m", "homarus", *shlex.split(line)]
        subprocess.run(words, env=env, cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow/sitecustomize.py").write_text(SLOW)
    env["PYTHONPATH"] = os.pathsep.join((str(tmp_path / "slow"), env["PYTHONPATH"]))
    room = asyncio.Semaphore(max(2, (os.cpu_count() or 2)))

    async def said(line: str, at: int) -> str:
        met = tmp_path / f"met{at}"
        words = shlex.split(line)
        async with room, terminal(env | {"SLOW": LONG[line], "SLOW_MET": str(met)}, *words, cwd=tmp_path) as screen:
            until_met = asyncio.get_running_loop().time() + 60
            while screen.process.poll() is None and not met.exists() and asyncio.get_running_loop().time() < until_met:
                await asyncio.sleep(0.02)
            if not met.exists():
                return f"{line}: met nothing slow: {screen.text.strip()}"
            try:
                await screen.until(" ...")
            except AssertionError:
                return f"{line}: silent: {screen.text.strip()}"
            return ""

    wrong = [text for text in await asyncio.gather(*map(said, lines, range(len(lines)))) if text]
    assert not wrong, "\n".join(wrong)
