from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.memory.note_parser import chunk_lines, decode, split_lines


def test_one_small_note_is_one_chunk():
    (chunk,) = chunk_lines(["# Title", "", "text"])
    assert (chunk.start_line, chunk.end_line, chunk.text) == (1, 3, "# Title\n\ntext")


def test_no_text_no_chunk():
    assert chunk_lines([]) == []
    assert chunk_lines(["", "  ", ""]) == []


def test_cut_at_1600_characters_with_at_least_320_carried_back():
    lines = [f"line {number:03d} " + "x" * 90 for number in range(100)]
    chunks = chunk_lines(lines)
    assert chunks[0].start_line == 1
    assert chunks[0].end_line == 16  # 16 lines of 99 and a newline each are 1,600
    for before, after in itertools.pairwise(chunks):
        repeated = lines[after.start_line - 1 : before.end_line]
        assert sum(len(line) + 1 for line in repeated) >= 320
        assert sum(len(line) + 1 for line in repeated[1:]) < 320
    assert chunks[-1].end_line == 100


def test_a_trailing_newline_adds_no_line():
    lines = split_lines("a\nb\n")
    assert lines == ["a", "b"]
    assert chunk_lines(lines)[-1].end_line == 2


def test_windows_line_ends_and_a_byte_order_mark_keep_the_editors_numbers():
    assert split_lines("\ufeffone\r\ntwo\r\n\r\nfour") == ["one", "two", "", "four"]


def test_slices_of_a_giant_line_share_its_number():
    lines = ["before", "y" * 5000, "after"]
    chunks = chunk_lines(lines)
    assert {(c.start_line, c.end_line) for c in chunks[1:-1]} <= {(1, 2), (2, 2), (2, 3)}
    assert chunks[-1].end_line == 3
    assert max(len(c.text) for c in chunks) <= 2 * 1600 + 10


def test_other_sizes():
    chunks = chunk_lines(["word " * 4] * 20, tokens=1, overlap=0)  # the smallest chunk is 32 characters
    assert len(chunks) == 20
    assert [c.start_line for c in chunks] == list(range(1, 21))


@given(
    st.lists(st.text(alphabet="ab \tü漢", max_size=300), max_size=60),
    st.integers(1, 60),
    st.integers(0, 40),
)
def test_every_line_is_covered_and_no_range_leaves_the_file(lines, tokens, overlap):
    chunks = chunk_lines(lines, tokens=tokens, overlap=overlap)
    covered = {number for c in chunks for number in range(c.start_line, c.end_line + 1)}
    assert {number for number, line in enumerate(lines, 1) if line.strip()} <= covered
    for c in chunks:
        assert 1 <= c.start_line <= c.end_line <= len(lines)
        for piece in c.text.split("\n"):
            assert any(piece in lines[number - 1] for number in range(c.start_line, c.end_line + 1))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"caf\xe9 in Z\xfcrich", "café in Zürich"),  # an older Windows program
        ("café".encode("utf-16"), "café"),
        (b"\xfe\xff\x00h\x00i", "hi"),
        ("café".encode()[:-1], "caf\ufffd"),  # half written
        ("café – ".encode() + b"\xe9 later", "café – \ufffd later"),  # mostly UTF-8: one broken byte
        (b"\x00\x01\xe9\x02 later on", "\x00\x01\ufffd\x02 later on"),
        (b"", ""),
        ("\ufeffhi".encode(), "\ufeffhi"),
    ],
)
def test_encodings(data, text):
    assert decode(data) == text


@given(st.binary(max_size=200))
def test_any_bytes_give_text(data):
    assert isinstance(decode(data), str)
