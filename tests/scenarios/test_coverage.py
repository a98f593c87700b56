"""The tables `coverage.toml` hold: every claim in them names tests, and all of those exist."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent.parent
TABLES = [TESTS / name / "coverage.toml" for name in ("scenarios", "gateway")]
CLAIMS: list[dict[str, Any]] = [claim for table in TABLES for claim in tomllib.loads(table.read_text())["claim"]]


@cache
def names_in(file: str) -> frozenset[str]:
    return frozenset(re.findall(r"^(?:async )?def (test_\w+)", (TESTS / file).read_text(), re.MULTILINE))


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["text"][:60])
def test_a_claim_is_held_by_tests_that_exist(claim: dict[str, Any]) -> None:
    assert claim["tests"]
    for test in claim["tests"]:
        file, _, name = test.partition("::")
        assert name in names_in(file), test


def test_no_claim_stands_twice() -> None:
    assert len({claim["text"] for claim in CLAIMS}) == len(CLAIMS)
