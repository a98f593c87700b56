"""A late pattern is the pattern, whatever is asked of it first."""

from __future__ import annotations

import re

import pytest

from homarus.core.patterns import late

TEXT, FLAGS = r"(?P<word>[a-z]+) (\d+)", re.IGNORECASE


@pytest.mark.parametrize("name", ["match", "fullmatch", "search", "findall", "split"])
def test_a_method_does_what_the_compiled_pattern_does(name: str) -> None:
    ours, plain = late(TEXT, FLAGS), re.compile(TEXT, FLAGS)
    for text in ("Ab 12", "no number", "x 1 y 2", ""):
        assert repr(getattr(ours, name)(text)) == repr(getattr(plain, name)(text))
        assert repr(getattr(ours, name)(text)) == repr(getattr(plain, name)(text))  # and again, once compiled


def test_what_is_not_a_common_method_is_there_too() -> None:
    ours = late(TEXT, FLAGS)
    assert ours.groupindex == {"word": 1}
    assert (ours.pattern, ours.groups, ours.flags) == (TEXT, 2, re.compile(TEXT, FLAGS).flags)
    assert ours.sub(r"\2", "a 1, b 2") == "1, 2"


def test_bytes_have_patterns_too() -> None:
    assert late(rb"\d+").findall(b"1 22") == [b"1", b"22"]


def test_nothing_is_compiled_before_it_is_used() -> None:
    broken = late("(")
    with pytest.raises(re.error):
        broken.search("x")
