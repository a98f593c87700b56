from __future__ import annotations

import sqlite3
from datetime import date

import pytest
from tests.memory.fakes import FakeEmbedder, FakeModel, FakeWords

from homarus.memory.database import empty_index
from homarus.memory.embed.base import Embedders
from homarus.memory.engine import Engine, Request
from homarus.memory.line_vectors import SENTENCES, Vectors, sentences
from homarus.memory.settings import EmbeddingCache, MemorySettings


def fill(notes):
    notes.write("memory/a.md", "Anna repaired her yacht\n\nthe dog sleeps all day\n\nnothing of note\n")
    notes.write("memory/b.md", "".join(f"filler line number {n} about gardening\n" for n in range(40)))


@pytest.mark.parametrize("kind", [FakeEmbedder, FakeWords, FakeModel])
def test_a_paraphrase_is_found_by_meaning(notes, kind):
    fill(notes)
    memory = notes.open(provider=kind())
    answer = memory.search("vessel")
    assert answer[0].citation == "memory/a.md#L1"
    assert answer[0].vector_score > 0.3
    assert answer[0].bare_score == answer[0].vector_score  # no names to leave out
    assert (answer.mode, answer.provider, answer.model, answer.degraded) == ("hybrid", "fake", "m1", "")
    assert not notes.open().search("vessel")


def test_only_new_lines_are_embedded(notes):
    fill(notes)
    embedder = FakeEmbedder()
    memory = notes.open(provider=embedder)
    memory.sync()
    before = sum(len(call) for call in embedder.calls)
    assert before == 43
    with (notes.root / "memory" / "a.md").open("a") as handle:
        handle.write("a new line about ships\n")
    memory.sync()
    assert sum(len(call) for call in embedder.calls) == before + 1  # the others came from the cache
    memory.sync(force=True)
    assert sum(len(call) for call in embedder.calls) == before + 1


def test_a_fresh_line_has_a_vector_at_once(notes):
    fill(notes)
    memory = notes.open(provider=FakeEmbedder())
    memory.search("yacht")
    notes.write("memory/c.md", "Bob drives an automobile\n")
    assert memory.search("vehicle")[0].citation == "memory/c.md#L1"


@pytest.mark.parametrize("remote", [False, True])
def test_lines_are_looked_over_again_only_when_they_changed(remote):
    conn = empty_index()
    conn.execute("INSERT INTO lines VALUES(4, 1, 1, 0, 0, 0, '', 'note', 0, 1, 1, 0, '', 'a ship', NULL)")
    embedder = FakeEmbedder()
    embedder.remote = remote
    vectors = Vectors(embedder)
    left = vectors.fill(conn, 0, quick=True)
    assert left == (1 if remote else 0)
    asked: list[str] = []
    conn.set_trace_callback(asked.append)
    assert vectors.fill(conn, 0, quick=True) == left
    assert asked == []
    conn.execute("INSERT INTO lines VALUES(5, 1, 2, 0, 0, 0, '', 'note', 0, 1, 1, 0, '', 'a boat', NULL)")
    vectors.forget()
    assert vectors.fill(conn, 0, quick=True) == (2 if remote else 0)
    assert vectors.fill(conn, 0) == 0
    assert conn.execute("SELECT count(*) FROM line_vec").fetchone() == (2,)
    conn.close()


@pytest.mark.parametrize("other", [FakeEmbedder(model="m2"), FakeEmbedder(dims=16)])
def test_another_model_never_meets_old_vectors(notes, other):
    fill(notes)
    first = notes.open(provider=FakeEmbedder())
    first.sync()
    first.close()
    memory = notes.open(provider=other)
    answer = memory.search("vessel")
    assert answer[0].citation == "memory/a.md#L1"
    assert answer.model == other.model
    assert memory.status().vectors == 43


def test_the_cache_key_has_everything_that_changes_a_vector(notes):
    fill(notes)
    first = notes.open(provider=FakeEmbedder())
    first.sync()
    first.close()
    changed = FakeEmbedder()
    changed.key = "other address"
    memory = notes.open(provider=changed)
    memory.sync()
    assert sum(len(call) for call in changed.calls) == 43


def test_the_cache_is_bounded(notes):
    fill(notes)
    memory = notes.open(provider=FakeEmbedder(), settings=MemorySettings(cache=EmbeddingCache(max_entries=10)))
    memory.sync()
    assert memory.status().cached_embeddings == 10
    assert memory.status().vectors == 43


