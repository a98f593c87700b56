"""SQLite for derived data, opened the one right way; and foreign databases, read without changing a byte of them."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from homarus.core.errors import Locked, StorageError
from homarus.storage.atomic import ensure_dir, move_aside
from homarus.storage.faults import Missing, beside, explain, explained, open_folder, shown

_BUSY_SECONDS = 10.0
_LOGS = ("-wal", "-journal")
_SIDECARS = (*_LOGS, "-shm")
_KEEP_DAMAGED = 2
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_CURES = {
    sqlite3.SQLITE_FULL: "the disk is full: free some space and try again",
    sqlite3.SQLITE_READONLY: "give this user write access to the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "check that the folder exists and this user may use it",
    sqlite3.SQLITE_PERM: "give this user access to the file and its folder",
    sqlite3.SQLITE_IOERR: "the disk reports an error or is full: check it",
}


class _OtherVersion(Exception):
    def __init__(self, found: int) -> None:
        super().__init__(found)
        self.found = found


def is_damage(error: sqlite3.Error) -> bool:
    """Whether this error means that the file's content is broken, so that derived data should be rebuilt."""
    return _code(error) in _DAMAGE


def open_database(
    path: Path,
    *,
    schema: str,
    version: int,
    rebuild: bool = True,
    synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
    now: Callable[[], datetime] | None = None,
) -> sqlite3.Connection:
    """Open or create a database with this schema. Autocommit; group writes with `transaction`.

    A damaged file, or one of another schema version, is moved aside and made anew when `rebuild` says that its content
    is derived; otherwise it stays and `StorageError` says what is wrong.
    """
    ensure_dir(path.parent)
    try:
        return _open(path, schema, version, synchronous)
    except _OtherVersion as error:
        problem = f"{shown(path)} has schema version {error.found}, and this program needs {version}"
        cure = "use the program version that wrote it"
        label = f"v{error.found}"
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise _explain(error, path) from error
        problem, cure = f"{shown(path)} is damaged: {error}", "restore it from a backup, or move it away"
        label = "damaged"
    if not rebuild:
        raise StorageError(problem, cure=cure)
    return _rebuild(path, schema, version, synchronous, label, now)


def _open(path: Path, schema: str, version: int, synchronous: str) -> sqlite3.Connection:
    with explained("open", path):
        # Created here and not by SQLite: -wal and -shm take their permissions from it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600))
    conn = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        conn.execute("PRAGMA trusted_schema = OFF")
        conn.execute("PRAGMA foreign_keys = ON")
        _use_wal(conn)
        conn.execute(f"PRAGMA synchronous = {'FULL' if synchronous == 'FULL' else 'NORMAL'}")
        if _version(conn) != version:
            _create_schema(conn, schema, version)
        conn.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        conn.close()
        raise
    return conn


def _use_wal(conn: sqlite3.Connection) -> None:
    # The busy timeout does not cover the change of the journal mode, so a concurrent first opening is waited out here.
    for attempt in range(100):
        try:
            conn.execute("PRAGMA journal_mode = WAL").fetchone()
            return
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or attempt == 99:
                raise
            time.sleep(_BUSY_SECONDS / 100)


def _version(conn: sqlite3.Connection) -> int:
    return int(conn.execute("PRAGMA user_version").fetchone()[0])


def _create_schema(conn: sqlite3.Connection, schema: str, version: int) -> None:
    conn.execute("BEGIN IMMEDIATE")
    try:
        found = _version(conn)
        if found != version:  # nobody was faster
            if found or conn.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise _OtherVersion(found)
            for statement in _statements(schema):
                conn.execute(statement)
            conn.execute(f"PRAGMA user_version = {version:d}")
        conn.execute("COMMIT")
    except BaseException:
        if conn.in_transaction:
            conn.execute("ROLLBACK")
        raise


def _statements(schema: str) -> Iterator[str]:
    """Split a script into statements, so that all of it can stand in one transaction."""
    statement = ""
    for piece in schema.split(";"):
        statement += piece + ";"
        if sqlite3.complete_statement(statement):
            if statement.strip(" \t\r\n;"):
                yield statement
            statement = ""
    if statement.strip(" \t\r\n;"):
        yield statement


def _rebuild(
    path: Path, schema: str, version: int, synchronous: str, label: str, now: Callable[[], datetime] | None
) -> sqlite3.Connection:
    """Move the file aside and create a new one; two processes that find the damage together do it once."""
    if now is None:
        from homarus.core.clock import SystemClock

        now = SystemClock().now
    with explained("rebuild", path), open_folder(path.parent) as folder:
        fcntl.flock(folder, fcntl.LOCK_EX)  # ends with the descriptor
        try:
            return _open(path, schema, version, synchronous)
        except (_OtherVersion, sqlite3.DatabaseError) as error:
            if isinstance(error, sqlite3.DatabaseError) and not is_damage(error):
                raise _explain(error, path) from error
        moment = now()
        for name in (path, *(path.with_name(path.name + suffix) for suffix in _SIDECARS)):
            if name.exists():
                move_aside(name, label, moment)
        _forget_old(path, label)
        try:
            return _open(path, schema, version, synchronous)
        except sqlite3.Error as error:
            raise _explain(error, path) from error


