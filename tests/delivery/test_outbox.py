"""The outbox after every kind of end: what was noted is known, and what is in doubt is said to be."""

import json
import os
import resource
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.core.clock import ManualClock
from homarus.core.errors import StorageError
from homarus.core.messages import Outbound
from homarus.delivery.outbox import Bounds, Outbox, Row
from homarus.delivery.place import Piece

CLOCK = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
PIECES = (Piece("one", "one"), Piece("two", "two"))


def message(name: str, to: str = "bob", text: str = "hi é\n") -> Outbound:
    return Outbound(name, "irc", to, text)


def opened(path: Path) -> Outbox:
    return Outbox(path, CLOCK)


def state(box: Outbox, names: list[str]) -> list[list[Any]]:
    rows = [(row.outbound.id, tuple(row.receipts), row.trying, row.pieces) for row in box.pending()]
    return [rows, [box.outcome(name) for name in names]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "delivery" / "outbox.jsonl"


def test_a_message_is_put_once_also_after_a_crash_and_after_it_was_settled(path: Path) -> None:
    box = opened(path)
    assert box.put(message("a"))
    assert not box.put(message("a"))
    assert not opened(path).put(message("a"))  # no close: a killed process does not say goodbye
    box.settle("a", "sent")
    assert not box.put(message("a"))
    again = opened(path)
    assert not again.put(message("a"))
    assert again.outcome("a") == "sent"
    assert again.pending() == ()


def test_a_crash_leaves_what_was_noted(path: Path) -> None:
    box = opened(path)
    for name in ("a", "b", "c"):
        box.put(message(name))
    box.cut("a", PIECES)
    box.trying("a", 0)
    box.sent("a", 0, "m1")
    box.trying("a", 1)
    box.trying("b", 0)
    box.missed("b", 0)
    again = opened(path)
    assert state(again, []) == state(box, [])
    assert [(row.receipts, row.trying) for row in again.pending()] == [(["m1"], 1), ([], None), ([], None)]
    assert again.pending()[0].pieces == PIECES


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "cut", "trying", "sent", "missed", "settle"]), st.sampled_from("abc")),
    max_size=14,
)


ALL = [
    ("put", "a"),
    ("cut", "a"),
    ("trying", "a"),
    ("sent", "a"),
    ("put", "b"),
    ("trying", "b"),
    ("missed", "b"),
    ("trying", "a"),
    ("settle", "b"),
]


def test_cut_at_any_byte_it_knows_every_whole_note_and_nothing_else(tmp_path: Path) -> None:
    check_every_cut(tmp_path, ALL)


@pytest.mark.deep
@given(STEPS)
def test_cut_at_any_byte_after_any_steps(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str]]
) -> None:
    check_every_cut(tmp_path_factory.mktemp("outbox"), steps)


def step(box: Outbox, what: str, name: str) -> None:
    row = box.row(name)
    if what == "put":
        box.put(message(name))
    elif row is None:
        return
    elif what == "cut":
        box.cut(name, PIECES)
    elif what == "settle":
        box.settle(name, "unknown")
    elif what == "sent":
        box.sent(name, len(row.receipts), "é")
    else:
        getattr(box, what)(name, len(row.receipts))


def check_every_cut(folder: Path, steps: list[tuple[str, str]]) -> None:
    path, torn = folder / "o.jsonl", folder / "torn.jsonl"
    box = opened(path)
    known = {0: state(box, list("abc"))}
    for what, name in steps:
        step(box, what, name)
        known[path.stat().st_size if path.exists() else 0] = state(box, list("abc"))
    box.close()
    whole = path.read_bytes() if path.exists() else b""
    expected = known[0]
    for size in range(len(whole) + 1):
        # A line is known with its last byte, whether or not its end of line is there.
        expected = known.get(size, known.get(size + 1, expected))
        torn.write_bytes(whole[:size])
        again = opened(torn)
        assert state(again, list("abc")) == expected
        if size % 5:
            continue
        again.put(message("z"))
        again.close()
        later = opened(torn)
        assert state(later, list("abc"))[1] == expected[1]
        assert [row.outbound.id for row in later.pending()] == [*(row[0] for row in expected[0]), "z"]
    assert not list(folder.glob("*.corrupt*"))


