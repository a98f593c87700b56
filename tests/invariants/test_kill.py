"""kill -9 in the middle of turns: nothing that was accepted is lost or doubled, no finished call runs twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.invariants import kill_driver
from tests.sessions.provider_rules import check_anthropic, check_openai

from homarus.agent.resume import INTERRUPTED
from homarus.core.messages import Assistant, ToolResult
from homarus.core.routes import main_session
from homarus.queue.inbox import Inbox
from homarus.sessions.codec import keys_of
from homarus.sessions.entry import MessageEntry
from homarus.sessions.log import identify, read_entries

ROOT = Path(__file__).resolve().parents[2]


class Victims:
    """Starts children that take up the same home, one after another, and kills them."""

    def __init__(self, home: Path, driver: str = "kill_driver.py") -> None:
        self.home = home
        reading, writing = os.pipe()
        self.steps = reading
        self.errors = (home.parent / "stderr").open("w+b")

        def third() -> None:
            os.dup2(writing, 3)

        self.server = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "invariants" / driver)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            pass_fds=(3,) if writing == 3 else (),
            close_fds=False,
            preexec_fn=third,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "HOME": str(home)},
        )
        os.close(writing)

    def run(self, seed: int, jobs: int, *, kill_after: int | None) -> int:
        """Run one child, kill it after so many steps, and return how many steps it had taken."""
        assert self.server.stdin and self.server.stdout
        self.server.stdin.write(f"{self.home} {seed} {jobs}\n".encode())
        self.server.stdin.flush()
        child = int(self.server.stdout.readline())
        taken = 0
        while True:
            told = os.read(self.steps, 1 if kill_after is not None else 4096)
            if told.endswith(b"!"):
                break
            taken += len(told)
            if kill_after is not None and taken >= kill_after:
                os.kill(child, signal.SIGKILL)
                kill_after = None
        status = int(self.server.stdout.readline())
        self.errors.seek(0)
        assert status in (0, -signal.SIGKILL), self.errors.read().decode()
        return taken

    def close(self) -> None:
        assert self.server.stdin and self.server.stdout
        self.server.stdin.close()
        self.server.wait()
        self.server.stdout.close()
        os.close(self.steps)
        self.errors.close()


def make_home(folder: Path) -> Path:
    home = folder / "home"
    (home / ".openclaw").mkdir(parents=True)
    (home / ".openclaw" / "openclaw.json").write_text(kill_driver.CONFIG)
    return home


def verify(home: Path) -> dict[str, int]:
    """Check everything that must hold of a home in which all children are gone; return what was counted."""
    (path,) = (home / ".openclaw" / "agents" / "main" / "sessions").glob("*.jsonl")
    entries = [entry for entry in read_entries(identify(path)) if isinstance(entry, MessageEntry)]
    messages = [entry.message for entry in entries]
    stored = Counter(key for entry in entries if entry.role == "user" for key in keys_of(entry.body))
    accepted = (home / "accepted").read_text().split()
    assert not [key for key, times in stored.items() if times > 1], "a message was stored twice"
    assert set(accepted) <= set(stored), "an accepted message was lost"
    calls = Counter(call.id for message in messages if isinstance(message, Assistant) for call in message.calls)
    results = Counter(message.call_id for message in messages if isinstance(message, ToolResult))
    assert calls == results, "a call without exactly one result"
    assert set(calls.values()) <= {1}
    ledger = [line.split("\t") for line in (home / "ledger").read_text().splitlines()]
    ran = Counter(call for call, _ in ledger)
    assert set(ran.values()) <= {1}, "a call ran twice"
    assert set(Counter(job for _, job in ledger).values()) <= {1}, "finished work was done again"
    assert set(ran) <= set(calls), "a call ran that is not in the transcript"
    finished = {m.call_id for m in messages if isinstance(m, ToolResult) and m.text.startswith("did ")}
    assert finished <= set(ran)
    runtime = kill_driver.open_runtime(home)
    (inbox,) = (runtime.home.config.paths.own_dir / "inbox").glob("*.jsonl")
    assert Inbox(inbox).pending == (), "the inbox did not settle"
    store = runtime.home.store("main")
    with store.open_writer(main_session("main")) as writer:
        history = writer.history()
        assert writer.open_calls == ()
    check_openai(history)
    check_anthropic(history)
    cut = sum(isinstance(m, ToolResult) and m.text == INTERRUPTED for m in messages)
    return {"messages": sum(stored.values()), "calls": len(calls), "ran": len(ran), "interrupted": cut}


def massacre(folder: Path, kills: int, *, check_every: int) -> dict[str, int]:
    home, dice = make_home(folder), random.Random(kills)
    victims = Victims(home)
    try:
        usual = victims.run(0, 2, kill_after=None)
        assert verify(home)["interrupted"] == 0
        for number in range(1, kills + 1):
            victims.run(number, 2, kill_after=dice.randint(1, usual))
            if number % check_every == 0:
                victims.run(100_000 + number, 0, kill_after=None)
                verify(home)
        victims.run(200_000, 1, kill_after=None)
    finally:
        victims.close()
    return verify(home)


def test_twenty_kills(tmp_path: Path) -> None:
    counted = massacre(tmp_path, 20, check_every=7)
    assert counted["messages"] >= 20


@pytest.mark.deep
@pytest.mark.parametrize("part", range(5))
def test_five_hundred_kills(tmp_path: Path, part: int) -> None:
    counted = massacre(tmp_path, 100 + part - 2, check_every=20)
    assert counted["interrupted"] > 10
    assert counted["messages"] > 100


def test_the_checks_would_notice(tmp_path: Path) -> None:
    """A transcript in which one message stands twice does not pass."""
    home = make_home(tmp_path)
    victims = Victims(home)
    try:
        victims.run(0, 1, kill_after=None)
    finally:
        victims.close()
    verify(home)
    (path,) = (home / ".openclaw" / "agents" / "main" / "sessions").glob("*.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    user = next(line for line in lines if b'"role":"user"' in line)
    path.write_bytes(b"".join([*lines, user.replace(b'"id":"', b'"id":"z')]))
    with pytest.raises(AssertionError, match="stored twice"):
        verify(home)
