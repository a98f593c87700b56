import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.core.messages import Assistant, Cost, Image, StopReason, Text, Thinking, ToolCall, ToolResult, Usage, User
from homarus.sessions.codec import MAX_DETAILS, cap_details, from_message, to_message, to_ms, to_usage

texts = st.text(max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
moments = st.integers(1, 2_000_000_000_000)
calls = st.builds(ToolCall, texts, texts, st.dictionaries(texts, texts, max_size=3))
images = st.builds(Image, st.text(min_size=1, max_size=5), st.just("image/png"))
words = st.builds(Text, texts)
thoughts = st.builds(Thinking, texts, st.none() | st.text(min_size=1, max_size=5), st.booleans())
usages = st.builds(Usage, *[st.integers(0, 10**9)] * 4, st.builds(Cost, *[st.floats(0, 100)] * 4))
messages = st.one_of(
    st.builds(
        User,
        st.lists(words | images, max_size=3).map(tuple),
        moments,
        idempotency_key=texts,
        provenance=st.none() | st.just({"kind": "x"}),
    ),
    st.builds(
        Assistant,
        st.lists(words | thoughts | calls, max_size=3).map(tuple),
        moments,
        api=texts,
        provider=texts,
        model=texts,
        usage=usages,
        stop_reason=st.sampled_from(list(StopReason)),
        error=texts,
    ),
    st.builds(
        ToolResult,
        texts,
        texts,
        st.lists(words | images, max_size=3).map(tuple),
        moments,
        is_error=st.booleans(),
        details=st.none() | st.just({"a": 1}),
    ),
)


@given(messages)
def test_what_is_stored_is_what_is_read(message):
    stored = msgspec.json.decode(msgspec.json.encode(from_message(message)))
    read = to_message(stored)
    if isinstance(message, Assistant) and not any(
        (
            message.usage.cost.input,
            message.usage.cost.output,
            message.usage.cost.cache_read,
            message.usage.cost.cache_write,
        )
    ):
        read = msgspec.structs.replace(read, usage=message.usage)
    assert read == message


block_words = st.sampled_from(
    ["text", "thinking", "image", "toolCall", "toolUse", "functionCall", "redacted_thinking", "novel"]
)
blocks = st.dictionaries(
    st.sampled_from(
        ["type", "text", "thinking", "data", "mimeType", "source", "id", "name", "arguments", "input", "partialJson"]
    ),
    json_values | block_words,
    max_size=6,
)


@given(
    st.sampled_from(["user", "assistant", "toolResult", "tool", "bashExecution", "custom", "system"]) | json_values,
    json_values | st.lists(blocks, max_size=4),
    json_values,
    st.dictionaries(
        st.sampled_from(
            [
                "usage",
                "stopReason",
                "details",
                "provenance",
                "__openclaw",
                "command",
                "output",
                "exitCode",
                "toolCallId",
                "summary",
            ]
        ),
        json_values,
        max_size=4,
    ),
)
def test_any_json_is_read_without_a_failure(role, content, timestamp, rest):
    message = to_message({"role": role, "content": content, "timestamp": timestamp, **rest})
    assert message is None or msgspec.json.decode(msgspec.json.encode(from_message(message)))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, 5),
        (5.9, 5),
        (True, 0),
        (None, 0),
        ("x", 0),
        (-1, 0),
        (1e300, 0),
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T00:00:01", 1000),
        ("0001-01-01T00:00:00Z", 0),
    ],
)
def test_moments(value, expected):
    assert to_ms(value) == expected


def test_zones():
    assert to_ms("2026-05-01T10:00:00+02:00") == to_ms("2026-05-01T08:00:00Z") > 0


def test_usage_in_either_spelling():
    assert to_usage({"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4}) == Usage(1, 2, 3, 4)
    assert to_usage({"inputTokens": 1, "outputTokens": 2}) == Usage(1, 2)
    assert to_usage("x") == to_usage({}) == Usage()


def test_details_are_cut_from_the_largest_part():
    small = ToolResult("c", "read", (Text("x" * MAX_DETAILS),), details={"a": 1})
    assert cap_details(small) is small
    cut = cap_details(ToolResult("c", "read", (), details={"a": 1, "b": "x" * MAX_DETAILS, "c": 2}))
    assert cut.details == {"a": 1, "c": 2, "persistedDetailsTruncated": True}


@pytest.mark.parametrize("kind", ["toolCall", "toolUse", "functionCall", "tool_call", "tool_use", "function_call"])
@pytest.mark.parametrize("field", ["id", "toolCallId", "toolUseId", "tool_call_id", "tool_use_id", "callId", "call_id"])
def test_a_call_in_any_spelling(kind, field):
    block = {"type": kind, field: "c1", "name": "read", "arguments": {"path": "x"}}
    call = to_message({"role": "assistant", "content": [block], "stopReason": "toolUse"})
    assert call.calls == (ToolCall("c1", "read", {"path": "x"}),)
    if field != "id":
        found = to_message({"role": "toolResult", field: "c1", "toolName": "read", "content": "ok"})
        assert (found.call_id, found.tool_name) == ("c1", "read")


@pytest.mark.parametrize(
    ("ident", "stop", "arguments", "rest", "kept"),
    [
        ("call_1|fc_1", "toolUse", {"a": 1}, '{"a": 1}', True),
        ("call_1|fc_1", "toolUse", {}, " ", True),
        ("call_1|fc_1", "toolUse", {"a": 1}, "", False),
        ("call_1|fc_1", "toolUse", {}, '{"a": 1', False),
        ("call_1|fc_1", "aborted", {"a": 1}, '{"a": 1}', False),
        ("call_1", "toolUse", {"a": 1}, '{"a": 1}', False),
        ("call_1", "toolUse", {}, "", False),
    ],
)
def test_a_call_that_was_stored_with_the_buffer_of_its_stream(ident, stop, arguments, rest, kept):
    block = {"type": "toolCall", "id": ident, "name": "read", "arguments": arguments, "partialJson": rest}
    said = to_message({"role": "assistant", "content": [block], "stopReason": stop})
    assert [call.arguments for call in said.calls] == ([arguments] if kept else [])
