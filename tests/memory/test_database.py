"""The index under bad conditions: damaged, on a full or read-only disk, without a write-ahead log, under a jumping clock."""

from __future__ import annotations

import os
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.memory.fakes import FakeEmbedder

from homarus.core.clock import ManualClock
from homarus.core.errors import Locked, StorageError
from homarus.memory.database import RETRY_SECONDS, Store, save_cache
from homarus.memory.schema import SCHEMA, VERSION
from homarus.storage.sqlite import open_database

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)


def spoil_words(path: Path) -> None:
    """Break the word index inside, which no check of the file as a whole can see."""
    conn = sqlite3.connect(path)
    conn.execute("UPDATE lines_fts_data SET block = x'00ffffff00ffffff' WHERE id > 10")
    conn.commit()
    conn.close()


def test_damage_is_moved_aside_with_every_byte_and_never_overwritten(notes):
    notes.write("MEMORY.md", "The boat is called Marlene.\n")
    with notes.open() as memory:
        memory.search("boat")
    path = notes.root / ".memory" / "index.sqlite"
    spoil_words(path)
    before = path.read_bytes()
    assert notes.open().search("boat").hits
    kept = [found for found in path.parent.iterdir() if found.name.startswith("index.sqlite.damaged.")]
    assert [found.read_bytes() for found in kept] == [before]


def test_damage_met_while_indexing_is_healed_too(notes):
    notes.write("MEMORY.md", "The boat is called Marlene.\n")
    with notes.open() as memory:
        memory.search("boat")
    spoil_words(notes.root / ".memory" / "index.sqlite")
    notes.write("MEMORY.md", "The boat is called Rosalinde.\n")
    memory = notes.open()
    memory.sync()
    answer = memory.search("boat")
    assert (answer[0].text, answer.stale) == ("The boat is called Rosalinde.", "")


def test_an_index_that_another_process_made_anew_is_not_moved(notes, tmp_path):
    from homarus.storage.sqlite import set_aside

    path = tmp_path / "index.sqlite"
    path.write_bytes(b"new")
    set_aside(path, (0, 0))
    assert path.read_bytes() == b"new"
    set_aside(tmp_path / "gone.sqlite", (0, 0))


def test_paid_for_vectors_survive_the_damage(notes):
    notes.write("memory/a.md", "".join(f"The boat {number} is in the harbour.\n" for number in range(30)))
    with notes.open(provider=FakeEmbedder()) as memory:
        memory.sync()
    spoil_words(notes.root / ".memory" / "index.sqlite")
    embedder = FakeEmbedder()
    memory = notes.open(provider=embedder)
    assert memory.search("boat").hits
    assert memory.status().cached_embeddings == 30
    assert sum(len(call) for call in embedder.calls) <= 2  # the question alone


def test_vectors_that_the_damage_reached_are_left_behind(tmp_path):
    np = pytest.importorskip("numpy")
    path = tmp_path / "index.sqlite"
    old = open_database(tmp_path / "index.sqlite.damaged.2026-06-15T12-00-00.000Z", schema=SCHEMA, version=VERSION)
    good = np.array([0.6, 0.8], dtype=np.float16).tobytes()
    for number, blob in enumerate((good, good + b"\0\0", np.array([9, 9], dtype=np.float16).tobytes())):
        old.execute("INSERT INTO embedding_cache VALUES('p', 'm', 'k', ?, ?, 2, 1)", (str(number), blob))
    old.close()
    conn = open_database(path, schema=SCHEMA, version=VERSION)
    assert save_cache(conn, path) == 1
    assert save_cache(conn, path) == 0  # once
    assert conn.execute("SELECT hash, embedding FROM embedding_cache").fetchall() == [("0", good)]
    conn.close()


@pytest.mark.parametrize("content", [b"", b"garbage", b"SQLite format 3\0" + b"\0" * 5000])
def test_nothing_to_save_is_no_failure(tmp_path, content):
    (tmp_path / "index.sqlite.v8.2026-06-15T12-00-00.000Z").write_bytes(content)
    conn = open_database(tmp_path / "index.sqlite", schema=SCHEMA, version=VERSION)
    assert save_cache(conn, tmp_path / "index.sqlite") == 0
    conn.close()


