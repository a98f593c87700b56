"""The note of how each model's last call ended: what goes into it, and what it costs."""

import json
from pathlib import Path

import pytest

from homarus.core.errors import ModelError, ModelFailure
from homarus.models.calls import EVERY_MS, FILE, MAX_MODELS, CallBook

NOW = 1_790_000_000_000


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path / "state" / "homarus"


def test_the_last_call_counts_and_another_process_sees_it(own: Path):
    book = CallBook(own)
    assert book.of("a/b") is None
    book.note("a/b", ModelError(ModelFailure.SERVER, "a/b: boom"), NOW)
    seen = CallBook(own).of("a/b")
    assert seen is not None and seen.failure == "boom" and "it failed: boom" in str(seen)
    book.note("a/b", None, NOW + 1)
    seen = CallBook(own).of("a/b")
    assert seen is not None and not seen.failure and str(seen).startswith("last answered 20")


def test_that_it_answers_still_is_written_rarely(own: Path):
    book = CallBook(own)
    book.note("a/b", None, NOW)
    first = (own / FILE).stat().st_mtime_ns, (own / FILE).stat().st_ino
    book.note("a/b", None, NOW + EVERY_MS - 1)
    assert ((own / FILE).stat().st_mtime_ns, (own / FILE).stat().st_ino) == first
    book.note("a/b", None, NOW + EVERY_MS)
    assert CallBook(own).of("a/b") == book.of("a/b")
    assert json.loads((own / FILE).read_bytes())["a/b"]["at"] == NOW + EVERY_MS


@pytest.mark.parametrize("kind", ["aborted", "refusal", "context_overflow", "request_too_large", "thinking_level"])
def test_what_is_the_requests_own_fault_says_nothing_of_the_model(kind: str, own: Path):
    book = CallBook(own)
    book.note("a/b", ModelError(ModelFailure(kind), "no"), NOW)
    assert book.of("a/b") is None


def test_where_no_home_is_none_is_made_and_what_cannot_be_read_is_no_note(tmp_path: Path, own: Path):
    nowhere = CallBook(tmp_path / "gone" / "homarus")
    nowhere.note("a/b", None, NOW)
    assert not (tmp_path / "gone").exists()
    own.mkdir()
    (own / FILE).write_text("[[[")
    assert CallBook(own).of("a/b") is None
    CallBook(own).note("a/b", None, NOW)
    assert CallBook(own).of("a/b") is not None
    (own / FILE).unlink()
    (own / FILE).mkdir()
    CallBook(own).note("a/b", None, NOW)  # nothing fails by it


def test_it_stays_small(own: Path):
    book = CallBook(own)
    for number in range(MAX_MODELS + 5):
        book.note(f"a/{number}", ModelError(ModelFailure.SERVER, "x" * 5000), NOW + number)
    assert book.of("a/0") is None and book.of(f"a/{MAX_MODELS + 4}") is not None
    assert (own / FILE).stat().st_size < MAX_MODELS * 500
