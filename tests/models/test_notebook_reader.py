"""Who reads a line for a question: the small network in Python, and MiniLM where it was exported."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from homarus.memory.embed.export import READER
from homarus.models.notebook import evidence, reader
from homarus.models.notebook.match import table
from homarus.models.notebook.minilm import MODEL, SECOND, TOKENIZER, VECTORS, MiniLMReader, lacking, reader_in, together
from homarus.models.notebook.reader import SmallReader, near, net

FLIGHT = [
    "The flight home costs 210 euros.",
    "The flight home leaves on the 3rd of May at two.",
    "My sister Ann lives in Lisbon with her two cats.",
]


def best(question, lines):
    found = SmallReader().read(question, lines)
    return lines[found.index(max(found))]


def test_a_line_that_answers_stands_before_one_about_the_same_matter():
    assert best("How much is the ticket back?", FLIGHT) == FLIGHT[0]
    assert best("When do we fly back?", FLIGHT) == FLIGHT[1]
    assert best("Where is my sibling's home?", FLIGHT) == FLIGHT[2]


def test_a_question_in_german_is_read_as_well():
    assert best("Was kostet der Rückflug?", FLIGHT) == FLIGHT[0]
    lines = ["Der Zahnarzt heißt Dr. Ünal.", "Der Termin beim Zahnarzt ist am Dienstag um neun."]
    assert best("Wann muss ich zum Zahnarzt?", lines) == lines[1]


def test_what_nothing_answers_gets_less_than_what_something_does():
    answered = max(SmallReader().read("When do we fly back?", FLIGHT))
    assert max(SmallReader().read("What is my shoe size?", FLIGHT)) < answered


class Says:
    """A reader that makes the same of every line, and knows how many it was shown."""

    most = 6

    def __init__(self, value, name="small"):
        self.value, self.name, self.shown = value, name, []

    def read(self, question, lines):
        self.shown = list(lines)
        return [self.value for _ in lines]


def test_the_reader_has_the_last_word_and_reads_few_lines():
    notes = [f'{{"text": "The boiler was serviced in {2000 + n}.", "citation": "m.md#L{n}"}}' for n in range(1, 30)]
    sure, unsure = Says(9.0), Says(-9.0)
    assert "serviced in" in evidence.answer("When was the boiler serviced?", notes, sure)
    assert len(sure.shown) == Says.most
    assert evidence.answer("When was the boiler serviced?", notes, unsure).startswith("I don't know: I found nothing")


def test_minilm_is_weighed_by_its_own_verdict():
    assert evidence.verdict("words", Says(0.0, "minilm")) == table().answers["minilm"]
    assert evidence.verdict("words", Says(0.0)) == table().answers["words"]


def test_nothing_to_read_is_read_too():
    assert SmallReader().read("When?", []) == []
    assert len(SmallReader().read("", ["", "漢字", "a " * 500])) == 3


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=60), st.lists(st.text(max_size=60), max_size=3))
def test_every_text_gets_a_number_and_always_the_same(question, lines):
    found = SmallReader().read(question, lines)
    assert len(found) == len(lines)
    assert all(value == value and abs(value) < 1000 for value in found)
    assert SmallReader().read(question, lines) == found


def test_both_ways_to_multiply_agree():
    """Python 3.12 brings a fast one; older ones have none."""
    a, b = [0.5, -2.0, 3.25], [4.0, 0.125, 2.0]
    assert reader._product(a, b) == reader.dot(a, b) == 8.25


def test_the_weights_fit_together():
    known = net()
    width = len(known.look.rows)
    assert {len(row) for row in known.here.rows} == {known.width}
    assert {len(row) for row in known.asked.rows} == {4 * width}
    assert len(known.verdict.rows) == 1


def test_without_its_files_minilm_does_not_read(tmp_path):
    assert reader_in(None).name == "small"
    assert reader_in(tmp_path).name == "small"


def test_what_keeps_minilm_from_reading_is_said(tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tokenizers")
    assert lacking(tmp_path) == ""
    folder = tmp_path / "minilm"
    folder.mkdir()
    (folder / VECTORS).write_bytes(b"vectors")
    assert "is not there" in lacking(tmp_path)
    (folder / MODEL).write_bytes(b"torn")
    assert "cannot be opened" in lacking(tmp_path)


def test_the_small_reader_moves_what_minilm_says_of_the_lines_that_it_heard():
    first, second, third = together([1.0, 1.0, 1.0], [2.0, -1.0])
    assert (first, second) == (1.0 + SECOND * 2, 1.0 - SECOND)
    assert third == second  # it never heard that one, so it speaks for it no more than for the worst
    assert together([0.5], [-3.0]) == [0.5 - 3 * SECOND]


def test_both_names_of_the_readers_file_are_one():
    assert MODEL == READER


def test_words_of_one_meaning_are_near():
    lines = ["Our ferry leaves Harwich at eleven.", "The rent is 900 a month.", ""]
    ferry, rent, nothing = near("When does the boat depart?", lines)
    assert ferry > rent > nothing == 0
    assert near("", lines) == [0.0] * 3


def test_a_damaged_file_leaves_the_reading_to_the_small_one(tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tokenizers")
    folder = tmp_path / "minilm"
    folder.mkdir()
    (folder / MODEL).write_bytes(b"torn")
    (folder / TOKENIZER).write_text("{}")
    found = reader_in(tmp_path)
    assert isinstance(found, MiniLMReader)
    assert found.name == "small"
    assert found.most == SmallReader.most
    assert found.read("When do we fly back?", FLIGHT) == SmallReader().read("When do we fly back?", FLIGHT)
