"""The page of long runs names tests that are there: a figure whose command finds nothing is nobody's figure."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
COMMANDS = re.findall(r"`pytest (tests/[\w/.]+)([^`]*)`", (ROOT / "docs/reliability.md").read_text())


@pytest.mark.parametrize(("place", "options"), COMMANDS, ids=[place for place, _ in COMMANDS])
def test_a_command_finds_its_tests(place: str, options: str) -> None:
    path = ROOT / place
    files = [path] if path.is_file() else sorted(path.rglob("test_*.py"))
    names = re.findall(r"def (test_\w+)", "\n".join(file.read_text() for file in files))
    assert names, place
    chosen = re.search(r'-k "?([\w ]+)"?', options)
    words = chosen[1].split(" or ") if chosen else [""]
    where = " ".join([*names, *(file.stem for file in files)])
    assert [word for word in words if word.strip() not in where] == []
    if "-m deep" in options:
        assert any("deep" in file.read_text() for file in files), f"{place} has no long run"
