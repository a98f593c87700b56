"""Carry paid-for vectors over into a new index: what an index that was moved aside still holds of its embedding cache.

Everything else of an index is made again from the notes for nothing. Damage is expected here, so a vector is taken only
if it still is one: of the length its row gives, and one long.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from homarus.core.errors import StorageError
from homarus.storage.sqlite import open_readonly, transaction

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