def test_a_damaged_file_is_moved_aside_and_what_may_have_been_sent_is_in_doubt(path: Path) -> None:
    box = opened(path)
    box.put(message("a"))
    box.trying("a", 0)
    box.put(message("b"))
    box.close()
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = b"\x00\xff garbage\n"
    path.write_bytes(b"".join(lines))
    heard: list[str] = []
    again = Outbox(path, CLOCK, warn=heard.append)
    assert [(row.outbound.id, row.trying) for row in again.pending()] == [("a", 0), ("b", None)]
    assert [part.name.startswith("outbox.jsonl.corrupt") for part in path.parent.iterdir() if part != path] == [True]
    assert "damaged" in heard[0]
    assert state(opened(path), []) == state(again, [])


def test_a_folder_in_the_way_is_moved_aside(path: Path) -> None:
    path.mkdir(parents=True)
    assert opened(path).put(message("a"))
    assert [row.outbound.id for row in opened(path).pending()] == ["a"]


def test_what_a_later_version_wrote_survives_a_rewrite(path: Path) -> None:
    path.parent.mkdir()
    lines = [
        {"pinned": "a", "by": 1},
        {"put": {"id": "a", "channel": "irc", "to": "x", "text": "t", "mood": "new"}, "at": 1},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"torn')
    assert [row.outbound.text for row in opened(path).pending()] == ["t"]
    assert [json.loads(line) for line in path.read_text().splitlines()] == lines


def test_growth_is_bounded_and_rows_that_wait_stay(path: Path) -> None:
    box = Outbox(path, CLOCK, bounds=Bounds(file_bytes=4000, settled=20))
    box.put(message("waits"))
    box.trying("waits", 0)
    for number in range(100):
        box.put(message(f"m{number}"))
        box.trying(f"m{number}", 0)
        box.sent(f"m{number}", 0, "id")
        box.settle(f"m{number}", "sent")
    assert path.stat().st_size < 10_000
    assert [(row.outbound.id, row.trying) for row in opened(path).pending()] == [("waits", 0)]
    assert not box.put(message("m99"))


def test_a_full_outbox_refuses_more_and_says_what_to_do(path: Path) -> None:
    box = Outbox(path, CLOCK, bounds=Bounds(pending=2))
    box.put(message("a"))
    box.put(message("b"))
    with pytest.raises(StorageError, match="channels status"):
        box.put(message("c"))
    assert len(opened(path).pending()) == 2


def test_a_full_disk_refuses_the_message_and_leaves_nothing_half_written(path: Path) -> None:
    box = opened(path)
    box.put(message("a"))
    box.trying("a", 0)
    whole = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 20, limits[1]))
    try:
        with pytest.raises(StorageError):
            box.put(message("b"))
        with pytest.raises(StorageError):
            box.sent("a", 0, "a receipt that is long")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == whole
    assert box.row("b") is None
    # What was sent counts for as long as this process lives, and is in doubt for the next one.
    assert [(row.receipts, row.trying) for row in box.pending()] == [(["a receipt that is long"], None)]
    assert [(row.receipts, row.trying) for row in opened(path).pending()] == [([], 0)]
    assert box.put(message("b"))


def test_a_file_that_somebody_removed_is_written_anew(path: Path) -> None:
    box = opened(path)
    box.put(message("a"))
    path.unlink()
    box.put(message("b"))
    assert [row.outbound.id for row in opened(path).pending()] == ["a", "b"]


KILLED = """
import sys
from pathlib import Path
from homarus.core.clock import SystemClock
from homarus.core.messages import Outbound
from homarus.delivery.outbox import Outbox
box = Outbox(Path(sys.argv[1]), SystemClock())
for number in range(10**6):
    box.put(Outbound(str(number), "irc", "bob", "x" * 50))
    print(number, "put", flush=True)
    box.trying(str(number), 0)
    print(number, "trying", flush=True)
    box.sent(str(number), 0, "r")
    print(number, "sent", flush=True)
"""


def test_kill_9_between_any_two_notes_loses_none_that_was_acknowledged(path: Path) -> None:
    for wanted in (1, 5, 60):
        path.unlink(missing_ok=True)
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": "src"}
        ) as child:
            assert child.stdout is not None
            lines = [child.stdout.readline().split() for _ in range(wanted)]
            child.kill()
        rows: dict[str, Row] = {row.outbound.id: row for row in opened(path).pending()}
        for number, what in [line for line in lines if line]:
            row = rows[number.decode()]
            assert what != b"sent" or row.receipts == ["r"]
            assert what != b"trying" or row.trying == 0 or row.receipts == ["r"]
