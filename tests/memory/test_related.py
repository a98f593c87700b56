from __future__ import annotations

from collections import Counter
from datetime import date

import pytest

from homarus.memory.query import analyse
from homarus.memory.related import KINDS, TABLE, related, things
from homarus.memory.terms import STOP

TODAY = date(2026, 6, 15)
FILLER = "".join(f"- The parcel number {n} came and went to the cellar\n" for n in range(300))


def asked(text: str) -> set[str]:
    return set(analyse(text, today=TODAY).related)


def test_the_table_is_words_that_can_be_looked_up():
    rows = [row.split() for row in TABLE.read_text(encoding="utf-8").splitlines()]
    words = {word for row in rows for word in row}
    assert all(word.isascii() and word.isalpha() and word.islower() for word in words)
    assert not words & STOP
    assert all(len(row) == len(set(row)) >= 2 for row in rows)
    assert max(Counter(map(tuple, rows)).values()) == 1


def test_the_forms_of_a_word_have_the_same_relatives():
    assert "kitten" in related("pet")
    assert related("pets") == related("pet")
    assert related("bought") == related("buy")
    assert "pet" not in related("pet")
    assert related("xylograph") == ()


def test_names_other_languages_and_lists_of_words_are_left_as_they_are():
    assert asked("What pets does Anna have?") == {"pets"}
    assert asked("When did Mark meet Rose?") == {"meet"}
    assert asked("Wo hat Oma den Hut gekauft?") == set()
    assert asked("pet dog") == set()


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("Which pets are there?", "A grey kitten sleeps on the sofa"),
        ("What novel was it?", "Finished the third chapter of the book by the lake"),
        ("Who had an operation?", "Otto was with the surgeon in May"),
    ],
)
def test_a_line_in_other_words_is_found_among_many(notes, question, line):
    notes.write("memory/2026-01-01.md", f"{FILLER}- {line}\n{FILLER}")
    hits = notes.open().recall(question, budget_tokens=60).hits
    assert line in hits[0].text
    assert "words on the same matter" in " ".join(hits[0].why)


def test_the_word_itself_goes_before_a_relative(notes):
    notes.write("memory/2026-01-01.md", f"- A kitten sleeps on the sofa\n{FILLER}- Our pet sleeps on the sofa\n")
    hits = notes.open().search("Which pet sleeps on the sofa?", 2)
    assert ["pet" in hit.text for hit in hits] == [True, False]


def test_what_stands_in_very_many_lines_is_no_relative(notes):
    """Common words tell nothing, and are not read line by line."""
    notes.write("memory/2026-01-01.md", "- the dog was out\n" * 700 + "- A parrot sings\n")
    memory = notes.open()
    assert "parrot" in memory.recall("Which pets are there?", budget_tokens=60).hits[0].text


def test_relatives_are_read_anew_when_the_notes_changed(notes):
    notes.write("memory/2026-01-01.md", FILLER)
    memory = notes.open()
    memory.recall("Which pets are there?", budget_tokens=60)
    notes.write("memory/2026-01-02.md", "- A grey kitten sleeps\n")
    memory.sync()
    assert "kitten" in memory.recall("Which pets are there?", budget_tokens=60).hits[0].text


def test_the_table_of_kinds_is_names_and_things_that_can_be_looked_up():
    rows = [row.partition(":") for row in KINDS.read_text(encoding="utf-8").splitlines()]
    for names, colon, those in rows:
        assert colon and names.split() and len(those.split()) >= 4, names
        for words in (names.split(), those.split()):
            assert len(words) == len(set(words)), f"{names} has a word twice"
            assert all(word.replace("_", "").isalpha() and word.isascii() and word.islower() for word in words)
            assert not set(words) & STOP, names
    assert all("_" not in names for names, _, _ in rows)


def test_a_word_that_only_looks_like_a_kind_asks_for_nothing():
    assert "kombucha" in things("drinks")
    assert things("stores")
    assert things("stories") == ()


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("Which drinks did we try?", "The kombucha was sour"),
        ("What cities has Greta seen?", "Two days in Hong Kong with the children"),
        ("Welche Getränke gab es?", "Der Kaffee war kalt"),
    ],
)
def test_a_thing_of_the_kind_asked_for_is_found_among_many(notes, question, line):
    notes.write("memory/2026-01-01.md", f"{FILLER}- {line}\n{FILLER}")
    hits = notes.open().recall(question, budget_tokens=60).hits
    assert line in hits[0].text
    assert "holds a thing of the kind asked for" in " ".join(hits[0].why)


def test_a_kind_that_is_named_but_not_asked_for_counts_less(notes):
    notes.write("memory/2026-01-01.md", f"{FILLER}- The kombucha was sour\n{FILLER}")
    memory = notes.open()

    def worth(question):
        parts = memory.explain(question, "memory/2026-01-01.md#L301").parts
        return next(value for name, value, _ in parts if name == "kind")

    assert 0 < worth("Where did the man with the drink go?") < worth("Which drink did he have?")


def test_a_question_is_answered_by_any_message_of_the_turn_behind_it(notes):
    chat = "- Ann: Which boat did you charter?\n- Ann: I wondered\n- Bob: well\n- Bob: Marigold\n- Ann: fine\n"
    notes.write("memory/2026-01-01.md", f"{FILLER}{chat}{FILLER}")
    memory = notes.open()

    def lent(line):
        parts = memory.explain("Which boat did Bob charter?", f"memory/2026-01-01.md#L{line}").parts
        return next((value for name, value, _ in parts if name == "answer"), 0.0)

    assert [lent(line) > 0 for line in (301, 302, 303, 304, 305)] == [False, True, True, True, False]
