"""A line that gives the value of the very thing that is asked for, by the very words of the question, is an answer for sure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.models.notebook.evidence import Line, ranked, verdict
from homarus.models.notebook.reader import SmallReader
from homarus.models.notebook.stated import states

STATED = [
    ("I'm at the café, what's the wifi password", "The wifi password is hunter2."),
    ("What is the wifi password?", "The wifi password is hunter2."),
    ("What's the wifi password?", "Our wifi password is hunter2."),
    ("wifi password?", "wifi password: hunter2"),
    ("What is my IBAN?", "My IBAN is AT61 1904 3002 3457 3201."),
    ("What is Maria's phone number?", "Maria's phone number is 0664 1234567."),
    ("What is Maria's phone number?", "The phone number of Maria is now 0664 1234567."),
    ("Wie lautet das WLAN-Passwort?", "Das WLAN-Passwort ist Sonnenblume."),
    ("Weißt du noch, wie das WLAN-Passwort lautet?", "Das WLAN-Passwort lautet Sonnenblume"),
    ("Was ist die Telefonnummer von Peter?", "Die Telefonnummer von Peter ist 0660 111."),
    ("Wie lautet Günthers Telefonnummer?", "Die Telefonnummer von Günther ist 0660 111."),
    ("When is my sister's birthday?", "My sister's birthday is 4 May."),
    ("Wann ist Bens Geburtstag?", "Bens Geburtstag ist am 3. Mai."),
    ("What was the gate code again?", "The gate code is 4711."),
    ("Wie war nochmal der Torcode?", "Der Torcode ist 4711."),
    ("Do you know what the gate code is?", "The gate code is 4711."),
    ("Where is the spare key?", "The spare key is under the mat."),
    ("Who is my dentist?", "My dentist is Dr. Kern."),
    ("Wie heißt mein Chef?", "Mein Chef heißt Karl."),
    ("How old is Tom?", "Tom is 43."),
    ("How much is the rent?", "The rent is 900 a month."),
    ("What is my favourite colour?", "My favourite colour is blue."),
]
NOT_STATED = [
    ("I'm at Tom's, what's his wifi password", "The wifi password is hunter2."),
    ("Tom is here, wifi password", "The wifi password is hunter2."),
    ("What is Tom's phone number?", "Maria's phone number is 0664 1234567."),  # another owner
    ("What is my phone number?", "Maria's phone number is 0664 1234567."),
    ("What is Maria's phone number?", "Maria's sister's phone number is 0664 1234567."),
    ("What is her phone number?", "Her phone number is 0664 1234567."),
    ("When is my sister's birthday?", "My brother's birthday is 4 May."),
    ("Wie ist die Nummer von Anna?", "Die Nummer von Ann ist 0660 111."),
    ("What is the gate code?", "The gate code of Ann's house is 4711."),
    ("Wie lautet das WLAN-Passwort?", "Das Netflix-Passwort ist Sonnenblume."),  # another thing
    ("What is my phone number?", "My work phone number is 0664 1234567."),
    ("Wie ist die Handynummer von Peter?", "Die Festnetznummer von Peter ist 0660 111."),
    ("Where is the letter to Ann?", "The letter from Ann is in the box."),
    ("What is the wifi password?", "The old wifi password is hunter2."),
    ("What is the wifi password?", "The wifi password was hunter2."),  # former, denied, or none
    ("What is the wifi password?", "The wifi password is not hunter2."),
    ("Wie lautet das WLAN-Passwort?", "Das WLAN-Passwort ist nicht mehr Sonnenblume."),
    ("Wie lautet das WLAN-Passwort?", "Das WLAN-Passwort ist falsch."),
    ("What is the gate code?", "Is the gate code 4711?"),
    ("What is the gate code?", "The gate code is 4711?"),
    ("What is the wifi password?", "I changed the wifi password on 4 May 2023."),  # only spoken of
    ("What is the gate code?", "Tom says the gate code is 4711."),
    ("What is Maria's phone number?", "Maria's phone number is with the papers."),  # another kind of value
    ("When is my sister's birthday?", "My sister's birthday is a big party."),
    ("Where is the key?", "The key is from Anna."),
    ("Where is the party?", "The party is on Friday."),
    ("Where is the party?", "The party is in two weeks."),
    ("Who is my dentist?", "My dentist is nice."),
    ("Who is my dentist?", "My dentist is in Graz."),
]


@pytest.mark.parametrize(("question", "line"), STATED)
def test_the_very_words_of_a_question_before_a_value_answer_it(question: str, line: str):
    assert states(question, line)


@pytest.mark.parametrize(("question", "line"), NOT_STATED)
def test_another_owner_thing_or_time_and_a_mere_mention_state_nothing(question: str, line: str):
    assert not states(question, line)


@pytest.mark.parametrize(("question", "line"), STATED[:12])
def test_what_is_stated_is_surer_than_any_line_drawn_and_than_any_other_line(question: str, line: str):
    others = [
        Line("The wifi is slow, Maria says.", "a.md#L1"),
        Line("Peter's birthday cake is in the bank.", "a.md#L2"),
    ]
    order = ranked(question, [*others, Line(line, "a.md#L3")], "words", SmallReader())
    assert order[0][1].text == line
    assert order[0][0] >= verdict("words", SmallReader()).least + 1


@given(st.sampled_from(STATED), st.sampled_from(["Zora", "Kuno", "Xaver"]))
def test_with_somebody_elses_name_before_the_thing_nothing_is_stated(pair: tuple[str, str], name: str):
    question, line = pair
    assert not states(question, f"{name}s {line}")
    assert not states(question, f"{name}'s {line.split(' ', 1)[1]}")


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_two_texts_can_be_compared(question: str, line: str):
    assert states(question, line) in (True, False)
