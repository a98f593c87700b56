"""The notebook with the real memory tools: told on one day, asked on another, every word from a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from homarus.core.clock import ManualClock
from homarus.core.messages import Assistant, Message, Text, ToolResult, User
from homarus.memory import Memory, toolset
from homarus.models.notebook.turn import next_step
from homarus.models.notebook.words import say

NOTHING_FOUND = say("unknown", german=False)

RUN = {
    "memory_retain": toolset.retain_fact,
    "memory_recall": toolset.recall,
    "memory_search": toolset.search,
    "memory_get": toolset.get,
}


class Home:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = ManualClock(datetime(2026, 11, 15, 8, tzinfo=UTC))
        self.memory = Memory.open(root, clock=self.clock, tz=UTC, provider="none")
        self.messages: list[Message] = []

    def say(self, text: str) -> str:
        self.messages.append(User((Text(text),)))
        while True:
            step = next_step(self.messages, toolset.SPECS, "", self.clock.now())
            self.messages.append(Assistant((*([Text(step.text)] if step.text else []), *step.calls)))
            if not step.calls:
                return step.text
            for call in step.calls:
                result = json.dumps(RUN[call.name](self.memory, call.arguments), ensure_ascii=False)
                self.messages.append(ToolResult(call.id, call.name, (Text(result),)))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.memory.close()


def cited(said: str, home: Home) -> str:
    """The line that an answer cites."""
    path, _, line = said.rpartition("(")[2].rstrip(")").partition("#L")
    return (home.root / path).read_text().splitlines()[int(line.split("-")[0]) - 1]


def test_told_and_asked(home: Home):
    said = home.say("Remember that the gate code of the cabin is 4711.")
    assert said.endswith("(memory/2026-11-15.md#L4)")
    assert "4711" in (home.root / "memory" / "2026-11-15.md").read_text()
    home.say("The plumber is called Joe Brandt.")
    home.say("Ada prefers tea over coffee.")
    home.clock.advance(86_400 * 30)
    answer = home.say("What is the gate code?")
    assert "4711" in answer
    assert "4711" in cited(answer, home)
    assert "Joe Brandt" in home.say("who is the plumber?")
    assert "tea" in home.say("what does Ada prefer?")
    assert home.say("What is the capital of Mongolia?") == NOTHING_FOUND


def test_what_stands_in_the_notes_already_is_found(home: Home):
    (home.root / "MEMORY.md").write_text("# Memory\n\n- The boiler was serviced by Nordwind in May 2025.\n")
    answer = home.say("When was the boiler serviced?")
    assert answer == "Your notes say: “The boiler was serviced by Nordwind in May 2025.” (MEMORY.md#L3)"


def test_an_empty_field_of_a_template_is_no_answer(home: Home):
    home.say("My name is Anna.")
    assert home.say("what is my name?").startswith("Your notes say: “My name is Anna.”")
