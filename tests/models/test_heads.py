"""Heads of replies: what says how to read a body is found in one look, and it is what the whole head says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.models.connection import HttpError
from homarus.models.heads import fields, read_head

NAMES = ["Connection", "CONTENT-LENGTH", "content-type", "Content-Encoding", "transfer-encoding", "X-Content-Type",
         "content-type-options", "Date", "x-request-id"]  # fmt: skip
VALUES = [
    "close",
    "keep-alive",
    "12",
    "0",
    "chunked",
    "gzip, Chunked",
    "text/event-stream",
    "application/JSON",
    "GZip",
    "a:b",
    "",
]
lines = st.tuples(
    st.sampled_from(NAMES), st.sampled_from(["", " ", "\t "]), st.sampled_from(VALUES), st.sampled_from(["", " "])
)


@given(st.lists(lines, max_size=8), st.sampled_from([200, 204, 429, 503]))
def test_the_short_look_finds_what_the_whole_head_says(given_lines: list[tuple[str, str, str, str]], status: int):
    text = "".join(f"{name}:{before}{value}{after}\r\n" for name, before, value, after in given_lines)
    raw = f"HTTP/1.1 {status} Said\r\n{text}\r\n".encode()
    everything = fields(raw)
    length = everything.get("content-length")
    if length is not None and not length.isdigit():
        with pytest.raises(HttpError, match="no number"):
            read_head(raw)
        return
    found = read_head(raw)
    assert found.status == status
    assert found.kind == everything.get("content-type", "")
    assert found.encoding == everything.get("content-encoding", "").lower()
    assert found.chunked == ("chunked" in everything.get("transfer-encoding", "").lower())
    assert found.length == (None if length is None else int(length))
    assert found.reusable == (everything.get("connection", "").lower() != "close")


def test_a_field_that_comes_twice_has_both_values():
    raw = b"HTTP/1.1 200\r\nTransfer-Encoding: gzip\r\nX: 1\r\nTRANSFER-ENCODING: chunked\r\nX: 2\r\n\r\n"
    assert read_head(raw).chunked
    assert fields(raw) == {"transfer-encoding": "gzip, chunked", "x": "1, 2"}


@pytest.mark.parametrize("raw", [b"SSH-2.0-x\r\n\r\n", b"HTTP/2 200\r\n\r\n", b"HTTP/1.1 OK\r\n\r\n", b"\r\n\r\n"])
def test_what_is_no_reply_is_said_so(raw: bytes):
    with pytest.raises(HttpError, match="not an HTTP"):
        read_head(raw)
