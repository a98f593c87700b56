"""Write the derived index: one file in, its rows out, all in the caller's transaction. Decides nothing about when."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import sha256

import msgspec

from homarus.core.patterns import late
from homarus.core.text import slug
from homarus.memory.files import Found
from homarus.memory.note_parser import Chunk, Ending, NoteLine, chunk_numbered, note_day
from homarus.memory.schema import GAP, PATH
from homarus.memory.settings import Chunking
from homarus.memory.terms import search_text
from homarus.memory.transcripts import Tail

_PATH_WORD = late(r"[^\W_]+")
_OPINION = late(r"- O\(c=(?P<c>[01]\.\d+),id=(?P<id>[\w-]+)\) .*\[(?P<counts>\+\d+ −\d+; [^\]]*)\]")
_OF_FILES = ("names", "facts", "entities", "fact_entities", "origins", "opinions")
_LINE_COLUMNS = "id, file, line, day, first, last, speaker, kind, flags, size, around, head, entities, text, terms"


class IndexWriter:
    """Puts files into the tables and takes them out. Never commits: the caller groups what belongs together."""

    def __init__(self, conn: sqlite3.Connection, now_ms: int) -> None:
        self.conn = conn
        self.now_ms = now_ms
        highest = conn.execute("SELECT max(room_id) FROM files").fetchone()[0]
        self.next_id = (highest or 0) + GAP + 1

    def put_note(
        self, item: Found, digest: str, units: list[NoteLine], chunks: Sequence[Chunk], ending: Ending | None = None
    ) -> int:
        """Replace everything the index knows about a note. With an `ending` it may grow: ids are kept free behind it."""
        self.drop(item.source, item.path)
        room = max(10_000, 3 * len(units)) if ending else 0
        file = self._file(item, digest, units, room=room, state=ending)
        self._facts(file, item.path, units)
        self._chunks(item, chunks)
        return file

    def extend_note(self, file: int, item: Found, digest: str, units: list[NoteLine], ending: Ending | None) -> bool:
        if not self.extend(file, item, units, ending):
            return False
        self.conn.execute("UPDATE files SET hash = ? WHERE id = ?", (digest, file))
        self._facts(file, item.path, units)
        self._origins(file, units)
        return True

    def chunk_tail(self, item: Found, lines: list[str], chunking: Chunking) -> None:
        """Cut a note that grew into chunks, from the start of its last one: that may grow, those before it stay."""
        first = max(1, self._last_chunk(item))
        numbered = enumerate(lines[first - 1 :], first)
        self._chunks(item, chunk_numbered(numbered, tokens=chunking.tokens, overlap=chunking.overlap))

    def put_transcript(self, item: Found, units: list[NoteLine], tail: Tail) -> int:
        """Replace a transcript. Ids are kept free behind it, because it will grow."""
        self.drop(item.source, item.path)
        return self._file(item, tail.head, units, room=max(10_000, 3 * len(units)), state=tail)

    def extend(self, file: int, item: Found, units: list[NoteLine], state: Tail | Ending | None) -> bool:
        """Add new lines or messages behind the old ones; False, with nothing done, when the free ids are used up."""
        first, last, room = self.conn.execute(
            "SELECT first_id, last_id, room_id FROM files WHERE id = ?", (file,)
        ).fetchone()
        if last + len(units) > room:
            return False
        known = self.conn.execute("SELECT id, size FROM lines WHERE id BETWEEN ? AND ?", (last - 3, last)).fetchall()
        before = [size for number, size in known if number > first]
        self._lines(file, units, at=last + 1, first=first, before=before)
        news = [unit.size for unit in units]
        for behind in (1, 2):  # the last lines have new neighbours
            added = sum(news[: 3 - behind])
            self.conn.execute(
                "UPDATE lines SET around = around + ? WHERE id = ? AND id > ?", (added, last + 1 - behind, first)
            )
        self._names(file, units)
        self.touch(file, item)
        self.conn.execute(
            "UPDATE files SET state = ?, last_id = ?, lines = lines + ?, words = words + ? WHERE id = ?",
            (_encoded(state), last + len(units), len(units), sum(unit.size for unit in units), file),
        )
        return True

    def chunk_transcript(self, file: int, item: Found, chunking: Chunking) -> None:
        """The same for the messages of a transcript."""
        first = self._last_chunk(item)
        rows = self.conn.execute(
            "SELECT line, text FROM lines WHERE file = ? AND kind = 'turn' AND line >= ? ORDER BY id", (file, first)
        ).fetchall()
        self._chunks(item, chunk_numbered(rows, tokens=chunking.tokens, overlap=chunking.overlap))

    def _last_chunk(self, item: Found) -> int:
        """Take the last chunk of a file away and return the line that it began with."""
        last = self.conn.execute(
            "SELECT start_line FROM chunks WHERE source = ? AND path = ? ORDER BY end_line DESC, start_line DESC LIMIT 1",
            (item.source, item.path),
        ).fetchone()
        first = last[0] if last else 0
        self._drop_chunks("source = ? AND path = ? AND start_line >= ?", (item.source, item.path, first))
        return first

    def _drop_chunks(self, where: str, given: tuple[object, ...]) -> None:
        self.conn.execute(
            f"INSERT INTO chunks_fts(chunks_fts, rowid, text) SELECT 'delete', number, text FROM chunks_search WHERE {where}",  # noqa: S608
            given,
        )
        self.conn.execute(f"DELETE FROM chunks WHERE {where}", given)  # noqa: S608 - both from callers in this class

    def touch(self, file: int, item: Found) -> None:
        """Note that a file was looked at and says the same as before."""
        self.conn.execute(
            "UPDATE files SET stamp = ?, size = ?, mtime = ? WHERE id = ?", (item.stamp, item.size, item.mtime, file)
        )

    def drop(self, source: str, path: str) -> None:
        """Remove a file's rows; nothing happens when it has none."""
        row = self.conn.execute(
            "SELECT id, first_id, last_id FROM files WHERE source = ? AND path = ?", (source, path)
        ).fetchone()
        if row is None:
            return
        file, first, last = row
        run = self.conn.execute
        run(
            "INSERT INTO lines_fts(lines_fts, rowid, text) SELECT 'delete', id, text FROM lines_search WHERE id BETWEEN ? AND ?",
            (first, last),
        )
        run("DELETE FROM line_vec WHERE id BETWEEN ? AND ?", (first, last))
        run("DELETE FROM lines WHERE id BETWEEN ? AND ?", (first, last))
        self._drop_chunks("source = ? AND path = ?", (source, path))
        for table in _OF_FILES:
            run(f"DELETE FROM {table} WHERE file = ?", (file,))  # noqa: S608 - names from the line above
        run("DELETE FROM files WHERE id = ?", (file,))

    def clear(self) -> None:
        """Empty every table but the cache of embeddings, which a rebuild draws from."""
        self.conn.execute("INSERT INTO lines_fts(lines_fts) VALUES('delete-all')")
        self.conn.execute("INSERT INTO chunks_fts(chunks_fts) VALUES('delete-all')")
        for table in (*_OF_FILES, "lines", "line_vec", "word_vec", "chunks", "files"):
            self.conn.execute(f"DELETE FROM {table}")  # noqa: S608 - names from the line above
        self.next_id = GAP + 1

    def _file(
        self, item: Found, digest: str, units: list[NoteLine], *, room: int = 0, state: Tail | Ending | None = None
    ) -> int:
        """Store a file's row, its path as the root of all headings, and its lines."""
        day = note_day(item.path)
        first = self.next_id
        base = first + GAP
        last = base + len(units) - 1
        self.next_id = last + room + GAP + 1
        cursor = self.conn.execute(
            "INSERT INTO files(path, source, hash, mtime, size, stamp, first_id, last_id, room_id, lines, words, day, state)"
            " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(item.path, item.source, digest, item.mtime, item.size, item.stamp, first, last, last + room),
                *(len(units), sum(unit.size for unit in units), day.toordinal() if day else None, _encoded(state)),
            ),
        )
        file = cursor.lastrowid
        assert file is not None
        # A page of the bank on which nobody wrote anything is not looked for, and so makes no word more common either.
        named = units or not item.path.startswith("bank/")
        label = " ".join(_PATH_WORD.findall(item.path.rpartition(".")[0])) if named else ""
        self._insert([(first, file, 0, None, None, None, "", "path", PATH, 0, 0, None, "", label, _extra(label))])
        self._lines(file, units, at=base, first=first)
        self._names(file, units)
        self._origins(file, units)
        return file

    def _lines(self, file: int, units: list[NoteLine], *, at: int, first: int, before: Sequence[int] = ()) -> None:
        """Store lines from id `at` on; `first` is the id of the file's path, `before` the sizes of the last lines so far."""
        sizes = [*before, *(unit.size for unit in units)]
        base = first + GAP
        self._insert(
            [
                (
                    *(number, file, unit.line, unit.day, unit.first, unit.last, unit.speaker, unit.kind, unit.flags),
                    *(unit.size, sum(sizes[max(0, place - 2) : place + 3])),
                    base + unit.head if unit.head is not None else first,
                    *("\x1f".join(unit.entities), unit.text, _extra(unit.text)),
                )
                for number, (place, unit) in enumerate(enumerate(units, len(before)), at)
            ]
        )

    def _insert(self, rows: list[tuple[object, ...]]) -> None:
        marks = ", ".join("?" * 15)
        self.conn.executemany(f"INSERT INTO lines({_LINE_COLUMNS}) VALUES({marks})", rows)
        self.conn.executemany("INSERT INTO lines_fts(rowid, text) VALUES(?, ?)", [(r[0], r[14] or r[13]) for r in rows])

    def _names(self, file: int, units: list[NoteLine]) -> None:
        counted = Counter((unit.speaker, "speaker") for unit in units if unit.speaker)
        counted.update((name, "entity") for unit in units for name in unit.entities)
        self.conn.executemany(
            "INSERT INTO names(file, name, role, lines) VALUES(?, ?, ?, ?)"
            " ON CONFLICT(file, name, role) DO UPDATE SET lines = lines + excluded.lines",
            [(file, name, role, count) for (name, role), count in counted.items()],
        )

    def _origins(self, file: int, units: list[NoteLine]) -> None:
        rows = [(file, unit.line, source) for unit in units for source in unit.origin]
        self.conn.executemany("INSERT OR IGNORE INTO origins VALUES(?, ?, ?)", rows)

    def _facts(self, file: int, path: str, units: list[NoteLine]) -> None:
        facts: list[list[object]] = []
        links: set[tuple[int, str, str, str]] = set()
        previous = None
        for unit in units:
            bullet = unit.bullet
            if bullet is None:
                continue
            if previous is bullet and facts:
                facts[-1][6] = unit.line  # a continuation line
                continue
            previous = bullet
            # A line may also take a fact back, or turn it down for MEMORY.md: then it is none itself.
            told = next(((name, f"{name}s") for name in ("forget", "reject") if bullet.attr(name)), ("sup", "active"))
            sure, origin, replaced = bullet.confidence, ", ".join(unit.origin) or "owner", bullet.attr(told[0]) or ""
            if bullet.struck:  # whoever crosses a fact out takes it back, wherever else it stands
                told, replaced = ("forget", "forgets"), f"^{bullet.id}"
            place = [path, unit.line, unit.line, unit.day, unit.first, unit.last, unit.precision]
            facts.append([bullet.id, file, bullet.kind, bullet.text, *place, sure, origin, replaced, told[1]])
            links.update((file, bullet.id, slug(name) or name, "subject") for name in bullet.entities)
        self.conn.executemany(
            "INSERT OR REPLACE INTO facts(id, file, kind, text, path, line, end_line, mentioned_on, occ_from, occ_to,"
            " precision, confidence, origin, supersedes, status) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            facts,
        )
        self.conn.executemany("INSERT OR IGNORE INTO fact_entities VALUES(?, ?, ?, ?)", sorted(links))

    def put_opinions(self, file: int, lines: Iterable[str]) -> None:
        """Note how sure the bank is of each opinion, by the id of the fact that it began with."""
        rows = [
            (file, match["id"], float(match["c"]), match["counts"]) for match in map(_OPINION.match, lines) if match
        ]
        self.conn.executemany("INSERT OR REPLACE INTO opinions VALUES(?, ?, ?, ?)", rows)

    def put_entity(self, file: int, name: str, kind: str, aliases: Iterable[str]) -> None:
        self.conn.execute(
            "INSERT OR REPLACE INTO entities(slug, name, kind, aliases, file) VALUES(?, ?, ?, ?, ?)",
            (slug(name) or name, name, kind, json.dumps(list(aliases), ensure_ascii=False), file),
        )

    def _chunks(self, item: Found, chunks: Sequence[Chunk]) -> None:
        before = self.conn.execute("SELECT coalesce(max(rowid), 0) FROM chunks").fetchone()[0]
        rows = [
            (
                chunk_id(item, c),
                item.path,
                item.source,
                c.start_line,
                c.end_line,
                c.hash,
                c.text,
                _extra(c.text),
                self.now_ms,
            )
            for c in chunks
        ]
        self.conn.executemany(
            "INSERT OR IGNORE INTO chunks(id, path, source, start_line, end_line, hash, model, text, terms, updated_at)"
            " VALUES(?, ?, ?, ?, ?, ?, '', ?, ?, ?)",
            rows,
        )
        self.conn.execute(
            "INSERT INTO chunks_fts(rowid, text) SELECT number, text FROM chunks_search WHERE number > ?", (before,)
        )


def chunk_id(item: Found, chunk: Chunk) -> str:
    """Return a name for a chunk that depends on where it is and what it says."""
    return sha256(f"{item.source}:{item.path}:{chunk.start_line}:{chunk.end_line}:{chunk.hash}".encode()).hexdigest()


def _encoded(state: Tail | Ending | None) -> str:
    return msgspec.json.encode(state).decode() if state else ""


def _extra(text: str) -> str | None:
    searched = search_text(text)
    return None if searched == text else searched
