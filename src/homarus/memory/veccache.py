"""Vectors by text: what was computed, or paid for, once is not computed again. Bounded; the longest unused go first."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from hashlib import sha256

from homarus.memory.embed.base import Embedder


class VectorCache:
    """The rows of `embedding_cache` that belong to one embedder. The caller holds the transaction."""

    def __init__(self, embedder: Embedder, *, enabled: bool = True, max_entries: int = 50_000) -> None:
        self._embedder = embedder
        self._enabled = enabled
        self._max_entries = max_entries

    def encode(self, conn: sqlite3.Connection, texts: Sequence[str]) -> tuple[list[bytes], dict[str, bytes]]:
        """Return one stored vector per text, and by hash those that were not known yet."""
        if not self._enabled:
            return self._blobs(texts), {}
        hashes = [sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for text in texts]
        known = self._find(conn, hashes)
        todo = {key: text for key, text in zip(hashes, texts, strict=True) if key not in known}
        made = dict(zip(todo, self._blobs(list(todo.values())), strict=True))
        known |= made
        return [known[key] for key in hashes], made

    def _blobs(self, texts: Sequence[str]) -> list[bytes]:
        return [row.astype("float16").tobytes() for row in self._embedder.encode(texts)] if texts else []

    def _find(self, conn: sqlite3.Connection, hashes: list[str]) -> dict[str, bytes]:
        owner = (self._embedder.provider, self._embedder.model, self._embedder.key)
        find = (
            "SELECT embedding FROM embedding_cache WHERE provider = ? AND model = ? AND provider_key = ? AND hash = ?"
        )
        rows = ((key, conn.execute(find, (*owner, key)).fetchone()) for key in dict.fromkeys(hashes))
        size = 2 * self._embedder.dims  # vectors of another length are from another setting of the same model
        return {key: row[0] for key, row in rows if row and (not size or len(row[0]) == size)}

    def remember(self, conn: sqlite3.Connection, made: dict[str, bytes], now_ms: int) -> None:
        """Store what was just computed."""
        if not made:
            return
        embedder = self._embedder
        conn.executemany(
            "INSERT OR REPLACE INTO embedding_cache(provider, model, provider_key, hash, embedding, dims, updated_at)"
            " VALUES(?, ?, ?, ?, ?, ?, ?)",
            [
                (embedder.provider, embedder.model, embedder.key, key, blob, len(blob) // 2, now_ms)
                for key, blob in made.items()
            ],
        )
        over = conn.execute("SELECT count(*) FROM embedding_cache").fetchone()[0] - self._max_entries
        if over > 0:
            conn.execute(
                "DELETE FROM embedding_cache WHERE (provider, model, provider_key, hash) IN"
                " (SELECT provider, model, provider_key, hash FROM embedding_cache ORDER BY updated_at LIMIT ?)",
                (over,),
            )
