from __future__ import annotations

import itertools
import os
import sqlite3
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta

import msgspec
import pytest

from homarus.memory import Memory
from homarus.memory.memory import NoDay
from homarus.memory.results import parse_citation
from homarus.memory.settings import MemorySettings, QuerySettings
from homarus.storage.sqlite import transaction


def found(answer):
    return [hit.citation for hit in answer]


def test_a_hit_says_everything(notes):
    notes.write(
        "memory/2026-05-08.md",
        "# 2026-05-08\n\n## Retain\n- O(c=0.9) @Peter: Prefers short replies on WhatsApp.\n- other\n",
    )
    memory = notes.open()
    hit = memory.search("short replies WhatsApp")[0]
    assert (hit.path, hit.start_line, hit.end_line) == ("memory/2026-05-08.md", 4, 4)
    assert hit.citation == "memory/2026-05-08.md#L4"
    assert "Prefers short replies" in hit.text
    assert hit.kind == "opinion"
    assert hit.timestamp == "2026-05-08"
    assert hit.entities == ("Peter",)
    assert hit.why
    assert 0.9 <= hit.score <= 1
    assert hit.source == "memory"


def test_the_index_lies_in_the_workspace_and_is_derived(notes):
    notes.write("MEMORY.md", "The boat is called Marlene.\n")
    memory = notes.open()
    assert found(memory.search("boat")) == ["MEMORY.md#L1"]
    index = notes.root / ".memory" / "index.sqlite"
    assert index.exists()
    memory.close()
    for name in (index, index.with_name("index.sqlite-wal"), index.with_name("index.sqlite-shm")):
        name.unlink(missing_ok=True)
    assert found(notes.open().search("boat")) == ["MEMORY.md#L1"]


def test_a_deleted_index_is_rebuilt_while_open(notes):
    notes.write("MEMORY.md", "The boat is called Marlene.\n")
    memory = notes.open()
    memory.search("boat")
    for path in (notes.root / ".memory").iterdir():
        path.unlink()
    assert found(memory.search("boat")) == ["MEMORY.md#L1"]
    assert (notes.root / ".memory" / "index.sqlite").exists()


@pytest.mark.parametrize("damage", [b"", b"garbage" * 1000, b"SQLite format 3\x00" + b"\x00" * 4000])
def test_a_damaged_index_is_rebuilt(notes, damage):
    notes.write("MEMORY.md", "The boat is called Marlene.\n")
    first = notes.open()
    first.search("boat")
    first.close()
    (notes.root / ".memory" / "index.sqlite").write_bytes(damage)
    for name in ("index.sqlite-wal", "index.sqlite-shm"):
        (notes.root / ".memory" / name).unlink(missing_ok=True)
    assert found(notes.open().search("boat")) == ["MEMORY.md#L1"]


def test_damage_deep_inside_the_file_is_healed(notes):
    for number in range(40):
        notes.write(f"memory/n{number}.md", "\n".join(f"line {i} of note {number} about boats" for i in range(50)))
    first = notes.open()
    first.search("boats")
    first.close()
    path = notes.root / ".memory" / "index.sqlite"
    data = bytearray(path.read_bytes())
    for page in range(4096 * 3, len(data), 4096):
        data[page : page + 200] = os.urandom(200)
    path.write_bytes(data)
    answer = notes.open().search("boats note 7")
    assert answer.hits


def test_a_fresh_line_is_found_at_once(notes):
    path = notes.write("memory/2026-06-15.md", "- nothing yet\n")
    memory = notes.open()
    memory.search("nothing")
    for number in range(20):
        with path.open("a") as handle:
            handle.write(f"- the word of the moment is zebra{number}\n")
        assert found(memory.search(f"zebra{number}")) == [f"memory/2026-06-15.md#L{number + 2}"]


