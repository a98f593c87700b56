"""SQLite for derived data, opened the one right way; and foreign databases, read without changing a byte of them."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Literal

import msgspec

from homarus.core.errors import Locked, StorageError
from homarus.storage.atomic import ensure_dir, move_aside
from homarus.storage.faults import Missing, beside, explained, open_folder, refuse_special, shown
from homarus.storage.volume import derived

_BUSY_SECONDS = 10.0
_MAX_LOG_BYTES = 16 << 20
_LOGS = ("-wal", "-journal")
_SIDECARS = (*_LOGS, "-shm")
_KEEP_ASIDE = 2
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_CURES = {
    sqlite3.SQLITE_FULL: "the disk is full: free some space and try again",
    sqlite3.SQLITE_READONLY: "give this user write access to the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "check that the folder exists and this user may use it",
    sqlite3.SQLITE_PERM: "give this user access to the file and its folder",
    sqlite3.SQLITE_IOERR: "the disk is full or reports an error: check it",
}
_HEADER = b"SQLite format 3\0"
_opening = threading.Lock()
_counting = threading.Lock()
_own: dict[tuple[int, int], int] = {}  # device and inode of the databases this process has open


class Damaged(StorageError):
    """The database file itself is broken. Derived data is then closed, opened again with `check=True`, and filled anew."""


class _Wanted(msgspec.Struct, frozen=True):
    schema: str
    version: int
    synchronous: Literal["NORMAL", "FULL"]
    check: bool


class _Unusable(Exception):
    """The file is not what is wanted: damaged, or of another version. `label` names it when it is moved aside."""

    def __init__(self, error: StorageError, label: str) -> None:
        super().__init__(error)
        self.error = error
        self.label = label


class _OwnConnection(sqlite3.Connection):
    """A connection of this process, remembered so that `open_readonly` does not touch the same file behind its back."""

    identity: tuple[int, int] | None = None

    def remember(self, path: Path) -> None:
        with explained("open", path):
            found = path.stat()
        self.identity = (found.st_dev, found.st_ino)
        with _counting:
            _own[self.identity] = _own.get(self.identity, 0) + 1

    def close(self) -> None:
        super().close()
        with _counting:
            identity, self.identity = self.identity, None
            if identity is not None:
                _own[identity] -= 1
                if not _own[identity]:
                    del _own[identity]


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error of a plain query means what `Damaged` means."""
    return _code(error) in _DAMAGE


def open_database(
    path: Path,
    *,
    schema: str,
    version: int,
    rebuild: bool = True,
    synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
    check: bool = False,
    now: Callable[[], datetime] | None = None,
) -> sqlite3.Connection:
    """Open or create a database with this schema. Autocommit; group writes with `transaction`.

    A damaged file, or one of another schema version, is moved aside and made anew when `rebuild` says that its content
    is derived; otherwise it stays and `StorageError` says what is wrong. `check` reads the whole file for damage.
    """
    ensure_dir(path.parent)
    derived(path)
    wanted = _Wanted(schema, version, synchronous, check)
    try:
        return _open(path, wanted)
    except _Unusable as error:
        if not rebuild:
            raise error.error from error
    return _rebuild(path, wanted, now)


def _open(path: Path, wanted: _Wanted) -> sqlite3.Connection:
    with _opening:
        _look_first(path)
        return _open_prepared(path, wanted)


def _open_prepared(path: Path, wanted: _Wanted) -> sqlite3.Connection:
    try:
        conn = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, factory=_OwnConnection
        )
        try:
            _prepare(conn, path, wanted)
            conn.remember(path)
        except BaseException:
            conn.close()
            raise
        return conn
    except sqlite3.Error as error:
        problem = explain(error, path)
        raise (_Unusable(problem, "damaged") if isinstance(problem, Damaged) else problem) from error


def _look_first(path: Path) -> None:
    """Do what must come before SQLite: a private file, whose permissions its logs take over, and an intact header.

    SQLite removes the log beside a file that is no database, and with it what could still be saved. A file that this
    process has open is left alone: closing a descriptor of it would drop the locks of the other connections.
    """
    with explained("open", path):
        try:
            found = path.stat()
        except FileNotFoundError:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            return
        refuse_special(found, path)
        if found.st_size and (found.st_dev, found.st_ino) not in _own:
            with path.open("rb") as file:
                if file.read(len(_HEADER)) != _HEADER:
                    raise _Unusable(_damaged(path, "it is not a database"), "damaged")