def _forget_old(path: Path, label: str) -> None:
    """Keep the newest few of the files moved aside: they hold derived data only, and must not fill the disk."""
    for name in (path, *(path.with_name(path.name + suffix) for suffix in _SIDECARS)):
        prefix = beside(name, f".{label}.").name
        old = sorted(found for found in path.parent.iterdir() if found.name.startswith(prefix))
        for found in old[:-_KEEP_DAMAGED]:
            found.unlink(missing_ok=True)


def open_readonly(path: Path, *, sleep: Callable[[float], None] = time.sleep) -> sqlite3.Connection:
    """Open somebody else's database for reading. No byte of it or of its folder changes, whoever is using it now.

    Without a write-ahead log beside it, it is read in place; otherwise from a private copy that has no name any more
    when this returns.
    """
    with explained("open", path):
        path.stat()
    try:
        # A log beside it, even an empty one, means a writer that is alive or was killed.
        return _open_copy(path, sleep) if _has_log(path) else _connect_immutable(path)
    except sqlite3.Error as error:
        raise _explain(error, path) from error


def _has_log(path: Path) -> bool:
    return any(path.with_name(path.name + suffix).exists() for suffix in _LOGS)


def _connect_immutable(path: Path) -> sqlite3.Connection:
    uri = "file:" + quote(os.fsencode(path.absolute())) + "?mode=ro&immutable=1"
    conn = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    try:
        conn.execute("PRAGMA query_only = ON")
        conn.execute("PRAGMA trusted_schema = OFF")
        conn.execute("SELECT count(*) FROM sqlite_master").fetchone()  # SQLite opens the file at the first read
    except BaseException:
        conn.close()
        raise
    return conn


def _open_copy(path: Path, sleep: Callable[[float], None]) -> sqlite3.Connection:
    folder = tempfile.mkdtemp(prefix="homarus-read-")
    try:
        copy = Path(folder, "copy.db")
        _copy_consistently(path, copy, sleep)
        merged = sqlite3.connect(copy, isolation_level=None)
        try:
            merged.execute("PRAGMA journal_mode = DELETE").fetchone()  # recovers and folds the log into the file
        finally:
            merged.close()
        return _connect_immutable(copy)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy_consistently(path: Path, copy: Path, sleep: Callable[[float], None]) -> None:
    """Copy database and log of one moment: repeat until nothing changed while copying."""
    for attempt in range(5):
        if attempt:
            sleep(0.05)
        try:
            before = _fingerprints(path)
            for suffix in ("", *_LOGS):
                Path(f"{copy}{suffix}").unlink(missing_ok=True)
                if suffix in before:
                    shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
            if _fingerprints(path) == before:
                return
        except FileNotFoundError:
            continue  # a log was removed after its last checkpoint
        except OSError as error:
            raise explain(error, "copy", path) from error
    raise Locked(f"{shown(path)} is written without a pause", cure="stop the program that uses it, then try again")


def _fingerprints(path: Path) -> dict[str, tuple[int, int, int]]:
    found = {}
    for suffix in ("", *_LOGS):
        try:
            state = Path(f"{path}{suffix}").stat()
        except FileNotFoundError:
            if not suffix:
                raise Missing(f"{shown(path)} is gone", cure="check the path") from None
            continue
        found[suffix] = (state.st_ino, state.st_size, state.st_mtime_ns)
    return found


@contextmanager
def transaction(conn: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """All writes of the block or none. The write lock is taken first, so it waits here and not in the middle.

    Inside another transaction only the block itself is undone on failure.
    """
    nested = conn.in_transaction
    begin, commit, rollback = (
        ("SAVEPOINT block", "RELEASE block", "ROLLBACK TO block")
        if nested
        else ("BEGIN IMMEDIATE", "COMMIT", "ROLLBACK")
    )
    try:
        conn.execute(begin)
        try:
            yield conn
            conn.execute(commit)
        except BaseException:
            if conn.in_transaction:  # some failures have rolled back already
                conn.execute(rollback)
                if nested:
                    conn.execute("RELEASE block")
            raise
    except sqlite3.OperationalError as error:
        if _code(error) in _CURES or _code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            raise _explain(error, _path_of(conn)) from error
        raise


def _path_of(conn: sqlite3.Connection) -> Path:
    return Path(conn.execute("PRAGMA database_list").fetchone()[2] or ":memory:")


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def _explain(error: sqlite3.Error, path: Path) -> StorageError:
    code = _code(error)
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return Locked(f"{shown(path)} is in use by another process", cure="wait until it ends, or stop it")
    if code in _DAMAGE:
        return StorageError(f"{shown(path)} is damaged: {error}", cure="restore it from a backup")
    return StorageError(f"cannot use {shown(path)}: {error}", cure=_CURES.get(code, ""))
