"""What somebody likes, in wordings that no form foresees; and what extraction without a model finds in lines that people annotated."""

from __future__ import annotations

import pytest
from bench.memory.extraction import LAST, UNSEEN, extraction, written
from hypothesis import given
from hypothesis import strategies as st

from homarus.memory.bank.claims import claims
from homarus.memory.bank.liking import Known, liking, people_in, unread

PEOPLE = Known(frozenset(["anna", "otto", "ines"]))


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
        ("Inés escoge vino sin dudar.", "ines", {"vino"}, set()),
        ("Otto hat eine Vorliebe für Tee.", "otto", {"tee"}, set()),
        ("Wenn Otto wählt, dann Tee, wie alle am Tisch wussten.", "otto", {"tee"}, set()),
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


@pytest.mark.parametrize(
    ("sentence", "linked", "speaker", "said"),
    [
        ("Ahora prefiere el café.", ["Inés"], "", [("prefer", "caf", False)]),
        ("Se ha mudado a Sevilla.", ["Inés"], "", [("live", "sev", False)]),
        ("Ya no bebe café.", ["Inés"], "", [("prefer", "caf", True)]),
        ("Inés ya no vive en Madrid, ahora vive en Sevilla.", [], "", [("live", "mad", True), ("live", "sev", False)]),
        ("Inés vive en Soria. Prefiere el té.", [], "", [("live", "sor", False), ("prefer", "te", False)]),
        ("Prefiero el té.", [], "Inés", [("prefer", "te", False)]),
        ("Me gusta el té.", [], "Inés", [("prefer", "te", False)]),
        ("Ahora vivo en Bilbao.", [], "Inés", [("live", "bil", False)]),
        ("Me he mudado a Sevilla.", [], "Inés", [("live", "sev", False)]),
        ("Ahora llueve en Madrid.", [], "", []),
    ],
)
def test_spanish_leaves_the_subject_out(sentence, linked, speaker, said):
    found = claims(sentence, linked, speaker)
    assert {claim.subject for claim in found} <= {"ines"}
    assert [(claim.predicate, min(claim.value)[:3], claim.against) for claim in found] == said


@pytest.mark.parametrize(
    ("sentence", "doubts"),
    [
        ("Aus Tee wurde bei Otto Kaffee.", True),  # two things of one kind
        ("These days it has to be tea for Anna now.", True),  # one, and a word of change
        ("Anna spilled the tea.", False),
        ("Anna and Otto went from tea to coffee.", False),
        ("From tea to coffee.", False),
        ("Did Anna go from tea to coffee?", False),
    ],
)
def test_what_cannot_be_read_but_may_tell_of_a_change(sentence, doubts):
    assert (unread(sentence, PEOPLE) is not None) is doubts


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


def test_and_in_lines_that_were_annotated_later(notes):
    found = extraction(notes.open(), written(notes.root, UNSEEN))
    assert found["coverage"] >= 0.95 and found["precision"] >= 0.95, found
    assert found["entity F1"] >= 0.95 and found["kind"] >= 0.95 and found["duplicates"] <= 0.05, found


def test_and_in_lines_that_nothing_was_changed_for(notes):
    found = extraction(notes.open(), written(notes.root, LAST))
    assert found["coverage"] >= 0.85 and found["precision"] >= 0.9, found
    assert found["entity F1"] >= 0.9 and found["kind"] >= 0.85, found


@pytest.mark.parametrize(
    ("line", "about", "said"),
    [
        ("Anna: Hey! I just joined a choir in Ghent. How about you?", "anna", "I just joined a choir in Ghent."),
        ("Anna: Been busy volunteering at the shelter. Any news?", "anna", "Been busy volunteering at the shelter."),
        ("Anna: How are you today?", "", ""),
        ("Anna: " + "I painted the whole kitchen in one day. " * 20, "anna", "I painted the whole kitchen in one day."),
        ("Anna's sister Lena is afraid of dogs.", "lena", "Anna's sister Lena is afraid of dogs."),
        ("Annas Tochter studiert in Jena.", "anna", "Annas Tochter studiert in Jena."),
        ("El coche de Anna está en el taller.", "anna", "El coche de Anna está en el taller."),
        ("Anna: Estudio alemán desde febrero.", "anna", "Estudio alemán desde febrero."),
        ("Anna called: she has moved to Ghent.", "anna", "Anna called: she has moved to Ghent."),
        ("Anna ist von Ulm nach Bonn gezogen.", "anna", "Anna ist von Ulm nach Bonn gezogen."),
    ],
)
def test_the_part_of_a_line_that_states_something_is_the_fact(notes, line, about, said):
    notes.write("memory/2026-01-01.md", f"- Anna: I am here.\n- Lena: I am here too.\n- {line}\n")
    found = [fact for fact in notes.open().knowledge().facts if fact.line == 3]
    assert [fact.entities for fact in found] == ([(about,)] if about else [])
    assert all(fact.text.startswith(said) and fact.text in line and len(fact.text) <= 300 for fact in found)
