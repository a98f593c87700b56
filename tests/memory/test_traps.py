"""The tricky behaviours of recall over Markdown, one test each at least; `test_every_trap_has_a_test` counts them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import threading
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.memory.fakes import FakeEmbedder

from homarus.memory import Memory
from homarus.memory.bank.grammar import entities_in
from homarus.memory.note_parser import chunk_lines, parse_note, split_lines
from homarus.memory.settings import MemorySettings, Remote
from homarus.memory.timex import find_spans
from homarus.memory.watch import watch

TRAPS = range(1, 19)


def test_every_trap_has_a_test():
    """A trap is covered by a test whose name holds its number, here or where the code lives that it is about."""
    found: set[int] = set()
    for path in Path(__file__).parent.parent.rglob("test_*.py"):
        found |= {int(number) for number in re.findall(r"def test_trap(\d+)_", path.read_text(encoding="utf-8"))}
    assert found == set(TRAPS)


def paths(answer) -> list[str]:
    return [hit.citation for hit in answer]


@pytest.mark.parametrize(
    "query",
    ["", " ", "AND", "OR NOT NEAR", "NEAR(boat, 2)", '"', '"boat', "boat*", "-boat", "^boat", "text:boat", "(", ")", "{}",
     "boat AND", "* * *", "\0", "'; DROP TABLE lines; --", "a" * 100_000, "\ud800", "-" * 500, "?!…", "boat " * 3000],
)  # fmt: skip
def test_trap01_every_token_is_quoted_and_no_query_fails(notes, query):
    notes.write("memory/a.md", "The boat AND the NEAR harbour are -not- (far).\nOR so.\n")
    for answer in (notes.open().search(query), notes.open().recall(query)):
        assert all(0 <= hit.score <= 1 for hit in answer)  # bm25() of FTS5 is negative; nobody sees that


def test_trap01_operators_are_words(notes):
    notes.write("memory/a.md", "Use NOT and NEAR with care.\n")
    notes.write("memory/b.md", "The boat is red.\n")
    assert paths(notes.open().search("NEAR"))[:1] == ["memory/a.md#L1"]


def test_trap02_a_question_is_no_and_of_its_words(notes):
    notes.write("memory/a.md", "Decision: the billing service moves to PostgreSQL.\n")
    assert notes.open().search("could you tell me which database our billing service is going to use next year?")


def test_trap03_age_and_the_least_score_do_not_empty_a_healthy_index(notes):
    for year in range(2015, 2026):
        notes.write(f"memory/{year}-02-03.md", f"The boat trip of {year} went to harbour number {year - 2000}.\n")
    for day in (datetime(1999, 1, 1, tzinfo=UTC), datetime(2090, 1, 1, tzinfo=UTC)):
        notes.clock.set(day)
        answer = notes.open().search("boat trip harbour 17", min_score=0.35)
        assert answer[0].path == "memory/2017-02-03.md"


@pytest.mark.parametrize("text", ["one\ntwo\n", "one\ntwo", "one\ntwo\n\n", "\n\none\n"])
def test_trap04_no_range_ends_after_the_last_line(notes, text):
    notes.write("memory/a.md", text)
    count = len(split_lines(text))
    assert all(chunk.end_line <= count for chunk in chunk_lines(split_lines(text)))
    assert all(hit.end_line <= count for hit in notes.open().search("one two", min_score=0.0))


def test_trap05_slices_of_one_long_line_are_cited_once(notes):
    dump = json.dumps({f"key{number}": f"value number {number}" for number in range(40_000)})
    notes.write("memory/dump.md", f"# Dump\n{dump}\nafter\n")
    answer = notes.open().search("key31415 value number 31415", 5)
    assert [(hit.start_line, hit.end_line) for hit in answer if hit.path == "memory/dump.md"][:1] == [(2, 2)]
    assert len({hit.citation for hit in answer}) == len(answer)
    assert "31415" in answer[0].text
    assert len(answer[0].text) < 4000


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("one\r\ntwo\r\nthe boat\r\n", 3),
        ("\ufeffone\nthe boat\n", 2),
        ("---\ntitle: x\ntags: [a]\n---\n\nthe boat\n", 6),
        ("one\r\n\r\nthree\nthe boat", 4),
        ("\tone\n\t- the boat\n", 2),
        ("one\x0bstill one\x0cstill one\u2028still one\nthe boat\n", 2),
        ("one\rstill one for most editors\nthe boat\n", 2),
    ],
)
def test_trap06_line_numbers_are_the_editors(notes, text, line):
    notes.write("memory/a.md", text)
    memory = notes.open()
    (hit,) = memory.search("boat", 1)
    assert hit.start_line <= line <= hit.end_line
    assert "the boat" in memory.get("memory/a.md", line, 1).text
    assert any(hit.start_line == line for hit in memory.search("the boat", 3))


def test_trap07_searches_during_rebuilds_in_two_processes_are_right_or_say_stale(notes):
    for number in range(60):
        notes.write(f"memory/n{number}.md", "".join(f"- harbour {number} berth {line}\n" for line in range(20)))
    with notes.open() as first:
        first.sync()
    failures: list[BaseException] = []

    def rebuild() -> None:
        try:
            with Memory.open(notes.root, provider="none") as writer:
                for _ in range(3):
                    writer.sync(force=True)
        except BaseException as problem:  # noqa: BLE001 - told to the test
            failures.append(problem)

    writers = [threading.Thread(target=rebuild) for _ in range(2)]
    for writer in writers:
        writer.start()
    with notes.open() as reader:
        while any(writer.is_alive() for writer in writers):
            answer = reader.search("harbour 7 berth 3", 3)
            assert answer.stale or (answer[0].path, "berth 3" in answer[0].text) == ("memory/n7.md", True)
    for writer in writers:
        writer.join()
    assert failures == []


def test_trap08_another_model_length_address_or_header_never_meets_old_vectors(notes):
    from homarus.memory.embed.remote import RemoteEmbedder

    notes.write("memory/a.md", "The boat is red.\nThe car is old.\n")
    for embedder in (FakeEmbedder(), FakeEmbedder(model="m2"), FakeEmbedder(dims=8), FakeEmbedder(dims=64)):
        memory = notes.open(provider=embedder)
        memory.sync()
        assert memory.search("boat")[0].citation == "memory/a.md#L1"
        memory.close()
        conn = sqlite3.connect(notes.root / ".memory" / "index.sqlite")
        assert {length for (length,) in conn.execute("SELECT length(vec) FROM line_vec")} == {2 * embedder.dims}
        conn.close()

    def key(**remote: object) -> str:
        settings = MemorySettings(model="m", remote=Remote(api_key="k", **remote))  # type: ignore[arg-type]
        return RemoteEmbedder("openai", settings).key

    keys = {key(), key(base_url="http://x/v1"), key(headers={"X-Dims": "9"}), key(headers={"X-Dims": "8"})}
    assert len(keys) == 4
    assert RemoteEmbedder("voyage", MemorySettings(remote=Remote(api_key="k"))).key not in keys  # it has an input type


async def test_trap09_what_a_watcher_misses_a_search_finds(notes):
    path = notes.write("memory/a.md", "The boat is red.\n")
    memory = notes.open()
    assert memory.search("red")

    async def deaf(_folders, _debounce):
        await asyncio.sleep(3600)
        yield

    task = asyncio.create_task(watch(memory, changes=deaf))
    state = path.stat()
    swap = notes.write("memory/.a.md.swp", "The boat is tan.\n")  # as an editor saves: write aside, then rename
    os.replace(swap, path)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))  # and the clock of the disk stands still
    assert memory.search("tan")[0].text == "The boat is tan."
    assert not [hit for hit in memory.search("red") if "red" in hit.text]
    path.unlink()
    assert not memory.search("tan").hits
    future = notes.write("memory/b.md", "The anchor is heavy.\n")
    os.utime(future, (4_000_000_000, 4_000_000_000))
    assert memory.search("anchor")
    os.utime(future, (0, 0))
    future.write_text("The anchor is light.\n")
    assert memory.search("anchor")[0].text == "The anchor is light."
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def said(number: int, text: str, parent: int | None = None) -> str:
    before = str(number - 1 if parent is None else parent)
    message = {"role": "user", "content": [{"type": "text", "text": text}]}
    return json.dumps({"type": "message", "id": str(number), "parentId": before, "message": message})


def test_trap10_transcripts_half_written_rewound_compacted_and_full_of_recalled_text(notes, tmp_path):
    folder = tmp_path / "sessions"
    folder.mkdir()
    path = folder / "s.jsonl"
    whole, half = said(1, "The zeppelin is silver.") + "\n", said(2, "The airship is golden.")
    path.write_text(whole + half[:40])
    memory = notes.open(sessions=folder)
    assert paths(memory.search("zeppelin")) == ["sessions/s.jsonl#L1"]
    assert not memory.search("airship").hits
    path.write_text(whole + half + "\n")
    assert paths(memory.search("airship")) == ["sessions/s.jsonl#L2"]
    path.write_text(whole + half + "\n" + said(3, "The balloon is green.", parent=1) + "\n")  # the airship never was
    assert paths(memory.search("balloon")) == ["sessions/s.jsonl#L3"]
    assert not memory.search("airship").hits
    path.write_text(said(9, "Summary: we spoke of vehicles.") + "\n")  # compacted: the file shrank
    assert not memory.search("balloon").hits
    assert paths(memory.search("vehicles")) == ["sessions/s.jsonl#L1"]
    recalled = "<recalled-memory>\n- The submarine is yellow.\n</recalled-memory>\nWhat else?"
    with path.open("a") as file:
        file.write(said(10, recalled, parent=9) + "\n")
    assert not [hit for hit in memory.search("submarine yellow") if "yellow" in hit.text]


TODAY = date(2026, 6, 15)


@pytest.mark.parametrize(
    "text",
    ["I may go home", "we march on", "May asked Jun about it", "August Strindberg wrote plays",
     "April called", "she may not"],
)  # fmt: skip
def test_trap12_names_and_verbs_are_no_months(text):
    assert find_spans(text, TODAY) == []


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("what happened in May", date(2026, 5, 1), date(2026, 5, 31)),
        ("in March 2024", date(2024, 3, 1), date(2024, 3, 31)),
        ("on 8 May 2023", date(2023, 5, 8), date(2023, 5, 8)),
        ("in 2022", date(2022, 1, 1), date(2022, 12, 31)),
    ],
)
def test_trap12_months_years_and_days_are_ranges(text, first, last):
    spans = find_spans(text, TODAY)
    assert (spans[0].first, spans[0].last) == (first, last)


def test_trap12_today_is_where_the_user_is_half_an_hour_after_midnight(notes):
    notes.clock.set(datetime(2026, 6, 15, 22, 30, tzinfo=UTC))  # 00:30 of the 16th in Berlin
    memory = Memory.open(notes.root, clock=notes.clock, tz=ZoneInfo("Europe/Berlin"), provider="none")
    assert memory.today() == date(2026, 6, 16)
    notes.write("memory/2026-06-15.md", "We painted the boat.\n")
    notes.write("memory/2026-06-10.md", "We painted the boat.\n")
    assert memory.recall("what did we paint yesterday", k=1)[0].path == "memory/2026-06-15.md"
    memory.close()


@pytest.mark.parametrize(
    "text", ["mail ada@example.org", "install `@scope/pkg`", "npm i @scope/pkg", "`@ada`", "a @ b"]
)
def test_trap13_what_only_looks_like_an_entity(text):
    assert entities_in(text) == ()
    assert [unit.entities for unit in parse_note("memory/a.md", ["```", "@decorator", "```", text])] == [(), ()]


def test_trap14_one_name_two_people_and_short_forms(notes):
    notes.write("memory/a.md", "Melanie: I moved to Bergen.\n")
    notes.write("memory/b.md", "Melvin: I moved to Lisbon.\n")
    memory = notes.open()
    assert {hit.path for hit in memory.search("Where did Mel move?")} == {
        "memory/a.md",
        "memory/b.md",
    }  # nobody is merged
    assert memory.search("Where did Melanie move?")[0].path == "memory/a.md"
    notes.write("bank/entities/Melanie.md", "---\nname: Melanie\naliases: [Mel]\n---\n")
    assert memory.search("Where did Mel move?")[0].path == "memory/a.md"


@pytest.mark.parametrize(
    "path", ["memory/../../etc/passwd.md", "memory/../AGENTS.md", "memory/link/x.md", "MEMORY.MD", "Memory/a.md"]
)
def test_trap16_get_stays_inside_on_any_file_system(notes, tmp_path, path):
    notes.write("AGENTS.md", "secret\n")
    notes.write("memory/a.md", "fine\n")
    (tmp_path / "x.md").write_text("secret\n")
    (notes.root / "memory" / "link").symlink_to(tmp_path)
    assert notes.open().get(path).text == ""


def test_trap17_wordllama_is_read_from_its_wheel_without_a_network(monkeypatch):
    pytest.importorskip("wordllama")
    import socket

    from homarus.memory.embed.local import WordLlama

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refused)
    assert WordLlama().encode(["a boat"]).shape == (1, 256)


def test_trap07_a_deleted_index_and_a_half_written_note(notes):
    path = notes.write("memory/a.md", "- The boat is called Mar")
    memory = notes.open()
    assert memory.search("boat")
    for file in (notes.root / ".memory").iterdir():
        file.unlink()
    path.write_text("- The boat is called Marlene.\n- The anchor is heavy.\n")
    assert memory.search("Marlene")[0].citation == "memory/a.md#L1"
    assert memory.search("anchor")[0].citation == "memory/a.md#L2"


@pytest.mark.parametrize("days", [-4000, -1, 1, 4000])
def test_trap03_a_clock_that_jumps_either_way_changes_no_plain_answer(notes, days):
    notes.write("memory/2026-06-01.md", "The boat is called Marlene.\n")
    memory = notes.open()
    before = paths(memory.search("what is the boat called"))
    notes.clock.set(notes.clock.now() + timedelta(days=days))
    assert paths(memory.search("what is the boat called")) == before
    notes.write("memory/2026-06-02.md", "The anchor is heavy.\n")
    assert memory.search("anchor").hits
    assert memory.search("anchor").stale == ""


def test_trap18_int8_weights_are_scaled_channel_by_channel(tmp_path):
    from homarus.memory.embed.export import shrink

    asked: list[dict[str, object]] = []
    shrink(tmp_path / "full.onnx", tmp_path / "small.onnx", lambda *_, **options: asked.append(options))
    assert [options["per_channel"] for options in asked] == [True]


def test_trap18_quantised_channel_by_channel_keeps_the_direction(tmp_path):
    onnx = pytest.importorskip("onnx")
    np, runtime = pytest.importorskip("numpy"), pytest.importorskip("onnxruntime")
    from onnxruntime.quantization import quantize_dynamic

    from homarus.memory.embed.export import shrink

    rnd = np.random.default_rng(1)
    weights = (rnd.standard_normal((64, 64)) * np.logspace(-2, 1, 64)).astype(np.float32)  # channels of every size
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])],
        "one",
        [value("x", onnx.TensorProto.FLOAT, [None, 64])],
        [value("y", onnx.TensorProto.FLOAT, [None, 64])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    full, small = tmp_path / "full.onnx", tmp_path / "small.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), str(full))
    shrink(full, small, quantize_dynamic)
    rows = rnd.standard_normal((50, 64)).astype(np.float32)
    (made,) = runtime.InferenceSession(str(small)).run(None, {"x": rows})
    error = np.linalg.norm((made - rows @ weights) / np.linalg.norm(weights, axis=0), axis=1)
    assert float(error.mean()) < 0.3
