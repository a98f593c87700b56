"""Markdown cut while it is written: bounded, whole again when joined, and the same however it came."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from homarus.delivery.chunk import Chunker, fences

PARTS = st.lists(
    st.sampled_from(
        ["word ", "A sentence. ", "Why? ", "\n", "\n\n", "```\n", "```py\n", "\n```\n", "~~~\n", "\n~~~\n", "  ```\n", "x = 1\n", "`code` ",
         "**bold text** ", "[a label](https://e.org/x) ", "https://e.org/abc ", "y" * 30, "你好。", "- item\n", "    indented\n", "````md\n", "\n````\n", " "]
    ),
    max_size=40,
)  # fmt: skip


def chunks(text: str, least: int = 20, most: int = 60, prefer: str = "paragraph", step: int = 0) -> list[str]:
    chunker = Chunker(least, most, prefer)  # type: ignore[arg-type]
    step = step or len(text) or 1
    return [
        *(block for at in range(0, len(text), step) for block in chunker.feed(text[at : at + step])),
        *chunker.flush(),
    ]


def words(text: str) -> str:
    return re.sub(r"\s", "", text)


@given(PARTS, st.integers(1, 60), st.integers(12, 120), st.sampled_from(["paragraph", "newline", "sentence"]))
@example(["```py\n", *["x = 1\n"] * 30, "```\n"], 20, 60, "paragraph")
def test_no_block_is_too_long_none_is_blank_and_nothing_is_lost(
    parts: list[str], least: int, most: int, prefer: str
) -> None:
    text = "".join(parts)
    blocks = chunks(text, least, most, prefer)
    assert all(0 < len(block) <= most and block.strip() for block in blocks)
    if "```" not in text and "~~~" not in text:
        assert words("".join(blocks)) == words(text)
    elif most >= 40:  # a cut adds fences, where there is room for them
        marks = re.compile(r"[`~]|py|md")
        assert words(marks.sub("", "\n".join(blocks))) == words(marks.sub("", text))


@given(PARTS, st.sampled_from(["paragraph", "newline", "sentence"]), st.integers(1, 30))
def test_where_it_is_cut_does_not_depend_on_how_it_came(parts: list[str], prefer: str, step: int) -> None:
    text = "".join(parts)
    assert chunks(text, prefer=prefer, step=step) == chunks(text, prefer=prefer) == chunks(text, prefer=prefer, step=1)


@given(
    st.lists(st.text("ab =", min_size=1, max_size=12), min_size=1, max_size=40),
    st.sampled_from(["```", "~~~~", "  ```"]),
)
def test_every_block_of_code_opens_and_closes_it(lines: list[str], mark: str) -> None:
    text = f"{mark}py\n" + "\n".join(lines) + f"\n{mark}\n"
    for block in chunks(text, 20, 60):
        assert block.startswith(f"{mark}py\n")
        assert block.rstrip().endswith(mark.strip())
        assert [fence.closed for fence in fences(block)] == [True]


@pytest.mark.parametrize("size", [30, 47, 61])
def test_links_code_and_emphasis_are_never_cut(size: int) -> None:
    text = "Some words [a label of words](https://e.org/x) and `inline code here` and **bold words** end. " * 6
    for block in chunks(text, 20, 60 + size):
        assert block.count("[") == block.count("](") == block.count(")")
        assert block.count("`") % 2 == 0
        assert block.count("**") % 2 == 0


# What OpenClaw's documentation says of its own blocks.


def test_a_paragraph_beyond_the_lower_bound_ends_a_block() -> None:
    text = "a" * 900 + "\n\n" + "b" * 1098
    assert chunks(text, 800, 1200) == ["a" * 900, "b" * 1098]


def test_nothing_is_given_out_below_the_lower_bound_before_the_end() -> None:
    chunker = Chunker(800, 1200)
    assert chunker.feed("short.\n\n" * 50) == []
    assert chunker.flush() == [("short.\n\n" * 50).rstrip()]


def test_a_line_is_better_than_a_sentence_and_a_sentence_is_better_than_a_word() -> None:
    base = "w " * 450
    assert chunks(f"{base}end.\n{base}", 800, 1200)[0].endswith("end.")
    assert chunks(f"{base}end. {base}", 800, 1200)[0].endswith("end.")
    assert len(chunks(base * 2, 800, 1200)[0]) > 1190
    assert [len(block) for block in chunks("x" * 3000, 800, 1200)] == [1200, 1200, 600]


def test_newlines_are_preferred_where_that_was_asked_for() -> None:
    text = "a" * 820 + "\n" + "b" * 300 + "\n\n" + "c" * 300
    assert chunks(text, 800, 1200, "newline")[0] == "a" * 820
    assert chunks(text, 800, 1200, "paragraph")[0] == "a" * 820 + "\n" + "b" * 300


def test_code_of_three_thousand_characters_keeps_its_language() -> None:
    blocks = chunks("```python\n" + "x = 1\n" * 500 + "```", 800, 1200)
    assert len(blocks) == 3
    assert all(block.startswith("```python\n") and block.endswith("\n```") for block in blocks)


def test_text_before_code_goes_out_before_it() -> None:
    blocks = chunks("p" * 850 + "\n```\n" + "x = 1\n" * 100 + "```", 800, 1200)
    assert blocks[0] == "p" * 850


def test_a_whole_paragraph_inside_code_is_no_break() -> None:
    code = "```\n" + "a" * 400 + "\n\n" + "b" * 500 + "\n```"
    assert chunks(code + "\n\nafter " * 50, 300, 1200)[0] == code
