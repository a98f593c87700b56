"""Front matter goes, everything that only looks like it stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.workspace.frontmatter import strip_front_matter


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("---\ntitle: x\n---\n# Body\n", "# Body\n"),
        ("---\ntitle: x\n---\n\n\nBody", "Body"),
        ("---\r\ntitle: x\r\n---\r\nBody", "Body"),
        ("---\ntags:\n  - a\n  - b\n# note\nother: >\n  text\n---\nBody", "Body"),
        ("---\ntags:\n- a\n---\nBody", "Body"),
        ("---\na: 1\n---", ""),
    ],
)
def test_a_block_of_keys_is_stripped(text, expected):
    assert strip_front_matter(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "# Title\n---\na: b\n---\n",
        "---\nA paragraph between two rules.\n---\nBody",
        "---\n---\nBody",
        "---\ntitle: never closed\n",
        "----\na: b\n----\n",
        " ---\na: b\n---\n",
        "---\nhttp://example.org\n---\nBody",
        "---\na: b\nthen prose follows here\n---\nBody",
        "",
    ],
)
def test_anything_else_stays_whole(text):
    assert strip_front_matter(text) == text


@given(st.text(alphabet="-:a \n#", max_size=60))
def test_what_is_left_is_always_an_end_of_the_text(text):
    assert text.endswith(strip_front_matter(text))
