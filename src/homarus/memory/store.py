"""The open index: opened late, reopened when its file was replaced, kept in memory when it cannot be on disk."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from homarus.core.errors import StorageError
from homarus.memory.schema import SCHEMA, VERSION
from homarus.storage.sqlite import is_damage, open_database

WAIT_SEARCH_MS = 250  # how long a search waits for another writer before it answers from what is there
WAIT_INDEX_MS = 60_000


class Store:
    """One connection to one index, for one thread at a time."""

    def __init__(self, path: Path, now: Callable[[], datetime]) -> None:
        self.path = path
        self._now = now
        self._conn: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._version = 0
        self.problem = ""  # why the index is not on disk, if it is not

    def connection(self) -> tuple[sqlite3.Connection, bool]:
        """Return the connection and whether it is new or somebody else wrote since the last call."""
        if self._conn is not None and self._identity is not None and self._identity != _identity(self.path):
            self.close()  # deleted or replaced under us: the open file answers for nobody any more
        if self._conn is None:
            self._conn = self._open()
            self._version = self._data_version()
            return self._conn, True
        version = self._data_version()
        changed, self._version = version != self._version, version
        return self._conn, changed

    def _data_version(self) -> int:
        assert self._conn is not None
        return int(self._conn.execute("PRAGMA data_version").fetchone()[0])

    def _open(self) -> sqlite3.Connection:
        try:
            conn = open_database(self.path, schema=SCHEMA, version=VERSION, now=self._now)
            self._identity = _identity(self.path)
            self.problem = ""
        except StorageError as problem:
            conn = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            conn.executescript(SCHEMA)
            self._identity = None
            self.problem = f"the index is kept in memory only: {problem}"
        conn.execute("PRAGMA cache_size = -32000")
        conn.execute("PRAGMA wal_autocheckpoint = 4000")
        return conn

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
            conn.execute("ROLLBACK")

    def wait(self, milliseconds: int) -> None:
        """Set how long the next write waits for another process."""
        if self._conn is not None:
            self._conn.execute(f"PRAGMA busy_timeout = {milliseconds:d}")

    def heal(self, error: sqlite3.DatabaseError) -> None:
        """Let go of a damaged index, so that the next use moves it aside and builds a new one; other errors pass on."""
        if not is_damage(error):
            raise error
        self.close()
        # Opening alone does not always see damage deep inside a file: make sure that it does.
        try:
            with self.path.open("r+b") as handle:
                handle.write(b"damaged index, kept aside".ljust(100))
        except OSError as problem:
            raise error from problem

    def close(self) -> None:
        """Let go of the index."""
        if self._conn is not None:
            self._conn.close()
            self._conn = None
            self._identity = None


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - on every search
    except OSError:
        return None
    return found.st_dev, found.st_ino
