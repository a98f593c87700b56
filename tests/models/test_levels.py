"""Thinking levels."""

from __future__ import annotations

import pytest

from homarus.models.levels import LEVELS, nearest, parse_level, weaker


@pytest.mark.parametrize(
    ("word", "level"),
    [
        *[(level, level) for level in LEVELS],
        ("none", "off"), ("ON", "low"), ("enable", "low"), ("enabled", "low"), ("think", "minimal"), ("min", "minimal"),
        ("think hard", "low"), ("think-harder", "medium"), ("mid", "medium"), ("med", "medium"), ("harder", "medium"),
        ("ultrathink", "high"), ("ultra_think", "high"), ("think hardest", "high"), ("highest", "high"),
        ("x-high", "xhigh"), ("extra high", "xhigh"), ("auto", "adaptive"), (" High ", "high"), ("banana", None), ("", None),
    ],
)  # fmt: skip
def test_words(word: str, level: str | None):
    assert parse_level(word) == level


@pytest.mark.parametrize(
    ("level", "supported", "result"),
    [
        ("high", ("off", "low", "high"), "high"),
        ("medium", ("off", "low", "high"), "high"),
        ("xhigh", ("off", "low", "high"), "high"),
        ("minimal", ("off", "low", "high"), "low"),
        ("adaptive", ("off", "low", "high"), "high"),
        ("low", ("off",), "off"),
        ("low", (), "off"),
        ("off", ("off", "low"), "off"),
        ("off", ("low", "high"), "low"),
        ("ultra", ("low", "max"), "max"),
    ],
)
def test_nearest(level: str, supported: tuple[str, ...], result: str):
    assert nearest(level, supported) == result


def test_thinking_that_was_asked_for_never_becomes_off_while_there_is_a_level():
    for level in LEVELS[1:]:
        assert nearest(level, ("off", "minimal")) == "minimal"


def test_weaker_ends():
    assert weaker("high", ("off", "low", "high")) == "low"
    assert weaker("low", ("low", "high")) == "off"
    assert weaker("off", ("off", "low")) == ""
    assert weaker("", ("off", "low")) is None
    for start in LEVELS:
        level: str | None = start
        for _ in range(20):
            if level is None:
                break
            level = weaker(level, LEVELS)
        assert level is None
