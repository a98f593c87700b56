"""What was spent today outlives the process, is shared with others, and belongs to its agent and day."""

from __future__ import annotations

import tempfile
from datetime import date
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from homarus.agent.budget import KEPT_DAYS, Spending, Spent, Tally
from homarus.core.messages import Cost, Usage

TODAY = date(2026, 3, 5)
CALL = Spent(1, Usage(input=100, output=20, cost=Cost(input=0.01)), 0.5)


def spending(folder: Path, day: date = TODAY) -> Spending:
    return Spending(folder, lambda _agent: day)


def test_a_restart_and_another_process_count(tmp_path: Path) -> None:
    one, other = spending(tmp_path), spending(tmp_path)
    one.add("main", CALL)
    assert other.today("main") == CALL
    other.add("main", CALL)
    one.add("work", CALL)
    for reader in (one, other, spending(tmp_path)):
        assert reader.today("main") == CALL.plus(CALL)
        assert reader.today("work") == CALL


def test_a_new_day_begins_with_nothing_and_old_files_go(tmp_path: Path) -> None:
    for day in range(1, 8):
        spending(tmp_path, date(2026, 3, day)).add("main", CALL)
    assert spending(tmp_path, date(2026, 3, 8)).today("main") == Spent()
    assert len(list(tmp_path.iterdir())) == KEPT_DAYS


@given(st.lists(st.binary(max_size=40), max_size=6), st.integers(0, 40))
def test_damage_costs_no_more_than_its_line(junk: list[bytes], cut: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spending(folder).add("main", CALL)
        path = next(folder.iterdir())
        whole = path.read_bytes()
        path.write_bytes(whole + b"".join(line.replace(b"\n", b"") + b"\n" for line in junk) + whole[:cut])
        reader = spending(folder)
        assert reader.today("main") == CALL
        reader.add("main", CALL)
        assert reader.today("main") == CALL.plus(CALL)


def test_a_folder_that_takes_nothing_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    stuck = spending(tmp_path / "file" / "spending")
    stuck.add("main", CALL)
    assert stuck.today("main") == CALL


def test_with_a_budget_each_call_counts_at_once_and_without_one_the_turn_does(tmp_path: Path) -> None:
    call, end = Spent(1, Usage(input=100)), Spent(seconds=2.0)
    for at_once in (True, False):
        kept = spending(tmp_path / str(at_once))
        tally = Tally(kept, ("main", "work"), at_once=at_once)
        tally(call)
        tally(call)
        assert kept.today("main") == (call.plus(call) if at_once else Spent())
        tally(end)
        assert kept.today("main") == kept.today("work") == call.plus(call).plus(end)
