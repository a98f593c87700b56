from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.memory.note_parser import body_of, note_day, parse_note, speaker_of, split_lines
from homarus.memory.schema import CODE, NUMBER, PROPER, QUESTION, TIME

NOTE = """---
name: x
---
# 2026-01-02

- Anna: Did you see the boat?
- **Bob**: Yes, yesterday with Carla.
plain line

```python
# not a heading
def f(): pass
```
## Retain
- O(c=0.9) @Anna: Prefers tea
  since she moved to Rome
- W(t=2025-11) @Bob: Worked in Oslo.
## Other
- a bullet
<!-- a comment -->
"""


def units(text=NOTE, path="memory/2026-01-02.md"):
    return parse_note(path, split_lines(text))


def test_numbers_are_the_editors():
    lines = NOTE.split("\n")
    for unit in units():
        assert unit.text.split()[-1].strip("*") in lines[unit.line - 1]


def test_what_a_line_knows():
    by_line = {unit.line: unit for unit in units()}
    assert by_line[6].speaker == "Anna"
    assert by_line[6].flags & QUESTION
    assert by_line[7].speaker == "Bob"
    assert by_line[7].flags & TIME
    assert by_line[7].flags & PROPER
    assert date.fromordinal(by_line[7].first) == date(2026, 1, 1)
    assert by_line[11].flags & CODE
    assert by_line[11].kind == "note"
    assert by_line[4].kind == "heading"
    assert 20 not in by_line  # a comment
    assert all(unit.day == date(2026, 1, 2).toordinal() for unit in by_line.values())


def test_retained_facts():
    by_line = {unit.line: unit for unit in units()}
    assert by_line[15].kind == by_line[16].kind == "opinion"
    assert by_line[15].entities == ("Anna",)
    assert by_line[16].bullet is by_line[15].bullet
    assert date.fromordinal(by_line[17].first) == date(2025, 11, 1)
    assert by_line[17].precision == "month"
    assert by_line[19].kind == "note"


def test_headings_are_chained():
    found = units("# A\n## B\ntext\n# C\nmore\n", "memory/x.md")
    assert [unit.head for unit in found] == [None, 0, 1, None, 3]


CHAT = "- ben: are you up?\n- ben: you there?\n- ben: what do you say?\n"
ANSWERS = "- kim: you too?\n- kim: hm, what?\n- kim: I thought you knew\n"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (f"{CHAT}- Kim: yes\n", {"ben", "Kim"}),
        (f"{CHAT}{ANSWERS}- kim: fine\n", {"ben", "kim"}),
        (CHAT, set()),  # nobody answers
        (f"{CHAT}- kim: fine\n" * 2, set()),  # one who never turns to the other is no proof of a talk
        ("- host: db1\n- port: 5432\n- user: anna\n" * 5 + "- Anna: hello\n", {"Anna"}),
        ("- todo: did you call?\n- note: why not?\n" * 4 + "- Anna: hello\n", {"Anna"}),
        ("- mood: I am well\n- sleep: I slept for seven hours\n" * 9, set()),
        ("```\n" + CHAT + ANSWERS + "```\n", set()),
        ("".join(f"- {'abcdefghij'[n % 10] * (n // 10 + 2)}: you?\n" * 3 for n in range(80)), None),
    ],
)
def test_people_of_a_chat_may_write_their_names_in_small_letters(text, names):
    found = {unit.speaker for unit in units(text) if unit.speaker}
    assert found == names if names is not None else len(found) == 50, "no file makes the state of reading it large"


def test_dated_headings_date_an_evergreen_note():
    found = units("# Log\n## 2025-03-04\n- done\n## 5 April 2025\n- more\n## Ideas\n- none\n", "memory/log.md")
    days = {unit.line: unit.day and date.fromordinal(unit.day) for unit in found}
    assert days[3] == date(2025, 3, 4)
    assert days[5] == date(2025, 4, 5)
    assert days[7] is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Anna: hi", "Anna"),
        ("**Anna**: hi", "Anna"),
        ("[14:05] Anna Berg: hi", "Anna Berg"),
        ("14:05 Anna: hi", "Anna"),
        ("https://example.org", ""),
        ("anna: hi", ""),
        ("This is a long sentence that goes on: hi", ""),
        ("12:30 lunch", ""),
        ("小林: こんにちは", "小林"),
    ],
)
def test_speakers(text, name):
    assert speaker_of(text) == name
    assert not name or body_of(text).strip() in {"hi", "こんにちは"}


def test_days_of_paths():
    assert note_day("memory/2026-01-02-trip.md") == date(2026, 1, 2)
    assert note_day("memory/2025-01-01/2026-01-02.md") == date(2026, 1, 2)
    assert note_day("MEMORY.md") is None


def test_a_giant_line_becomes_slices_with_one_number():
    found = units("short\n" + "word " * 2000 + "\nend 3\n", "memory/x.md")
    assert [unit.line for unit in found] == [1, 2, 2, 2, 2, 2, 3]
    assert found[-1].flags & NUMBER


@given(st.text(alphabet="#-*`~ab:@?\n\r \t[](){}<!->漢1", max_size=400))
def test_any_note_parses_and_keeps_its_numbers(text):
    lines = split_lines(text)
    found = parse_note("memory/x.md", lines)
    assert [unit.line for unit in found] == sorted(unit.line for unit in found)
    for unit in found:
        assert unit.text in lines[unit.line - 1] or unit.text in lines[unit.line - 1].strip()
        assert unit.head is None or found[unit.head].kind == "heading"
