"""Any line is read, whatever it holds, and a writer that keeps no bytes of it knows the same of it."""

import json

from hypothesis import example, given
from hypothesis import strategies as st
from tests.sessions.lines import says

from homarus.core.messages import StopReason
from homarus.sessions.entry import MessageEntry, to_entry
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


def check_both_ways(raw):
    data = decode(raw)[0]
    whole, lean = to_entry(data, raw, 7), to_entry(data, raw, 7, lean=True)
    assert (whole is None) == (lean is None)
    if whole is None:
        return
    assert lean == whole or (isinstance(lean, MessageEntry) and lean.raw == b"")
    if isinstance(whole, MessageEntry):
        assert (lean.message, lean.role, lean.keys) == (whole.message, whole.role, whole.keys)
    assert (lean.id, lean.parent_id, lean.time, lean.weight) == (whole.id, whole.parent_id, whole.time, whole.weight)
    assert to_entry(lean.data, offset=7).id == whole.id


AN_ANSWER_WITH_A_KEY = {"role": "assistant", "content": None, "timestamp": None, "__openclaw": {"idempotencyKey": "0"}}
NO_TIME = {"role": "user", "content": None, "timestamp": None}


@example({"type": "message", "id": "0", "timestamp": MOMENT, "message": AN_ANSWER_WITH_A_KEY})
@example({"type": "message", "id": "0", "timestamp": 1, "message": NO_TIME})
@given(line)
def test_a_lean_entry_says_what_a_whole_one_says(row):
    check_both_ways(json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass"))


@given(st.integers(0, 400), st.integers(0, 255))
def test_also_of_a_line_with_a_damaged_byte(place, byte):
    raw = bytearray(json.dumps(says("a", "b", "some words", calls=["c"], usage={"input": 1, "output": 2})).encode())
    raw[place % len(raw)] = byte
    check_both_ways(bytes(raw))