def test_a_failing_embedder_degrades_visibly_and_words_still_work(notes):
    fill(notes)
    memory = notes.open(provider=FakeEmbedder(fail=True))
    for _ in range(2):
        answer = memory.search("dog sleeps")
        assert answer[0].citation == "memory/a.md#L3"
        assert answer.mode == "lexical"
        assert "out of order" in answer.degraded
        assert answer.fallback == "fake"


def test_failing_at_the_question_alone_degrades_too(notes):
    fill(notes)
    embedder = FakeEmbedder()
    memory = notes.open(provider=embedder)
    memory.sync()
    embedder.fail = True
    answer = memory.search("dog sleeps")
    assert answer[0].citation == "memory/a.md#L3"
    assert "out of order" in answer.degraded


def test_a_remote_embedder_never_embeds_notes_inside_a_search(notes):
    fill(notes)
    embedder = FakeEmbedder()
    embedder.remote = True
    memory = notes.open(provider=embedder)
    answer = memory.search("dog sleeps")
    assert answer.hits
    assert "43 passages have no vectors yet" in answer.degraded
    assert [call for call in embedder.calls if len(call) > 1] == []
    memory.sync()
    assert memory.search("dog sleeps").degraded == ""


def test_unknown_and_missing_providers_say_so(notes):
    fill(notes)
    answer = notes.open(provider="telepathy").search("dog sleeps")
    assert answer.hits
    assert "telepathy" in answer.degraded
    answer = notes.open(provider="openai").search("dog sleeps")
    assert "needs a key" in answer.degraded
    assert answer.provider == "none"


def test_vectors_do_not_hide_words(notes):
    fill(notes)
    notes.write("memory/x.md", "the serial number is XK-4711-Z\n")
    assert notes.open(provider=FakeEmbedder()).search("XK-4711-Z", 3)[0].citation == "memory/x.md#L1"


def test_vectors_are_stored_small(notes):
    fill(notes)
    memory = notes.open(provider=FakeEmbedder())
    memory.sync()
    memory.close()
    conn = sqlite3.connect(notes.root / ".memory" / "index.sqlite")
    assert {len(row[0]) for row in conn.execute("SELECT vec FROM line_vec")} == {64}
    conn.close()


def test_one_sentence_of_a_long_line_is_enough(notes):
    talk = "we spoke about gardens and roses and rain. Anna repaired her yacht. then came soup and bread and cheese"
    notes.write("memory/a.md", f"{talk}\n")
    notes.write("memory/b.md", "".join(f"filler line number {n} about gardening\n" for n in range(40)))
    hit = notes.open(provider=FakeModel()).recall("who mended the vessel", budget_tokens=60)[0]
    assert hit.citation == "memory/a.md#L1"
    assert any(reason.startswith("meaning of one sentence") for reason in hit.why)


