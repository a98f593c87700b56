"""Every byte of the prompts we ship, kept in files: a change shows up in review.

`HOMARUS_UPDATE_GOLDEN=1 python -m pytest tests/prompt/test_golden.py` writes them anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.prompt import samples

from homarus.prompt.build import build
from homarus.prompt.carrier import render_volatile

GOLDEN = Path(__file__).parent / "golden"


def rendered(case: str) -> str:
    facts, mode = samples.CASES[case]
    prompt = build(facts(), mode)
    carrier, _ = render_volatile(prompt.volatile, {})
    return f"{prompt.system.with_boundary}\n\n===== on the newest user turn =====\n{carrier}\n"


@pytest.mark.parametrize("case", samples.CASES)
def test_golden(case):
    path = GOLDEN / f"{case}.txt"
    if os.environ.get("HOMARUS_UPDATE_GOLDEN"):
        path.write_text(rendered(case), encoding="utf-8")
    assert rendered(case) == path.read_text(encoding="utf-8")


def test_every_golden_file_belongs_to_a_case():
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(samples.CASES)