def test_another_version_of_the_tables_keeps_the_vectors(notes):
    notes.write("memory/a.md", "The boat is in the harbour.\n")
    with notes.open(provider=FakeEmbedder()) as memory:
        memory.sync()
    conn = sqlite3.connect(notes.root / ".memory" / "index.sqlite")
    conn.execute("PRAGMA user_version = 7")
    conn.commit()
    conn.close()
    memory = notes.open(provider=FakeEmbedder())
    assert memory.search("boat").hits
    assert memory.status().cached_embeddings == 1


class Disk:
    """Opens databases until it is full."""

    def __init__(self) -> None:
        self.full = True

    def __call__(self, path: Path, **options: object) -> sqlite3.Connection:
        if self.full:
            raise StorageError("cannot use the file: database or disk is full", cure="free some space")
        return open_database(path, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("jump", [RETRY_SECONDS + 1, -RETRY_SECONDS - 1])
def test_an_index_in_memory_goes_to_the_disk_when_it_can_again(tmp_path, jump):
    clock, disk = ManualClock(NOW), Disk()
    store = Store(tmp_path / "index.sqlite", clock.now, opener=disk)
    conn, _ = store.connection()
    assert "kept in memory only" in store.problem
    disk.full = False
    assert store.connection() == (conn, False)  # not with every question
    clock.set(NOW + timedelta(seconds=jump))
    again, changed = store.connection()
    assert changed
    assert again is not conn
    assert store.problem == ""
    assert (tmp_path / "index.sqlite").exists()
    store.close()


def dotfile(path: Path, **_: object) -> sqlite3.Connection:
    """Open as on a disk that has no shared memory: SQLite then refuses the write-ahead log."""
    path.parent.mkdir(exist_ok=True)
    fresh = not path.exists()
    conn = sqlite3.connect(
        f"file:{path}?vfs=unix-dotfile", uri=True, timeout=10, isolation_level=None, check_same_thread=False
    )
    assert conn.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal"
    if fresh:
        conn.executescript(SCHEMA)
    return conn


def test_an_index_on_a_disk_without_a_write_ahead_log(notes):
    notes.write("MEMORY.md", "The boat is called Marlene.\n")
    one, two = notes.open(), notes.open()
    for memory in (one, two):
        memory._store = Store(memory._store.path, memory.clock.now, opener=dotfile)
    assert one.search("boat").hits
    notes.write("memory/a.md", "The anchor is rusty.\n")
    assert two.search("anchor").hits
    assert one.search("anchor").hits
    assert (one.search("anchor").stale, one.search("anchor").degraded) == ("", "")


def test_a_writer_that_keeps_readers_out_is_named(notes):
    notes.write("MEMORY.md", "The boat is called Marlene.\n")
    memory = notes.open()
    memory._store = Store(memory._store.path, memory.clock.now, opener=dotfile, read_wait_ms=50)
    assert memory.search("boat").hits
    other = dotfile(memory._store.path)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(Locked) as caught:
        memory.search("boat")
    assert caught.value.cure
    other.execute("ROLLBACK")
    other.close()
    assert memory.search("boat").hits


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_workspace_that_may_only_be_read(notes):
    notes.write("MEMORY.md", "The boat is called Marlene.\n")
    notes.root.chmod(0o500)
    try:
        answer = notes.open().search("boat")
        assert answer.hits
        assert "kept in memory only" in answer.degraded
    finally:
        notes.root.chmod(0o700)


def test_a_full_disk_is_said_and_old_answers_stay(notes):
    notes.write("MEMORY.md", "The boat is called Marlene.\n")
    memory = notes.open()
    assert memory.search("boat").hits
    conn, _ = memory._store.connection()
    pages = conn.execute("PRAGMA page_count").fetchone()[0]
    conn.execute(f"PRAGMA max_page_count = {pages}")
    notes.write("memory/big.md", "".join(f"- line {number} about the anchor chain\n" for number in range(5000)))
    answer = memory.search("boat")
    assert answer.hits
    assert "disk is full" in answer.stale
    conn.execute("PRAGMA max_page_count = 1000000")
    answer = memory.search("anchor")
    assert answer.hits
    assert answer.stale == ""
