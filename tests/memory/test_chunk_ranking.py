"""OpenClaw's chunk ranking: every knob does what its name says, with vectors of chunks and without any."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, date, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.memory.fakes import FakeEmbedder

from homarus.memory.chunk_ranking import Scored, decay, mmr
from homarus.memory.settings import MemorySettings


def settings(query: dict[str, Any] | None = None, **hybrid: Any) -> MemorySettings:
    wanted = {"query": {"ranking": "hybrid", "minScore": 0.1, "hybrid": hybrid, **(query or {})}}
    return msgspec.convert(wanted, MemorySettings)


def fill(notes) -> None:
    notes.write("memory/2020-01-01.md", "the yacht is red\n")
    notes.write("memory/2026-06-14.md", "the yacht is blue and old\n")
    notes.write("memory/cars.md", "the automobile is green\n")


def paths(answer) -> list[str]:
    return [hit.path for hit in answer]


def test_whole_chunks_with_both_scores(notes):
    fill(notes)
    memory = notes.open(settings=settings(), provider=FakeEmbedder())
    answer = memory.search("red yacht")
    assert (answer.mode, answer[0].path, answer[0].kind) == ("hybrid-chunks", "memory/2020-01-01.md", "chunk")
    best = answer[0]
    assert best.score == pytest.approx(0.7 * best.vector_score + 0.3 * best.text_score, abs=1e-3)


def test_chunks_have_vectors_of_their_own(notes):
    fill(notes)
    embedder = FakeEmbedder()
    memory = notes.open(settings=settings(), provider=embedder)
    memory.sync()
    asked = sum(len(call) for call in embedder.calls)
    memory.sync(force=True)
    assert sum(len(call) for call in embedder.calls) == asked  # all from the cache
    memory.close()
    conn = sqlite3.connect(notes.root / ".memory" / "index.sqlite")
    rows = conn.execute("SELECT model, length(embedding) FROM chunks").fetchall()
    conn.close()
    assert rows == [("fake|m1|k", 64)] * 3


def test_a_chunk_is_found_by_its_meaning_as_a_whole(notes):
    fill(notes)
    answer = notes.open(settings=settings(), provider=FakeEmbedder()).search("vehicle")  # only `automobile` is written
    assert answer[0].path == "memory/cars.md"
    assert answer[0].text_score == 0


def test_another_model_never_meets_old_chunk_vectors(notes):
    fill(notes)
    with notes.open(settings=settings(), provider=FakeEmbedder(dims=32)) as memory:
        memory.sync()
    other = FakeEmbedder(dims=16, model="m2")
    assert notes.open(settings=settings(), provider=other).search("red yacht")[0].path == "memory/2020-01-01.md"


def test_weights(notes):
    fill(notes)
    words = notes.open(settings=settings(vectorWeight=0, textWeight=5), provider=FakeEmbedder()).search("red yacht")
    assert words[0].score == pytest.approx(words[0].text_score)
    meaning = notes.open(settings=settings(vectorWeight=2, textWeight=0), provider=FakeEmbedder()).search("red yacht")
    assert meaning[0].score == pytest.approx(meaning[0].vector_score, abs=1e-3)
    neither = notes.open(settings=settings(vectorWeight=0, textWeight=0), provider=FakeEmbedder()).search("red yacht")
    assert 0 < neither[0].score <= 1


def test_hybrid_switched_off_is_vectors_alone_and_words_without_an_embedder(notes):
    fill(notes)
    answer = notes.open(settings=settings(enabled=False), provider=FakeEmbedder()).search("yacht")
    assert all(hit.score == pytest.approx(hit.vector_score, abs=1e-3) for hit in answer)
    answer = notes.open(settings=settings(enabled=False), provider="none").search("yacht")
    assert (answer.mode, len(answer)) == ("fts-only", 2)


def test_the_least_score_never_hides_an_exact_match_and_never_empties_an_answer(notes):
    fill(notes)
    notes.write("memory/x.md", "the serial number is XK-4711-Z\n" + "other words fill this note\n" * 30)
    strict = settings({"minScore": 0.99}, vectorWeight=1, textWeight=0)
    assert paths(notes.open(settings=strict, provider=FakeEmbedder()).search("XK-4711-Z"))[0] == "memory/x.md"
    assert notes.open(settings=strict, provider=FakeEmbedder()).search("what colour has that old yacht of ours")


def test_candidates_are_a_multiple_of_the_results(notes):
    for number in range(60):
        notes.write(f"memory/n{number}.md", f"yacht number {number}\n")
    few = notes.open(settings=settings(candidateMultiplier=1), provider="none")
    assert len(few.search("yacht", 5)) == 5
    many = notes.open(settings=settings(candidateMultiplier=1000), provider="none")
    assert len(many.search("yacht", 50)) == 50


def test_decay_only_where_it_is_switched_on(notes):
    fill(notes)
    on = settings({"minScore": 0.0}, temporalDecay={"enabled": True, "halfLifeDays": 30})
    faded = paths(notes.open(settings=on, provider="none").search("red yacht"))
    assert faded.index("memory/2026-06-14.md") < faded.index("memory/2020-01-01.md")
    assert paths(notes.open(settings=settings(), provider="none").search("red yacht"))[0] == "memory/2020-01-01.md"


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        ("MEMORY.md", "memory", 1.0),
        ("memory/plans.md", "memory", 1.0),
        ("memory/2026-06-15.md", "memory", 1.0),
        ("memory/2026-05-16.md", "memory", 0.5),
        ("memory/2027-01-01.md", "memory", 1.0),  # a note from the future does not gain
        ("sessions/s.jsonl", "sessions", 0.25),
    ],
)
def test_what_age_leaves(path, source, expected):
    mtime = datetime(2026, 4, 16, 12, tzinfo=UTC).timestamp()
    chunk = Scored(path, source, 1, 1, "text", mtime)
    assert decay(chunk, date(2026, 6, 15), 30) == pytest.approx(expected)
    assert decay(chunk, date(2026, 6, 15), 0) == 1.0


def test_diversity_puts_a_different_chunk_before_a_repeat(notes):
    for number in range(3):
        notes.write(f"memory/same{number}.md", "the yacht needs red paint this summer\n")
    notes.write("memory/other.md", "our yacht was sold\n")
    plain = notes.open(settings=settings(), provider="none").search("yacht red paint", 4)
    assert paths(plain).index("memory/other.md") == 3
    diverse = notes.open(settings=settings(mmr={"enabled": True, "lambda": 0.3}), provider="none")
    assert paths(diverse.search("yacht red paint", 4)).index("memory/other.md") == 1


@given(st.lists(st.tuples(st.floats(0, 1), st.text("abc ", max_size=12)), max_size=12), st.floats(0, 1))
def test_diversity_loses_and_invents_nothing(given_, balance):
    ranked = [Scored(f"{at}.md", "memory", 1, 1, text, 0.0, score=score) for at, (score, text) in enumerate(given_)]
    ranked.sort(key=lambda chunk: -chunk.score)
    chosen = mmr(ranked, balance)
    assert sorted(id(chunk) for chunk in chosen) == sorted(id(chunk) for chunk in ranked)
    assert not ranked or chosen[0] is ranked[0]


def said(number: int, text: str) -> str:
    message = {"role": "user", "content": text}
    return json.dumps({"type": "message", "id": str(number), "parentId": str(number - 1), "message": message}) + "\n"


def test_transcripts_are_chunked_too_and_grow_without_repeats(notes, tmp_path):
    fill(notes)
    folder = tmp_path / "sessions"
    folder.mkdir()
    path = folder / "s.jsonl"
    path.write_text(
        "".join(said(number, f"We talked about topic {number} " + "at length " * 30) for number in range(1, 12))
    )
    memory = notes.open(settings=settings(), sessions=folder, provider=FakeEmbedder())
    assert memory.search("topic 7")[0].path == "sessions/s.jsonl"
    for number in range(12, 20):
        with path.open("a") as file:
            file.write(said(number, f"We talked about topic {number} " + "at length " * 30))
        hit = memory.search(f"topic {number}")[0]
        assert hit.path == "sessions/s.jsonl"
        assert hit.start_line <= number <= hit.end_line
    memory.close()
    conn = sqlite3.connect(notes.root / ".memory" / "index.sqlite")
    grown = conn.execute("SELECT start_line, end_line FROM chunks WHERE source = 'sessions' ORDER BY 1").fetchall()
    conn.execute("INSERT INTO chunks_fts(chunks_fts) VALUES('integrity-check')")
    conn.close()
    with notes.open(settings=settings(), sessions=folder) as memory:
        memory.sync(force=True)
    conn = sqlite3.connect(notes.root / ".memory" / "index.sqlite")
    whole = conn.execute("SELECT start_line, end_line FROM chunks WHERE source = 'sessions' ORDER BY 1").fetchall()
    conn.close()
    assert len(grown) == len(set(grown)) <= len(whole) + 2


def test_transcripts_cannot_crowd_out_notes(notes, tmp_path):
    for number in range(4):
        notes.write(f"memory/n{number}.md", f"the yacht of harbour {number}\n")
    folder = tmp_path / "sessions"
    folder.mkdir()
    for name in "abcdef":
        (folder / f"{name}.jsonl").write_text(said(1, "yacht yacht yacht"))
    memory = notes.open(settings=settings(), sessions=folder)
    sources = [hit.source for hit in memory.search("yacht", 6)]
    assert sources.count("sessions") == 3
    assert [hit.source for hit in memory.search("yacht", 6, sources=["sessions"])] == ["sessions"] * 6


def test_other_scripts_are_found_in_chunks(notes):
    notes.write("memory/ja.md", "来週の会議は東京で開催します\n")
    notes.write("memory/de.md", "Der Schlüssel liegt im Büro.\n")
    memory = notes.open(settings=settings(), provider="none")
    assert paths(memory.search("東京 会議")) == ["memory/ja.md"]
    assert paths(memory.search("schlussel buro")) == ["memory/de.md"]


def test_a_failing_embedder_leaves_the_words(notes):
    fill(notes)
    embedder = FakeEmbedder()
    memory = notes.open(settings=settings(), provider=embedder)
    memory.sync()
    embedder.fail = True
    answer = memory.search("red yacht")
    assert answer[0].path == "memory/2020-01-01.md"
    assert "out of order" in answer.degraded
