"""One message takes exactly the hops that ARCHITECTURE.md names, in that order, and crosses the layers downward only."""

from __future__ import annotations

import configparser
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.scenarios.home import House
from tests.scenarios.script import Line

import homarus

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = str(Path(homarus.__file__).parent) + "/"
# Calls upward that are no events: (who calls, who is called) and the seam between them, as ARCHITECTURE.md lists them.
SEAMS = {
    ("queue/lane.py", "runtime/runtime.py"): "RunTurn",
    ("subagents/run.py", "runtime/runtime.py"): "Host",
    ("commands/router.py", "runtime/local.py"): "SessionClient",
    ("context/window.py", "agent/window.py"): "Ports",
    ("context/window.py", "agent/model.py"): "Ports",
    ("tools/gate.py", "agent/toolkit.py"): "Approver",
    ("tools/execute.py", "agent/toolkit.py"): "Gate",
    ("agent/toolkit.py", "runtime/tool_backends/build.py"): "ToolSource",
}


class Trace:
    """Every call between files of the program, in order: (caller, callee, function)."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _argument: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(SOURCE):
            caller = frame.f_back
            above = caller.f_code.co_filename if caller else ""
            by = above.removeprefix(SOURCE) if above.startswith(SOURCE) else ""
            self.calls.append((by, name.removeprefix(SOURCE), frame.f_code.co_qualname))


@pytest.fixture
async def trace(tmp_path: Path) -> Trace:
    """The second turn of a session, with one call of a tool: the first one also lays out the workspace."""
    house = House(tmp_path, "hello", Line("", calls=(("read", {"path": "AGENTS.md"}),)), "done")
    found = Trace()
    async with house.agent() as agent:
        await agent.ask("are you there?")
        with found.running():
            reply = await agent.ask("hello")
    assert reply.text == "done"
    return found


def rows() -> dict[str, int]:
    """Return the row of each package, the lowest first."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    lines = parser["importlinter:contract:layers"]["layers"].split("\n")
    found = [re.findall(r"\w+", line) for line in lines if line.strip()]
    return {name: number for number, names in enumerate(reversed(found)) for name in names}


def test_a_message_takes_the_hops_of_the_architecture(trace: Trace) -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    hops = re.findall(r"^\| (\d+) \| `([\w/]+\.py)` `([\w.]+)` \|", text, re.MULTILINE)
    assert [int(number) for number, _, _ in hops] == list(range(1, len(hops) + 1)), "the table is numbered"
    assert len(hops) >= 12
    made = [(where, function) for _, where, function in trace.calls]
    at = -1
    for number, where, function in hops:
        assert (where, function) in made[at + 1 :], f"hop {number} does not come after the one before it"
        at = made.index((where, function), at + 1)


def test_a_turn_goes_up_only_through_events_and_the_named_seams(trace: Trace) -> None:
    row = rows()
    upward = set()
    for caller, callee, function in trace.calls:
        one, other = caller.partition("/")[0], callee.partition("/")[0]
        if one in row and other in row and row[other] > row[one] and not _is_event(function):
            upward.add((caller, callee))
    assert upward <= SEAMS.keys(), sorted(upward - SEAMS.keys())


def test_the_seams_are_those_of_the_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    for (declared, filled), name in SEAMS.items():
        assert name in text or declared in text, name
        assert filled.partition("/")[0] in text


def _is_event(function: str) -> bool:
    """Say whether a call tells what happened; whoever listens may live anywhere."""
    return function.rpartition(".")[2] in {"emit", "put", "settle", "heard"} or "<lambda>" in function