def test_edits_renames_and_deletions_are_followed(notes):
    path = notes.write("memory/a.md", "old text about apples\n")
    memory = notes.open()
    assert memory.search("apples")
    path.write_text("new text about pears!\n")
    assert not memory.search("apples")
    assert memory.search("pears")
    temp = path.with_suffix(".tmp")
    temp.write_text("text about plums\n")
    temp.replace(path)
    assert memory.search("plums")
    path.rename(path.with_name("b.md"))
    assert found(memory.search("plums")) == ["memory/b.md#L1"]
    path.with_name("b.md").unlink()
    assert not memory.search("plums")
    notes.write("memory/new/folder/c.md", "text about quinces\n")
    assert memory.search("quinces")
    notes.write("memory/new/folder/d.md", "text about figs\n")
    assert memory.search("figs")


def test_an_edit_that_keeps_size_and_time_is_seen(notes):
    path = notes.write("memory/a.md", "the color is red!\n")
    memory = notes.open()
    assert memory.search("red")
    state = path.stat()
    path.write_text("the color is tan!\n")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert memory.search("tan")
    assert not memory.search("red")


def test_unchanged_files_are_not_read_again(notes):
    notes.write("memory/a.md", "one\n")
    memory = notes.open()
    assert memory.sync().indexed == 1
    assert memory.sync().indexed == 0
    assert not memory.sync().changed
    assert memory.sync(force=True).indexed == 1


def test_line_numbers_match_the_editor(notes):
    notes.write("memory/crlf.md", "\ufefffirst apple\r\n\r\n\tsecond pear\r\n")
    notes.write("memory/front.md", "---\ntitle: x\n---\n\nthird plum\n")
    memory = notes.open()
    assert found(memory.search("apple")) == ["memory/crlf.md#L1"]
    assert found(memory.search("pear")) == ["memory/crlf.md#L3"]
    assert found(memory.search("plum")) == ["memory/front.md#L5"]


def test_a_giant_line_is_cited_once_with_the_right_part(notes):
    notes.write(
        "memory/dump.md",
        "start\n" + "filler words here " * 900 + "the needle42 is here " + "more filler " * 900 + "\nend\n",
    )
    (hit,) = notes.open().search("needle42")
    assert hit.citation == "memory/dump.md#L2"
    assert "needle42" in hit.text
    assert len(hit.text) < 800
    assert len({h.citation for h in notes.open().search("filler words", 10)}) == len(
        notes.open().search("filler words", 10)
    )


@pytest.mark.parametrize(
    "query", ["", "   ", "?!", "the", "AND OR NOT", '"', "NEAR(a b)", "col:x", "-", "*", "\x00", "a" * 5000]
)
def test_odd_queries_never_fail(notes, query):
    notes.write("MEMORY.md", "The boat is called Marlene, and or not near.\n")
    notes.open().search(query)
    notes.open().recall(query)


def test_questions_are_not_an_and_of_all_words(notes):
    notes.write("memory/a.md", "Anna bought a sailing boat in Kiel\n")
    assert notes.open().search("What kind of vehicle did Anna buy when she was in Kiel last summer?")


def test_min_score_never_hides_an_exact_match(notes):
    for number in range(50):
        notes.write(f"memory/n{number}.md", f"common words about the day {number}\n")
    notes.write("memory/x.md", "common words about the canary XK-4711-Z\n")
    memory = notes.open()
    assert found(memory.search("XK-4711-Z", min_score=0.99)) == ["memory/x.md#L1"]
    assert memory.search("common words xylophone", min_score=0.99).hits == ()
    assert memory.search("xylophone common").hits  # by default better a weak match than silence


def test_a_score_below_nothing_asks_for_the_newest_lines_as_well(notes):
    notes.write("memory/2026-01-02.md", "# Day\n\nthe boat is red\nthe cat is grey\n~~the dog is gone~~\n")
    notes.write("memory/2026-01-03.md", "the door is blue\n")
    memory = notes.open()
    assert found(memory.search("boat", min_score=0.0)) == ["memory/2026-01-02.md#L3"]
    all_of_it = ["memory/2026-01-02.md#L3", "memory/2026-01-03.md#L1", "memory/2026-01-02.md#L4"]
    assert found(memory.search("boat", min_score=-1.0)) == all_of_it
    assert found(memory.search("boat", 2, min_score=-1.0)) == all_of_it[:2]
    assert [hit.score for hit in memory.search("boat", min_score=-1.0)][1:] == [0.0, 0.0]


