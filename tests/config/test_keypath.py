from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.config.keypath import format_path, lookup, parse_path
from homarus.core.errors import ConfigError

steps = st.one_of(st.text(min_size=1), st.integers(0, 99))


@given(st.lists(steps, max_size=5).map(tuple))
def test_what_is_written_reads_back(path: tuple) -> None:
    assert parse_path(format_path(path)) == path


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("", ()),
        ("a", ("a",)),
        ("agents.list[0].id", ("agents", "list", 0, "id")),
        ('channels["x.y"].z', ("channels", "x.y", "z")),
        ("a['it']", ("a", "it")),
        ('a."b.c"', ("a", "b.c")),
        ("a[-1]", ("a", -1)),
        ("[2].a", (2, "a")),
        ("with space.x", ("with space", "x")),
        ("openai/gpt-5.4", ("openai/gpt-5", "4")),
    ],
)
def test_paths_as_people_write_them(text: str, path: tuple) -> None:
    assert parse_path(text) == path


@pytest.mark.parametrize("text", ["a..b", ".a", "a.", "a[", "a[x]", "a]b", "a[0]b", '"a'])
def test_text_that_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no key path"):
        parse_path(text)


def test_lookup_takes_an_index_with_a_dot() -> None:
    document = {"list": [{"id": "a"}, {"id": "b"}], "map": {"0": "zero"}}
    assert lookup(document, ("list", "1", "id")) == "b"
    assert lookup(document, ("list", -1, "id")) == "b"
    assert lookup(document, ("list", 2), "none") == "none"
    assert lookup(document, ("map", 0)) == "zero"
    assert lookup(document, ("list", "id"), "none") == "none"
    assert lookup(document, ("map", "0", "deeper"), "none") == "none"
