"""Which ranked lines may be shown and in what order: filters, quotas, value for money; and the facts a hit states."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import date
from math import log

from homarus.memory.pack import cost
from homarus.memory.rank import PRICE, Ranked
from homarus.memory.results import parse_citation
from homarus.memory.rows import FileRow, Lines, Row
from homarus.memory.terms import plain

MEANT = 0.35  # cosine from which a line without any word in common still speaks to the question
VALUED = 300  # lines whose price is looked at


class Texts:
    """Texts of lines for one answer, read in groups."""

    def __init__(self, conn: sqlite3.Connection, lines: Lines) -> None:
        self._conn = conn
        self._lines = lines
        self._known: dict[int, str] = {}

    def prefetch(self, ids: Sequence[int]) -> None:
        """Read what is not known yet, in one go."""
        missing = [number for number in ids if number not in self._known]
        self._known.update(self._lines.texts(self._conn, missing))

    def get(self, number: int) -> str:
        """Return a line's text."""
        if number not in self._known:
            self.prefetch([number])
        return self._known[number]


def known_names(conn: sqlite3.Connection) -> tuple[list[tuple[str, tuple[str, ...]]], dict[str, int]]:
    """Return the names the index knows, the frequent ones first, with the aliases of entity pages; and the lines of each."""
    import json

    aliases = {
        name: tuple(json.loads(given)) for name, given in conn.execute("SELECT name, aliases FROM entities").fetchall()
    }
    counts = dict(
        conn.execute("SELECT name, sum(lines) FROM names GROUP BY name ORDER BY 2 DESC LIMIT 5000").fetchall()
    )
    found = [(name, aliases.pop(name, ())) for name in counts]
    return found + list(aliases.items()), counts


def by_value(ranked: Ranked, order: list[int], texts: Texts) -> list[int]:
    """Return lines by what they bring for what they cost: a long line must be better than a short one."""
    lead = order[:VALUED]
    texts.prefetch([ranked.rows[index].id for index in lead])
    value = {index: ranked.scores[index] - PRICE * log(cost(texts.get(ranked.rows[index].id))) for index in lead}
    return sorted(lead, key=lambda index: -value[index]) + order[VALUED:]


def superseded_lines(conn: sqlite3.Connection) -> dict[tuple[int, int], int]:
    """Return which lines a later fact replaced, and on which day; by id (`^abc`) or by citation (`path#L12`)."""
    found: dict[tuple[int, int], int] = {}
    for reference, day in conn.execute("SELECT supersedes, mentioned_on FROM facts WHERE supersedes != ''").fetchall():
        if reference.startswith("^"):
            rows = conn.execute("SELECT file, line FROM facts WHERE id = ?", (reference[1:],))
        else:
            path, number, _ = parse_citation(reference)
            rows = conn.execute("SELECT id, ? FROM files WHERE path = ?", (number or 0, path))
        for key in rows:
            found[key] = min(found.get(key, 1 << 40), day or 0)
    return found


def speaking(ranked: Ranked, order: list[int]) -> list[int]:
    """Keep lines that say something of their own: a word, a name or a day asked for, an answer to a question just before."""
    columns = ranked.columns
    meant = columns.get("cosine", [0.0] * len(ranked.rows))
    return [
        index
        for index in order
        if columns["covered"][index] > 0
        or columns["name"][index] > 0
        or columns["answer"][index] >= 0.5
        or columns["date"][index] >= 0.9
        or meant[index] >= MEANT
    ]


def about(ranked: Ranked, order: list[int], entities: tuple[str, ...], texts: Texts) -> list[int]:
    """Keep lines that name, are linked to, or were said by one of the entities asked for."""
    wanted = [plain(name.removeprefix("@")) for name in entities]
    texts.prefetch([ranked.rows[index].id for index in order])

    def named(row: Row) -> bool:
        said = plain(" ".join((texts.get(row.id), row.speaker, row.entities.replace("\x1f", " "))))
        return any(name in said for name in wanted)

    return [index for index in order if named(ranked.rows[index])]


def quota(ranked: Ranked, order: list[int], files: dict[int, FileRow], limit: int, share: float) -> list[int]:
    """Let transcripts fill at most their share of the first places, as long as notes have something to say."""
    if not any(file.source == "sessions" for file in files.values()):
        return order
    allowed = max(1, round(limit * share))
    notes = [index for index in order if files[ranked.rows[index].file].source != "sessions"]
    if not notes:
        return order
    taken = 0
    first: list[int] = []
    later: list[int] = []
    for index in order:
        if files[ranked.rows[index].file].source == "sessions":
            taken += 1
            (first if taken <= allowed else later).append(index)
        else:
            first.append(index)
    return first + later


def timestamp_of(row: Row) -> str | None:
    """Return the day of a line, or the range that a retained fact holds for."""
    if row.kind in {"world", "experience", "opinion", "observation"} and row.first and row.last:
        first, last = date.fromordinal(row.first).isoformat(), date.fromordinal(row.last).isoformat()
        return first if first == last else f"{first}..{last}"
    return date.fromordinal(row.day).isoformat() if row.day else None


def entities_of(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return who or what the lines are about, and who said them."""
    found: dict[str, None] = {}
    for row in rows:
        found.update(dict.fromkeys(name for name in row.entities.split("\x1f") if name))
        if row.speaker:
            found[row.speaker] = None
    return tuple(found)
