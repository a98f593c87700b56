"""Constrained output: the schema, and reading it back however it is cut."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from homarus.core.messages import Assistant, Text, ToolCall, ToolResult, User
from homarus.core.tools import ToolSpec
from homarus.models.providers.llama import Reader, instructions, output_schema, plain_messages

READ = ToolSpec(
    "read",
    "Read a file.\nMore words.",
    {
        "type": "object",
        "properties": {"path": {"type": "string", "description": "Where", "pattern": "x"}, "limit": {"type": "integer", "minimum": 1}},
        "required": ["path"],
        "$defs": {"x": {}},
    },
)  # fmt: skip
LS = ToolSpec("ls", "List.", {"type": "object", "properties": {}}, "List a folder")


def test_schema_leaves_the_choice_or_takes_it():
    both = output_schema([READ, LS], None)
    assert [next(iter(option["properties"])) for option in both["anyOf"]] == ["reply", "tool", "tool"]
    forced = output_schema([READ, LS], "required")
    assert [option["properties"]["tool"]["const"] for option in forced["anyOf"]] == ["read", "ls"]
    one = output_schema([READ, LS], "read")
    assert one["properties"]["tool"] == {"const": "read"}
    assert one["properties"]["arguments"] == {
        "type": "object",
        "properties": {"path": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
        "required": ["path"],
        "additionalProperties": False,
    }
    assert list(output_schema([READ], "none")["properties"]) == ["reply"]


def test_a_property_may_be_called_like_a_keyword():
    spec = ToolSpec("x", "", {"properties": {"type": {"type": "string"}, "required": {"type": "boolean"}}})
    arguments = output_schema([spec], "x")["properties"]["arguments"]
    assert arguments["properties"] == {"type": {"type": "string"}, "required": {"type": "boolean"}}


def test_instructions_are_short():
    assert instructions([READ, LS]).splitlines()[-2:] == ["- read(path, limit): Read a file.", "- ls(): List a folder"]


@given(
    reply=st.text(max_size=40),
    spaces=st.sampled_from(["", " ", "\n  "]),
    size=st.integers(1, 7),
    ascii_only=st.booleans(),
)
def test_a_reply_streams_the_same_however_it_is_cut(reply: str, spaces: str, size: int, ascii_only: bool):
    text = f'{spaces}{{{spaces}"reply"{spaces}:{spaces}{json.dumps(reply, ensure_ascii=ascii_only)}{spaces}}}'
    reader = Reader()
    said = "".join(reader.feed(text[i : i + size]) for i in range(0, len(text), size))
    assert said == reader.reply == reply
    assert reader.call("c") is None


@given(size=st.integers(1, 9))
def test_a_call_is_a_call_only_when_it_is_whole(size: int):
    text = '{"tool": "read", "arguments": {"path": "A.md"}}'
    reader = Reader()
    for i in range(0, len(text), size):
        assert reader.call("c") is None
        assert reader.feed(text[i : i + size]) == ""
    assert reader.call("c") == ToolCall("c", "read", {"path": "A.md"})


def test_a_cut_reply_gives_what_there_is():
    reader = Reader()
    assert reader.feed('{"reply": "half a tho') == "half a tho"
    assert reader.call("c") is None


def test_conversation_in_two_roles():
    messages = (
        User((Text("look"),), context="today"),
        Assistant((Text("ok"), ToolCall("1", "ls", {"path": "."}))),
        ToolResult("1", "ls", (Text("a\nb"),)),
        User((Text("and?"),)),
        Assistant(()),
        Assistant((Text("two files"),)),
    )
    found = plain_messages("sys", messages, tooled=True)
    assert [m["role"] for m in found] == ["system", "user", "assistant", "user", "assistant"]
    assert found[2]["content"] == '{"tool":"ls","arguments":{"path":"."}}'
    assert found[3]["content"] == "Result of ls:\na\nb\n\nand?"
    assert found[4]["content"] == '{"reply":"two files"}'
    assert plain_messages("", messages, tooled=False)[-1]["content"] == "two files"
