"""Which line takes the place of which: the same kind of thing, said of the same subject, and said differently."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.models.notebook.corrections import bare, corrects, takes_place

REPLACES = [
    ("My car is blue.", "Actually, my car is red."),
    ("My bike is green.", "Actually my bike is black."),
    ("The boat is in Hamburg.", "Correction: the boat is in Kiel."),
    ("The boat is in Hamburg.", "The boat is now in Kiel."),
    ("My car is blue.", "Sorry, my car is actually grey"),
    ("My car is blue.", "My car is actually grey."),
    ("My dentist is Dr. Kern.", "Actually my dentist is Dr. Blum."),
    ("The party is on Saturday.", "Actually the party is on Sunday."),
    ("The party is on Saturday.", "Actually the party is cancelled."),
    ("The party is on 6 July.", "Actually the party is on 8 July."),
    ("My daughter Mia is allergic to nuts.", "Actually, my daughter is allergic to eggs."),
    ("I like coffee.", "Actually I don't like coffee."),
    ("Tom plays chess.", "Actually Tom plays tennis."),
    ("Das Auto ist blau.", "Eigentlich ist das Auto rot."),
    ("Der Schlüssel liegt im Keller.", "Eigentlich liegt der Schlüssel in der Garage."),
    ("Mein Hund heißt Rex.", "Tatsächlich heißt mein Hund Max."),
    ("Ich wohne in Berlin.", "Eigentlich wohne ich in Bonn."),
    ("Das Fest ist am Samstag.", "Nein, das Fest fällt aus."),
    ("Das Konzert ist in der Stadthalle.", "Das Konzert ist leider abgesagt."),
    ("Mein Vermieter heißt Herr Huber.", "Eigentlich heißt mein Vermieter Herr Preis."),
    ("Our landlord is called Mr. Hughes.", "Actually our landlord is called Mr. Price."),
    ("Bens Geburtstag ist am 3. Mai.", "Eigentlich ist Bens Geburtstag am 4. Mai."),
    ("Tom is not coming.", "Actually Tom is coming."),
    ("I take my coffee with milk.", "Actually I take my coffee without milk."),
    ("Paul lives in Paris.", "Actually Paul moved to Rome."),
    ("Ich wohne in der Mozartgasse 3.", "Ich bin jetzt nach Salzburg umgezogen."),
    ("The car is at the garage.", "Actually the car is back from the garage."),
]
AFTER_IT = [
    ("My daughter Mia is allergic to nuts.", "Actually, she is allergic to eggs."),
    ("My car is blue.", "Actually it is red."),
    ("The meeting is at 8.", "No, it's at 9."),
    ("Das Treffen ist am Montag.", "Nein, am Dienstag."),
    ("Our cat is called Minka.", "I meant Mimi."),
]
OTHER = [
    ("I like coffee.", "Actually I also like tea."),
    ("Tom's car is green.", "Actually my car is red."),
    ("The old car is blue.", "Actually the new car is red."),
    ("My dentist is Dr. Kern.", "Actually the dentist is nice."),
    ("The dentist is on Monday.", "Actually the dentist is nice."),
    ("My work phone is 5550111.", "Actually my home phone is 5550222."),
    ("Maria lives in Graz.", "Actually Ben lives in Rome."),
    ("My brother lives in Graz.", "Actually I moved to Rome."),
    ("Tom lives in Rome.", "Actually Tom is back from Rome."),
    ("Peter wohnt jetzt in Linz.", "Tatsächlich ist Peter 43 Jahre alt."),
    ("Paul lives in Paris.", "Actually Paul has a dog named Rex."),
    ("Tom is allergic to nuts.", "Actually Ben is allergic to eggs."),
    ("My car is blue.", "Actually my car is a Volvo."),
    ("Mein Auto ist blau.", "Eigentlich ist mein Auto 5 Jahre alt."),
    ("Tom's number is 0151 1111.", "Actually Kim's number is 0151 2222."),
    ("Toms Nummer ist 0151 1111.", "Eigentlich ist Kims Nummer 0151 2222."),
    ("The sofa is grey.", "Actually the curtains are grey."),
    ("The party is on Friday.", "Actually the meeting is on Tuesday."),
    ("Die Feier ist am Freitag.", "Eigentlich ist das Treffen am Dienstag."),
    ("Mein erstes Auto war grün.", "Eigentlich war mein zweites Auto weiß."),
    ("Meine Frau isst kein Fleisch.", "Eigentlich isst mein Sohn kein Gemüse."),
    ("Mum's memory clinic appointment is 9 Dec. at 2.15 pm.", "Mum is on donepezil now, 5 mg at bedtime."),
]  # fmt: skip


@pytest.mark.parametrize(("older", "newer"), REPLACES)
def test_the_same_kind_of_thing_of_the_same_subject_takes_its_place(older: str, newer: str):
    assert corrects(newer)
    assert takes_place(newer, older)


@pytest.mark.parametrize(("older", "newer"), AFTER_IT)
def test_a_pronoun_or_a_bare_value_means_the_line_just_told(older: str, newer: str):
    assert takes_place(newer, older, last=True)
    assert not takes_place(newer, "The rent of the flat comes to 900 euros.", last=True)


@pytest.mark.parametrize(("older", "newer"), OTHER)
def test_another_subject_or_another_kind_of_thing_replaces_nothing(older: str, newer: str):
    assert not takes_place(newer, older, last=True)


def test_what_marks_a_correction_is_no_part_of_what_is_told():
    assert bare("Oh no, sorry, actually the car is red.") == "the car is red."
    assert bare("Nein, tatsächlich: rot") == "rot"
    assert bare("Actually") == "Actually"
    assert not corrects("My car is red.")


@given(st.text(max_size=80), st.text(max_size=80), st.booleans())
def test_any_two_lines_can_be_compared_and_none_replaces_itself(one: str, other: str, last: bool):
    assert isinstance(takes_place(one, other, last=last), bool)
    assert not takes_place(one, one, last=last)
    assert bare(one)[:1] == "" or bare(one) in one
