"""Lines read before are not read again, however many there are."""

from __future__ import annotations

import sqlite3

import pytest

from homarus.memory.candidates import KEPT, LineCache
from homarus.memory.schema import SCHEMA


@pytest.fixture
def conn():
    conn = sqlite3.connect(":memory:")
    conn.executescript(SCHEMA)
    conn.executemany(
        "INSERT INTO lines VALUES(?, ?, 1, NULL, NULL, NULL, '', 'note', 0, 4, 12, NULL, '', 'text', NULL)",
        [(number, number % 7) for number in range(1, 2001)],
    )
    conn.executemany(
        "INSERT INTO files VALUES(?, ?, 'memory', '', 0, 0, '', 0, 0, 0, 0, 0, NULL, '')",
        [(number, f"{number}.md") for number in range(7)],
    )
    yield conn
    conn.close()


def test_lines_come_in_order_and_are_kept(conn):
    lines = LineCache()
    wanted = [3, 4, 1999, 2000, 2001]
    assert [row.id for row in lines.rows(conn, wanted)] == wanted[:-1]
    asked: list[str] = []
    conn.set_trace_callback(asked.append)
    assert [row.id for row in lines.rows(conn, wanted)] == wanted[:-1]
    assert lines.files(conn, {3, 4}).keys() == lines.files(conn, {4, 3}).keys() == {3, 4}
    assert len(asked) == 1  # the files, once
    lines.clear()
    conn.execute("DELETE FROM lines WHERE id = 4")
    assert [row.id for row in lines.rows(conn, wanted)] == [3, 1999, 2000]


def test_more_lines_than_there_is_room_for(conn):
    lines = LineCache()
    for start in range(0, 2 * KEPT, 1500):
        lines.rows(conn, range(start, start + 1500))
        assert len(lines._rows) <= KEPT
    assert len(lines.rows(conn, range(1, KEPT + 100))) == 2000
    assert len(lines.files(conn, set(range(7)))) == 7
