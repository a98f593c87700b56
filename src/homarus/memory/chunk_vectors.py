"""Vectors of whole chunks, for the seeds' ranking: kept in `chunks.embedding`, compared in numpy, block by block."""

from __future__ import annotations

import sqlite3
from typing import Any

from homarus.memory.embed.base import Embedder
from homarus.memory.sync import Progress
from homarus.memory.veccache import VectorCache
from homarus.storage.sqlite import transaction

QUICK = {True: 1_000, False: 16}  # chunks a search may embed itself: static, sentence
BLOCK = 20_000  # chunks compared at a time, so that memory stays bounded whatever the index holds


class ChunkVectors:
    """The vectors of one index's chunks, by one embedder. `chunks.model` says which one made each."""

    def __init__(self, embedder: Embedder, cache: VectorCache) -> None:
        self.embedder = embedder
        self.static = bool(getattr(embedder, "static", False))
        self._cache = cache
        self._mark = f"{embedder.provider}|{embedder.model}|{embedder.key}"

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
        rows = conn.execute("SELECT id, embedding FROM chunks WHERE model = ?", (self._mark,))
        while block := rows.fetchmany(BLOCK):
            matrix = np.frombuffer(b"".join(row[1] for row in block), dtype=np.float16)
            scores: Any = matrix.reshape(len(block), -1).astype(np.float32) @ vector
            lead = np.argsort(-scores, kind="stable")[:count]
            best += [(block[at][0], float(scores[at])) for at in lead]
        return sorted(best, key=lambda item: -item[1])[:count]
