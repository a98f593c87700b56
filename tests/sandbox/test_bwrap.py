"""A yes about bubblewrap is remembered for a day, a no never; whatever is in the file, the answer is the machine's."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from homarus.core.clock import ManualClock
from homarus.sandbox import bwrap
from homarus.sandbox.bwrap import KEPT_SECONDS, remembered
from homarus.sandbox.spec import Backend

pytestmark = pytest.mark.skipif(
    bwrap.program() is None, reason="bubblewrap is not installed: there is nothing to remember"
)


class Machine:
    """Says whether a sandbox works, and counts how often it was asked."""

    def __init__(self, *, works: bool = True) -> None:
        self.works = works
        self.asked: list[Backend] = []

    def __call__(self, backend: Backend) -> bool:
        self.asked.append(backend)
        return self.works


def now() -> ManualClock:
    return ManualClock(datetime.now(UTC))


def test_a_yes_is_asked_for_once(tmp_path: Path) -> None:
    machine, file = Machine(), tmp_path / "own" / "sandbox"
    for _ in range(3):
        assert remembered(file, machine, now())(Backend.BWRAP)
    assert machine.asked == [Backend.BWRAP]


def test_a_no_and_other_backends_are_asked_for_each_time(tmp_path: Path) -> None:
    machine = Machine(works=False)
    check = remembered(tmp_path / "sandbox", machine, now())
    assert not check(Backend.BWRAP) and not check(Backend.BWRAP) and not check(Backend.LANDLOCK)
    assert len(machine.asked) == 3
    assert not (tmp_path / "sandbox").exists()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"/usr/bin/bwrap 1 2 3 other 0"])
def test_a_file_that_says_something_else_is_not_believed(tmp_path: Path, content: bytes) -> None:
    machine = Machine(works=False)
    (tmp_path / "sandbox").write_bytes(content)
    assert not remembered(tmp_path / "sandbox", machine, now())(Backend.BWRAP)


def test_it_is_tried_again_the_next_day_and_with_a_clock_that_jumped_back(tmp_path: Path) -> None:
    machine, file = Machine(), tmp_path / "sandbox"
    assert remembered(file, machine, now())(Backend.BWRAP)
    written = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    for moment in (written + timedelta(seconds=KEPT_SECONDS + 1), written - timedelta(hours=1)):
        machine.works = False
        assert not remembered(file, machine, ManualClock(moment))(Backend.BWRAP)


def test_a_folder_that_takes_nothing_is_no_reason_to_refuse(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert remembered(tmp_path / "file" / "sandbox", Machine(), now())(Backend.BWRAP)
    assert os.listdir(tmp_path) == ["file"]