def test_sentences_are_stored_behind_their_line(notes):
    notes.write("memory/a.md", "One is here. Two is there! Is three anywhere?\n\nalone\n")
    memory = notes.open(provider=FakeModel())
    memory.sync()
    memory.close()
    conn = sqlite3.connect(notes.root / ".memory" / "index.sqlite")
    sizes = [len(row[0]) // 64 for row in conn.execute("SELECT vec FROM line_vec ORDER BY id")]
    conn.close()
    # "alone" follows a question: it is stored with it, and by itself.
    assert sizes == [4, 2]


def test_words_keep_their_numbers_after_a_rebuild_and_beside_another_process(notes):
    """Numbers of words come from the table: two who write at once, or one who rebuilds, never mix them up."""
    fill(notes)
    one, two = notes.open(provider=FakeWords()), notes.open(provider=FakeWords())
    one.search("vessel")
    notes.write("memory/c.md", "Bob drives an automobile\n")
    two.search("vehicle")
    notes.write("memory/d.md", "the physician closed his practice\n")
    one.search("doctor")
    one.sync(force=True)
    for memory in (one, two):
        for question, citation in (("vehicle", "c.md#L1"), ("doctor", "d.md#L1"), ("vessel", "a.md#L1")):
            hit = memory.search(question)[0]
            assert hit.citation == f"memory/{citation}"
            assert any(reason.startswith("related words") for reason in hit.why)
        memory.close()
    conn = sqlite3.connect(notes.root / ".memory" / "index.sqlite")
    words = dict(conn.execute("SELECT id, word FROM word_vec"))
    for text, blob in conn.execute("SELECT text, words FROM line_vec JOIN lines USING(id)"):
        stored = [words[number] for number in memoryview(blob).cast("I")]
        assert set(stored) <= set(text.lower().split())
        assert stored
    conn.close()


def test_long_texts_are_cut_into_few_sentences():
    assert sentences("One. Two! Three? four") == ["One.", "Two!", "Three?", "four"]
    assert sentences("一つ。二つ！") == ["一つ。", "二つ！"]
    assert sentences("version 1.2 of a.b") == ["version 1.2 of a.b"]
    many = sentences(" ".join(f"Number {n}." for n in range(50)))
    assert len(many) == SENTENCES
    assert many[-1].endswith("Number 49.")
    assert sentences("") == [""]


@pytest.mark.parametrize("kind", [FakeEmbedder, FakeWords, FakeModel])
def test_vectors_of_an_index_too_large_for_memory_rank_what_words_find_and_it_is_said(notes, kind):
    fill(notes)
    notes.write("memory/c.md", "Anna at the doctor\nAnna sold the old yacht for cash\nAnna slept\nThe cat of Anna\n")
    embedder = kind()
    notes.open(provider=embedder).sync()
    settings = MemorySettings()
    conn = sqlite3.connect(notes.root / ".memory" / "index.sqlite")
    request = Request(text="which vessel did Anna sell for money", today=date(2026, 6, 15), limit=5)
    small = Engine(settings, Embedders(settings, None, embedder))
    large = Engine(settings, Embedders(settings, None, embedder), resident=10)
    held, read = small.rank(conn, request), large.rank(conn, request)
    assert held.columns["vector"] and large.ranking(conn, request)[0].citation == "memory/c.md#L2"
    place = {row.id: at for at, row in enumerate(held.rows)}
    for at, row in enumerate(read.rows):
        assert read.columns["cosine"][at] == pytest.approx(held.columns["cosine"][place[row.id]], abs=1e-4)
    assert set(read.columns) == set(held.columns)
    assert small.answer(conn, request).degraded == ""
    assert "above 10 lines vectors compare only what words, names and days find" in large.answer(conn, request).degraded
    conn.close()


def test_a_score_below_nothing_also_asks_for_lines_that_nothing_speaks_for(notes):
    """By their vectors, and then the newest: in a small home that is every line, each once."""
    notes.write("memory/2026-01-02.md", "# Day\n\nthe boat is red\n~~the dog is gone~~\nthe cat is grey\n")
    notes.write("memory/2026-01-03.md", "the door is blue\nBob drives an automobile\n")
    memory = notes.open(provider=FakeEmbedder())
    memory.sync()
    assert memory.search("boat", min_score=0.0)[0].text == "the boat is red"
    hits = memory.search("boat", min_score=-1.0)
    assert hits[0].text == "the boat is red"
    texts = [hit.text for hit in hits]
    assert len(texts) == len(set(texts))
    assert {"the cat is grey", "the door is blue", "Bob drives an automobile"} < set(texts)
    assert not any("the dog is gone" in text for text in texts)  # struck through
    said = {hit.text for hit in memory.search("boat", min_score=0.0)}
    assert all(hit.score == 0.0 for hit in hits if hit.text not in said)
    assert len(memory.search("boat", 2, min_score=-1.0).hits) == 2


def test_a_search_embeds_the_newest_lines_and_says_how_many_are_left(notes):
    notes.write("memory/a.md", "".join(f"line {n} of the harbour\n" for n in range(60)))
    notes.write("memory/b.md", "Bob drives an automobile\n")
    embedder = FakeEmbedder()
    memory = notes.open(provider=embedder)
    answer = memory.search("vehicle")
    assert answer[0].citation == "memory/b.md#L1"  # indexed last, so embedded first
    assert "13 passages have no vectors yet" in answer.degraded
    for opened in notes.opened:
        opened.close()
    again = notes.open(provider=embedder)
    assert "13 passages have no vectors yet" in again.status().degraded
    assert again.search("vehicle").degraded == ""  # one-shot programs catch up
    assert again.status().degraded == ""


def test_vectors_of_another_model_do_not_count_in_the_status(notes):
    fill(notes)
    notes.open(provider=FakeEmbedder()).sync()
    other = notes.open(provider=FakeEmbedder(model="m2"))
    assert "43 passages have no vectors yet" in other.status().degraded
    assert notes.open().status().degraded == ""
