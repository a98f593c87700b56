"""The notes that the ranking is measured on: always the same, every question answered by lines that exist, and found."""

from __future__ import annotations

import pytest

from homarus.memory import Memory
from homarus.memory.evaluate import score, write

pytest.importorskip("numpy")
from bench.memory.notes import notebooks

# Recall within 2,000 tokens without any model, on notes that no weight was fitted on.
FLOORS = {"bullets": 0.9, "diary": 0.85, "runbooks": 0.95, "minutes": 0.95, "facts": 0.9, "languages": 0.95}


def test_the_same_seed_gives_the_same_notes():
    assert notebooks(3) == notebooks(3)
    assert notebooks(3) != notebooks(4)


def test_every_question_names_lines_that_exist():
    for book in notebooks():
        assert len(book.questions) >= 40
        for question in book.questions:
            assert "{" not in question.text
            assert question.evidence
            for path, line in question.evidence:
                assert book.files[path][line - 1].strip()
                assert "{" not in book.files[path][line - 1]


@pytest.mark.parametrize("name", sorted(FLOORS))
def test_notes_of_every_kind_are_answered(name, tmp_path):
    book = next(book for book in notebooks() if book.name == name)
    write(book, tmp_path)
    with Memory.open(tmp_path, provider="none") as memory:
        found = [score(memory, question, book.files)["recall@2000tok"] for question in book.questions[::4]]
    assert sum(found) / len(found) >= FLOORS[name]
