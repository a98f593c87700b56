import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.queue.helpers import queued

from homarus.core.messages import Image
from homarus.core.routes import SessionKey
from homarus.queue.inbox import MAX_RESUMES, Inbox, inbox_path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return inbox_path(tmp_path / "inbox", SessionKey.parse("agent:main:main"))


def test_what_was_accepted_is_there_after_a_crash(path: Path) -> None:
    item = queued("hello", images=(Image("aGk=", "image/png"),))
    inbox = Inbox(path)
    assert inbox.accept(item)
    # No close: a killed process does not say goodbye.
    assert Inbox(path).pending == (item,)


def test_a_message_counts_once(path: Path) -> None:
    inbox = Inbox(path)
    assert inbox.accept(queued("x"))
    assert not inbox.accept(queued("x"))
    inbox.settle(queued("x").key)
    assert not inbox.accept(queued("x"))
    assert not Inbox(path).accept(queued("x"))


def test_a_turn_goes_on_a_few_times_after_a_crash_and_not_for_ever(path: Path) -> None:
    key = queued("cut off").key
    Inbox(path).accept(queued("cut off"))
    assert [Inbox(path).resume(key) for _ in range(MAX_RESUMES + 2)] == [True] * MAX_RESUMES + [False, False]
    assert not Inbox(path).may_resume(key)
    assert Inbox(path).pending == (queued("cut off"),)


def test_a_message_that_joined_a_turn_which_was_cut_off_often_is_not_given_up_with_it(path: Path) -> None:
    old, new = queued("often").key, queued("joined").key
    inbox = Inbox(path)
    for key in (old, new):
        inbox.accept(queued("often" if key == old else "joined"))
    for _ in range(MAX_RESUMES):
        assert inbox.resume(old)
    again = Inbox(path)
    assert [again.resume(old, new) for _ in range(MAX_RESUMES + 1)] == [True] * MAX_RESUMES + [False]


@given(cut=st.integers(0, 2000))
def test_a_torn_tail_loses_no_acknowledged_message(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("inbox") / "i.jsonl"
    inbox = Inbox(path)
    for text in ("a", "b"):
        inbox.accept(queued(text))
    whole = path.stat().st_size
    inbox.accept(queued("c"))
    with path.open("r+b") as handle:
        handle.truncate(max(whole, path.stat().st_size - cut))
    again = Inbox(path)
    assert again.pending[:2] == (queued("a"), queued("b"))
    again.accept(queued("d"))
    assert queued("d") in Inbox(path).pending


def test_the_file_stays_bounded_but_still_knows_the_newest_keys(path: Path) -> None:
    inbox = Inbox(path)
    big = "x" * 300_000
    for number in range(5):
        item = queued(f"{number} {big}")
        inbox.accept(item)
        inbox.settle(item.key)
    assert path.stat().st_size < 2_000_000
    assert Inbox(path).pending == ()
    assert not Inbox(path).accept(item)


def test_a_record_of_a_later_version_is_not_lost(path: Path) -> None:
    inbox = Inbox(path)
    inbox.accept(queued("known"))
    with path.open("a") as handle:
        handle.write(json.dumps({"accepted": {"key": "later", "shape": 2}}) + "\n")
    again = Inbox(path)
    assert again.pending == (queued("known"),)
    again.accept(queued("x" * 1_200_000))
    again.settle(*(item.key for item in again.pending))
    assert "later" in path.read_text()
