"""The event-stream parser gives the same events whatever the chunking."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.net import sse
from homarus.net.sse import SseError, SseEvent, SseParser


def parse(chunks: list[bytes]) -> list[SseEvent]:
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)] + parser.close()


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\ndata: b\n\n", [("", b"a"), ("", b"b")]),
        (b"event: ping\ndata: {}\n\n", [("ping", b"{}")]),
        (b"data: one\r\ndata:two\r\n\r\n", [("", b"one\ntwo")]),
        (b"data: a\r\rdata: b\r\r", [("", b"a"), ("", b"b")]),
        (b": keep-alive\n\n: another\ndata: x\n\n", [("", b"x")]),
        (b"\xef\xbb\xbfdata: bom\n\n", [("", b"bom")]),
        (b"data: [DONE]", [("", b"[DONE]")]),
        (b"event: lonely\n\ndata: y\n\n", [("", b"y")]),
        (b"id: 7\nretry: 10\ndata:  two spaces\n\n", [("", b" two spaces")]),
        (b"data\n\n", [("", b"")]),
        (b"", []),
        (b"\n\n\n", []),
    ],
)
def test_events(stream: bytes, expected: list[tuple[str, bytes]]):
    assert parse([stream]) == [SseEvent(*item) for item in expected]


fragments = st.lists(
    st.sampled_from(
        [b"data: ", b"data:", b"event: ", b":", b"\n", b"\r", b"\r\n", b"x", b'{"a":1}', b"\xc3\xa9", b" "]
    ),
    max_size=40,
).map(b"".join)


# Streams of whole events, which are read without the parser's state, with something else among them now and then.
usual = st.lists(
    st.sampled_from(
        [b'data: {"a":1}\n\n'] * 6 + [b"data: \n\n", b"data:x\n\n", b"data: y\n", b"\n", b"\r\n", b": z\n\n"]
    ),
    max_size=12,
).map(b"".join)


@given(stream=fragments | usual, cuts=st.lists(st.integers(0, 200), max_size=12))
def test_any_chunking_gives_the_same_events(stream: bytes, cuts: list[int]):
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    chunks = [stream[a:b] for a, b in itertools.pairwise(edges)]
    assert parse(chunks) == parse([stream]) == parse([bytes([byte]) for byte in stream])


def test_an_endless_event_is_refused():
    parser = SseParser()
    block = b"x" * (1 << 20)
    parser.feed(b"data: ")
    with pytest.raises(SseError):
        for _ in range(sse.MAX_EVENT_BYTES // len(block) + 2):
            parser.feed(block)
