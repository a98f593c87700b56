"""German by English words: what a reader that was raised on English gets to see."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.models.notebook.gloss import base, english, in_german, meaning, other_language


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Wo ist der Schlüssel?", "where is the key?"),
        ("wann kommt der klempner", "when comes the plumber"),
        ("Gehalt?", "salary?"),  # a word alone, as typed into a search
        ("Stromanbieter?", "electricity provider?"),
        ("who is the Hausmeister", "who is the caretaker"),  # one word of German inside
        ("Ich heisse Anna", "I am called Anna"),  # typed without its own letters
    ],
)
def test_words_are_put_in_english_one_by_one(said, shown):
    assert english(said).lower() == shown.lower()


@pytest.mark.parametrize(
    "said",
    ["my salary?", "wifi code", "What was the man's name?", "The kind nurse was in the hall at 9.", "flight home"],
)
def test_english_stays_as_it_is(said):
    """Also where a word could be German: die, was, man, kind, hall."""
    assert english(said) == said


def test_endings_participles_and_compounds_need_no_row_of_their_own():
    assert base("zahnarztes") == base("zahnarzt") == "dentist"
    assert base("klempnern") == base("klempner") == "plumber"
    assert meaning("gartenschlüssel").split()[-1] == base("schlüssel").split()[-1]
    assert meaning("spindschlüssel").endswith("key")  # the first part is known to nobody
    assert meaning("wessling") == ""


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("When is my crown being fitted?", "krone"),
        ("What's the matter with my hearing aid?", "hörgerät"),
        ("Wann kommt der Klempner?", "plumber"),
    ],
)
def test_a_question_is_also_looked_for_in_the_other_language(question, word):
    assert word in re.findall(r"\w+", other_language(question))


def test_names_and_small_words_have_no_other_language():
    assert other_language("Is it Anna?") == ""
    assert other_language("") == ""
    assert len(other_language("house garden street door window kitchen table chair " * 9).split()) <= 60


@given(st.text(max_size=80))
def test_whatever_is_said_nothing_but_words_changes(text):
    """Figures, signs and blanks stay in their places, so that a date or a price is the same to a reader."""
    shown = english(text)
    assert re.findall(r"[\d_]+", shown) == re.findall(r"[\d_]+", text)
    assert english(text) == shown


@pytest.mark.parametrize("word", ["ge" * 2000, "ä" * 3000, "schlüssel" * 400])
def test_what_is_longer_than_any_word_is_left_as_it_is(word):
    """A stranger's line without a blank must neither take long nor end the search."""
    assert english(f"der {word} ist da") == f"the {word} is there"


@pytest.mark.parametrize(
    "text", ["Hilfe", "Peter wohnt in Linz.", "Was steht in AGENTS.md?", "WLAN-Passwort?", "Wo ist der Schlüssel?"]
)
def test_german_without_its_small_words_is_answered_in_german(text: str):
    assert in_german(text)


@pytest.mark.parametrize("text", ["help", "Peter lives in Linz.", "todo: buy stamps", "wifi password?", "gate code cabin", "What stands in AGENTS.md?", "Knee MRI: meniscus, medial"])  # fmt: skip
def test_english_is_answered_in_english(text: str):
    assert not in_german(text)
