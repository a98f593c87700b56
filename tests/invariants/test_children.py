"""Fifty sub-agents at once, with failures, timeouts, and kill -9 of everything in between: each result arrives once."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.invariants import children_driver
from tests.invariants.test_kill import Victims
from tests.sessions.provider_rules import check_anthropic, check_openai

from homarus.core.messages import Assistant, ToolResult, User
from homarus.core.routes import main_session
from homarus.queue.inbox import Inbox
from homarus.sessions.codec import keys_of
from homarus.sessions.entry import MessageEntry
from homarus.sessions.log import identify, read_entries

MAIN = main_session("main")


def make_home(folder: Path) -> Path:
    home = folder / "home"
    (home / ".openclaw").mkdir(parents=True)
    (home / ".openclaw" / "openclaw.json").write_text(children_driver.CONFIG)
    return home


def left_running(home: Path) -> list[str]:
    """Return the commands of this home's children that are still there."""
    wanted, found = f"sleep\0{children_driver.mark(home)}".encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if wanted in line:
            found.append(entry.name)
    return found


def verify(home: Path) -> Counter[str]:
    """Check a home in which everything has ended; return how the children ended."""
    runtime = children_driver.open_runtime(home)
    info = runtime.home.store("main").find(MAIN)
    assert info is not None
    entries = [entry for entry in read_entries(identify(info.place.path)) if isinstance(entry, MessageEntry)]
    messages = [entry.message for entry in entries]
    stored = Counter(key for entry in entries if entry.role == "user" for key in keys_of(entry.body))
    assert not [key for key, times in stored.items() if times > 1], "something was told twice"
    reported = {key.removeprefix("subagent:") for key in stored if key.startswith("subagent:")}
    noted = [line.split() for line in (home / "started").read_text().splitlines()]
    accepted = {
        json.loads(message.text)["runId"]
        for message in messages
        if isinstance(message, ToolResult) and message.text.startswith('{"status":"accepted"')
    }
    assert {run for run, _ in noted} | accepted <= reported, "a result was lost"
    assert all(int(at_work) <= children_driver.WIDTH for _, at_work in noted), "more at once than allowed"
    calls = Counter(call.id for message in messages if isinstance(message, Assistant) for call in message.calls)
    assert calls == Counter(message.call_id for message in messages if isinstance(message, ToolResult))
    assert runtime.children.books.count(MAIN) == 0
    for path in (runtime.home.config.paths.own_dir / "inbox").glob("*.jsonl"):
        assert not [item for item in Inbox(path).pending if item.route.session_key == MAIN]
    with runtime.home.store("main").open_writer(MAIN) as writer:
        check_openai(writer.history())
        check_anthropic(writer.history())
    deadline = time.monotonic() + 60
    while left := left_running(home):
        assert time.monotonic() < deadline, f"commands outlived their sessions: {left}"
        time.sleep(0.05)
    heads = [message.text.split("\n")[0] for message in messages if isinstance(message, User)]
    return Counter(head.rpartition(": ")[2] for head in heads if head.startswith("[Subagent Result]"))


def massacre(folder: Path, kills: int, *, check_every: int) -> Counter[str]:
    home, dice = make_home(folder), random.Random(kills)
    victims = Victims(home, "children_driver.py")
    try:
        usual = victims.run(0, children_driver.WIDTH, kill_after=None)
        calm = verify(home)
        assert calm == {"ok": 44, "error": 5, "timeout": 1}
        for number in range(1, kills + 1):
            victims.run(number, children_driver.WIDTH, kill_after=dice.randint(1, usual))
            if number % check_every == 0:
                victims.run(100_000 + number, 0, kill_after=None)
                verify(home)
        victims.run(200_000, 3, kill_after=None)
    finally:
        victims.close()
    return verify(home)


def test_fifty_children_and_three_kills(tmp_path: Path) -> None:
    ended = massacre(tmp_path, 3, check_every=2)
    assert ended["unknown"] > 0 and ended["ok"] > 44


@pytest.mark.deep
def test_fifty_children_and_a_hundred_kills(tmp_path: Path) -> None:
    ended = massacre(tmp_path, 100, check_every=10)
    assert ended["unknown"] > 0