def test_old_notes_do_not_fade(notes):
    notes.write("memory/2016-01-01.md", "- the safe combination is 12-34-56\n")
    notes.write("memory/2026-06-14.md", "- the safe was painted; a combination of blue and green\n")
    assert found(notes.open().search("safe combination 12-34-56"))[0] == "memory/2016-01-01.md#L1"


def test_a_clock_that_jumps_changes_no_answer(notes):
    notes.write("memory/2026-06-01.md", "- the boat sails at noon\n")
    memory = notes.open()
    expected = found(memory.search("boat sails"))
    notes.clock.set(datetime(1999, 1, 1, tzinfo=UTC))
    assert found(memory.search("boat sails")) == expected
    notes.clock.set(datetime(2099, 1, 1, tzinfo=UTC))
    notes.write("memory/2026-06-02.md", "- the boat came back\n")
    assert "memory/2026-06-02.md#L1" in found(memory.search("boat came back"))


def test_relative_dates_count_from_the_injected_clock_and_zone(notes):
    notes.write("memory/2026-06-08.md", "- had lunch with Carla\n")
    notes.write("memory/2026-03-01.md", "- had lunch with Carla\n- and a dessert\n")
    memory = notes.open()
    assert found(memory.search("lunch with Carla last week"))[0] == "memory/2026-06-08.md#L1"
    notes.clock.set(datetime(2026, 6, 15, 0, 30, tzinfo=UTC) - timedelta(hours=1))
    assert memory.today() == date(2026, 6, 14)


def test_recency_counts_only_for_questions_about_now(notes):
    notes.write("memory/2025-01-10.md", "- Carla sings at the harbour office\n")
    notes.write("memory/2026-06-10.md", "- Carla sings at the market hall\n")
    memory = notes.open()
    now = {hit.path: hit.score for hit in memory.search("where does Carla sing now")}
    assert now["memory/2026-06-10.md"] > now["memory/2025-01-10.md"]
    ever = {hit.path: hit.score for hit in memory.search("where does Carla sing")}
    assert ever["memory/2026-06-10.md"] == ever["memory/2025-01-10.md"]


def test_since_until_and_as_of_are_hard(notes):
    notes.write("memory/2025-01-10.md", "- the rent is 800 euros\n")
    notes.write("memory/2026-01-10.md", "- the rent is 900 euros\n")
    notes.write("MEMORY.md", "the rent is paid monthly\n")
    memory = notes.open()
    assert found(memory.recall("rent", since="2025-06-01")) == ["memory/2026-01-10.md#L1"]
    assert found(memory.recall("rent", until=date(2025, 6, 1))) == ["memory/2025-01-10.md#L1"]
    assert "memory/2026-01-10.md#L1" not in found(memory.recall("rent", as_of="2025-06-01"))
    assert found(memory.recall("rent", since="365d")) == ["memory/2026-01-10.md#L1"]
    with pytest.raises(ValueError, match="soon"):
        memory.recall("rent", since="soon")


def test_superseded_facts(notes):
    notes.write("memory/2025-01-10.md", "## Retain\n- W(id=rent1) @Flat: The rent is 800 euros.\n")
    notes.write("memory/2026-01-10.md", "## Retain\n- W(sup=^rent1) @Flat: The rent is 900 euros.\n")
    memory = notes.open()
    assert found(memory.recall("what is the rent"))[0] == "memory/2026-01-10.md#L2"
    assert found(memory.recall("what is the rent", as_of="2025-06-01")) == ["memory/2025-01-10.md#L2"]
    assert found(memory.recall("what is the rent", as_of="2026-06-01")) == ["memory/2026-01-10.md#L2"]


def test_kinds_and_entities(notes):
    notes.write(
        "memory/2026-01-10.md",
        "- plain line about tea\n## Retain\n- O @Peter: Prefers tea in the morning.\n- W @Anna: Sells tea in Kiel.\n",
    )
    memory = notes.open()
    assert found(memory.recall("tea", kinds=["opinion"])) == ["memory/2026-01-10.md#L3"]
    assert found(memory.recall("tea", kinds=["W"])) == ["memory/2026-01-10.md#L4"]
    assert found(memory.recall("tea", entities=["Anna"])) == ["memory/2026-01-10.md#L4"]
    assert found(memory.recall("tea", entities=["Nobody"])) == []