def _prepare(conn: sqlite3.Connection, path: Path, wanted: _Wanted) -> None:
    conn.execute("PRAGMA trusted_schema = OFF")
    conn.execute("PRAGMA foreign_keys = ON")
    _use_wal(conn)
    conn.execute(f"PRAGMA synchronous = {'FULL' if wanted.synchronous == 'FULL' else 'NORMAL'}")
    conn.execute(f"PRAGMA journal_size_limit = {_MAX_LOG_BYTES}")
    if _version(conn) != wanted.version:
        with _atomically(conn, "BEGIN IMMEDIATE"):
            found = _version(conn)
            if found != wanted.version:  # nobody was faster
                if found or conn.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    raise _Unusable(_other_version(path, found, wanted.version), f"v{found}")
                for statement in _statements(wanted.schema):
                    conn.execute(statement)
                conn.execute(f"PRAGMA user_version = {wanted.version:d}")
    conn.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if wanted.check and (said := conn.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise _Unusable(_damaged(path, said), "damaged")


def _other_version(path: Path, found: int, wanted: int) -> StorageError:
    return StorageError(
        f"{shown(path)} has schema version {found}, and this program needs {wanted}",
        cure="use the program version that wrote it, or move it away",
    )


def _damaged(path: Path, problem: object) -> Damaged:
    return Damaged(f"{shown(path)} is damaged: {problem}", cure="restore it from a backup, or move it away")


def _use_wal(conn: sqlite3.Connection) -> None:
    # The busy timeout does not cover the change of the journal mode, so a concurrent first opening is waited out here.
    pauses = 100
    while True:
        try:
            conn.execute("PRAGMA journal_mode = WAL").fetchone()
            return
        except sqlite3.DatabaseError as error:
            pauses -= 1
            if _code(error) not in _BUSY or not pauses:
                raise
            time.sleep(_BUSY_SECONDS / 100)


def _version(conn: sqlite3.Connection) -> int:
    return int(conn.execute("PRAGMA user_version").fetchone()[0])


def _statements(schema: str) -> Iterator[str]:
    """Split a script into statements, so that all of it can stand in one transaction."""
    statement = ""
    for piece in schema.split(";"):
        statement += piece + ";"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement:
        raise ValueError("the schema ends in the middle of a statement")


def _rebuild(path: Path, wanted: _Wanted, now: Callable[[], datetime] | None) -> sqlite3.Connection:
    """Move the file aside and create a new one; two processes that find the damage together do it once."""
    with _alone_beside(path):
        try:
            return _open(path, wanted)
        except _Unusable as error:
            _move_all_aside(path, error.label, now)
        try:
            return _open(path, wanted)
        except _Unusable as error:
            raise error.error from error


def set_aside(path: Path, identity: tuple[int, int], now: Callable[[], datetime] | None = None) -> None:
    """Move a database that answered with damage aside, for damage that no check of the whole file sees.

    `identity` is the device and inode of that file: what lies there now may be new already, made by another process.
    """
    with _alone_beside(path):
        found = path.stat() if path.exists() else None
        if found and (found.st_dev, found.st_ino) == identity:
            _move_all_aside(path, "damaged", now)


@contextmanager
def _alone_beside(path: Path) -> Iterator[None]:
    with explained("rebuild", path), open_folder(path.parent) as folder:
        fcntl.flock(folder, fcntl.LOCK_EX)  # ends with the descriptor
        yield


def _move_all_aside(path: Path, label: str, now: Callable[[], datetime] | None) -> None:
    if now is None:
        from homarus.core.clock import SystemClock

        now = SystemClock().now
    moment = now()
    for name in (*(path.with_name(path.name + suffix) for suffix in _SIDECARS), path):
        if name.exists():
            move_aside(name, label, moment)
            _forget_older(name, label)


def _forget_older(path: Path, label: str) -> None:
    """Keep the newest few of the files moved aside: they hold derived data only, and must not fill the disk."""
    prefix = beside(path, f".{label}.").name
    for found in sorted(found for found in path.parent.iterdir() if found.name.startswith(prefix))[:-_KEEP_ASIDE]:
        found.unlink(missing_ok=True)


def open_readonly(path: Path, *, sleep: Callable[[float], None] = time.sleep) -> sqlite3.Connection:
    """Open somebody else's database for reading. No byte of it or of its folder changes, whoever is using it now.

    Without a log beside it, it is read in place; otherwise from a private copy that has no name any more when this
    returns. A database that this process itself has open is read through SQLite's own locks.
    """
    with explained("open", path):
        found = path.stat()
        refuse_special(found, path)
    try:
        if (found.st_dev, found.st_ino) in _own:
            return _connect(path, "mode=ro")
        # A log beside it, even an empty one, means a writer that is alive or was killed.
        if any(Path(f"{path}{suffix}").exists() for suffix in _LOGS):
            return _open_copy(path, sleep)
        return _connect(path, "mode=ro&immutable=1")
    except sqlite3.Error as error:
        raise explain(error, path) from error


def _connect(path: Path, options: str) -> sqlite3.Connection:
    from urllib.parse import quote

    uri = f"file:{quote(os.fsencode(path.absolute()))}?{options}"
    conn = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        conn.execute("PRAGMA query_only = ON")
        conn.execute("PRAGMA trusted_schema = OFF")
        conn.execute("SELECT count(*) FROM sqlite_master").fetchone()  # SQLite opens the file at the first read
    except BaseException:
        conn.close()
        raise
    return conn


def _open_copy(path: Path, sleep: Callable[[float], None]) -> sqlite3.Connection:
    import tempfile

    with (
        explained("copy", path),
        tempfile.TemporaryDirectory(prefix="homarus-read-", ignore_cleanup_errors=True) as folder,
    ):
        copy = Path(folder, "copy.db")
        with _opening:
            _copy_consistently(path, copy, sleep)
        merged = sqlite3.connect(copy, isolation_level=None)
        try:
            merged.execute("PRAGMA journal_mode = DELETE").fetchone()  # recovers, and folds the log into the file
        finally:
            merged.close()
        return _connect(copy, "mode=ro&immutable=1")


def _copy_consistently(path: Path, copy: Path, sleep: Callable[[float], None]) -> None:
    """Copy database and log of one moment: repeat until nothing changed while copying."""
    import shutil

    for attempt in range(5):
        if attempt:
            sleep(0.05)
        before = _fingerprints(path)
        for suffix in ("", *_LOGS):
            Path(f"{copy}{suffix}").unlink(missing_ok=True)
        try:
            for suffix in before:
                shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
        except FileNotFoundError:
            continue  # a log was removed after its last checkpoint
        if _fingerprints(path) == before:
            return
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
    try:
        with _atomically(conn, "SAVEPOINT block" if conn.in_transaction else "BEGIN IMMEDIATE"):
            yield conn
    except sqlite3.DatabaseError as error:
        if _code(error) in {*_BUSY, *_DAMAGE, *_CURES}:
            raise explain(error, Path(conn.execute("PRAGMA database_list").fetchone()[2] or ":memory:")) from error
        raise


@contextmanager
def _atomically(conn: sqlite3.Connection, begin: str) -> Iterator[None]:
    nested = begin.startswith("SAVEPOINT")
    conn.execute(begin)
    try:
        yield
        conn.execute("RELEASE block" if nested else "COMMIT")
    except BaseException:
        if conn.in_transaction:  # after some failures SQLite has rolled back already
            conn.execute("ROLLBACK TO block" if nested else "ROLLBACK")
            if nested:
                conn.execute("RELEASE block")
        raise


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def explain(error: sqlite3.Error, path: Path) -> StorageError:
    """Return an error of SQLite in our words: `Locked`, `Damaged`, or what to do about the disk."""
    code = _code(error)
    if code in _BUSY:
        return Locked(f"{shown(path)} is in use by another process", cure="wait until it ends, or stop it")
    if code in _DAMAGE:
        return _damaged(path, error)
    return StorageError(f"cannot use {shown(path)}: {error}", cure=_CURES.get(code, ""))
