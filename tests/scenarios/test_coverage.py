"""The table of `coverage.toml` holds: every line of the spec in it names tests, and all of them exist."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent.parent
LINES: list[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "coverage.toml").read_text())["line"]


@cache
def names_in(file: str) -> frozenset[str]:
    return frozenset(re.findall(r"^(?:async )?def (test_\w+)", (TESTS / file).read_text(), re.MULTILINE))


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["spec"][:60])
def test_a_line_is_held_by_tests_that_exist(line: dict[str, Any]) -> None:
    assert bool(line.get("tests")) != bool(line.get("later")), "tests, or what it waits for"
    for test in line.get("tests", ()):
        file, _, name = test.partition("::")
        assert name in names_in(file), test


def test_every_section_is_in_the_table() -> None:
    sections = {line["spec"].split()[0] for line in LINES}
    wanted = {"6.1", "6.2", "6.3", "6.4", "6.5", "6.6", "6.7"}
    wanted |= {f"13.{part}" for part in range(1, 7)} | {f"16.{part}" for part in range(1, 7)} | {"18.1", "18.2", "20"}
    assert wanted <= sections