def test_aliases_of_entity_pages(notes):
    notes.write("bank/entities/Melanie.md", "---\nname: Melanie\naliases: [Mel, Lanie]\n---\nPaints.\n")
    notes.write(
        "memory/2026-01-10.md",
        "- Melanie: I finished the lake painting\n\n- Dora: Hm\n- Carl: I finished a painting too\n",
    )
    assert found(notes.open().search("what painting did Lanie finish"))[0] == "memory/2026-01-10.md#L1"


def test_the_budget_is_kept_and_neighbours_merge(notes):
    notes.write("memory/2026-01-10.md", "".join(f"- note {n}: the boat has sail number {n}\n" for n in range(200)))
    memory = notes.open()
    for budget in (40, 200, 1000):
        answer = memory.recall("boat sail number", k=100, budget_tokens=budget)
        text = [line for hit in answer for line in hit.text.split("\n")]
        assert sum((len(line) + 3 + 3) // 4 for line in text) <= budget
        assert answer.tokens <= budget
    places = [(hit.start_line, hit.end_line) for hit in sorted(answer, key=lambda hit: hit.start_line)]
    assert all(after[0] > before[1] + 1 for before, after in itertools.pairwise(places))


def test_repeats_collapse(notes):
    line = "- Anna is allergic to walnuts and to cashew nuts\n"
    notes.write("memory/2026-01-10.md", line)
    notes.write("memory/2026-01-11.md", line)
    (hit,) = notes.open().recall("what is Anna allergic to")
    assert len(hit.also) == 1
    assert {hit.citation, *hit.also} == {"memory/2026-01-10.md#L1", "memory/2026-01-11.md#L1"}


def test_sessions_are_found_at_once_and_cannot_crowd_out_notes(notes, tmp_path):
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    transcript = sessions / "abc.jsonl"
    transcript.write_text('{"type":"session","version":3,"id":"abc","timestamp":"2026-06-01T00:00:00Z","cwd":"/"}\n')
    notes.write("memory/2026-01-10.md", "- the garden gate code is 1234\n")
    memory = notes.open(sessions=sessions)
    memory.search("gate")
    parent = "null"
    for number in range(60):
        with transcript.open("a") as handle:
            handle.write(
                f'{{"type":"message","id":"m{number}","parentId":{parent},"timestamp":"2026-06-01T00:00:00Z",'
                f'"message":{{"role":"user","content":"the garden gate code, question {number} zz{number}"}}}}\n'
            )
        parent = f'"m{number}"'
        if number % 20 == 0:
            assert found(memory.search(f"zz{number}")) == [f"sessions/abc.jsonl#L{number + 2}"]
    answer = memory.search("garden gate code", 6)
    sources = [hit.source for hit in answer]
    assert "memory" in sources
    assert sources.count("sessions") <= 5
    assert [hit.source for hit in memory.search("garden gate code", sources=["memory"])] == ["memory"]


def test_a_compacted_transcript_starts_over(notes, tmp_path):
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    line = '{{"role":"user","content":"talk about {}","timestamp":"2026-06-01T00:00:00Z"}}\n'
    (sessions / "a.jsonl").write_text("".join(line.format(f"apples{n}") for n in range(10)))
    memory = notes.open(sessions=sessions)
    assert memory.search("apples9")
    (sessions / "a.jsonl").write_text(line.format("pears"))
    assert memory.search("pears")
    assert not memory.search("apples9")


def test_the_background_waits_for_enough_messages(notes, tmp_path):
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    line = '{"role":"user","content":"hello","timestamp":"2026-06-01T00:00:00Z"}\n'
    (sessions / "a.jsonl").write_text(line)
    memory = notes.open(sessions=sessions)
    memory.sync(background=True)
    with (sessions / "a.jsonl").open("a") as handle:
        handle.write(line * 49)
    assert memory.sync(background=True).waiting == 1
    with (sessions / "a.jsonl").open("a") as handle:
        handle.write(line)
    assert memory.sync(background=True).waiting == 0


def test_secrets_are_not_in_the_index(notes):
    notes.write("memory/a.md", "the router password: hunter22x is set\n")
    memory = notes.open()
    assert "hunter22x" not in memory.search("router password")[0].text
    assert not any("hunter22x" in hit.text for hit in memory.search("hunter22x"))
    memory.close()
    assert b"hunter22x" not in (notes.root / ".memory" / "index.sqlite").read_bytes()


def test_a_search_during_a_rebuild_sees_the_old_index_or_says_stale(notes):
    for number in range(30):
        notes.write(f"memory/n{number}.md", f"the boat number {number}\n")
    first, second = notes.open(), notes.open()
    assert first.search("boat number 7", 3)
    conn, _ = first._database.connection()
    with transaction(conn):
        conn.execute("DELETE FROM files")
        conn.execute("DELETE FROM lines")
        notes.write("memory/new.md", "the ship number 31\n")
        answer = second.search("boat number 7")
        assert answer.hits
        assert "another process" in answer.stale
    assert not first.search("ship number 31").stale


def test_two_processes_on_one_index(notes):
    code = (
        "import sys; from homarus.memory import Memory\n"
        "m = Memory.open(sys.argv[1], provider='none')\n"
        "for n in range(15):\n"
        "    open(f'{sys.argv[1]}/memory/{sys.argv[2]}{n}.md', 'w').write(f'fact {sys.argv[2]} {n} about boats\\n')\n"
        "    assert m.search(f'fact {sys.argv[2]} {n} boats'), n\n"
    )
    (notes.root / "memory").mkdir()
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = [subprocess.Popen([sys.executable, "-c", code, str(notes.root), name], env=env) for name in ("aa", "bb")]
    assert [process.wait(300) for process in running] == [0, 0]
    memory = notes.open()
    assert memory.sync().problems == []
    assert memory.status().files == 30


def test_a_half_written_note_is_indexed_as_far_as_it_goes(notes):
    path = notes.root / "memory" / "a.md"
    path.parent.mkdir()
    path.write_bytes("caf\u00e9 on the corner\nnext l\u00ef".encode()[:-1])
    memory = notes.open()
    assert found(memory.search("cafe corner")) == ["memory/a.md#L1"]
    path.write_text("café on the corner\nnext line is whole\n")
    assert found(memory.search("line whole")) == ["memory/a.md#L2"]


def test_an_index_that_cannot_be_written_stays_in_memory(notes, tmp_path):
    notes.write("MEMORY.md", "The boat is called Marlene.\n")
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    answer = notes.open(database=blocked / "index.sqlite").search("boat")
    assert found(answer) == ["MEMORY.md#L1"]
    assert "in memory only" in answer.degraded


def test_status(notes):
    notes.write("memory/a.md", "## Retain\n- W @A: Something is true here.\n")
    memory = notes.open()
    assert "1 file changed" in memory.status().stale
    memory.sync()
    status = memory.status()
    assert (status.files, status.facts, status.stale, status.provider) == (1, 1, "", "none")


def test_explain(notes):
    notes.write(
        "memory/a.md", "the boat is red\nnothing here\n\n" + "\n".join(f"filler {n}" for n in range(900)) + "\n"
    )
    memory = notes.open()
    best = memory.explain("red boat", "memory/a.md#L1")
    assert best.rank == 1
    assert {name for name, _, _ in best.parts} >= {"word", "window"}
    assert {term: here for term, _, here in best.terms} == {"red": True, "boat": True}
    assert memory.explain("red boat", "memory/a.md#L900").rank is None
    assert memory.explain("red boat", "memory/none.md#L1").notes


def test_language_mix(notes):
    notes.write(
        "memory/a.md",
        "昨日は東京タワーに行きました\n우리는 서울에서 만났다\nMüller wohnt in Köln\nfix parseHttpHeader in net_utils.py\n",
    )
    memory = notes.open()
    assert found(memory.search("東京タワー"))[0] == "memory/a.md#L1"
    assert found(memory.search("서울에서"))[0] == "memory/a.md#L2"
    assert found(memory.search("muller koln"))[0] == "memory/a.md#L3"
    assert found(memory.search("http header"))[0] == "memory/a.md#L4"
    assert found(memory.search("net_utils.py"))[0] == "memory/a.md#L4"


def test_headings_and_file_names_help(notes):
    notes.write(
        "memory/projects/phoenix.md",
        "# Phoenix\n\n## Deployment\n- runs on three nodes in Falkenstein\n\n## Budget\n- twelve thousand euros\n",
    )
    notes.write(
        "memory/projects/heron.md",
        "# Heron\n\n## Deployment\n- runs on two nodes in Helsinki\n\n## Budget\n- nine thousand euros\n",
    )
    memory = notes.open()
    assert found(memory.search("budget of phoenix"))[0].startswith("memory/projects/phoenix.md#L")
    assert "twelve" in memory.recall("what is the budget of phoenix", k=3)[0].text


def test_other_threads_may_search(notes):
    from concurrent.futures import ThreadPoolExecutor

    notes.write("MEMORY.md", "The boat is called Marlene.\n")
    memory = notes.open()
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: bool(memory.search("boat")), range(20)))


