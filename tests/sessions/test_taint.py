"""What a log says about untrusted words: notes count back to a reset, and a summary hands them on."""

from datetime import UTC, datetime
from pathlib import Path

from homarus.core.clock import CountingIds, ManualClock
from homarus.core.messages import Text, User
from homarus.sessions.taint import note, tainted_by
from homarus.sessions.writer import SessionWriter

NOW = datetime(2026, 5, 1, 9, 0, tzinfo=UTC)


def opened(path: Path) -> SessionWriter:
    return SessionWriter(path, "s1", clock=ManualClock(NOW), ids=CountingIds(), cwd="/w")


def test_notes_outlive_summaries_and_end_with_a_reset(tmp_path: Path) -> None:
    path = tmp_path / "s1.jsonl"
    writer = opened(path)
    assert tainted_by(writer.notes) == ()
    writer.append("custom", note(["web_fetch"]))
    first = writer.append_message(User((Text("one"),)))
    writer.append("custom", note(["web_fetch", "sender:group"]))
    assert set(tainted_by(writer.notes)) == {"web_fetch", "sender:group"}
    for number in range(3):
        entry = writer.append_message(User((Text(f"more {number}"),)))
        writer.compact("summary", entry.id, 1, details={"pins": []})
        assert set(tainted_by(writer.notes)) == {"web_fetch", "sender:group"}
    writer.close()
    writer = opened(path)
    assert set(tainted_by(writer.notes)) == {"web_fetch", "sender:group"}
    writer.append("reset", {"reason": "new"})
    assert tainted_by(writer.notes) == ()
    writer.close()
    assert first.id


def test_a_note_that_nobody_can_read_counts_all_the_same(tmp_path: Path) -> None:
    writer = opened(tmp_path / "s1.jsonl")
    for data in ({}, {"sources": "x"}, {"sources": []}, []):
        writer.append("custom", {"customType": "homarus.taint", "data": data})
    assert tainted_by(writer.notes) == ("earlier",)
    writer.close()
