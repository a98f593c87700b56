"""A new message: the bytes of its line, and an entry that is what this line says."""

import sys
from datetime import UTC, datetime
from enum import StrEnum

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from homarus.core.messages import Assistant, Cost, Image, StopReason, Text, Thinking, ToolCall, ToolResult, Usage, User
from homarus.sessions.codec import MAX_DETAILS
from homarus.sessions.entry import new_message, to_entry
from homarus.storage.record import decode

MOMENT = "2026-05-01T08:00:00.000Z"


class Word(StrEnum):
    ONE = "one"


# Half of a surrogate pair among them: it cannot be written as it is.
chars = st.characters(codec=None, categories=None)
words = st.one_of(st.text(max_size=12), st.text(chars, max_size=3))
odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    words,
    st.tuples(words),
    st.binary(max_size=3),
    st.sets(st.integers(), max_size=2),
    st.just(Word.ONE),
    st.just(datetime(2026, 5, 1, tzinfo=UTC)),
)
values = st.recursive(
    odd, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words | st.integers(), inner, max_size=3)
)
objects = st.dictionaries(words, values, max_size=4)
parts = st.lists(
    st.one_of(
        st.builds(Text, words),
        st.builds(ToolCall, words, words, objects),
        st.builds(Thinking, words, st.none() | words, st.booleans()),
        st.builds(Image, words, words),
    ),
    max_size=3,
).map(tuple)
counts = st.integers(-2, 10**6) | st.integers(10**14, 10**16)
money = st.floats(0, 9) | st.floats()
usages = st.builds(Usage, counts, counts, counts, counts, st.just(Cost()) | st.builds(Cost, money, money, money, money))
moments = st.integers(-1, 10**17)
messages = st.one_of(
    st.builds(User, parts, moments, words, words, st.none() | objects),
    st.builds(Assistant, parts, moments, words, words, words, usages, st.sampled_from(StopReason), words),
    st.builds(ToolResult, words, words, parts, moments, st.booleans(), st.none() | objects),
)


def nested(depth):
    value = {}
    for _ in range(depth):
        value = {"in": value}
    return value


@given(messages, st.none() | st.just("above"), moments)
@example(ToolResult("c", "read", (Text("x"),), 1, details=nested(60)), None, 1)
@example(ToolResult("c", "read", (Text("x"),), 1, details={"a": 1, "b": "x" * MAX_DETAILS}), "above", 1)
@example(User((Image("Q" * 5000, "image/png"),), 1), "above", 1)
@example(Assistant((ToolCall("c", "t", {"a": [1, {"b": (2,)}]}),), 1, usage=Usage(1, 2, cost=Cost(0.5))), None, 1)
def test_a_new_entry_is_what_its_line_says(message, parent, moment):
    raw, made = new_message("a", parent, MOMENT, message, moment)
    read = to_entry(decode(raw)[0], raw, lean=True)
    assert repr(made) == repr(read)  # more than equal: 1 is not True, and 1.0 is not 1


@pytest.mark.parametrize(
    "said",
    [
        User((Text("hello"), Image("QQ==", "image/png")), 5, idempotency_key="k", provenance={"collectedKeys": ["l"]}),
        Assistant((Thinking("hm", "sig"), Text("so"), ToolCall("c", "read", {"path": "x", "deep": [{"n": 1.5}]})), 7),
        Assistant((Text("yes"),), 5, "api", "p", "m", Usage(1, 2, 3, 4, Cost(0.5)), StopReason.TOOL_USE),
        ToolResult("c", "read", (Text("ok"), Image("QQ==", "image/png")), 7, details={"ms": 3, "why": None}),
    ],
)
def test_what_was_said_is_what_is_read(said):
    assert new_message("a", None, MOMENT, said, said.timestamp)[1].message == said


def test_nobody_else_can_change_an_entry():
    arguments, details = {"path": "x", "more": [1]}, {"ms": 3}
    _, call = new_message("a", None, MOMENT, Assistant((ToolCall("c", "read", arguments),), 7), 7)
    _, result = new_message("b", "a", MOMENT, ToolResult("c", "read", (Text("ok"),), 7, details=details), 7)
    arguments["more"].append(2)
    details["ms"] = 4
    assert call.message.calls[0].arguments == {"path": "x", "more": [1]}
    assert result.message.details == {"ms": 3}


def test_names_are_held_once():
    _, made = new_message("a", None, MOMENT, Assistant((Text("x"),), 7, f"an-{'api'.lower()}", "p", "m"), 7)
    assert made.message.api is sys.intern("an-api")


@pytest.mark.parametrize(
    ("message", "body"),
    [
        (
            User((Text("hi"), Image("QQ==", "image/png")), 7, "ctx", "k", {"kind": "x"}),
            (
                '{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image","data":"QQ==","mimeType":"image/png"}],'
                '"timestamp":7,"idempotencyKey":"k","provenance":{"kind":"x"}}'
            ),
        ),
        (User((Text("hi"),), 7), '{"role":"user","content":[{"type":"text","text":"hi"}],"timestamp":7}'),
        (
            Assistant(
                (Thinking("hm", "sig"), Thinking("", redacted=True), ToolCall("c", "read", {"path": "x"})),
                7,
                "api",
                "p",
                "m",
                Usage(1, 2, 3, 4, Cost(0.5)),
                StopReason.TOOL_USE,
                "oh",
            ),
            (
                '{"role":"assistant","content":[{"type":"thinking","thinking":"hm","thinkingSignature":"sig"},'
                '{"type":"thinking","thinking":"","redacted":true},'
                '{"type":"toolCall","id":"c","name":"read","arguments":{"path":"x"}}],"api":"api","provider":"p","model":"m",'
                '"usage":{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"totalTokens":10,'
                '"cost":{"input":0.5,"output":0.0,"cacheRead":0.0,"cacheWrite":0.0,"total":0.5}},'
                '"stopReason":"toolUse","errorMessage":"oh","timestamp":7}'
            ),
        ),
        (
            ToolResult("c", "read", (Text("ok"),), 7, details={"ms": 3}),
            (
                '{"role":"toolResult","toolCallId":"c","toolName":"read","content":[{"type":"text","text":"ok"}],'
                '"details":{"ms":3},"isError":false,"timestamp":7}'
            ),
        ),
    ],
)
def test_the_bytes_of_a_line(message, body):
    raw, _ = new_message("a", None, MOMENT, message, 7)
    assert raw.decode() == f'{{"type":"message","id":"a","parentId":null,"timestamp":"{MOMENT}","message":{body}}}'
    assert msgspec.json.decode(raw)["id"] == "a"
