import hashlib
import json
import os
import shutil
import sqlite3
from contextlib import closing

import pytest
from tests.fixtures.homes import snapshot, unpack
from tests.sessions.lines import compress, header, says, user

from homarus.core.errors import StorageError
from homarus.sessions.database import FILE, AgentDatabase

EVENTS = [json.dumps(row) for row in (header(version=4), user("a", None), says("b", "a"), user("c", "b"))]


def make(folder, script, events=EVENTS, packed=()):
    path = folder / "agent" / FILE
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(script)
        for seq, text in enumerate(events):
            columns = "(session_id, seq, event_zstd)" if seq in packed else "(session_id, seq, event_json)"
            value = compress(text.encode()) if seq in packed else text
            db.execute(f"INSERT INTO transcript_events {columns} VALUES ('s1', ?, ?)", (seq, value))
    db.close()
    return path


NODES = """
CREATE TABLE schema_meta (meta_key TEXT, schema_version INTEGER);
INSERT INTO schema_meta VALUES ('primary', 23);
CREATE TABLE session_nodes (session_key TEXT, current_session_id TEXT, entry_json TEXT, updated_at INTEGER);
INSERT INTO session_nodes VALUES ('agent:main:main', 's1', '{"sessionId":"s1","updatedAt":5,"label":"x"}', 5);
CREATE TABLE session_windows (session_id TEXT, session_key TEXT, created_at INTEGER, updated_at INTEGER);
INSERT INTO session_windows VALUES ('s0', 'agent:main:main', 1, 2), ('s1', 'agent:main:main', 3, 5);
CREATE TABLE transcript_events (session_id TEXT, seq INTEGER, event_json TEXT, event_zstd BLOB, event_utf8_bytes INTEGER);
"""
OLDER = """
CREATE TABLE session_entries (session_key TEXT, session_id TEXT, entry_json TEXT, updated_at INTEGER);
INSERT INTO session_entries VALUES ('agent:main:main', 's1', '{"updatedAt":5}', 5), ('agent:main:broken', 's2', 'x{', 9);
CREATE TABLE sessions (session_id TEXT, session_key TEXT, updated_at INTEGER);
INSERT INTO sessions VALUES ('s1', 'agent:main:main', 5);
CREATE TABLE transcript_events (session_id TEXT, seq INTEGER, event_json TEXT);
"""
COLD = """
CREATE TABLE session_transcript_cold_archives (session_id TEXT, archive_name TEXT, archive_sha256 TEXT, storage TEXT, archive_blob BLOB);
"""


def ids(path):
    with AgentDatabase(path) as database:
        return [json.loads(line)["id"] for line in database.lines("s1")]


def test_sessions_windows_and_lines(tmp_path):
    path = make(tmp_path, NODES, packed={1, 3})
    with AgentDatabase(path) as database:
        one = database.sessions()[0]
        assert (one.key, one.session_id, one.row["label"]) == ("agent:main:main", "s1", "x")
        assert database.windows() == ["s0", "s1"]
        assert database.schema == 23
    assert ids(path) == ["s1", "a", "b", "c"]


def test_older_tables(tmp_path):
    path = make(tmp_path, OLDER)
    with AgentDatabase(path) as database:
        assert [(one.key, one.session_id) for one in database.sessions()] == [
            ("agent:main:broken", "s2"),
            ("agent:main:main", "s1"),
        ]
        assert database.windows() == ["s1"]
    assert ids(path) == ["s1", "a", "b", "c"]


def cold(folder, storage, spoil=False):
    records = [
        {"kind": "header", "version": 1},
        *(
            {"kind": "event", "row": {"seq": n, "event_json": text, "created_at": 1}}
            for n, text in enumerate(EVENTS[:2])
        ),
    ]
    data = compress(b"".join(json.dumps(record).encode() + b"\n" for record in records))
    digest = hashlib.sha256(data).hexdigest()
    path = make(folder, NODES + COLD)
    blob = data[:-1] if spoil else data
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(
            "INSERT INTO session_transcript_cold_archives VALUES ('s1', ?, ?, ?, ?)",
            (f"{digest}.jsonl.zst", digest, storage, blob if storage == "sqlite" else None),
        )
        db.execute("DELETE FROM transcript_events WHERE seq < 2")
    db.close()
    if storage == "file":
        (folder / "sessions" / "cold").mkdir(parents=True)
        (folder / "sessions" / "cold" / f"{digest}.jsonl.zst").write_bytes(blob)
    return path


@pytest.mark.parametrize("storage", ["file", "sqlite"])
def test_cold_storage_comes_first_and_is_checked(tmp_path, storage):
    assert ids(cold(tmp_path / "good", storage)) == ["s1", "a", "b", "c"]
    with pytest.raises(StorageError, match="damaged"):
        ids(cold(tmp_path / "bad", storage, spoil=True))


def test_a_missing_cold_archive_is_an_error_and_never_an_empty_history(tmp_path):
    path = cold(tmp_path, "file")
    shutil.rmtree(tmp_path / "sessions")
    with pytest.raises(StorageError, match="cold archive"):
        ids(path)


def test_a_newer_schema_is_refused_by_name(tmp_path):
    path = make(tmp_path, NODES.replace("23", "24"))
    with pytest.raises(StorageError, match="schema 24") as refused:
        AgentDatabase(path)
    assert str(path) in str(refused.value)


def test_a_damaged_row_or_file_is_an_error(tmp_path):
    path = make(tmp_path / "row", NODES)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE transcript_events SET event_json = NULL, event_zstd = x'28b52ffd0000' WHERE seq = 2")
    db.close()
    with pytest.raises(StorageError, match="event 2"):
        ids(path)
    path.write_bytes(b"not a database at all, but long enough to be looked at as one" * 20)
    with pytest.raises(StorageError):
        AgentDatabase(path)


def test_a_live_database_is_read_with_its_log_and_not_touched(tmp_path):
    path = make(tmp_path, NODES)
    writer = sqlite3.connect(path, isolation_level=None)
    try:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute(
            "INSERT INTO transcript_events (session_id, seq, event_json) VALUES ('s1', 4, ?)",
            (json.dumps(user("d", "c")),),
        )
        assert os.path.getsize(f"{path}-wal") > 0
        before = snapshot(tmp_path)
        assert ids(path) == ["s1", "a", "b", "c", "d"]
        assert snapshot(tmp_path) == before
    finally:
        writer.close()


def test_the_real_home(tmp_path):
    home = unpack("openclaw-2026.9.6", tmp_path)
    before = snapshot(home.root)
    with AgentDatabase(home.state / "agents" / "main" / "agent" / FILE) as database:
        assert [one.key for one in database.sessions()] == ["agent:main:main", "agent:main:explicit:fixture-two"]
        lines = list(database.lines("fixture-two"))
    assert len(lines) == 13
    assert json.loads(lines[0])["version"] == 4
    assert snapshot(home.root) == before
