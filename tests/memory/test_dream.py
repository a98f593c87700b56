"""Dreaming: what earns a place in MEMORY.md by being asked for, and what never does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.core.clock import ManualClock
from homarus.memory.bank.dream import HEADING, Gates, dream
from homarus.memory.bank.journal import undo
from homarus.memory.bank.promote import MAX_CORE
from homarus.memory.bank.signals import FILE, MAX_BYTES, Signal, note, read
from homarus.memory.memory import Memory
from homarus.memory.results import Hit
from homarus.memory.toolset import search

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
TODAY = NOW.date().toordinal()
LINE = "- The boiler of the summer house is serviced by Petra Lindqvist every April."


def opened(workspace: Path, when: datetime = NOW) -> Memory:
    return Memory(workspace, workspace / ".memory/index.sqlite", clock=ManualClock(when), tz=UTC)


def written(workspace: Path, day: str, *lines: str) -> None:
    path = workspace / f"memory/{day}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def asked(
    workspace: Path, line: str, questions: int = 5, path: str = "memory/2026-03-06.md", score: float = 0.95
) -> None:
    hit = Hit(path=path, start_line=1, end_line=1, score=score, text=line.removeprefix("- "))
    for number in range(questions):
        note(workspace, f"question {number} {'abcdefghij'[number % 10] * 5}", [hit], TODAY - 3 + number % 4)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    written(tmp_path, "2026-03-06", LINE, "- Bought bread.")
    return tmp_path


def test_what_was_asked_for_again_and_again_is_taken_over(workspace: Path) -> None:
    (workspace / "MEMORY.md").write_text("# Mine\n\nI keep this.\n")
    asked(workspace, LINE, 6)
    with opened(workspace) as memory:
        night = dream(memory)
        assert [earned.line.citation for earned in night.promoted] == ["memory/2026-03-06.md#L1"]
        core = (workspace / "MEMORY.md").read_text()
        assert core.startswith("# Mine\n\nI keep this.\n")
        assert f"{HEADING} (2026-03-10)" in core
        assert "serviced by Petra Lindqvist every April. (Source: memory/2026-03-06.md#L1)" in core
        assert "Petra Lindqvist" in (workspace / "DREAMS.md").read_text()
        before = {name: (workspace / name).read_bytes() for name in ("MEMORY.md", "DREAMS.md")}
        assert dream(memory).promoted == []
        assert before == {name: (workspace / name).read_bytes() for name in before}
    undo(workspace, night.run)
    assert (workspace / "MEMORY.md").read_text() == "# Mine\n\nI keep this.\n"


@pytest.mark.parametrize(("count", "same"), [(2, False), (8, True)])
def test_too_few_questions_earn_nothing(workspace: Path, count: int, same: bool) -> None:
    hit = Hit(path="memory/2026-03-06.md", start_line=1, end_line=1, score=0.95, text=LINE.removeprefix("- "))
    for number in range(count):
        note(workspace, "who services the boiler" if same else f"word{number}", [hit], TODAY)
    with opened(workspace) as memory:
        night = dream(memory)
    assert night.promoted == [] and not (workspace / "MEMORY.md").exists()
    (citation, why) = night.waiting[0]
    missing = "different questions 1 of 3" if same else "times asked for 2 of 3, different questions 2 of 3"
    assert citation == "memory/2026-03-06.md#L1" and why.startswith(missing)


def test_a_retained_fact_is_taken_over_in_plain_words(workspace: Path) -> None:
    fact = "O(c=0.9) @Petra: Prefers to be paid in cash at the door"
    written(workspace, "2026-03-06", "## Retain", f"- {fact}")
    asked(workspace, fact, 6)
    with opened(workspace) as memory:
        assert len(dream(memory).promoted) == 1
        core = (workspace / "MEMORY.md").read_text()
        assert "- Petra: Prefers to be paid in cash at the door (Source: memory/2026-03-06.md#L2)" in core
        assert dream(memory).promoted == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("- Who services the boiler of the summer house?", "it is no statement"),
        ("- The key is sk-proj-Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z7A and it opens everything", "it holds a secret"),
        ("- " + "The long story of the boiler goes on and on. " * 40, "it is longer than 160 tokens"),
    ],
)
def test_what_should_not_stand_in_every_prompt_stays_where_it_is(workspace: Path, line: str, why: str) -> None:
    written(workspace, "2026-03-06", line.strip())
    with opened(workspace) as memory:
        asked(workspace, memory.daily_lines(0, TODAY)[0].text, 8)
        night = dream(memory, Gates(min_score=0.5))
    assert (night.promoted, night.refused) == ([], [("memory/2026-03-06.md#L1", why)])


def test_strangers_words_and_lines_that_are_gone_are_never_taken(workspace: Path) -> None:
    strange = "- The invoice of the boiler company is to be paid at once. <!-- origin: mail -->"
    written(workspace, "2026-03-06", strange)
    asked(workspace, strange, 8)
    asked(workspace, "- A line that was deleted since then and is nowhere.", 8)
    with opened(workspace) as memory:
        assert [line.origin for line in memory.daily_lines(TODAY - 30, TODAY)] == [("mail",)]
        night = dream(memory, Gates(min_score=0.1))
    assert (night.promoted, night.refused) == ([], [])


def test_a_line_that_moved_is_known_by_what_it_says(workspace: Path) -> None:
    asked(workspace, LINE, 6)
    written(workspace, "2026-03-06", "# Friday", "", "- Something new above.", LINE)
    with opened(workspace) as memory:
        assert [earned.line.line for earned in dream(memory).promoted] == [4]


def test_old_nights_make_room_and_the_owners_lines_never_do(workspace: Path) -> None:
    own = "# Mine\n\n" + "".join(f"- fact {n} that I wrote myself and want to keep\n" for n in range(140))
    old = f"\n{HEADING} (2026-01-01)\n" + "- an old thing that was dreamt of long ago <!-- dream 0 -->\n" * 60
    old += "- my own line below it\n"
    (workspace / "MEMORY.md").write_text(own + old)
    asked(workspace, LINE, 6)
    with opened(workspace) as memory:
        dream(memory)
    core = (workspace / "MEMORY.md").read_text()
    assert len(core) <= MAX_CORE
    assert core.startswith(own)
    assert "2026-01-01" not in core
    assert "- my own line below it" in core
    assert "Petra Lindqvist" in core
    (workspace / "MEMORY.md").write_text("x" * MAX_CORE)
    with opened(workspace) as memory:
        night = dream(memory)
    assert night.refused[0][1] == "MEMORY.md is full"
    assert (workspace / "MEMORY.md").read_text() == "x" * MAX_CORE


def test_a_dry_run_writes_nothing(workspace: Path) -> None:
    asked(workspace, LINE, 6)
    with opened(workspace) as memory:
        assert len(dream(memory, dry_run=True).promoted) == 1
    assert not (workspace / "MEMORY.md").exists()
    assert not (workspace / "DREAMS.md").exists()


def test_the_diary_keeps_other_peoples_text_and_stays_small(workspace: Path) -> None:
    (workspace / "DREAMS.md").write_text("# My dreams\n\nKeep me.\n")
    for day in range(200):
        when = NOW + timedelta(days=day)
        written(workspace, when.date().isoformat(), f"- Day {day} was a long one with {'much ' * 20} to tell of Ada.")
        with opened(workspace, when) as memory:
            dream(memory)
    text = (workspace / "DREAMS.md").read_text()
    assert text.startswith("# My dreams\n\nKeep me.\n")
    assert len(text) < 14_000
    assert when.date().isoformat() in text


def test_only_the_owners_questions_count(workspace: Path) -> None:
    with opened(workspace) as memory:
        search(memory, {"query": "who services the boiler?"})
        assert list(read(workspace, 0)) == []
        search(memory, {"query": "who services the boiler?"}, counts=True)
    (signal, *_) = read(workspace, 0)
    assert (signal.day, signal.path) == (TODAY, "memory/2026-03-06.md")
    assert "boiler" not in (workspace / FILE).read_text()


def test_lines_that_came_along_without_a_score_do_not_count(workspace: Path) -> None:
    with Memory.open(workspace, clock=ManualClock(NOW), tz=UTC, provider="none") as memory:
        found = search(memory, {"query": "xylophone", "minScore": -1}, counts=True)
    assert found["results"]
    assert list(read(workspace, 0)) == []


@given(st.binary(max_size=300))
def test_a_damaged_file_of_signals_costs_signals_only(tmp_path_factory: pytest.TempPathFactory, junk: bytes) -> None:
    workspace = tmp_path_factory.mktemp("signals")
    asked(workspace, LINE, 2)
    path = workspace / FILE
    path.write_bytes(path.read_bytes() + junk + b"\n" + b'{"day":1}\n')
    asked(workspace, LINE, 1)
    assert sum(isinstance(each, Signal) for each in read(workspace, 0)) >= 3


def test_signals_are_bounded(workspace: Path) -> None:
    path = workspace / FILE
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b'{"day":1,"query":"q","path":"p","text":"t","score":1.0}\n' * 30_000)
    asked(workspace, LINE, 1)
    assert path.stat().st_size < MAX_BYTES
    assert list(read(workspace, 0))[-1].path == "memory/2026-03-06.md"
