"""Vectors of one index in memory, and what they say about lines: nearness of lines, windows, words. Reads, never writes.

Lines are kept in order of id, so the neighbours of a line are found by search. Words are kept once, and each line as a
list of them. Sentences stay in the index and are read for candidates only: they would fill three times the memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Self

REACH = (-2, -1, 0, 1, 2)  # the lines of a window
NEARBY = (0.3, 0.6, 1.0, 0.6, 0.3)  # what a word counts that stands so far from the line
CUT = 0.35  # word similarity below this is chance
TOGETHER = 0.12  # how much nearer than chance neighbours are in a conversation, at least (.18 to .29 over whole ones)
PRIOR = 20  # lines of a file that count as much as all other files, when it is asked how its lines belong together
_BLOCK = 8192
_STEP = 500


class Meaning:
    """The vectors of all lines (and of their words, where the embedder knows words)."""

    def __init__(self, ids: Any, rows: Any) -> None:
        self.ids = ids
        self.rows = rows
        self._norms: Any = None
        self._together: Any = None
        self._starts: Any = None  # where the words of each line begin in `_words`
        self._words: Any = None
        self._table: Any = None  # a vector per word id, half precision: only the few that are compared become float32

    @classmethod
    def read(cls, conn: sqlite3.Connection, dims: int) -> Self:
        """Read every vector of the index."""
        import numpy as np

        found = conn.execute("SELECT id, substr(vec, 1, ?), words FROM line_vec ORDER BY id", (2 * dims,)).fetchall()
        ids = np.array([row[0] for row in found], dtype=np.int64)
        halves = np.frombuffer(b"".join(row[1] for row in found), dtype=np.float16).reshape(-1, dims)
        meaning = cls(ids, halves.astype(np.float32))
        highest = conn.execute("SELECT max(id) FROM word_vec").fetchone()[0]
        if highest is not None:
            meaning._table = np.zeros((highest + 1, dims), dtype=np.float16)
            for number, blob in conn.execute("SELECT id, vec FROM word_vec"):
                meaning._table[number] = np.frombuffer(blob, dtype=np.float16)
            lengths = np.array([len(row[2] or b"") // 4 for row in found], dtype=np.int64)
            meaning._starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
            meaning._words = np.frombuffer(b"".join(row[2] or b"" for row in found), dtype=np.uint32)
        return meaning

    @property
    def words(self) -> bool:
        """Say whether lines can be compared word by word."""
        return self._table is not None

    def places(self, ids: Any) -> tuple[Any, Any]:
        """Return where these lines stand, and which of them there are at all."""
        import numpy as np

        at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return at, self.ids[at] == ids

    def nearest(self, vector: Any, count: int) -> list[int]:
        """Return the ids of the lines nearest to a vector, in no order."""
        import numpy as np

        scores = self.rows @ vector
        count = min(count, len(scores))
        return [int(number) for number in self.ids[np.argpartition(-scores, count - 1)[:count]]]

    def lines(self, ids: Any, vector: Any) -> Any:
        """Return each line's cosine; a line without a vector has none."""
        import numpy as np

        at, known = self.places(ids)
        return np.where(known, self.rows[at] @ vector, 0.0).astype(np.float32)

    def windows(self, ids: Any, vector: Any) -> Any:
        """Return the cosine of the five lines around each line, taken together."""
        import numpy as np

        if self._norms is None:
            self._norms = self._window_norms()
        total = np.zeros(len(ids), dtype=np.float32)
        for step in REACH:
            at, known = self.places(ids + step)
            total += np.where(known, self.rows[at] @ vector, 0.0)
        at, known = self.places(ids)
        return np.where(known, total / self._norms[at], 0.0)

    def _window_norms(self) -> Any:
        import numpy as np

        norms = np.ones(len(self.ids), dtype=np.float32)
        for start in range(0, len(self.ids), _BLOCK):
            part = self.ids[start : start + _BLOCK]
            total = np.zeros((len(part), self.rows.shape[1]), dtype=np.float32)
            for step in REACH:
                at, known = self.places(part + step)
                total += self.rows[at] * known[:, None]
            norms[start : start + len(part)] = np.maximum(np.linalg.norm(total, axis=1), 1e-6)
        return norms

    def together(self, ids: Any) -> Any:
        """Return how far the lines around each line belong to it: 1 in a conversation, 0 in a list of unrelated facts.

        By how much nearer neighbours are than any two lines, in the same file; a short file is taken for one like the others.
        """
        import numpy as np

        if self._together is None:
            self._together = self._neighbourly()
        at, known = self.places(ids)
        return np.where(known, self._together[at], 1.0)

    def _neighbourly(self) -> Any:
        import numpy as np

        beside = np.diff(self.ids) == 1
        if not beside.any():
            return np.zeros(len(self.ids), dtype=np.float32)
        near = np.einsum("ij,ij->i", self.rows[:-1], self.rows[1:])
        mean = self.rows.sum(0) / len(self.rows)
        excess = np.where(beside, near - float(mean @ mean), 0.0)
        every = float(excess.sum()) / int(beside.sum())
        file = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(~beside)])  # ids of two files never touch
        count = np.bincount(file[1:], beside, minlength=int(file[-1]) + 1)
        own = np.bincount(file[1:], excess, minlength=int(file[-1]) + 1)
        share = (own + PRIOR * every) / (count + PRIOR) / TOGETHER
        return np.clip(share, 0.0, 1.0).astype(np.float32)[file]

    def soft(self, ids: Any, asked: Any, weights: Any) -> Any:
        """Match each word asked for with its nearest word in the line or close by; rare words count for more."""
        import numpy as np

        wide = np.unique(np.concatenate([ids + step for step in REACH]))
        at, known = self.places(wide)
        wide, at = wide[known], at[known]
        first, lengths = self._starts[at], self._starts[at + 1] - self._starts[at]
        filled = lengths > 0
        out = np.zeros(len(ids), dtype=np.float32)
        if not filled.any():
            return out
        wide, first, lengths = wide[filled], first[filled], lengths[filled]
        begins = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)[:-1]])
        flat = self._words[np.repeat(first - begins, lengths) + np.arange(int(lengths.sum()))]
        used = np.zeros(len(self._table), dtype=bool)
        used[flat] = True
        order = np.cumsum(used) - 1  # word id -> its row among the used ones
        near = asked @ self._table[used].astype(np.float32).T
        near = np.where(near < CUT, 0.0, near)
        best = np.maximum.reduceat(near[:, order[flat]], begins, axis=1)
        shares = np.zeros((len(asked), len(ids)), dtype=np.float32)
        for step, kernel in zip(REACH, NEARBY, strict=True):
            place = np.minimum(np.searchsorted(wide, ids + step), len(wide) - 1)
            there = wide[place] == ids + step
            shares = np.maximum(shares, kernel * np.where(there, best[:, place], 0.0))
        return (weights[:, None] * shares).sum(0) / max(float(weights.sum()), 1e-9)


def best_sentences(conn: sqlite3.Connection, ids: Sequence[int], vector: Any, lines: Any) -> Any:
    """Return the cosine of each line's nearest sentence; a line of one sentence is its own (`lines`)."""
    import numpy as np

    out = lines.copy()
    size = 2 * len(vector)
    place = {number: at for at, number in enumerate(ids)}
    for start in range(0, len(ids), _STEP):
        part = ids[start : start + _STEP]
        marks = ",".join("?" * len(part))
        found = conn.execute(
            f"SELECT id, substr(vec, ?) FROM line_vec WHERE id IN ({marks}) AND length(vec) > ?",  # noqa: S608 - marks only
            (size + 1, *part, size),
        ).fetchall()
        if not found:
            continue
        rows = np.frombuffer(b"".join(row[1] for row in found), dtype=np.float16).reshape(-1, len(vector))
        begins = np.cumsum([0, *(len(row[1]) // size for row in found[:-1])])
        best = np.maximum.reduceat(rows.astype(np.float32) @ vector, begins)
        out[[place[row[0]] for row in found]] = best
    return out
