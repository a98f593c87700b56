"""A large note that only grew is indexed from where it ended before, with the same result as if it were read anew."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.memory.database import empty_index
from homarus.memory.files import NoteSet
from homarus.memory.schema import GAP
from homarus.memory.settings import Chunking
from homarus.memory.sync import Synchroniser

LINES = st.sampled_from(
    [
        *(
            "# 2026-02-03",
            "## Session 2",
            "### 8 May 2026",
            "## Retain",
            "```",
            "~~~",
            "",
            "  continued here",
            "    deep",
        ),
        *(
            "- O(c=0.9) @Anna: Prefers tea to coffee.",
            "- W: The boat sank <!-- origin: web_fetch -->",
            "Anna: shall we go?",
        ),
        *("ben: are you there?", "ben: you said so", "kim: what do you mean?", "kim: hm", "host: db1"),
        *("Piet: yes, tomorrow at nine", "plain words about the harbour", "x" * 2500, "long " * 900, "- @Piet sails"),
        *("-----BEGIN RSA PRIVATE KEY-----", "MIIEow" * 12, "-----END RSA PRIVATE KEY-----", "---", "name: x"),
    ]
)


def table(conn: sqlite3.Connection) -> list[object]:
    first = conn.execute("SELECT first_id FROM files").fetchone()[0]
    lines = conn.execute(
        "SELECT id - ?, line, day, first, last, speaker, kind, flags, size, around, head - ?, entities, text, terms FROM lines ORDER BY id",
        (first, first),
    ).fetchall()
    facts = conn.execute(
        "SELECT id, kind, text, line, end_line, mentioned_on, confidence, origin FROM facts ORDER BY line"
    )
    names = conn.execute("SELECT name, role, lines FROM names ORDER BY 1, 2").fetchall()
    origins = conn.execute("SELECT line, source FROM origins ORDER BY line").fetchall()
    found = conn.execute("SELECT rowid - ? FROM lines_fts WHERE lines_fts MATCH 'harbour OR anna'", (first,)).fetchall()
    file = conn.execute("SELECT hash, size, last_id - first_id, lines, words, day FROM files").fetchone()
    return [lines, facts.fetchall(), names, origins, found, file]


@given(
    before=st.lists(LINES, min_size=1, max_size=12),
    added=st.lists(st.lists(LINES, min_size=1, max_size=6), min_size=1, max_size=3),
)
def test_appended_lines_are_indexed_as_if_all_were_read_anew(tmp_path_factory, before, added):
    folder: Path = tmp_path_factory.mktemp("notes")
    (folder / "memory").mkdir()
    note = folder / "memory" / "2026-02-01.md"
    note.write_text("\n".join(before) + "\n")
    grown = Synchroniser(NoteSet(folder), chunking=Chunking(tokens=20, overlap=5), tail_bytes=0)
    conn = empty_index()
    grown.run(conn, 0)
    for part in added:
        with note.open("a") as handle:
            handle.write("\n".join(part) + "\n")
        grown.run(conn, 0)
    fresh = empty_index()
    Synchroniser(NoteSet(folder), tail_bytes=1 << 30).run(fresh, 0)
    assert table(conn) == table(fresh)
    conn.close()
    fresh.close()


def test_names_in_small_letters_that_are_known_later_hold_for_the_lines_before(tmp_path):
    (tmp_path / "memory").mkdir()
    note = tmp_path / "memory" / "2026-02-01.md"
    grown = Synchroniser(NoteSet(tmp_path), chunking=Chunking(tokens=20, overlap=5), tail_bytes=0)
    conn = empty_index()
    text, found = "", []
    for part in (
        "Piet: hello\nben: are you there?\nben: hm\n",
        "ben: will you come?\n",
        "ben: you said so\n- host: db1\n",
    ):
        note.write_text(text := text + part)
        grown.run(conn, 0)
        found.append([row[0] for row in conn.execute("SELECT speaker FROM lines WHERE line > 0 ORDER BY id")])
    assert found == [["Piet", "", ""], ["Piet", "", "", ""], ["Piet", "ben", "ben", "ben", "ben", ""]]
    conn.close()


def ids(conn: sqlite3.Connection) -> list[int]:
    return [row[0] for row in conn.execute("SELECT id FROM lines ORDER BY id")]


@pytest.mark.parametrize("change", ["appended", "inside", "cut", "unfinished"])
def test_only_what_was_appended_is_written(notes, change):
    path = notes.write("memory/big.md", "".join(f"- line {n} about the harbour\n" for n in range(300)))
    conn = empty_index()
    sync = Synchroniser(NoteSet(notes.root), tail_bytes=1000)
    sync.run(conn, 0)
    before = ids(conn)
    text = path.read_text()
    path.write_text(
        {
            "appended": text + "- the lighthouse blinks\n",
            "inside": text.replace("line 7 ", "line seven ") + "- the lighthouse blinks\n",
            "cut": text[:-100],
            "unfinished": text + "- the lighthouse",
        }[change]
    )
    sync.run(conn, 0)
    after = ids(conn)
    if change in {"appended", "unfinished"}:
        assert after == [*before, before[-1] + 1]
    else:
        assert after[0] > before[-1] + GAP
    if change == "unfinished":
        with path.open("a") as handle:
            handle.write(" blinks\n")
        sync.run(conn, 0)
    texts = [row[0] for row in conn.execute("SELECT text FROM lines ORDER BY id")]
    assert (texts[-1] == "the lighthouse blinks") is (change != "cut")
    conn.close()


def test_what_is_no_prose_is_not_indexed(notes):
    notes.write(
        "memory/drawing.excalidraw.md",
        "---\nexcalidraw-plugin: parsed\n---\n# Text Elements\nBuy a lighthouse ^abc\n\n%%\n# Drawing\n```json\n"
        '{\n\t"type": "excalidraw",\n\t"elements": []\n}\n```\n%%\n',
    )
    notes.write(
        "memory/picture.md", f"A photo of the pier\n\ndata:image/png;base64,{'iVBORw0KGgo' * 40}\n{'QUJD' * 64}\n"
    )
    memory = notes.open()
    assert memory.search("lighthouse")[0].citation == "memory/drawing.excalidraw.md#L5"
    assert not any('"' in hit.text for hit in memory.search("elements excalidraw type", 20))
    memory.sync()
    assert memory.status().lines == 5  # the front matter, both headings, the text element and the caption
