"""What a sentence claims, and that the newer of two claims comes first where a question is about now."""

from __future__ import annotations

import pytest
from bench.memory.updates import newer_first, updates
from hypothesis import given
from hypothesis import strategies as st

from homarus.memory import Memory
from homarus.memory.bank.claims import claims, differs, replaced, same_matter
from homarus.memory.evaluate import write

SAME = [
    ("Anna prefers tea over coffee.", "Anna now prefers coffee."),
    ("Anna prefers tea to coffee.", "Anna prefers coffee to tea."),
    ("Inés prefiere el té al café.", "Inés prefiere el café al té."),
    ("Anna's favourite drink is tea.", "Anna switched from tea to coffee."),
    ("Jonas lives in Berlin.", "Jonas has moved to Hamburg."),
    ("My dentist is Dr. Bauer.", "My dentist is Dr. Okafor now."),
    ("Our standup is at 9:30.", "Our standup was moved to 10:15."),
    ("Wifi password: kestrel-8", "Changed the wifi password to kestrel-9."),
    ("Anna wohnt in Köln.", "Anna ist nach Hamburg umgezogen."),
    ("Annas Lieblingsgetränk ist Tee.", "Anna trinkt jetzt Kaffee."),
    ("La bebida favorita de Anna es el té.", "Anna prefiere ahora el café."),
    ("Anna likes coffee.", "Anna no longer likes coffee."),
    ("Anna prefers dark mode.", "Anna prefers light mode."),
]
OTHER = [
    ("Anna prefers dark mode.", "Anna prefers long walks."),
    ("Anna prefers tea.", "Anna prefers the train."),
    ("Anna lives in Berlin.", "Jonas lives in Hamburg."),
    ("The rent is 900 euros.", "The deposit is 1,800 euros."),
    ("Anna prefers tea.", "Anna prefers tea in the evening."),
    ("We talked about the rent.", "We talked about the deposit."),
    ("Anna lives in Berlin.", "Does Anna live in Hamburg?"),
]


def conflict(one: str, other: str) -> bool:
    return any(same_matter(a, b) and differs(a, b) for a in claims(one) for b in claims(other))


@pytest.mark.parametrize(("one", "other"), SAME)
def test_another_value_of_the_same_attribute_replaces(one, other):
    assert conflict(one, other) and conflict(other, one)
    assert replaced([(1, claims(one)), (2, claims(other))]) == {0: 1}
    assert replaced([(2, claims(one)), (1, claims(other))]) == {1: 0}, "the day decides, not the order"
    assert replaced([(1, claims(one)), (1, claims(other))]) == {}, "of one day nobody knows which is newer"


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_what_is_about_something_else_replaces_nothing(one, other):
    assert not conflict(one, other)


def test_whom_a_sentence_without_a_subject_is_about():
    (claim,) = claims("Prefers tea in the morning", ["Anna"])
    assert claim.subject == "anna"
    assert claims("I moved to Oslo", speaker="Priya")[0].subject == "priya"
    assert claims("She works at Zeiss", ["Priya"])[0].subject == "priya"


@given(st.text(max_size=400))
def test_any_text_is_read_without_an_error(text):
    claims(text, ["Anna"], loose=True)


@given(st.permutations(range(4)))
def test_the_order_of_notes_does_not_matter(order):
    said = [(1, "Anna prefers tea."), (2, "Anna prefers coffee."), (3, "Anna prefers beer."), (3, "Jonas prefers tea.")]
    given_order = [said[at] for at in order]
    found = replaced([(day, claims(text)) for day, text in given_order])
    assert {given_order[a][1]: given_order[b][1] for a, b in found.items()} == {
        "Anna prefers tea.": "Anna prefers beer.",
        "Anna prefers coffee.": "Anna prefers beer.",
    }


def test_of_a_hundred_changes_the_newer_statement_comes_first(tmp_path):
    write(updates()[0], tmp_path)
    with Memory.open(tmp_path, provider="none") as memory:
        assert newer_first(memory) >= 0.9


def test_both_come_back_marked_and_the_older_one_for_a_question_about_then(notes):
    notes.write("memory/2026-01-02.md", "- Anna lives in Lisbon.\n")
    notes.write("memory/2026-03-02.md", "- Anna has moved to Oslo.\n")
    memory = notes.open()
    now = memory.recall("Where does Anna live?")
    assert [hit.text for hit in now] == ["Anna has moved to Oslo.", "Anna lives in Lisbon."]
    assert [hit.superseded_by for hit in now] == ["", "memory/2026-03-02.md#L1"]
    assert memory.recall("Where did Anna live before?")[0].text == "Anna lives in Lisbon."
    then = memory.recall("Where does Anna live?", as_of="2026-02-01")
    assert [(hit.text, hit.superseded_by) for hit in then] == [("Anna lives in Lisbon.", "")]
