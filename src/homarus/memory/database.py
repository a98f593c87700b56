"""The open index file: opened late, reopened when its file was replaced, kept in memory when it cannot be on disk.

What an index that was moved aside holds of paid-for vectors is carried over into the new one. Damage is expected there, so
a vector is taken only if it still is one: of the length its row gives, and one long.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from homarus.core.errors import Locked, StorageError
from homarus.memory.schema import SCHEMA, VERSION
from homarus.storage.sqlite import Damaged, explain, open_database, open_readonly, set_aside, transaction

WAIT_SEARCH_MS = 250  # how long a search waits for another writer before it answers from what is there
WAIT_READ_MS = 10_000  # and for one that keeps readers out, as on a disk without a write-ahead log
WAIT_INDEX_MS = 60_000
RETRY_SECONDS = 30  # how often the disk is tried again while the index is kept in memory

Opener = Callable[..., sqlite3.Connection]


class Store:
    """One connection to one index, for one thread at a time."""

    def __init__(
        self,
        path: Path,
        now: Callable[[], datetime],
        *,
        below: Path | None = None,
        opener: Opener = open_database,
        read_wait_ms: int = WAIT_READ_MS,
    ) -> None:
        self.path = path
        self._now = now
        self._below = below  # the folder that must exist: a misspelt workspace is not created
        self._opener = opener
        self.read_wait_ms = read_wait_ms
        self._conn: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._version = 0
        self._failed_at: datetime | None = None
        self.problem = ""  # why the index is not on disk, if it is not

    def connection(self) -> tuple[sqlite3.Connection, bool]:
        """Return the connection and whether it is new or somebody else wrote since the last call."""
        if self._conn is not None and (self._is_replaced() or self._is_due()):
            self.close()
        if self._conn is None:
            self._conn = self._open()
            self._version = self._data_version()
            return self._conn, True
        version = self._data_version()
        changed, self._version = version != self._version, version
        return self._conn, changed

    def _is_replaced(self) -> bool:
        """Say whether the file was deleted or replaced under us: the open one answers for nobody any more."""
        return self._identity is not None and self._identity != _identity(self.path)

    def _is_due(self) -> bool:
        """Say whether an index that is kept in memory should try the disk again; the clock may have jumped either way."""
        return self._failed_at is not None and abs((self._now() - self._failed_at).total_seconds()) >= RETRY_SECONDS

    def _data_version(self) -> int:
        assert self._conn is not None
        return int(self._conn.execute("PRAGMA data_version").fetchone()[0])

    def _open(self) -> sqlite3.Connection:
        self._failed_at = None
        try:
            if self._below is not None and not self._below.is_dir():
                raise StorageError(f"{self._below} is no folder", cure="check the path")
            conn = self._opener(self.path, schema=SCHEMA, version=VERSION, now=self._now)
            self._identity = _identity(self.path)
            self.problem = ""
        except Locked:
            raise
        except StorageError as problem:
            conn = empty_index()
            self._identity = None
            self._failed_at = self._now()
            self.problem = f"the index is kept in memory only: {problem}"
        conn.execute("PRAGMA cache_size = -32000")
        conn.execute("PRAGMA wal_autocheckpoint = 4000")
        if self._identity is not None:
            self._save_cache(conn)
        return conn

    def _save_cache(self, conn: sqlite3.Connection) -> None:
        try:
            save_cache(conn, self.path)
        except StorageError:
            pass  # what was not carried over is computed again

    @contextmanager
    def snapshot(self) -> Iterator[tuple[sqlite3.Connection, bool]]:
        """Read one state of the index, whatever others write meanwhile; also says whether it is another state than before."""
        conn, changed = self.connection()
        conn.execute("BEGIN")
        try:
            conn.execute("SELECT 1 FROM meta").fetchone()  # the snapshot starts with the first read
            version = self._data_version()
            changed, self._version = changed or version != self._version, version
            yield conn, changed
        finally:
            if conn.in_transaction:
                conn.execute("ROLLBACK")

    def wait(self, milliseconds: int) -> None:
        """Set how long the next access waits for another process."""
        if self._conn is not None:
            self._conn.execute(f"PRAGMA busy_timeout = {milliseconds:d}")

    def heal(self, error: Exception) -> None:
        """Move a damaged index aside, so that the next use builds a new one; other errors pass on in our words."""
        problem = explain(error, self.path) if isinstance(error, sqlite3.Error) else error
        identity = self._identity
        if not isinstance(problem, Damaged) or identity is None:
            raise problem from error
        self.close()
        set_aside(self.path, identity, self._now)

    def close(self) -> None:
        """Let go of the index."""
        if self._conn is not None:
            self._conn.close()
            self._conn = None
            self._identity = None


def empty_index() -> sqlite3.Connection:
    """Return an index that is nowhere on disk."""
    conn = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    conn.executescript(SCHEMA)
    return conn


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - on every search
    except OSError:
        return None
    return found.st_dev, found.st_ino


DONE = "cache_saved_from"
_STEP = 1_000
_COLUMNS = "provider, model, provider_key, hash, embedding, dims, updated_at"


def save_cache(conn: sqlite3.Connection, path: Path) -> int:
    """Fill the cache of an index that was just made from the newest one moved aside; return how many vectors came over."""
    if conn.execute("SELECT 1 FROM files LIMIT 1").fetchone() or conn.execute("SELECT 1 FROM meta LIMIT 1").fetchone():
        return 0
    asides = [found for label in ("damaged", "v*") for found in path.parent.glob(f"{path.name}.{label}.*")]
    if not asides:
        return 0
    newest = max(asides, key=lambda found: found.name.removeprefix(f"{path.name}.").partition(".")[2])  # label, moment
    saved = 0
    try:
        old = open_readonly(newest)
    except (StorageError, sqlite3.Error):
        old = None
    with transaction(conn):
        conn.execute("INSERT OR REPLACE INTO meta(key, value) VALUES(?, ?)", (DONE, newest.name))
        if old is not None:
            try:
                saved = _copy(old, conn)
            finally:
                old.close()
    return saved


def _copy(old: sqlite3.Connection, conn: sqlite3.Connection) -> int:
    saved = 0
    marks = ", ".join("?" * 7)
    try:
        rows = old.execute(f"SELECT {_COLUMNS} FROM embedding_cache ORDER BY updated_at DESC")  # noqa: S608 - constants
        while part := rows.fetchmany(_STEP):
            sound = [row for row in part if _is_vector(row)]
            conn.executemany(f"INSERT OR IGNORE INTO embedding_cache({_COLUMNS}) VALUES({marks})", sound)
            saved += len(sound)
    except sqlite3.DatabaseError:
        pass  # the rest cannot be read
    return saved


def _is_vector(row: tuple[object, ...]) -> bool:
    blob, dims = row[4], row[5]
    if not isinstance(blob, bytes) or not isinstance(dims, int) or dims <= 0 or len(blob) != 2 * dims:
        return False
    import numpy as np  # only where vectors were made, which needs it

    values = np.frombuffer(blob, dtype=np.float16).astype(np.float32)
    return bool(abs(float(values @ values) - 1.0) < 0.05)
