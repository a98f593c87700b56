import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sessions.lines import entry, header, says, user

from homarus.sessions.entry import (
    Compaction,
    MessageEntry,
    UnknownEntry,
    new_entry,
    new_header,
    salvage,
    to_entry,
    to_header,
    without_images,
)


def test_types():
    assert isinstance(to_entry(user("a", None)), MessageEntry)
    assert isinstance(to_entry(entry("compaction", "k", "a", summary="s")), Compaction)
    assert isinstance(to_entry(entry("novelty", "n", "a")), UnknownEntry)


@pytest.mark.parametrize(
    "bad", [None, [], "x", {}, header(), {"type": "message"}, {"type": "message", "id": " "}, {"type": 1, "id": "a"}]
)
def test_what_is_no_entry(bad):
    assert to_entry(bad) is None


@pytest.mark.parametrize("bad", [None, {}, {"type": "session"}, {"type": "session", "id": 5}, user("a", None)])
def test_what_is_no_header(bad):
    assert to_header(bad) is None


def test_headers():
    assert to_header(header("x", version=4)).version == 4
    assert to_header({"type": "session", "id": "x"}).version == 1
    assert to_header({"type": "session", "id": "x", "version": True}).version == 1
    assert "parentSession" not in new_header("x", "t", "/").data
    assert new_header("x", "t", "/", "p").data["parentSession"] == "p"


def test_a_new_entry_is_its_own_bytes():
    made = new_entry("label", "a", None, "t", {"targetId": "x", "label": None})
    assert (
        json.loads(made.raw)
        == made.data
        == {"type": "label", "id": "a", "parentId": None, "timestamp": "t", "targetId": "x"}
    )
    assert to_entry(json.loads(made.raw), made.raw) == made


WHOLE = json.dumps(says("b", "a", 'a "brace" { in } \\ text'), separators=(",", ":")).encode()


@given(st.binary(max_size=60), st.integers(0, 200))
def test_a_whole_record_is_found_behind_anything(before, cut):
    broken = before.replace(b"\n", b" ").replace(b'"', b"'") + WHOLE[: min(cut, len(WHOLE) - 1)]
    found = salvage(broken + WHOLE)
    assert json.loads(WHOLE) in found or b'"' in WHOLE[:cut]  # inside an open string the rest is that string's


def test_records_that_lost_the_line_break_between_them():
    assert [row["id"] for row in salvage(WHOLE + WHOLE.replace(b'"b"', b'"c"') + b'{"type":')] == ["b", "c"]
    assert salvage(b"\0\0" + WHOLE) == [json.loads(WHOLE)]
    assert salvage(b'{"type":"text","text":"a block"}x') == []


@given(st.binary(max_size=200))
def test_salvage_takes_anything(raw):
    assert isinstance(salvage(raw), list)


def test_pictures_of_old_turns_are_words():
    body = {
        "role": "user",
        "content": [{"type": "text", "text": "look"}, {"type": "image", "data": "A" * 5000, "mimeType": "image/png"}],
    }
    row = entry("message", "a", None, message=body)
    one = to_entry(row, json.dumps(row, separators=(",", ":")).encode())
    slim = without_images(one)
    assert len(slim.raw) < 300 and slim.message.text == "look[image data removed - already processed by model]"
    assert one.body["content"][1]["data"] == "A" * 5000
    assert without_images(slim) is slim
