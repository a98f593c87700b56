"""Vectors of one index in memory, and what they say about lines: nearness of lines, windows, words. Reads, never writes.

LineCache are kept in order of id, so the neighbours of a line are found by search. Words are kept once, and each line as a
list of them. Of an index too large for memory only the lines in question are read. Sentences stay in the index and are read for candidates only: they would fill three times the memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from homarus.memory.candidates import select

REACH = (-2, -1, 0, 1, 2)  # the lines of a window
OWN = 2  # where the line itself stands among them
NEARBY = (0.3, 0.6, 1.0, 0.6, 0.3)  # what a word counts that stands so far from the line
CUT = 0.35  # word similarity below this is chance
TOGETHER = 0.12  # how much nearer than chance neighbours are in a conversation, at least (.18 to .29 over whole ones)
PRIOR = 20  # lines of a file that count as much as all other files, when it is asked how its lines belong together
_BLOCK = 8192
_SPAN = 64  # lines of which only the best is looked at first


class Around(NamedTuple):
    """Where some lines and their neighbours stand (one row per line, one column per step of REACH), and which there are."""

    at: Any
    known: Any


class VectorTable:
    """The vectors of all lines (and of their words, where the embedder knows words)."""

    def __init__(self, ids: Any, rows: Any, base: tuple[float, float] | None = None) -> None:
        """`base` says how alike any two lines and any two neighbours are, where these lines are too few to tell."""
        self.ids = ids
        self.rows = rows
        self._base = base
        self._norms: Any = None
        self._together: Any = None
        self._starts: Any = None  # where the words of each line begin in `_words`
        self._words: Any = None
        self._table: Any = None  # a vector per word, half precision: only the few that are compared become float32

    @classmethod
    def read(cls, conn: sqlite3.Connection, dims: int) -> Self:
        found = conn.execute("SELECT id, substr(vec, 1, ?), words FROM line_vec ORDER BY id", (2 * dims,)).fetchall()
        meaning = cls._made(found, dims)
        highest = conn.execute("SELECT max(id) FROM word_vec").fetchone()[0]
        if highest is not None:
            meaning.add_words(found, conn.execute("SELECT id, vec FROM word_vec").fetchall(), dims, highest)
        return meaning

    @classmethod
    def read_some(
        cls, conn: sqlite3.Connection, dims: int, ids: Sequence[int], base: tuple[float, float] | None = None
    ) -> Self:
        """Read the vectors of these lines, and of their words, only."""
        import numpy as np

        found = select(conn, "SELECT id, substr(vec, 1, ?), words FROM line_vec WHERE id IN ({})", ids, 2 * dims)
        meaning = cls._made(sorted(found), dims, base)
        used = np.unique(np.frombuffer(b"".join(row[2] or b"" for row in found), dtype=np.uint32)).tolist()
        words = select(conn, "SELECT id, vec FROM word_vec WHERE id IN ({})", used)
        if words:
            meaning.add_words(sorted(found), words, dims, max(used))
        return meaning

    @classmethod
    def _made(cls, found: Sequence[Any], dims: int, base: tuple[float, float] | None = None) -> Self:
        import numpy as np

        ids = np.array([row[0] for row in found], dtype=np.int64)
        halves = np.frombuffer(b"".join(row[1] for row in found), dtype=np.float16).reshape(-1, dims)
        return cls(ids, singles(halves), base)

    def add_words(self, found: Sequence[Any], words: Sequence[Any], dims: int, highest: int) -> None:
        """Let lines be compared word by word: `found` are their rows, `words` the rows of the words in them."""
        import numpy as np

        place = np.zeros(highest + 1, dtype=np.intp)
        place[[row[0] for row in words]] = np.arange(len(words))
        self._table = np.frombuffer(b"".join(row[1] for row in words), dtype=np.float16).reshape(-1, dims)
        lengths = np.array([len(row[2] or b"") // 4 for row in found], dtype=np.int64)
        self._starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
        self._words = place[np.frombuffer(b"".join(row[2] or b"" for row in found), dtype=np.uint32)]

    @property
    def words(self) -> bool:
        return self._table is not None

    def cosines(self, vector: Any) -> Any:
        """Return the cosine of every line, in the order of `ids`: one pass over all vectors serves a whole question."""
        import numpy as np

        return np.vecdot(self.rows, vector)

    def nearest(self, cosines: Any, count: int) -> list[int]:
        """Return the ids of the lines with the highest cosines, in no order."""
        import numpy as np

        at = np.arange(len(cosines))
        if len(cosines) > _SPAN * count:
            # The best of `count` spans are `count` lines: what is below all of them is not among the nearest.
            tops = cosines[: len(cosines) // _SPAN * _SPAN].reshape(-1, _SPAN).max(1)
            at = np.flatnonzero(cosines >= np.partition(tops, -count)[-count])
        count = min(count, len(at))
        chosen: list[int] = self.ids[at[np.argpartition(-cosines[at], count - 1)[:count]]].tolist()
        return chosen

    def around(self, ids: Any) -> Around:
        import numpy as np

        wanted = ids[:, None] + np.array(REACH)
        at = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        return Around(at, self.ids[at] == wanted)

    def lines(self, around: Around, vector: Any) -> Any:
        """Return each line's cosine with another vector than the one all lines were compared with."""
        import numpy as np

        at, known = around.at[:, OWN], around.known[:, OWN]
        return np.where(known, np.vecdot(self.rows[at], vector), 0.0)

    def windows(self, around: Around, cosines: Any) -> Any:
        """Return the cosine of the five lines around each line, taken together."""
        import numpy as np

        if self._norms is None:
            self._norms = self._window_norms()
        total = np.where(around.known, cosines[around.at], 0.0).sum(1)
        return np.where(around.known[:, OWN], total / self._norms[around.at[:, OWN]], 0.0)

    def _window_norms(self) -> Any:
        """Return the length of each window's sum, from the products of lines at most four apart: no window is built."""
        import numpy as np

        norms = np.zeros(len(self.ids), dtype=np.float32)
        apart = self._products()
        for start in range(0, len(self.ids), _BLOCK):
            at, known = self.around(self.ids[start : start + _BLOCK])
            total = norms[start : start + _BLOCK]
            for one in range(len(REACH)):
                total += np.where(known[:, one], apart[0][at[:, one]], 0.0)
                for other in range(one + 1, len(REACH)):
                    both = known[:, one] & known[:, other]
                    total += 2 * np.where(both, apart[other - one][at[:, one]], 0.0)
        return np.sqrt(np.maximum(norms, 1e-12))

    def _products(self) -> Any:
        """Return for each line its product with itself and with the lines one to four after it, 0 where there is none."""
        import numpy as np

        apart = np.zeros((len(REACH), len(self.ids)), dtype=np.float32)
        for step in range(min(len(REACH), len(self.ids))):
            count = len(self.ids) - step
            distance = self.ids[step:] - self.ids[:count]  # where a line has no vector, the next is further away
            near = np.flatnonzero(distance < len(REACH))
            apart[distance[near], near] = np.vecdot(self.rows[:count], self.rows[step:])[near]
        return apart

    def together(self, around: Around) -> Any:
        """Return how far the lines around each line belong to it: 1 in a conversation, 0 in a list of unrelated facts.

        By how much nearer neighbours are than any two lines, in the same file; a short file is taken for one like the others.
        """
        import numpy as np

        if self._together is None:
            self._together = self._neighbourly()
        return np.where(around.known[:, OWN], self._together[around.at[:, OWN]], 1.0)

    def base(self) -> tuple[float, float]:
        """Return how alike any two lines are, and by how much more any two neighbours, as mean cosines."""
        import numpy as np

        mean = self.rows.sum(0) / max(1, len(self.rows))
        anyone = float(mean @ mean)
        beside = np.diff(self.ids) == 1
        if not beside.any():
            return anyone, 0.0
        return anyone, float(np.vecdot(self.rows[:-1], self.rows[1:])[beside].mean()) - anyone

    def _neighbourly(self) -> Any:
        import numpy as np

        beside = np.diff(self.ids) == 1
        if not beside.any():
            return np.zeros(len(self.ids), dtype=np.float32)
        anyone, every = self._base or self.base()
        excess = np.where(beside, np.vecdot(self.rows[:-1], self.rows[1:]) - anyone, 0.0)
        file = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(~beside)])  # ids of two files never touch
        count = np.bincount(file[1:], beside, minlength=int(file[-1]) + 1)
        own = np.bincount(file[1:], excess, minlength=int(file[-1]) + 1)
        share = (own + PRIOR * every) / (count + PRIOR) / TOGETHER
        return np.clip(share, 0.0, 1.0).astype(np.float32)[file]

    def soft(self, around: Around, asked: Any, weights: Any) -> Any:
        """Match each word asked for with its nearest word in the line or close by; rare words count for more."""
        import numpy as np

        seen = np.zeros(len(self.ids), dtype=bool)
        seen[around.at[around.known]] = True
        wide = np.flatnonzero(seen)
        best = np.zeros(
            (len(asked), len(wide) + 1), dtype=np.float32
        )  # the last column is for lines that are not there
        said, begins = self._said(wide)
        used = np.zeros(len(self._table), dtype=bool)
        used[said] = True
        near = np.vecdot(singles(self._table[used]), asked[:, None])
        near[near < CUT] = 0.0
        # Most words of most lines are like no word asked for: only the others are followed to their lines.
        alike = np.flatnonzero(near.any(0))
        row = np.full(len(self._table), -1)
        row[np.flatnonzero(used)[alike]] = alike
        rows = row[said]
        hits = np.flatnonzero(rows >= 0)
        if len(hits):
            lines = np.searchsorted(begins, hits, side="right") - 1
            first = np.flatnonzero(np.diff(lines, prepend=-1))
            best[:, lines[first]] = np.maximum.reduceat(near[:, rows[hits]], first, axis=1)
        place = np.where(around.known, np.searchsorted(wide, around.at), len(wide)).T
        found = (best[:, place] * np.array(NEARBY, dtype=np.float32)[:, None]).max(1)
        return (weights[:, None] * found).sum(0) / max(float(weights.sum()), 1e-9)

    def _said(self, places: Any) -> tuple[Any, Any]:
        """Return the words of these lines one after another, and where those of each line begin."""
        import numpy as np

        first, last = self._starts[places], self._starts[places + 1]
        begins = np.cumsum(last - first) - (last - first)
        return self._words[np.repeat(first - begins, last - first) + np.arange(int((last - first).sum()))], begins


