import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sessions.lines import entry, result, says, user

from homarus.core.messages import Assistant, Cost, Image, StopReason, Text, Thinking, ToolCall, ToolResult, Usage, User
from homarus.sessions.entry import new_entry, read_entry, to_entry
from homarus.sessions.quick import from_message, read_row
from homarus.storage.record import decode

MOMENT = "2026-05-01T08:00:00.000Z"
words = st.text(max_size=12)
names = st.text(min_size=1, max_size=8)
odd = st.one_of(st.none(), st.booleans(), st.integers(-5, 10**17), st.floats(allow_nan=False), words, st.just([]))
plain = st.dictionaries(words, odd, max_size=3)


def maybe(value, *more):
    """Mostly what we write ourselves, sometimes anything."""
    return st.one_of(value, value, value, *more, odd)


block = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": maybe(words)}),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["toolCall", "toolUse"]), "id": maybe(names), "name": maybe(names)},
        optional={"arguments": maybe(plain), "input": plain, "partialJson": words, "toolCallId": names},
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["thinking", "redacted_thinking"]), "thinking": maybe(words)},
        optional={"thinkingSignature": words, "signature": words, "data": words, "redacted": st.booleans()},
    ),
    st.fixed_dictionaries(
        {"type": st.just("image"), "data": maybe(words), "mimeType": maybe(words)}, optional={"source": plain}
    ),
    st.fixed_dictionaries({"type": st.just("else"), "text": words}),
)
cost = st.dictionaries(
    st.sampled_from(["input", "output", "cacheRead", "cacheWrite", "total"]), maybe(st.floats(0, 9)), max_size=5
)
usage = st.dictionaries(
    st.sampled_from(["input", "output", "cacheRead", "cacheWrite", "inputTokens", "totalTokens"]),
    maybe(st.integers(0, 10**6)),
    max_size=6,
).flatmap(lambda counts: maybe(cost).map(lambda price: {**counts, "cost": price}))
message = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "toolResult", "tool", "custom", "bashExecution", "?"]),
        "content": maybe(st.lists(block, max_size=3), words),
        "timestamp": maybe(st.integers(1, 10**13)),
    },
    optional={
        "usage": maybe(usage),
        "stopReason": maybe(st.sampled_from([reason.value for reason in StopReason]), st.just("end_turn")),
        "toolCallId": maybe(names),
        "toolName": maybe(names),
        "isError": maybe(st.booleans()),
        "details": maybe(plain),
        "api": maybe(words),
        "provider": maybe(words),
        "model": maybe(words),
        "errorMessage": maybe(words),
        "idempotencyKey": maybe(words),
        "provenance": maybe(plain),
        "__openclaw": st.fixed_dictionaries({"idempotencyKey": words}),
        "excludeFromContext": maybe(st.booleans()),
        "surplus": odd,
    },
)
line = st.fixed_dictionaries(
    {
        "type": maybe(st.just("message"), st.sampled_from(["custom", "compaction", "reset", "leaf", "session", "new"])),
        "id": maybe(names),
        "timestamp": maybe(st.just(MOMENT)),
    },
    optional={
        "parentId": maybe(names),
        "message": message,
        "appendMode": maybe(st.just("side")),
        "customType": maybe(words),
        "targetId": maybe(names),
        "firstKeptEntryId": maybe(names),
    },
)


@given(line)
def test_the_quick_way_says_what_the_long_way_says(row):
    raw = json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass")
    quick = read_entry(raw, 7)
    if quick is not None:
        assert quick == to_entry(decode(raw)[0], raw, 7)


@given(st.integers(0, 400), st.integers(0, 255))
def test_also_of_a_line_with_a_damaged_byte(place, byte):
    raw = bytearray(json.dumps(says("a", "b", "some words", calls=["c"], usage={"input": 1, "output": 2})).encode())
    raw[place % len(raw)] = byte
    quick = read_entry(bytes(raw))
    if quick is not None:
        assert quick == to_entry(decode(bytes(raw))[0], bytes(raw))


@pytest.mark.parametrize(
    "said",
    [
        User((Text("hello"), Image("QQ==", "image/png")), 5, idempotency_key="k", provenance={"collectedKeys": ["l"]}),
        Assistant(
            (Thinking("hm", "sig"), Text("yes"), ToolCall("c", "read", {"path": "x"})),
            5,
            "api",
            "p",
            "m",
            Usage(1, 2, 3, 4, Cost(0.5)),
            StopReason.TOOL_USE,
        ),
        ToolResult("c", "read", (Text("ok"),), 5, details={"ms": 3}),
    ],
)
def test_what_we_write_ourselves_is_read_the_quick_way(said):
    made = new_entry("message", "a", None, MOMENT, {"message": from_message(said)})
    assert read_row(made.raw) is not None
    assert made.message == said
    assert made.weight >= 2


@pytest.mark.parametrize(
    "row",
    [
        user("a", None, __openclaw={"idempotencyKey": "k"}),
        {**result("a", None, "c"), "message": {"role": "toolResult", "toolUseId": "c", "content": "x"}},
        entry("message", "a", None),
    ],
)
def test_other_forms_are_left_to_the_long_way(row):
    assert read_row(json.dumps(row).encode()) is None
