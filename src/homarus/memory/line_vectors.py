"""Vectors of lines: filled in batches, kept beside the lines, asked for at each question. Memory works without any of this.

Three kinds of embedder give three sets of signals. Static word vectors compare line, window and, word by word, the
question with the line. A sentence model on this machine compares all that and single sentences. A model behind a network
gives one vector a line, because every text costs.
"""

from __future__ import annotations

import re
import sqlite3
from array import array
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from typing import Any

from msgspec import Struct

from homarus.memory.candidates import LineRow, Postings, select
from homarus.memory.embed.base import Embedder
from homarus.memory.note_parser import body_of
from homarus.memory.query import Query
from homarus.memory.rank import Kind
from homarus.memory.schema import QUESTION
from homarus.memory.signals import Columns
from homarus.memory.sync import Progress
from homarus.memory.terms import content_words
from homarus.memory.vector_table import OWN, REACH, VectorTable, best_sentences
from homarus.storage.sqlite import transaction


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


RESIDENT = 100_000  # lines held in memory; above, only those that words, names and days bring in are compared
SAMPLES, STRETCH = 40, 50  # of lines that tell how alike those of a large index are
PROPOSED = 150
QUICK = {True: 4_000, False: 48}  # lines a search may embed itself: static, sentence
ASKED = 160  # characters of the question before a line that are embedded with it
SENTENCES = 8  # of one line that get vectors of their own; the last one holds the rest
LAYOUT = 2  # how `line_vec` is laid out; another number means that stored vectors are made anew
IDENTITY = "vectors"


class Asked(Struct, frozen=True):
    """A question as vectors: whole, without its names, and how near every line in memory is to the latter."""

    whole: Any
    bare: Any
    cosines: Any
    nearest: list[int]


