"""Our databases open the one right way and are rebuilt when broken; other people's are read without a trace."""

import hashlib
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

import homarus
from homarus.core.errors import Locked, StorageError
from homarus.storage.faults import Missing
from homarus.storage.sqlite import Damaged, is_damage, open_database, open_readonly, transaction

SCHEMA = """
CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT DEFAULT 'a;b');
CREATE TRIGGER tr AFTER INSERT ON t WHEN new.n < 0 BEGIN DELETE FROM t WHERE n = new.n; SELECT 1; END;
CREATE VIRTUAL TABLE words USING fts5(text); -- a comment; with a semicolon
"""
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def opened(path, version=1, **options):
    return open_database(path, schema=SCHEMA, version=version, now=lambda: NOW, **options)


def fill(path, rows=10, **options):
    with closing(opened(path, **options)) as conn, transaction(conn):
        conn.executemany("INSERT INTO t (n) VALUES (?)", [(n,) for n in range(rows)])


def snapshot(folder):
    return {
        path.name: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns, path.stat().st_ino)
        for path in sorted(folder.iterdir())
    }


def test_a_new_database(tmp_path):
    path = tmp_path / "new" / "folder" / "d.db"
    with closing(opened(path)) as conn:
        pragmas = {
            name: conn.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "foreign_keys", "synchronous", "user_version")
        }
        assert pragmas == {"journal_mode": "wal", "foreign_keys": 1, "synchronous": 1, "user_version": 1}
        assert conn.execute("PRAGMA busy_timeout").fetchone()[0] >= 1000
        conn.execute("INSERT INTO t (n) VALUES (-1)")
        assert conn.execute("SELECT count(*) FROM t").fetchone() == (0,)
        assert {stat.S_IMODE(found.stat().st_mode) for found in path.parent.iterdir()} == {0o600}
    with closing(opened(path, synchronous="FULL")) as conn:
        assert conn.execute("PRAGMA synchronous").fetchone() == (2,)


def test_content_survives_reopening(tmp_path):
    fill(tmp_path / "d.db")
    with closing(opened(tmp_path / "d.db")) as conn:
        assert conn.execute("SELECT count(*) FROM t").fetchone() == (10,)
    assert os.listdir(tmp_path) == ["d.db"]


@pytest.mark.parametrize("damage", ["garbage", "text", "head", "cut"])
def test_a_damaged_database_is_moved_aside_and_made_anew(tmp_path, damage):
    path = tmp_path / "d.db"
    fill(path, 2000)
    whole = path.read_bytes()
    broken = {
        "garbage": os.urandom(5000),
        "text": b"this is not a database, but it was precious to somebody\n" * 100,
        "head": b"x" * 200 + whole[200:],
        "cut": whole[: len(whole) // 3],
    }[damage]
    path.write_bytes(broken)
    with closing(opened(path, check=True)) as conn:
        assert conn.execute("SELECT count(*) FROM t").fetchone() == (0,)
    aside = tmp_path / "d.db.damaged.2026-01-02T03-04-05.000Z"
    assert aside.read_bytes() == broken


def test_damage_deep_inside_is_found_by_a_check(tmp_path):
    path = tmp_path / "d.db"
    fill(path, 5000)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4096] = b"\xff" * 4096
    path.write_bytes(content)
    with closing(opened(path)) as conn:
        with pytest.raises(sqlite3.DatabaseError) as caught:
            conn.execute("SELECT sum(length(text)), max(n) FROM t WHERE text > ''").fetchall()
        assert is_damage(caught.value)
        with pytest.raises(Damaged), transaction(conn):
            conn.execute("UPDATE t SET text = 'x'")
    with closing(opened(path, check=True)) as conn:
        assert conn.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_precious_data_is_never_rebuilt_nor_robbed_of_its_log(tmp_path):
    path = tmp_path / "d.db"
    path.write_bytes(b"damaged" * 1000)
    (tmp_path / "d.db-wal").write_bytes(b"the last commits")
    with pytest.raises(Damaged, match="damaged") as caught:
        opened(path, rebuild=False)
    assert caught.value.cure
    assert path.read_bytes() == b"damaged" * 1000
    assert (tmp_path / "d.db-wal").read_bytes() == b"the last commits"


def test_another_version_is_rebuilt_or_refused(tmp_path):
    path = tmp_path / "d.db"
    fill(path)
    with pytest.raises(StorageError, match="schema version 1, and this program needs 2"):
        opened(path, version=2, rebuild=False)
    with closing(opened(path, version=2)) as conn:
        assert conn.execute("SELECT count(*) FROM t").fetchone() == (0,)
    with closing(sqlite3.connect(tmp_path / "d.db.v1.2026-01-02T03-04-05.000Z")) as conn:
        assert conn.execute("SELECT count(*) FROM t").fetchone() == (10,)


