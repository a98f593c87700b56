"""One record as bytes and back: nothing is lost to an odd string, and decoding never raises."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.storage.record import decode, encode

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_every_value_comes_back_from_one_line(value):
    raw = encode(value)
    assert b"\n" not in raw
    assert decode(raw) == (value, "")


def test_compact_and_readable():
    assert encode({"a": "é 🦞", "b": [1, None]}) == '{"a":"é 🦞","b":[1,null]}'.encode()


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b'"\\ud83d"', "\ufffd"),
        (b'{"\\udc00": ["a\\ud800b"]}', {"\ufffd": ["a\ufffdb"]}),
        (b'"\\ud83e\\udd9e"', "🦞"),
        (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
        (b'{"a":1}\r', {"a": 1}),
        (b"null", None),
    ],
)
def test_what_other_programs_write_is_read(raw, value):
    assert decode(raw) == (value, "")


def test_half_a_surrogate_pair_does_not_lose_the_record():
    class Note(msgspec.Struct):
        text: str

    assert encode(Note("cut \ud83d")) == '{"text":"cut \ufffd"}'.encode()
    assert encode({"a": ("\udc00", 1)}) == '{"a":["\ufffd",1]}'.encode()


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe", b'"\xff"', b"[" * 100_000, b"nope", b"{}{}", b"9" * 10_000])
def test_damage_is_a_problem_and_not_an_exception(raw):
    value, problem = decode(raw)
    assert value is None
    assert problem


@given(st.binary(max_size=200))
def test_decoding_is_total(raw):
    value, problem = decode(raw)
    assert problem == "" or value is None