def test_the_package_is_lazy():
    code = "import sys, homarus.memory; assert 'sqlite3' not in sys.modules; assert 'numpy' not in sys.modules"
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )


def test_settings_read_the_names_of_openclaw():
    text = b'{"query":{"maxResults":3,"hybrid":{"vectorWeight":0.5,"mmr":{"enabled":true,"lambda":0.5}}},"extraPaths":["a",{"path":"b","pattern":"*.md"}]}'
    settings = msgspec.json.decode(text, type=MemorySettings)
    assert settings.query.max_results == 3
    assert settings.query.hybrid.mmr.lambda_ == 0.5
    assert settings.query.min_score is QuerySettings().min_score is None


def test_tables_keep_the_names_of_openclaw(notes):
    notes.write("MEMORY.md", "The boat is called Marlene.\n")
    memory = notes.open()
    memory.sync()
    memory.close()
    conn = sqlite3.connect(notes.root / ".memory" / "index.sqlite")
    columns = {
        table: {row[1] for row in conn.execute(f"PRAGMA table_info({table})")}
        for table in ("meta", "files", "chunks", "embedding_cache", "chunks_fts")
    }
    assert columns["meta"] == {"key", "value"}
    assert columns["files"] >= {"path", "source", "hash", "mtime", "size"}
    assert columns["chunks"] >= {
        "id",
        "path",
        "source",
        "start_line",
        "end_line",
        "hash",
        "model",
        "text",
        "embedding",
        "updated_at",
    }
    assert columns["embedding_cache"] >= {
        "provider",
        "model",
        "provider_key",
        "hash",
        "embedding",
        "dims",
        "updated_at",
    }
    row = conn.execute("SELECT path, start_line, end_line FROM chunks_fts WHERE chunks_fts MATCH 'boat'").fetchone()
    assert row == ("MEMORY.md", 1, 1)
    conn.close()