def singles(halves: Any) -> Any:
    """Return half-precision numbers as float32, six times as fast as numpy's own: sign, exponent and fraction are moved."""
    import numpy as np

    bits = halves.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= np.int32(-0x70002000)  # the sign that filled the upper bits stays in the highest alone
    numbers = bits.view(np.float32)
    numbers *= np.float32(2.0**112)  # the exponents count from another zero
    return numbers


def best_sentences(conn: sqlite3.Connection, ids: Sequence[int], vector: Any, lines: Any) -> Any:
    """Return the cosine of each line's nearest sentence; a line of one sentence is its own (`lines`)."""
    import numpy as np

    out = lines.copy()
    size = 2 * len(vector)
    place = {number: at for at, number in enumerate(ids)}
    find = f"SELECT id, substr(vec, {size + 1}) FROM line_vec WHERE length(vec) > {size} AND id IN ({{}})"  # noqa: S608 - numbers
    found = select(conn, find, ids)
    if found:
        rows = np.frombuffer(b"".join(row[1] for row in found), dtype=np.float16).reshape(-1, len(vector))
        begins = np.cumsum([0, *(len(row[1]) // size for row in found[:-1])])
        out[[place[row[0]] for row in found]] = np.maximum.reduceat(np.vecdot(singles(rows), vector), begins)
    return out