class Vectors:
    def __init__(
        self, embedder: Embedder, *, cache: bool = True, cache_entries: int = 50_000, resident: int = RESIDENT
    ) -> None:
        self.embedder = embedder
        self._resident = resident
        self.static = bool(getattr(embedder, "static", False))
        self.wordwise = hasattr(embedder, "encode_words")
        self.kind: Kind = "static" if self.static else "model" if self.wordwise else "lines"
        # Word vectors are made faster than they are looked up.
        self.cache = VectorCache(embedder, enabled=cache and not self.static, max_entries=cache_entries)
        self._meaning: VectorTable | None = None
        self._base: tuple[float, float] | None = None  # set where the index is too large to be held in memory
        self._fresh = False
        self._missing: int | None = None  # lines without a vector; None: look again

    @property
    def identity(self) -> str:
        """Return what the stored vectors must have been made with."""
        embedder = self.embedder
        return f"{embedder.provider}|{embedder.model}|{embedder.key}|{self.kind}{LAYOUT}"

    def forget(self) -> None:
        """The lines changed: compare with the table again before the next use."""
        self._fresh = False
        self._missing = None

    def fill(
        self, conn: sqlite3.Connection, now_ms: int, progress: Progress | None = None, *, quick: bool = False
    ) -> int:
        """Embed lines that have no vector yet and return how many still have none."""
        if self._missing == 0 or (quick and self.embedder.remote and self._missing is not None):
            return self._missing
        self._claim(conn)
        missing = conn.execute(
            "SELECT lines.id, lines.text, asked.text FROM lines LEFT JOIN line_vec ON line_vec.id = lines.id"
            " LEFT JOIN lines asked ON asked.id = lines.id - 1 AND asked.flags & ? WHERE line_vec.id IS NULL AND lines.kind != 'path'"
            " ORDER BY lines.id DESC",
            (QUESTION,),
        ).fetchall()
        self._missing = None
        part_of = (0 if self.embedder.remote else QUICK[self.static]) if quick else len(missing)
        wanted = missing[:part_of]  # the newest first
        for start in range(0, len(wanted), self.embedder.batch):
            part = wanted[start : start + self.embedder.batch]
            self._store(conn, part, now_ms)
            self._fresh = False
            if progress:
                progress(min(len(wanted), start + len(part)), len(wanted), f"vectors ({self.embedder.provider})")
        self._missing = len(missing) - len(wanted)
        return self._missing

    def missing(self, conn: sqlite3.Connection) -> int:
        """Count the lines that have no vector of this embedder, without changing anything."""
        known = "0" if not self._is_claimed(conn) else "SELECT id FROM line_vec"
        find = f"SELECT count(*) FROM lines WHERE kind != 'path' AND id NOT IN ({known})"  # noqa: S608 - from the line above
        return int(conn.execute(find).fetchone()[0])

    def limits(self, conn: sqlite3.Connection) -> str:
        """Say what vectors are not used for in an index of this size."""
        large = self._base is not None
        if not self._fresh:
            large = conn.execute("SELECT count(*) FROM line_vec").fetchone()[0] > self._resident
        return (
            "" if not large else f"above {self._resident:,} lines vectors compare only what words, names and days find"
        )

    def _claim(self, conn: sqlite3.Connection) -> None:
        """Drop vectors of another model: numbers of two models must never be compared."""
        if self._is_claimed(conn):
            return
        with transaction(conn):
            conn.execute("DELETE FROM line_vec")
            conn.execute("DELETE FROM word_vec")
            conn.execute("INSERT OR REPLACE INTO meta(key, value) VALUES(?, ?)", (IDENTITY, self.identity))
        self._meaning = None
        self._fresh = False

    def _is_claimed(self, conn: sqlite3.Connection) -> bool:
        """Say whether the stored vectors are this embedder's."""
        row = conn.execute("SELECT value FROM meta WHERE key = ?", (IDENTITY,)).fetchone()
        stored = conn.execute("SELECT length(vec) FROM line_vec LIMIT 1").fetchone()
        size = 2 * self.embedder.dims  # unknown (0) before a service has answered for the first time
        same_size = not stored or not size or (stored[0] % size == 0 if self.kind == "model" else stored[0] == size)
        return bool(row and row[0] == self.identity and same_size)

    def _store(self, conn: sqlite3.Connection, part: list[tuple[int, str, str | None]], now_ms: int) -> None:
        bodies = [body_of(text) or text for _, text, _ in part]
        texts = [self._texts(body, asked) for body, (_, _, asked) in zip(bodies, part, strict=True)]
        flat, made = self.cache.encode(conn, [text for group in texts for text in group])
        blobs = iter(flat)
        words = [content_words(body) for body in bodies] if self.wordwise else []
        new = self._new_words(conn, words)
        with transaction(conn):
            lists = self._store_words(conn, words, new) if self.wordwise else [None] * len(part)
            conn.executemany(
                "INSERT OR REPLACE INTO line_vec(id, vec, words) VALUES(?, ?, ?)",
                [
                    (number, b"".join(next(blobs) for _ in texts[at]), lists[at])
                    for at, (number, _, _) in enumerate(part)
                ],
            )
            self.cache.remember(conn, made, now_ms)

    def _texts(self, body: str, asked: str | None) -> list[str]:
        """Return what to embed for a line: the line with the question it answers, then its sentences."""
        whole = f"{body_of(asked)[-ASKED:]} {body}" if asked else body
        if self.kind != "model":
            return [whole]
        parts = sentences(body)
        return [whole, *parts] if asked or len(parts) > 1 else [whole]

    def _new_words(self, conn: sqlite3.Connection, lines: list[list[str]]) -> list[tuple[str, bytes]]:
        """Return the words that have no vector yet with their vectors, made before the index is locked for writing."""
        known = _word_ids(conn, lines)
        new = sorted({word for words in lines for word in words} - known.keys())
        if not new:
            return []
        rows = self.embedder.encode_words(new)  # type: ignore[attr-defined]  # `wordwise` says that it is there
        return [(word, row.astype("float16").tobytes()) for word, row in zip(new, rows, strict=True)]

    def _store_words(
        self, conn: sqlite3.Connection, lines: list[list[str]], new: list[tuple[str, bytes]]
    ) -> list[bytes | None]:
        # Another process may have stored the same words meanwhile: the table gives the numbers, not this process.
        conn.executemany("INSERT INTO word_vec(word, vec) VALUES(?, ?) ON CONFLICT(word) DO NOTHING", new)
        ids = _word_ids(conn, lines)
        return [array("I", [ids[word] for word in words if word in ids]).tobytes() for words in lines]

    def _load(self, conn: sqlite3.Connection) -> VectorTable | None:
        """Bring the copy in memory in line with the table; None when there is nothing or too much to hold."""
        if not self._fresh:
            count = conn.execute("SELECT count(*) FROM line_vec").fetchone()[0]
            self._meaning = VectorTable.read(conn, self.embedder.dims) if 0 < count <= self._resident else None
            self._base = self._sample(conn) if count > self._resident else None
            self._fresh = True
        return self._meaning

    def _sample(self, conn: sqlite3.Connection) -> tuple[float, float]:
        low, high = conn.execute("SELECT min(id), max(id) FROM line_vec").fetchone()
        step = max(STRETCH, (high - low) // SAMPLES)
        ids = [at + more for at in range(low, high, step) for more in range(STRETCH)]
        return VectorTable.read_some(conn, self.embedder.dims, ids).base()

    def propose(self, conn: sqlite3.Connection, query: Query, keep: int) -> Asked:
        """Compare the question with every line that is held in memory; the nearest lines are at most half of `keep`."""
        bare = query.bare or query.text
        whole = query.text if self.wordwise else bare
        vectors = self.embedder.encode(list(dict.fromkeys([whole, bare])), query=True)
        meaning = self._load(conn)
        if meaning is None:
            return Asked(vectors[0], vectors[-1], None, [])
        cosines = meaning.cosines(vectors[-1])
        return Asked(vectors[0], vectors[-1], cosines, meaning.nearest(cosines, min(PROPOSED, keep // 2)))

    def columns(
        self, conn: sqlite3.Connection, query: Query, asked: Asked, rows: list[LineRow], postings: Postings
    ) -> Columns:
        """Return the signals of vectors for these candidates; nothing when there are none."""
        import numpy as np

        ids = [row.id for row in rows]
        meaning, cosines = self._meaning, asked.cosines
        if self._base is not None and rows:
            wide = sorted({number + step for number in ids for step in REACH})
            meaning = VectorTable.read_some(conn, self.embedder.dims, wide, self._base)
            cosines = meaning.cosines(asked.bare)
        if meaning is None or not rows or not len(meaning.ids):
            return {}
        around = meaning.around(np.array(ids, dtype=np.int64))
        line = np.where(around.known[:, OWN], cosines[around.at[:, OWN]], 0.0)
        together = meaning.together(around)
        found = {
            "vector": line if self.kind != "model" else meaning.lines(around, asked.whole),
            "vectors": together * meaning.windows(around, cosines) + (1 - together) * line,
        }
        if self.wordwise and meaning.words:
            core = [word for word in query.core if word not in query.subject] or list(query.core)
            words = [word for word in core if word.isalpha()] or core
            if words:
                weights = np.array([postings.weight(word) for word in words], dtype=np.float32)
                vectors = self.embedder.encode_words(words)  # type: ignore[attr-defined]  # `wordwise` says that it is there
                found["soft"] = meaning.soft(around, vectors, weights)
        if self.kind == "model":
            found["sentence"] = best_sentences(conn, ids, asked.bare, line)
        plain = {"cosine": line.tolist(), "together": together.tolist()}
        if self.wordwise:
            plain["whole"] = meaning.lines(around, asked.whole).tolist()
        return plain | {name: _spread(column.astype(np.float64)) for name, column in found.items()}


def _spread(values: Any) -> list[float]:
    """Return values stretched so that the worst is 0 and the best 1: for similarities that never reach either."""
    low, high = values.min(), values.max()
    stretched: list[float] = ((values - low) / ((high - low) or 1.0)).tolist()
    return stretched


def _word_ids(conn: sqlite3.Connection, lines: list[list[str]]) -> dict[str, int]:
    wanted = {word for words in lines for word in words}
    return dict(select(conn, "SELECT word, id FROM word_vec WHERE word IN ({})", wanted))


@cache
def _end() -> re.Pattern[str]:
    return re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")


def sentences(text: str) -> list[str]:
    parts = [part for part in _end().split(text, maxsplit=SENTENCES - 1) if part.strip()]
    return parts or [text]