def test_memory_opens_nothing_before_first_use(tmp_path):
    Memory.open(tmp_path / "nowhere").close()
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    "line",
    [
        "- W(sup=memory/a.md#L99999999999999999999999999) @Flat: The rent is 900 euros.",
        "- W(sup=memory/a.md#L²) @Flat: The rent is 900 euros.",
        "- W(sup=#L) @Flat: The rent is 900 euros.",
        "- W(sup=^) @Flat: The rent is 900 euros.",
        "- O(c=nan) @Flat: The rent is 900 euros.",
        "- O(c=1e999) @Flat: The rent is 900 euros.",
        "- W(t=99999-99-99..0000-00-00) @Flat: The rent is 900 euros.",
        "- W(" + "a=b," * 5000 + ") @Flat: The rent is 900 euros.",
        "- W @{" + "x" * 50_000 + "}: The rent is 900 euros.",
    ],
)
def test_no_line_in_a_note_can_break_a_search(notes, line):
    notes.write("memory/2026-06-01.md", f"## Retain\n{line}\n")
    notes.write("memory/a.md", "The boat is red.\n")
    memory = notes.open()
    assert memory.search("boat").hits
    assert memory.search("rent").hits
    assert memory.recall("rent in euros", as_of="2026-06-20").hits


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("a.md#L3", ("a.md", 3, None)),
        ("a.md#L3-L9", ("a.md", 3, 9)),
        ("a.md#L3-9", ("a.md", 3, 9)),
        ("a.md", ("a.md", None, None)),
        ("a.md#Lx", ("a.md", None, None)),
        ("a#Lb.md#L2", ("a#Lb.md", 2, None)),
        ("a.md#L" + "9" * 5000, ("a.md", 1_000_000_000, None)),
        ("", ("", None, None)),
    ],
)
def test_citations_are_read_whatever_they_say(given, found):
    assert parse_citation(given) == found


