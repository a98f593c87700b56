from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from homarus.core.prompt import CONTEXT_BEGIN, CONTEXT_END
from homarus.memory.transcripts import RECALL_CLOSE, RECALL_OPEN, Tail, due, parse, units_of


def message(identity, parent, role, content, **more):
    return {
        "type": "message",
        "id": identity,
        "parentId": parent,
        "timestamp": "2026-01-02T03:04:05.000Z",
        "message": {"role": role, "content": content, **more},
    }


def lines(*records):
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


HEADER = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-02T03:04:05.000Z", "cwd": "/"}


def texts(data, tail=None):
    return [(turn.line, turn.speaker, turn.text) for turn in parse(data, tail or Tail()).turns]


def test_only_what_was_said():
    data = lines(
        HEADER,
        {"type": "model_change", "id": "a", "parentId": None, "provider": "x", "modelId": "y"},
        message("b", "a", "user", [{"type": "text", "text": "  Hello\n there "}, {"type": "image", "data": "…"}]),
        message("c", "b", "assistant", [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Hi"}]),
        message("d", "c", "toolResult", [{"type": "text", "text": "secret output"}]),
        message("e", "d", "assistant", "NO_REPLY"),
        message("f", "e", "user", "hidden", excludeFromContext=True),
        {"type": "custom_message", "id": "g", "parentId": "f", "content": "note"},
    )
    assert texts(data) == [(3, "User", "Hello there"), (4, "Assistant", "Hi")]


def test_injected_text_is_not_learned_again():
    text = f"{CONTEXT_BEGIN}\n## Memory\nold fact\n{CONTEXT_END}\nreal words {RECALL_OPEN}more old{RECALL_CLOSE}"
    assert texts(lines(HEADER, message("a", None, "user", text))) == [(2, "User", "real words")]


def test_the_half_written_last_line_waits():
    whole = lines(HEADER, message("a", None, "user", "one"), message("b", "a", "user", "two"))
    cut = whole[:-10]
    first = parse(cut, Tail())
    assert [turn.text for turn in first.turns] == ["one"]
    second = parse(whole[first.tail.offset :], first.tail)
    assert [(turn.line, turn.text) for turn in second.turns] == [(3, "two")]
    assert second.linear


def test_a_rewound_branch_did_not_happen():
    data = lines(
        HEADER,
        message("a", None, "user", "one"),
        message("b", "a", "assistant", "wrong turn"),
        message("c", "a", "assistant", "right turn"),
    )
    assert [text for _, _, text in texts(data)] == ["one", "right turn"]


def test_a_leaf_record_rewinds_too():
    data = lines(
        HEADER,
        message("a", None, "user", "one"),
        message("b", "a", "assistant", "two"),
        {"type": "leaf", "id": "x", "targetId": "a"},
    )
    assert [text for _, _, text in texts(data)] == ["one"]


def test_a_tail_that_rewinds_says_so():
    first = parse(lines(HEADER, message("a", None, "user", "one"), message("b", "a", "user", "two")), Tail())
    assert not parse(lines(message("c", "a", "user", "three")), first.tail).linear


def test_flat_forms_and_damage():
    data = (
        lines({"role": "user", "content": "flat", "timestamp": "2026-01-02T00:00:00Z"})
        + b'{"broken\n[1]\n\xff\xfe\n'
        + lines(
            {"role": "tool", "name": "x", "input": {}},
            {"role": "assistant", "content": "ok", "timestamp": 1767312000000},
        )
    )
    assert texts(data) == [(1, "User", "flat"), (6, "Assistant", "ok")]
    assert [str(turn.day) for turn in parse(data, Tail()).turns] == ["2026-01-02", "2026-01-02"]


def test_units_carry_speaker_day_and_line():
    (unit,) = units_of(parse(lines(HEADER, message("a", None, "user", "what about 5 boats?")), Tail()).turns)
    assert (unit.line, unit.speaker, unit.kind, unit.text) == (2, "User", "turn", "User: what about 5 boats?")


def test_secrets_are_redacted():
    ((_, _, text),) = texts(lines(HEADER, message("a", None, "user", "my password: hunter22x ok")))
    assert "hunter22x" not in text


def test_delta_rules():
    assert due(100_000, 0, delta_bytes=100_000, delta_messages=50)
    assert due(10, 50, delta_bytes=100_000, delta_messages=50)
    assert not due(99_999, 49, delta_bytes=100_000, delta_messages=50)
    assert not due(10**9, 49, delta_bytes=0, delta_messages=50)
    assert not due(10**9, 10**9, delta_bytes=0, delta_messages=0)


@given(
    st.lists(
        st.sampled_from([b'{"type":"message"}', b"{}", b"\n", b"null", b'{"type":"leaf","targetId":"x"}', b"\x00"]),
        max_size=20,
    )
)
def test_any_bytes_can_be_read(pieces):
    data = b"".join(pieces)
    parsed = parse(data, Tail())
    assert parsed.tail.offset <= len(data)
