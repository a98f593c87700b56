"""Vectors of lines: filled in batches, kept beside the lines, compared in numpy. Memory works without any of this.

Two kinds of embedder give two sets of signals. Static word vectors are compared word by word (each word of the question
with its best match in the line), which is cheap and precise; sentence vectors are compared line by line and, averaged,
window by window.
"""

from __future__ import annotations

import sqlite3
from array import array
from typing import Any

from homarus.memory.embed.base import Embedder
from homarus.memory.flags import QUESTION
from homarus.memory.lines import body_of
from homarus.memory.postings import Postings
from homarus.memory.query import Query
from homarus.memory.rows import Row
from homarus.memory.signals import Columns, spread
from homarus.memory.sync import Progress
from homarus.memory.terms import content_words
from homarus.memory.veccache import VectorCache
from homarus.storage.sqlite import transaction

RESIDENT = 100_000  # above this many lines vectors rank candidates, but propose none
PROPOSED = 150
QUICK = {True: 4_000, False: 48}  # lines a search may embed itself: static, sentence
ASKED = 160  # characters of the question before a line that are embedded with it
CUT = 0.35  # word similarity below this is chance
IDENTITY = "vectors"


class Vectors:
    """The vectors of one index, by one embedder."""

    def __init__(self, embedder: Embedder, *, cache: bool = True, cache_entries: int = 50_000) -> None:
        self.embedder = embedder
        self.static = bool(getattr(embedder, "static", False))
        # Word vectors are made faster than they are looked up.
        self.cache = VectorCache(embedder, enabled=cache and not self.static, max_entries=cache_entries)
        self._ids: Any = None
        self._rows: Any = None
        self._words: dict[int, array[int]] = {}
        self._table: Any = None
        self._word_ids: dict[str, int] = {}
        self._fresh = False

    @property
    def identity(self) -> str:
        """Return what the stored vectors must have been made with."""
        embedder = self.embedder
        return f"{embedder.provider}|{embedder.model}|{embedder.key}"

    def forget(self) -> None:
        """The lines changed: compare with the table again before the next use."""
        self._fresh = False

    def fill(
        self, conn: sqlite3.Connection, now_ms: int, progress: Progress | None = None, *, quick: bool = False
    ) -> int:
        """Embed lines that have no vector yet and return how many still have none."""
        self._claim(conn)
        missing = conn.execute(
            "SELECT lines.id, lines.text, asked.text FROM lines LEFT JOIN line_vec ON line_vec.id = lines.id"
            " LEFT JOIN lines asked ON asked.id = lines.id - 1 AND asked.flags & ? WHERE line_vec.id IS NULL AND lines.kind != 'path'",
            (QUESTION,),
        ).fetchall()
        if quick and (self.embedder.remote or len(missing) > QUICK[self.static]):
            return len(missing)
        for start in range(0, len(missing), self.embedder.batch):
            part = missing[start : start + self.embedder.batch]
            self._store(conn, part, now_ms)
            self._fresh = False
            if progress:
                progress(min(len(missing), start + len(part)), len(missing), f"vectors ({self.embedder.provider})")
        return 0

    def _claim(self, conn: sqlite3.Connection) -> None:
        """Drop vectors of another model: numbers of two models must never be compared."""
        row = conn.execute("SELECT value FROM meta WHERE key = ?", (IDENTITY,)).fetchone()
        stored = conn.execute("SELECT length(vec) FROM line_vec LIMIT 1").fetchone()
        other_size = stored and self.embedder.dims and stored[0] != 2 * self.embedder.dims
        if row and row[0] == self.identity and not other_size:
            return
        with transaction(conn):
            conn.execute("DELETE FROM line_vec")
            conn.execute("DELETE FROM word_vec")
            conn.execute("INSERT OR REPLACE INTO meta(key, value) VALUES(?, ?)", (IDENTITY, self.identity))
        self._ids = self._table = None
        self._words.clear()
        self._word_ids.clear()
        self._fresh = False

    def _store(self, conn: sqlite3.Connection, part: list[tuple[int, str, str | None]], now_ms: int) -> None:
        bodies = [_meant(text, asked) for _, text, asked in part]
        blobs, made = self.cache.encode(conn, bodies)
        with transaction(conn):
            words = self._store_words(conn, bodies) if self.static else [None] * len(part)
            conn.executemany(
                "INSERT OR REPLACE INTO line_vec(id, vec, words) VALUES(?, ?, ?)",
                [(number, blobs[at], words[at]) for at, (number, _, _) in enumerate(part)],
            )
            self.cache.remember(conn, made, now_ms)

    def _store_words(self, conn: sqlite3.Connection, bodies: list[str]) -> list[bytes | None]:
        if not self._word_ids:
            self._word_ids.update(conn.execute("SELECT word, id FROM word_vec"))
        lines = [list(dict.fromkeys(content_words(body))) for body in bodies]
        new = sorted({word for words in lines for word in words if word not in self._word_ids})
        if new:
            rows = self.embedder.encode_words(new)  # type: ignore[attr-defined]  # static embedders have it
            first = max(self._word_ids.values(), default=-1) + 1
            self._word_ids.update((word, first + at) for at, word in enumerate(new))
            conn.executemany(
                "INSERT OR REPLACE INTO word_vec(id, word, vec) VALUES(?, ?, ?)",
                [(first + at, word, rows[at].astype("float16").tobytes()) for at, word in enumerate(new)],
            )
        return [array("I", [self._word_ids[word] for word in words]).tobytes() for words in lines]

    def _load(self, conn: sqlite3.Connection) -> bool:
        """Bring the copy in memory in line with the table; False when there is nothing or too much to hold."""
        if self._fresh:
            return self._ids is not None
        import numpy as np

        self._fresh = True
        count = conn.execute("SELECT count(*) FROM line_vec").fetchone()[0]
        if not count or count > RESIDENT:
            self._ids = self._rows = None
            return False
        rows = conn.execute("SELECT id, vec, words FROM line_vec ORDER BY id").fetchall()
        dims = self.embedder.dims
        self._ids = np.array([row[0] for row in rows], dtype=np.int64)
        self._rows = (
            np.frombuffer(b"".join(row[1] for row in rows), dtype=np.float16).reshape(-1, dims).astype(np.float32)
        )
        if self.static:
            self._words = {row[0]: array("I", row[2]) for row in rows if row[2]}
            words = conn.execute("SELECT id, vec FROM word_vec ORDER BY id").fetchall()
            self._table = np.zeros((words[-1][0] + 1 if words else 0, dims), dtype=np.float32)
            for number, blob in words:
                self._table[number] = np.frombuffer(blob, dtype=np.float16)
        return True

    def propose(self, conn: sqlite3.Connection, query: Query) -> tuple[Any, list[int]]:
        """Return the question's vector and the lines nearest to it."""
        import numpy as np

        vector = self.embedder.encode([query.bare or query.text], query=True)[0]
        if not self._load(conn):
            return vector, []
        scores = self._rows @ vector
        count = min(PROPOSED, len(scores))
        best = np.argpartition(-scores, count - 1)[:count]
        return vector, [int(number) for number in self._ids[best]]

    def columns(self, query: Query, vector: Any, rows: list[Row], postings: Postings) -> Columns:
        """Return the signals of vectors for these candidates; nothing when they cannot be held in memory."""
        import numpy as np

        if self._ids is None or not rows:
            return {}
        ids = np.array([row.id for row in rows], dtype=np.int64)
        line = self._scores(ids, vector)
        around = np.stack([self._scores(ids + step, vector, absent=np.nan) for step in (-2, -1, 0, 1, 2)])
        window = np.nanmean(np.where(np.isnan(around), np.nan, around), axis=0) if len(rows) else line
        window = np.nan_to_num(window)
        columns = {"vector": spread(line.tolist()), "vectors": spread(window.tolist()), "cosine": line.tolist()}
        if self.static:
            soft = self._soft(query, rows, postings)
            columns["soft"] = spread(soft.tolist())
            columns["softs"] = spread(_beside(ids, soft).tolist())
        return columns

    def _scores(self, ids: Any, vector: Any, absent: float = 0.0) -> Any:
        import numpy as np

        at = np.searchsorted(self._ids, ids)
        at = np.minimum(at, len(self._ids) - 1)
        found = self._ids[at] == ids
        return np.where(found, self._rows[at] @ vector, absent).astype(np.float32)

    def _soft(self, query: Query, rows: list[Row], postings: Postings) -> Any:
        """Match each word of the question with its nearest word of the line, weighted by how rare it is."""
        import numpy as np

        words = [word for word in query.core if word.isalpha()] or list(query.core)
        out = np.zeros(len(rows), dtype=np.float32)
        lists = [self._words.get(row.id, _EMPTY) for row in rows]
        lengths = np.array([len(found) for found in lists])
        filled = lengths > 0
        if not words or not filled.any():
            return out
        flat = np.concatenate([np.frombuffer(found, dtype=np.uint32) for found in lists if len(found)])
        used, inverse = np.unique(flat, return_inverse=True)
        near = self.embedder.encode_words(words) @ self._table[used].T  # type: ignore[attr-defined]  # static embedders have it
        near = np.where(near < CUT, 0, near) ** 2
        starts = np.cumsum(np.r_[0, lengths[filled]])[:-1]
        best = np.maximum.reduceat(near[:, inverse], starts, axis=1)
        weights = np.array([postings.weight(word) for word in words], dtype=np.float32)
        out[filled] = (weights[:, None] * best).sum(0) / max(float(weights.sum()), 1e-9)
        return out


def _meant(text: str, asked: str | None) -> str:
    """Return what to embed for a line: without its speaker, and with the question it answers, which gives it its meaning."""
    body = body_of(text) or text
    return f"{body_of(asked)[-ASKED:]} {body}" if asked else body


_EMPTY: array[int] = array("I")


def _beside(ids: Any, values: Any) -> Any:
    """Return for each line the best of itself and its two neighbours."""
    import numpy as np

    out = values.copy()
    touch = np.diff(ids) == 1
    out[1:] = np.where(touch, np.maximum(out[1:], values[:-1]), out[1:])
    out[:-1] = np.where(touch, np.maximum(out[:-1], values[1:]), out[:-1])
    return out
