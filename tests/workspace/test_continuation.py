"""Whether the model has seen the files is read from the transcript; what a turn carries follows from the mode."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count

import pytest

from homarus.workspace.continuation import (
    MARKER,
    SCAN_RECORDS,
    Carry,
    active_branch,
    decide,
    earns_marker,
    has_completed,
    marker,
)
from homarus.workspace.settings import Injection

NOW = datetime(2026, 4, 15, 12, 0, tzinfo=UTC)


def branch(*kinds: str) -> list[dict]:
    """Return records oldest first, each the child of the one before it."""
    records = []
    for number, kind in enumerate(kinds):
        record = marker(NOW, run_id="r", session_id="s") if kind == "marker" else {"type": kind}
        record |= {"id": f"{number:08x}", "parentId": f"{number - 1:08x}" if number else None}
        records.append(record)
    return records


def completed(*kinds: str) -> bool:
    return has_completed(reversed(branch(*kinds)))


def test_the_newest_event_decides():
    assert completed("message", "message", "marker", "message", "message")
    assert not completed("message", "marker", "compaction", "message")
    assert completed("compaction", "message", "marker")
    assert not completed("marker", "reset", "message")
    assert not completed("message", "message")
    assert not completed()


def test_a_marker_on_a_side_branch_does_not_count():
    records = branch("message", "message")
    side = marker(NOW, run_id="r", session_id="s") | {"id": "side", "parentId": "00000000"}
    leaf = {"type": "message", "id": "leaf", "parentId": "00000001"}
    assert not has_completed([leaf, side, *reversed(records)])
    assert [each["id"] for each in active_branch([leaf, side, *reversed(records)])] == ["leaf", "00000001", "00000000"]


def test_a_marker_beyond_the_window_does_not_count():
    assert completed("marker", *["message"] * (SCAN_RECORDS - 1))
    assert not completed("marker", *["message"] * SCAN_RECORDS)


def test_no_more_than_the_window_is_taken():
    taken = count()

    def endless():
        while True:
            next(taken)
            yield {"type": "message"}

    assert not has_completed(endless())
    assert next(taken) <= SCAN_RECORDS + 1


def test_records_without_ids_form_one_line():
    assert has_completed([{"type": "message"}, {"type": "custom", "customType": MARKER}])
    assert not has_completed([{"type": "custom", "customType": "other"}, {"role": "user"}])


def test_the_marker_is_what_other_programs_look_for():
    assert marker(NOW, run_id="run1", session_id="sess1") == {
        "type": "custom",
        "customType": "openclaw:bootstrap-context:full",
        "data": {"timestamp": 1776254400000, "runId": "run1", "sessionId": "sess1"},
    }


@pytest.mark.parametrize(
    ("mode", "facts", "expected"),
    [
        (Injection.ALWAYS, {"completed": True}, Carry.FULL),
        (Injection.SKIP, {"completed": False}, Carry.FULL),
        (Injection.SKIP, {"completed": True}, Carry.NONE),
        (Injection.SKIP, {"completed": True, "heartbeat": True}, Carry.FULL),
        (Injection.SKIP, {"completed": True, "pending": True}, Carry.FULL),
        (Injection.LIGHT, {"completed": False}, Carry.FULL),
        (Injection.LIGHT, {"completed": True}, Carry.LIGHT),
        (Injection.LIGHT, {"completed": True, "pending": True}, Carry.FULL),
        (Injection.NEVER, {"completed": False}, Carry.NONE),
        (Injection.NEVER, {"completed": False, "heartbeat": True, "pending": True}, Carry.NONE),
    ],
)
def test_what_a_turn_carries(mode, facts, expected):
    assert decide(mode, **facts) is expected


def test_only_a_full_clean_turn_earns_the_marker():
    assert earns_marker(Carry.FULL, ok=True)
    assert not earns_marker(Carry.LIGHT, ok=True)
    assert not earns_marker(Carry.FULL, ok=False)
    assert not earns_marker(Carry.FULL, ok=True, heartbeat=True)
    assert not earns_marker(Carry.FULL, ok=True, compacted=True)
