"""One message from a chat takes exactly the hops that ARCHITECTURE.md names, in that order, and calls up through seams alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.scenarios.chat import Platform, served
from tests.scenarios.home import until
from tests.scenarios.script import Line
from tests.scenarios.test_chat import house
from tests.scenarios.test_hops import ROOT, SEAMS, Trace, _is_event, rows

CHAT_SEAMS = {
    ("channels/manager.py", "runtime/switchboard.py"): "Take",
    ("delivery/sender.py", "channels/manager.py"): "Shows",
    ("delivery/sender.py", "runtime/switchboard.py"): "Mail",
    ("config/convert.py", "channels/settings.py"): "each package owns its block",
}


@pytest.fixture
async def trace(tmp_path: Path) -> Trace:
    home, chat = house(tmp_path, "hello", Line("", calls=(("read", {"path": "AGENTS.md"}),)), "done"), Platform()
    found = Trace()
    async with home.agent() as agent, served(agent, chat) as board:
        await chat.says("are you there?")
        await chat.sees(1)
        await until(lambda: not board.outbox.pending())
        with found.running():
            await chat.says("hello")
            await chat.sees(2)
            await until(lambda: not board.outbox.pending())
    assert chat.texts == ["hello", "done"]
    return found


def test_a_message_of_a_chat_takes_the_hops_of_the_architecture(trace: Trace) -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    hops = re.findall(r"^\| c(\d+) \| `([\w/]+\.py)` `([\w.]+)` \|", text, re.MULTILINE)
    assert [int(number) for number, _, _ in hops] == list(range(1, 13)), "twelve hops, numbered"
    made, at = [(where, function) for _, where, function in trace.calls], -1
    for number, where, function in hops:
        assert (where, function) in made[at + 1 :], f"hop c{number} does not come after the one before it"
        at = made.index((where, function), at + 1)


def test_a_turn_of_a_chat_goes_up_only_through_events_and_the_named_seams(trace: Trace) -> None:
    row, upward = rows(), set()
    for caller, callee, function in trace.calls:
        one, other = caller.partition("/")[0], callee.partition("/")[0]
        if one in row and other in row and row[other] > row[one] and not _is_event(function):
            upward.add((caller, callee))
    assert upward <= SEAMS.keys() | CHAT_SEAMS.keys(), sorted(upward - SEAMS.keys() - CHAT_SEAMS.keys())
