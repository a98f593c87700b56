"""What somebody likes, in wordings that no form foresees; and what extraction without a model finds in lines that people annotated."""

from __future__ import annotations

import pytest
from bench.memory.extraction import extraction, written
from hypothesis import given
from hypothesis import strategies as st

from homarus.memory.bank.liking import liking, people_in

PEOPLE = frozenset(["anna", "otto", "ines"])


@pytest.mark.parametrize(
    ("sentence", "who", "value", "before"),
    [
        ("Nothing beats tea for Anna.", "anna", {"tea"}, set()),
        ("Anna gave up tea and goes for coffee now.", "anna", {"coff"}, {"tea"}),
        ("Anna used to love tea, now it is coffee.", "anna", {"coff"}, {"tea"}),
        ("Instead of wine Anna always takes beer.", "anna", {"beer"}, {"wine"}),
        ("Anna likes wine or beer.", "", None, None),
        ("Otto ist von Kaffee auf Tee umgestiegen und mag ihn sehr.", "otto", {"tee"}, {"kaff"}),
        ("Tee ist genau Ottos Ding.", "otto", {"tee"}, set()),
        ("Inés está harta del vino y ahora elige cerveza.", "ines", {"cerveza"}, {"vino"}),
        ("Anna spilled the tea.", "", None, None),
        ("Anna and Otto like tea.", "", None, None),
        ("Does Anna like tea?", "", None, None),
        ("Anna likes to think.", "", None, None),
    ],
)
def test_who_likes_what_and_what_before(sentence, who, value, before):
    claim = liking(sentence, PEOPLE)
    if value is None:
        assert claim is None
    else:
        assert claim is not None and (claim.subject, {v[:3] for v in claim.value}) == (who, {v[:3] for v in value})
        assert {v[:3] for v in claim.rivals} == {v[:3] for v in before} and not claim.against


def test_what_somebody_gave_up_is_denied():
    claim = liking("No more coffee for Anna, she always says.", PEOPLE)
    assert claim is not None and claim.against


def test_names_are_told_from_other_words_with_a_capital():
    lines = [
        "Otto rief an.",
        "Gestern hat Otto die Rechnung bezahlt.",
        "Die Rechnung war hoch.",
        "Met Anna at noon.",
        "Anna left early.",
        "Met nobody.",
        "Monday was wet.",
        "See you on Monday.",
    ]
    assert people_in(lines) >= {"otto", "anna"}
    assert not people_in(lines) & {"rechnung", "met", "die", "gestern", "monday"}


@given(st.text(max_size=200))
def test_any_text_is_read_without_an_error(text):
    liking(text, PEOPLE)
    people_in([text, text.title()])


def test_facts_are_found_in_lines_that_people_annotated(notes):
    places = written(notes.root)
    found = extraction(notes.open(), places)
    assert found["coverage"] >= 0.85 and found["precision"] >= 0.95, found
    assert found["entity F1"] >= 0.9 and found["kind"] >= 0.9, found
    assert found["duplicates"] <= 0.05, found
