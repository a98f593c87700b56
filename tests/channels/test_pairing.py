"""Who waits and who was let in: the files, the codes, and what happens to both in bad hands."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.channels.homes import NOON

from homarus.channels.pairing import ALPHABET, MAX_PENDING, PairingStore
from homarus.core.clock import ManualClock, SystemClock
from homarus.core.errors import Unknown


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> PairingStore:
    return PairingStore(tmp_path, clock)


def test_a_code_is_eight_letters_that_nobody_mixes_up(store):
    request, fresh = store.request("fake", "default", "u-ada", {"name": "Ada\n\x1b[31m"})
    assert fresh
    assert len(request.code) == 8
    assert set(request.code) <= set(ALPHABET)
    assert not set("0O1I") & set(ALPHABET)
    assert "\x1b" not in request.meta["name"]


def test_the_code_is_told_once_and_lives_an_hour(store, clock):
    first, _ = store.request("fake", "default", "u-ada")
    clock.advance(3599)
    again, fresh = store.request("fake", "default", "u-ada")
    assert (again.code, fresh) == (first.code, False)
    clock.advance(1)
    assert store.pending("fake") == ()
    with pytest.raises(Unknown, match="nobody waits"):
        store.approve("fake", first.code)
    assert store.request("fake", "default", "u-ada")[1]


def test_three_wait_for_each_account_and_no_more(store):
    assert all(store.request("fake", "default", f"u-{n}") for n in range(MAX_PENDING))
    assert store.request("fake", "default", "u-eve") is None
    assert store.request("fake", "work", "u-eve") is not None
    assert store.request("fake", "default", "u-0")[1] is False
    store.reject("fake", "u-1")
    assert store.request("fake", "default", "u-eve") is not None


def test_whoever_is_approved_is_let_in_to_that_account_alone(store, tmp_path):
    request, _ = store.request("fake", "Work", "u-ada")
    assert store.approve("fake", request.code.lower()).id == "u-ada"
    assert store.approved("fake", "work") == {"u-ada"}
    assert store.approved("fake") == frozenset()
    assert store.approved("other", "work") == frozenset()
    assert store.pending("fake") == ()
    assert json.loads((tmp_path / "fake-work-allowFrom.json").read_bytes()) == {"version": 1, "allowFrom": ["u-ada"]}
    assert store.revoke("fake", "u-ada", "work")
    assert not store.revoke("fake", "u-ada", "work")
    assert store.approved("fake", "work") == frozenset()


def test_the_code_of_another_account_does_not_count(store):
    request, _ = store.request("fake", "work", "u-ada")
    with pytest.raises(Unknown):
        store.approve("fake", request.code, "default")
    assert store.approved("fake", "work") == store.approved("fake") == frozenset()


def test_files_of_other_versions_are_read_and_what_they_hold_besides_is_kept(store, tmp_path):
    (tmp_path / "fake-default-allowFrom.json").write_text('{"version": 1, "allowFrom": ["u-old"]}')
    (tmp_path / "fake-allowFrom.json").write_text('{"version": 1, "allowFrom": ["u-older", 7, "*", ""], "mine": 1}')
    assert store.approved("fake") == {"u-old", "u-older"}
    request, _ = store.request("fake", "default", "u-ada")
    store.approve("fake", request.code)
    assert store.approved("fake") == {"u-old", "u-older", "u-ada"}
    assert json.loads((tmp_path / "fake-allowFrom.json").read_bytes())["mine"] == 1


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"allowFrom": "u-eve"}', '{"allowFrom": {"u-eve": 1}}', "\xff"]
)
def test_a_list_that_cannot_be_read_lets_nobody_in(store, tmp_path, text):
    path = tmp_path / "fake-allowFrom.json"
    path.write_bytes(text.encode("latin-1"))
    assert store.approved("fake") == frozenset()
    request, _ = store.request("fake", "default", "u-ada")
    store.approve("fake", request.code)
    assert store.approved("fake") == {"u-ada"}


def test_a_damaged_file_is_moved_aside_and_not_lost(store, tmp_path):
    (tmp_path / "fake-pairing.json").write_text('{"requests": [tor')
    assert store.request("fake", "default", "u-ada") is not None
    [aside] = tmp_path.glob("fake-pairing.json.damaged.*")
    assert aside.read_text() == '{"requests": [tor'


@pytest.mark.parametrize(
    "row",
    [
        {"id": "u-eve"},
        {"id": "u-eve", "code": "AAAAAAAA", "createdAt": "soon"},
        {"id": "u-eve", "code": "AAAAAAAA", "createdAt": "2026-11-16T12:00:00"},
        {"id": "u-eve", "code": "AAAAAAAA", "createdAt": (NOON + timedelta(days=9)).isoformat()},
        {"id": 7, "code": "AAAAAAAA", "createdAt": NOON.isoformat()},
        "u-eve",
    ],
)
def test_a_request_that_makes_no_sense_is_none(store, tmp_path, row):
    (tmp_path / "fake-pairing.json").write_text(json.dumps({"version": 1, "requests": [row]}))
    assert store.pending("fake") == ()


def test_a_file_that_others_may_not_read(store, tmp_path):
    store.request("fake", "default", "u-ada")
    assert (tmp_path / "fake-pairing.json").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("channel", ["../x", "a/b", "", "A", "x" * 80, "fake\n"])
def test_a_name_that_is_no_channel_leads_to_no_file(store, tmp_path, channel):
    with pytest.raises(Unknown):
        store.request(channel, "default", "u-ada")
    with pytest.raises(Unknown):
        store.approved(channel)
    assert list(tmp_path.iterdir()) == []


def test_an_account_cannot_name_another_file(store, tmp_path):
    request, _ = store.request("fake", "../../evil", "u-ada")
    store.approve("fake", request.code)
    assert {path.name for path in tmp_path.iterdir()} == {"fake-pairing.json", "fake-evil-allowFrom.json"}


@example(b'\x80"', 5)
@given(st.binary(max_size=200), st.integers(0, 200))
def test_a_torn_file_never_lets_anybody_in(tmp_path_factory, noise, cut):
    folder = tmp_path_factory.mktemp("torn")
    store = PairingStore(folder, ManualClock(NOON))
    request, _ = store.request("fake", "default", "u-ada")
    store.approve("fake", request.code)
    path = folder / "fake-allowFrom.json"
    path.write_bytes(path.read_bytes()[:cut] + noise)
    assert store.approved("fake") <= {"u-ada"} or b"allowFrom" in noise


def _approve_many(folder: str, codes: list[str]) -> None:
    store = PairingStore(Path(folder), SystemClock())
    for code in codes:
        store.approve("fake", code)


def test_two_processes_lose_nothing_of_each_other(tmp_path):
    store = PairingStore(tmp_path, SystemClock())
    codes = [store.request("fake", f"a{n}", "u-ada")[0].code for n in range(20)]
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_approve_many, args=(str(tmp_path), codes[n::2])) for n in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert all(store.approved("fake", f"a{n}") == {"u-ada"} for n in range(20))
    assert store.pending("fake") == ()


def approved_elsewhere(folder: Path, *rows: tuple[str, str, str]) -> Path:
    """The approvals of an OpenClaw that keeps them in its database."""
    (folder / "state").mkdir(exist_ok=True)
    path = folder / "state" / "openclaw.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS channel_pairing_allow_entries (channel_key TEXT NOT NULL, account_id TEXT NOT NULL,"
                         " entry TEXT NOT NULL, sort_order INTEGER NOT NULL, updated_at INTEGER NOT NULL)")  # fmt: skip
        database.executemany("INSERT INTO channel_pairing_allow_entries VALUES (?, ?, ?, 0, 0)", rows)
    return path


def test_approvals_of_an_openclaw_with_a_database_count_until_they_are_taken_back(tmp_path, clock):
    rows = (
        ("telegram", "default", "11"),
        ("telegram", "work", "12"),
        ("discord", "default", "13"),
        ("telegram", "default", "*"),
    )
    path = approved_elsewhere(tmp_path, *rows)
    before = path.read_bytes()
    store = PairingStore(tmp_path / "credentials", clock)
    assert store.approved("telegram") == {"11"}
    assert store.approved("telegram", "work") == {"12"}
    assert store.revoke("telegram", "11")
    assert store.approved("telegram") == frozenset()
    assert not store.revoke("telegram", "11")
    assert path.read_bytes() == before, "it is OpenClaw's file"
    # Whoever was taken back can ask again.
    request, _ = store.request("telegram", "default", "11")
    store.approve("telegram", request.code)
    assert PairingStore(tmp_path / "credentials", clock).approved("telegram") == {"11"}


def test_a_database_that_cannot_be_read_lets_nobody_in(tmp_path, clock):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "openclaw.sqlite").write_bytes(b"no database at all")
    assert PairingStore(tmp_path / "credentials", clock).approved("telegram") == frozenset()
