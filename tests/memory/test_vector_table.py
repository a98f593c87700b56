"""Vectors in memory, compared with the slow and obvious way."""

from __future__ import annotations

import sqlite3

import pytest

from homarus.memory.schema import SCHEMA
from homarus.memory.vector_table import CUT, NEARBY, REACH, VectorTable, best_sentences

np = pytest.importorskip("numpy")
DIMS = 8


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float16).astype(np.float32)


@pytest.fixture
def stored():
    """Lines of two files with a gap between them, some without words, one with three sentences."""
    rnd = np.random.default_rng(5)
    ids = [*range(4, 16), *range(30, 35)]
    lines = dict(zip(ids, unit(rnd.normal(size=(len(ids), DIMS))), strict=True))
    table = dict(enumerate(unit(rnd.normal(size=(20, DIMS))), 1))
    words = {number: [int(word) for word in rnd.choice(20, size=number % 4, replace=False) + 1] for number in ids}
    extra = unit(rnd.normal(size=(3, DIMS)))
    conn = sqlite3.connect(":memory:")
    conn.executescript(SCHEMA)
    conn.executemany(
        "INSERT INTO word_vec VALUES(?, ?, ?)", [(n, f"w{n}", v.astype("f2").tobytes()) for n, v in table.items()]
    )
    for number, row in lines.items():
        tail = extra.astype("f2").tobytes() if number == 9 else b""
        blob = np.array(words[number], dtype=np.uint32).tobytes()
        conn.execute("INSERT INTO line_vec VALUES(?, ?, ?)", (number, row.astype("f2").tobytes() + tail, blob))
    yield conn, lines, words, table, extra
    conn.close()


def test_lines_windows_and_the_nearest(stored):
    conn, lines, _, _, _ = stored
    meaning = VectorTable.read(conn, DIMS)
    asked = unit(np.arange(1.0, DIMS + 1))
    ids = np.array([4, 9, 15, 20, 30, 34])
    around, cosines = meaning.around(ids), meaning.cosines(asked)
    assert cosines == pytest.approx([row @ asked for row in lines.values()], abs=1e-5)
    assert meaning.lines(around, asked) == pytest.approx([lines[n] @ asked if n in lines else 0 for n in ids], abs=1e-5)

    def window(number):
        total = sum(lines[number + step] for step in REACH if number + step in lines)
        return total @ asked / np.linalg.norm(total) if number in lines else 0.0

    assert meaning.windows(around, cosines) == pytest.approx([window(n) for n in ids], abs=1e-5)
    best = sorted(lines, key=lambda n: -lines[n] @ asked)[:3]
    assert sorted(meaning.nearest(cosines, 3)) == sorted(best)
    assert len(meaning.nearest(cosines, 999)) == len(lines)


def test_each_word_finds_its_nearest_close_by(stored):
    conn, lines, words, table, _ = stored
    meaning = VectorTable.read(conn, DIMS)
    asked = unit(np.random.default_rng(8).normal(size=(3, DIMS)))
    weights = np.array([1.0, 2.0, 0.5], dtype=np.float32)

    def slow(number):
        total = 0.0
        for vector, weight in zip(asked, weights, strict=True):
            near = [
                kernel * (vector @ table[word])
                for step, kernel in zip(REACH, NEARBY, strict=True)
                for word in words.get(number + step, [])
                if vector @ table[word] >= CUT
            ]
            total += weight * max(near, default=0.0)
        return total / weights.sum()

    ids = np.array(sorted(lines))
    assert meaning.soft(meaning.around(ids), asked, weights) == pytest.approx([slow(n) for n in ids], abs=1e-4)
    assert meaning.soft(meaning.around(np.array([20])), asked, weights).tolist() == [0.0]


def test_the_best_sentence_speaks_for_a_line(stored):
    conn, lines, _, _, extra = stored
    asked = unit(np.arange(1.0, DIMS + 1))
    ids = sorted(lines)
    own = np.array([lines[n] @ asked for n in ids], dtype=np.float32)
    found = best_sentences(conn, ids, asked, own)
    assert found[ids.index(9)] == pytest.approx((extra @ asked).max(), abs=1e-4)
    assert [found[at] for at, n in enumerate(ids) if n != 9] == [own[at] for at, n in enumerate(ids) if n != 9]


def test_without_words_there_is_nothing_to_compare_word_by_word(stored):
    conn, *_ = stored
    conn.execute("DELETE FROM word_vec")
    assert not VectorTable.read(conn, DIMS).words
