"""Commands of a process that was killed are ended by the next one, and nobody looks where there is nothing to find."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from homarus.agent.toolkit import Orphans
from homarus.sandbox.ownership import MARK, start_of


def test_a_mark_lives_as_long_as_its_process_starts_commands(tmp_path: Path) -> None:
    orphans = Orphans(tmp_path / "commands")
    assert orphans.sweep() == [] and not (tmp_path / "commands").exists()
    orphans.mark()
    orphans.mark()
    assert [path.name for path in (tmp_path / "commands").iterdir()] == [f"{os.getpid()}.{start_of(os.getpid())}"]
    assert Orphans(tmp_path / "commands").sweep() == []
    assert list((tmp_path / "commands").iterdir()), "a living process keeps its mark"
    orphans.clear()
    assert not list((tmp_path / "commands").iterdir())


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_what_a_dead_process_left_behind_is_ended(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    born = start_of(dead.pid)
    dead.kill()
    dead.wait()
    left = subprocess.Popen(["sleep", "600"], env={"PATH": os.environ["PATH"], MARK: f"{dead.pid}.{born}.left"})
    mine = subprocess.Popen(
        ["sleep", "600"], env={"PATH": os.environ["PATH"], MARK: f"{os.getpid()}.{start_of(os.getpid())}.mine"}
    )
    try:
        folder = tmp_path / "commands"
        folder.mkdir()
        (folder / f"{dead.pid}.{born}").touch()
        deadline = time.monotonic() + 5
        while left.pid not in Orphans(folder).sweep() and left.poll() is None:
            (folder / f"{dead.pid}.{born}").touch()
            assert time.monotonic() < deadline
        assert left.wait() == -9 and mine.poll() is None
        assert not list(folder.iterdir())
    finally:
        for process in (left, mine):
            process.kill()
            process.wait()