def test_somebody_elses_tables_are_not_ours(tmp_path):
    path = tmp_path / "d.db"
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("CREATE TABLE foreign_table (a)")
    with pytest.raises(StorageError, match="schema version 0"):
        opened(path, rebuild=False)


def test_files_moved_aside_do_not_fill_the_disk(tmp_path):
    path = tmp_path / "d.db"
    for number in range(5):
        path.write_bytes(b"%d" % number * 5000)
        open_database(path, schema=SCHEMA, version=1, now=lambda n=number: NOW.replace(minute=n)).close()
    kept = sorted(name for name in os.listdir(tmp_path) if "damaged" in name)
    assert [name.split("T")[1][:5] for name in kept] == ["03-03", "03-04"]


def test_logs_are_moved_with_their_database(tmp_path):
    path = tmp_path / "d.db"
    path.write_bytes(b"damaged" * 1000)
    (tmp_path / "d.db-wal").write_bytes(b"log")
    with closing(opened(path)) as conn:
        assert conn.execute("SELECT count(*) FROM t").fetchone() == (0,)
    assert (tmp_path / "d.db-wal.damaged.2026-01-02T03-04-05.000Z").read_bytes() == b"log"


def test_folders_and_pipes_are_refused_without_waiting(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):
        with pytest.raises(StorageError, match=r"regular file|directory"):
            opened(tmp_path / name)
        with pytest.raises(StorageError, match=r"regular file|directory"):
            open_readonly(tmp_path / name)


def test_a_broken_schema_leaves_no_half_of_it(tmp_path):
    with pytest.raises(StorageError):
        open_database(tmp_path / "d.db", schema="CREATE TABLE a (x); CREATE TABL b (x);", version=1)
    with closing(sqlite3.connect(tmp_path / "d.db")) as conn:
        assert conn.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)


def test_a_transaction_is_all_or_nothing(tmp_path):
    with closing(opened(tmp_path / "d.db")) as conn:
        with pytest.raises(RuntimeError), transaction(conn):
            conn.execute("INSERT INTO t (n) VALUES (1)")
            raise RuntimeError
        with pytest.raises(sqlite3.IntegrityError), transaction(conn):
            conn.execute("INSERT INTO t (n) VALUES (2)")
            conn.execute("INSERT INTO t (n) VALUES (2)")
        assert conn.execute("SELECT count(*) FROM t").fetchone() == (0,)
        assert not conn.in_transaction


def test_a_transaction_inside_another_undoes_only_itself(tmp_path):
    with closing(opened(tmp_path / "d.db")) as conn:
        with transaction(conn):
            conn.execute("INSERT INTO t (n) VALUES (1)")
            with pytest.raises(RuntimeError), transaction(conn):
                conn.execute("INSERT INTO t (n) VALUES (2)")
                raise RuntimeError
            with transaction(conn):
                conn.execute("INSERT INTO t (n) VALUES (3)")
        assert conn.execute("SELECT n FROM t ORDER BY n").fetchall() == [(1,), (3,)]


def test_a_held_write_lock_is_waited_for_and_then_named(tmp_path):
    path = tmp_path / "d.db"
    with closing(opened(path)) as first, closing(opened(path)) as second:
        second.execute("PRAGMA busy_timeout = 50")
        with transaction(first):
            first.execute("INSERT INTO t (n) VALUES (1)")
            assert second.execute("SELECT count(*) FROM t").fetchone() == (0,), "readers do not wait"
            with pytest.raises(Locked, match=r"d\.db"), transaction(second):
                pass
        with transaction(second):
            second.execute("INSERT INTO t (n) VALUES (2)")


