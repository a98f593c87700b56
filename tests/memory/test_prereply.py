from __future__ import annotations

import json

import pytest

from homarus.core.text import estimate_tokens
from homarus.memory.settings import MemorySettings, PreReply
from homarus.memory.toolset import pre_reply

ON = MemorySettings(pre_reply=PreReply(enabled=True))


def test_off_by_default(notes):
    notes.write("memory/a.md", "The boat is called Marlene.\n")
    assert pre_reply(notes.open(), "what is the boat called") == ()


def test_passages_with_their_place(notes):
    notes.write("memory/a.md", "The boat is called <Marlene>.\n")
    memory = notes.open(settings=ON)
    assert pre_reply(memory, "what is the boat called") == (("memory/a.md#L1", "The boat is called <Marlene>."),)


@pytest.mark.parametrize("message", ["", "  ", "zebra quagga", "\0", "/" * 5000])
def test_nothing_to_say(notes, message):
    notes.write("memory/a.md", "The boat is called Marlene.\n")
    assert pre_reply(notes.open(settings=ON), message) == ()


def test_what_the_prompt_shows_anyway_is_left_out(notes, tmp_path):
    notes.write("MEMORY.md", "The boat is called Marlene.\n")
    notes.write("USER.md", "The boat is called Marlene by the owner.\n")
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    said = {"type": "message", "id": "1", "message": {"role": "user", "content": "The boat is called Marlene, I said."}}
    (sessions / "now.jsonl").write_text(json.dumps(said) + "\n")
    (sessions / "old.jsonl").write_text(json.dumps(said) + "\n")
    memory = notes.open(settings=ON, sessions=sessions)
    assert [place for place, _ in pre_reply(memory, "what is the boat called", session_id="now")] == [
        "sessions/old.jsonl#L1"
    ]


def test_the_budget_holds_with_the_headings(notes):
    for number in range(40):
        notes.write(f"memory/n{number}.md", f"The boat of harbour {number} is called Marlene the {number}th.\n")
    memory = notes.open(settings=MemorySettings(pre_reply=PreReply(enabled=True, budget_tokens=120)))
    found = pre_reply(memory, "what is the boat called")
    assert 1 < len(found) < 12
    assert sum(estimate_tokens(f"## {place} (this turn)\n{text}") for place, text in found) <= 120


def test_a_long_message_asks_with_its_ends(notes):
    notes.write("memory/a.md", "The boat is called Marlene.\n")
    long = "Our boat " + "\n" * 1_000_000 + "is called what?"
    assert pre_reply(notes.open(settings=ON), long)
    assert pre_reply(notes.open(settings=ON), "word " * 200_000) == ()
