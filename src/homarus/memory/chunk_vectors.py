"""Vectors of whole chunks, for the seeds' ranking: kept in `chunks.embedding`, compared in numpy, block by block."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from homarus.memory.embed.base import Embedder
from homarus.memory.meaning import singles
from homarus.memory.sync import Progress
from homarus.memory.veccache import VectorCache
from homarus.storage.sqlite import transaction

QUICK = {True: 1_000, False: 16}  # chunks a search may embed itself: static, sentence
BLOCK, HELD = 10_000, 5  # chunks compared at a time and blocks kept, so that memory stays bounded whatever the size


class ChunkVectors:
    """The vectors of one index's chunks, by one embedder. `chunks.model` says which one made each."""

    def __init__(self, embedder: Embedder, cache: VectorCache) -> None:
        self.embedder = embedder
        self.static = bool(getattr(embedder, "static", False))
        self._cache = cache
        self._mark = f"{embedder.provider}|{embedder.model}|{embedder.key}"
        self._held: list[tuple[list[str], Any]] | None = None

    def forget(self) -> None:
        """The chunks changed: read their vectors again before the next use."""
        self._held = None

    def fill(
        self, conn: sqlite3.Connection, now_ms: int, progress: Progress | None = None, *, quick: bool = False
    ) -> int:
        """Embed chunks that this embedder has not embedded yet and return how many it still has not."""
        missing = [row[0] for row in conn.execute("SELECT rowid FROM chunks WHERE model != ?", (self._mark,))]
        if quick and (self.embedder.remote or len(missing) > QUICK[self.static]):
            return len(missing)
        for start in range(0, len(missing), self.embedder.batch):
            part = missing[start : start + self.embedder.batch]
            self._store(conn, part, now_ms)
            if progress:
                progress(min(len(missing), start + len(part)), len(missing), f"chunks ({self.embedder.provider})")
        return 0

    def _store(self, conn: sqlite3.Connection, part: list[int], now_ms: int) -> None:
        marks = ",".join("?" * len(part))
        texts = dict(conn.execute(f"SELECT rowid, text FROM chunks WHERE rowid IN ({marks})", part))  # noqa: S608 - marks
        blobs, made = self._cache.encode(conn, list(texts.values()))
        self.forget()
        with transaction(conn):
            conn.executemany(
                "UPDATE chunks SET embedding = ?, model = ?, updated_at = ? WHERE rowid = ?",
                [(blob, self._mark, now_ms, number) for number, blob in zip(texts, blobs, strict=True)],
            )
            self._cache.remember(conn, made, now_ms)

    def nearest(self, conn: sqlite3.Connection, text: str, count: int) -> list[tuple[str, float]]:
        """Return the chunks nearest to a question with their cosines, best first."""
        import numpy as np

        vector = self.embedder.encode([text], query=True)[0]
        best: list[tuple[str, float]] = []
        for ids, matrix in self._blocks(conn):
            scores: Any = np.vecdot(singles(matrix), vector)
            lead = np.argsort(-scores, kind="stable")[:count]
            best += [(ids[at], float(scores[at])) for at in lead]
        return sorted(best, key=lambda item: -item[1])[:count]

    def _blocks(self, conn: sqlite3.Connection) -> Iterator[tuple[list[str], Any]]:
        """Yield ids and vectors; those of an index of ordinary size are kept, a larger one is read each time."""
        import numpy as np

        if self._held is not None:
            yield from self._held
            return
        held: list[tuple[list[str], Any]] | None = []
        rows = conn.execute("SELECT id, embedding FROM chunks WHERE model = ?", (self._mark,))
        while part := rows.fetchmany(BLOCK):
            matrix = np.frombuffer(b"".join(row[1] for row in part), dtype=np.float16).reshape(len(part), -1)
            block = [row[0] for row in part], matrix
            held = [*held, block] if held is not None and len(held) < HELD else None
            yield block
        self._held = held