def test_threads_open_and_write_together(tmp_path):
    path = tmp_path / "d.db"
    failures = []

    def work(start):
        try:
            with closing(opened(path)) as conn:
                for n in range(20):
                    with transaction(conn):
                        conn.execute("INSERT INTO t (n) VALUES (?)", (start + n,))
        except (StorageError, sqlite3.Error) as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(0, 400, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with closing(opened(path)) as conn:
        assert conn.execute("SELECT count(*) FROM t").fetchone() == (80,)


@pytest.mark.parametrize("start", ["nothing", "damage"])
def test_processes_that_open_together_agree_on_one_database(tmp_path, start):
    """Eight at once create it, or find it damaged: it is made once, and everybody's rows are in it."""
    path = tmp_path / "d.db"
    if start == "damage":
        path.write_bytes(b"damaged" * 1000)
    code = """
import os, sys
from pathlib import Path
from homarus.storage.sqlite import open_database, transaction
sys.stdin.read(1)
conn = open_database(Path(sys.argv[1]), schema="CREATE TABLE t (pid)", version=1)
with transaction(conn):
    conn.execute("INSERT INTO t VALUES (?)", (os.getpid(),))
conn.close()
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(homarus.__file__).parent.parent)}
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(path)], env=environment, stdin=subprocess.PIPE)
        for _ in range(8)
    ]
    for child in children:
        child.stdin.write(b".")
        child.stdin.close()
    assert [child.wait() for child in children] == [0] * 8
    with closing(open_readonly(path)) as conn:
        assert {pid for (pid,) in conn.execute("SELECT pid FROM t")} == {child.pid for child in children}
    assert sum("damaged" in name for name in os.listdir(tmp_path)) == (start == "damage")


@pytest.fixture(params=["closed", "delete-mode", "open", "killed", "hot-journal"])
def foreign(request, tmp_path):
    """A database of another program in each state in which we may meet it, with 100 rows to be seen."""
    folder = tmp_path / "foreign home ?&#%41"
    folder.mkdir()
    path = folder / "theirs.sqlite"
    code = """
import os, sqlite3, sys
state, path = sys.argv[1:]
conn = sqlite3.connect(path, isolation_level=None)
if state not in ("delete-mode", "hot-journal"):
    conn.execute("PRAGMA journal_mode = WAL")
conn.execute("CREATE TABLE t (n, pad)")
conn.execute("BEGIN")
conn.executemany("INSERT INTO t VALUES (?, ?)", [(n, "x" * 500) for n in range(100)])
conn.execute("COMMIT")
if state == "hot-journal":
    conn.execute("PRAGMA cache_size = 1")
    conn.execute("BEGIN")
    conn.execute("UPDATE t SET n = -1, pad = 'half written'")
    os._exit(0)
if state == "killed":
    os._exit(0)
if state == "open":
    print("ready", flush=True)
    sys.stdin.read()
conn.close()
"""
    child = subprocess.Popen(
        [sys.executable, "-c", code, request.param, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    if request.param == "open":
        child.stdout.readline()
    else:
        child.wait()
    yield path
    child.stdin.close()
    child.stdout.close()
    child.wait()


def test_a_foreign_database_is_read_in_every_state_and_nothing_changes(foreign):
    before = snapshot(foreign.parent)
    with closing(open_readonly(foreign)) as conn:
        assert conn.execute("SELECT count(*), sum(n) FROM t").fetchone() == (100, 4950)
        with pytest.raises(sqlite3.OperationalError):
            conn.execute("INSERT INTO t VALUES (1, 2)")
    assert snapshot(foreign.parent) == before


def test_a_foreign_database_in_a_read_only_home(foreign):
    foreign.parent.chmod(0o500)
    try:
        with closing(open_readonly(foreign)) as conn:
            assert conn.execute("SELECT count(*) FROM t").fetchone() == (100,)
    finally:
        foreign.parent.chmod(0o700)


def test_the_private_copy_has_no_name_any_more(foreign, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    before = sorted(os.listdir(tmp_path))
    with closing(open_readonly(foreign)) as conn:
        assert sorted(os.listdir(tmp_path)) == before
        assert conn.execute("SELECT count(*) FROM t").fetchone() == (100,)


def test_a_database_that_changes_while_it_is_copied_is_copied_again(tmp_path):
    path = tmp_path / "d.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("CREATE TABLE t (n)")
        for n in range(50):
            writer.execute("INSERT INTO t VALUES (?)", (n,))
            with closing(open_readonly(path)) as conn:
                assert conn.execute("SELECT count(*) FROM t").fetchone() == (n + 1,)


def test_our_own_open_database_is_read_through_its_locks(tmp_path):
    """Opening and closing the file behind SQLite's back would drop the locks of this process."""
    path = tmp_path / "d.db"
    with closing(opened(path)) as conn, transaction(conn):
        conn.execute("INSERT INTO t (n) VALUES (1)")
        with closing(open_readonly(path)) as reader:
            assert reader.execute("SELECT count(*) FROM t").fetchone() == (0,)
        probe = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute('BEGIN IMMEDIATE')"
        done = subprocess.run([sys.executable, "-c", probe, str(path)], capture_output=True, check=False)
        assert b"database is locked" in done.stderr


def test_what_is_no_database(tmp_path):
    with pytest.raises(Missing):
        open_readonly(tmp_path / "nope")
    (tmp_path / "text").write_bytes(b"just text " * 100)
    with pytest.raises(Damaged):
        open_readonly(tmp_path / "text")
    assert (tmp_path / "text").read_bytes() == b"just text " * 100
