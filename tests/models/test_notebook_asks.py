"""Questions without a mark, and lines that only look like one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.models.notebook.asks import MAYBE, SURE, asks, may_tell, signs, states


@pytest.mark.parametrize(
    "text",
    [
        "landlord's number",
        "code to open the lock",
        "until when do I have to upload the papers",
        "In welchem Lokal feiert Vater",
        "Name vom Hausarzt",
        "price of the antenatal class",
        "wann Ferien",
    ],
)
def test_it_asks(text: str):
    assert asks(text) >= MAYBE


@pytest.mark.parametrize(
    "text",
    [
        "did my ankle in last month, physio says no running before Christmas",
        "the spare key is under the pot",
        "Pin fürs Handy ist 2211",
        "Ich vertrage keine Laktose.",
        "dentist moved to Tuesday 3pm",
        "wifi: homebase22",
        "Schlüssel liegt bei Frau Kunz",
    ],
)
def test_it_tells(text: str):
    assert asks(text) < MAYBE


@pytest.mark.parametrize(
    "text",
    ["Mein Netflix-Passwort ist Schwertfisch9", "Das Losungswort ist der zweite Vorname von Hubert.", "Mobile PIN is our old number", "fire warden = Beatrix"],
)  # fmt: skip
def test_what_says_of_something_what_it_is_asks_nothing(text: str):
    assert states(text)


@pytest.mark.parametrize(
    "text",
    ["is the key here", "ist Tom da", "my passport is where", "auf welchen Tag ist der Mann gelegt", "since when is mum here", "landlord's number is", "remind me when lunch is", "wofür ist der gelbe Bund"],
)  # fmt: skip
def test_a_verb_before_its_subject_a_word_that_asks_or_nothing_behind_the_verb_states_nothing(text: str):
    assert not states(text)


def test_what_may_be_a_question_may_tell_by_a_figure_or_by_whom_it_is_about():
    assert may_tell("pin of the bike lock c2580x")
    assert may_tell("bike stolen")
    assert may_tell("Für die Hochzeit von Selin brauch ich noch ein Kleid")
    assert not may_tell("where did I put the passport")
    assert not may_tell("landlord's number")


def test_a_question_word_makes_it_sure():
    assert asks("where did I put the passport") >= SURE
    assert asks("wann kommt der Schornsteinfeger") >= SURE


@given(st.text())
def test_every_text_has_signs_and_a_figure(text: str):
    assert signs(text)
    assert asks(text) == asks(text)
