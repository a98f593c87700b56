from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.memory.bank.retain import insert

DAY = date(2026, 6, 15)


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("", "# 2026-06-15\n\n## Retain\n- W: x\n", 4),
        ("# Day\n- a", "# Day\n- a\n\n## Retain\n- W: x\n", 5),
        ("## Retain\n- W: a\n", "## Retain\n- W: a\n- W: x\n", 3),
        ("## Retain\n- W: a\n\n## Next\nb\n", "## Retain\n- W: a\n- W: x\n\n## Next\nb\n", 3),
        ("### retain\n- W: a\n#### deeper\n- b\n", "### retain\n- W: a\n#### deeper\n- b\n- W: x\n", 5),
        ("## Retain\r\n- W: a\r\n", "## Retain\r\n- W: a\r\n- W: x\r\n", 3),
        ("## Retain\n", "## Retain\n- W: x\n", 2),
    ],
)
def test_where_a_bullet_goes(before, after, line):
    assert insert(before, "- W: x", DAY) == (after, line)


@given(st.text(alphabet="#- Retain\nabc\r", max_size=120))
def test_everything_else_stays_byte_for_byte(before):
    after, line = insert(before, "- W: unique fact", DAY)
    assert after.split("\n")[line - 1].rstrip("\r") == "- W: unique fact"
    if before.strip():
        rest = after.split("\n")
        del rest[line - 1]
        assert [x.rstrip("\r") for x in rest if x.strip() and x.rstrip("\r") != "## Retain"] == [
            x.rstrip("\r") for x in before.split("\n") if x.strip() and x.rstrip("\r") != "## Retain"
        ]