@pytest.mark.parametrize("given", ["soon", "2026-13-01", "²d", "9" * 5000 + "x", "d"])
def test_only_a_day_is_blamed_for_being_no_day(notes, given):
    with pytest.raises(NoDay, match="is no day; write YYYY-MM-DD"):
        notes.open().recall("rent", since=given)
    assert len(notes.open().recall("rent", since="9" * 5000 + "d")) == 0


def weak(notes):
    notes.write("memory/a.md", "".join(f"- the harbour master wrote letter {n} about the pier\n" for n in range(8)))
    notes.write("memory/b.md", "- Sam took the drill\n- the toolbox stands in the shed\n")


def test_a_score_that_the_settings_name_is_a_floor(notes):
    weak(notes)
    query = "zebra quagga okapi harbour"
    assert 0 < notes.open().search(query)[0].score < 0.35
    settings = MemorySettings(query=QuerySettings(min_score=0.35))
    assert not notes.open(settings=settings).search(query)
    assert notes.open(settings=settings).search(query, min_score=0.0)
    assert notes.open(settings=settings).search("harbour pier letter 3")


def test_a_weak_match_is_returned_rather_than_nothing(notes):
    pytest.importorskip("numpy")
    from tests.memory.fakes import FakeEmbedder

    weak(notes)
    far = FakeEmbedder(dims=64)
    answer = notes.open(provider=far).search("Who has my power tool?")
    assert answer and answer[0].score < 0.35
    assert not notes.open(provider=far).search("Who has my power tool?", min_score=0.9)
    by_words = notes.open().search("Who has my power tool?")
    assert [hit.text for hit in by_words] == ["the toolbox stands in the shed"]
    assert not notes.open().search("zebra quagga")


def test_sources_of_the_settings_are_the_only_ones_searched(notes, tmp_path):
    notes.write("MEMORY.md", "The boat is called Marlene.\n")
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    said = '{"type":"message","id":"1","message":{"role":"user","content":"Our boat is called Marlene."}}\n'
    (sessions / "s1.jsonl").write_text(said)
    for sources, paths in (
        (("sessions",), {"sessions/s1.jsonl"}),
        (("memory",), {"MEMORY.md", "sessions/s1.jsonl"}),  # a transcript folder that is given is searched
        (("memory", "sessions"), {"MEMORY.md", "sessions/s1.jsonl"}),
    ):
        memory = notes.open(settings=MemorySettings(sources=sources), sessions=sessions)
        assert {hit.path for hit in memory.search("boat Marlene")} == paths
        assert {hit.path for hit in memory.recall("boat Marlene")} == paths
    assert notes.open(settings=MemorySettings(sources=("sessions",))).get("MEMORY.md").status == "ok"


@pytest.mark.parametrize(
    ("query", "chunks"),
    [
        ({}, False),
        ({"hybrid": {"enabled": True, "vectorWeight": 0.7, "textWeight": 0.3}}, False),  # OpenClaw's defaults: no wish
        ({"hybrid": {"mmr": {"enabled": True}}}, True),
        ({"hybrid": {"temporalDecay": {"enabled": True}}}, True),
        ({"hybrid": {"vectorWeight": 0.5}}, True),
        ({"hybrid": {"vectorWeight": 0.5}, "ranking": "fused"}, False),
        ({"ranking": "hybrid"}, True),
    ],
)
def test_a_knob_that_only_chunk_ranking_has_chooses_it(notes, query, chunks):
    notes.write("memory/a.md", "The boat is called Marlene.\n")
    settings = msgspec.convert({"query": query}, MemorySettings)
    assert (notes.open(settings=settings).search("boat")[0].kind == "chunk") is chunks
