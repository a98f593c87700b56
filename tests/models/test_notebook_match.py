"""What speaks for a line as an answer: whose name it holds, where that stands, and what form a value has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.models.notebook.evidence import Line, compared, more_names, named, ranked, verdict
from homarus.models.notebook.language import read
from homarus.models.notebook.match import aliases, matches, of_another, relatives
from homarus.models.notebook.reader import SmallReader, near


def lacks(question: str, line: str) -> float:
    """Return how far the line is without the kind of value that the question wants."""
    return matches(read(question), [(line, read(line))], {})[0].no_value


@pytest.mark.parametrize(
    ("question", "answers", "speaks_of_it"),
    [
        ("What is the cat called?", "Our cat is called Minka.", "The cat sitter is Mrs. Okonjo."),
        ("What are the dogs called?", "The dogs, Rex and Bella, bark.", "We sleep at Ida's in Glasgow, she has two dogs."),
        ("Wie heißt der Wirt?", "Der Wirt heißt Sepp.", "Das Treffen mit Hans ist beim alten Wirt."),
        ("Who is Bukola marrying?", "Bukola marries Tunde in July.", "Bukola is getting married in Lagos."),
        ("How long is the dinghy?", "The dinghy is 3.2 m.", "The rent of the dinghy is paid till March."),
        ("How long is the dinghy?", "The dinghy is 3 m.", "The dinghy is laid up for 22 pounds a month."),
        ("What is Greta charging us?", "Greta wants 40 euros.", "Greta wants the files soon."),
        ("Um wie viel Uhr ist Probe?", "Probe ab halb acht.", "Probe mit 30 Leuten."),
        ("Wann ist der Laden zu?", "Der Laden ist zu bis Aschermittwoch.", "Der Laden ist zu."),
        ("What does the room cost?", "The room is CHF 79.", "The room is quiet."),
        ("Wann hört Benedikt auf?", "Benedikt hört zum Jahresende auf.", "Benedikt hört auf."),
        ("How old is Oma?", "Oma is eighty.", "Oma is tired."),
    ],
)  # fmt: skip
def test_a_line_about_the_matter_without_the_value_is_behind_one_that_has_it(
    question: str, answers: str, speaks_of_it: str
):
    assert lacks(question, answers) == 0.0
    assert lacks(question, speaks_of_it) >= 0.5


def test_how_many_is_no_sum_and_a_hyphen_no_difference():
    assert read("Wie viele Gäste kommen?").wanted == ("@number",)
    assert {word.stem for word in read("X-rays").words} & {word.stem for word in read("Xray").words}


def test_words_in_common_count_only_so_far():
    line = "The blue kitchen table from Leeds with the oak drawers costs much."
    found = matches(read("Which blue kitchen table with oak drawers from Leeds costs much?"), [(line, read(line))], {})
    assert found[0].found <= 2.0
    assert found[0].lead <= 1.0


@pytest.mark.parametrize(
    ("question", "was", "will_be"),
    [
        ("Where did I buy the drum kit?", "I bought the drum kit in Leeds.", "The drum kit is at Efua's in Croydon."),
        ("When was the roof repaired?", "The roof was repaired in May.", "The roof gets new tiles on 3 May."),
        ("Was hat der Traktor gekostet?", "Der Traktor hat 9.000 Euro gekostet.", "Der Traktor ist ein Fendt 211."),
    ],
)
def test_asked_what_was_a_line_about_what_is_says_less(question: str, was: str, will_be: str):
    past, other = compared(question, [Line(was, "a.md#L1"), Line(will_be, "a.md#L2")])
    assert (past.no_past, other.no_past) == (0.0, 1.0)
    assert compared("Where is the drum kit?", [Line(will_be, "a.md#L2")])[0].no_past == 0.0
    assert compared("Was arbeitet Ida?", [Line(will_be, "a.md#L2")])[0].no_past == 0.0  # the German word for what


def test_a_line_brings_its_cosines_or_its_words_stand_in_for_them():
    given, none = compared("Who?", [Line("Ann", "a.md#L1", cosine=0.6, bare=0.2), Line("Ben", "a.md#L2")])
    assert (given.cosine, given.bare, none.bare) == (0.6, 0.2, 0.0)
    assert none.cosine == near("Who?", ["Ben"])[0]


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("In what city is my mum?", "My mother stays in Poltava."),
        ("What does my eldest son do?", "Our eldest, Joel, is a doctor."),
        ("Unter welcher Nummer erreiche ich den Wirt?", "Der Wirt hat die 0151 5550."),
    ],
)
def test_nobody_is_missing_from_a_line_that_speaks_of_them(question: str, line: str):
    assert compared(question, [Line(line, "a.md#L1")])[0].no_name == 0.0


@pytest.mark.parametrize(
    ("lines", "relation", "names"),
    [
        (["My sister Ann lives in Rome."], "sister", ["Ann"]),
        (["Mein Bruder heißt Uwe."], "Bruder", ["Uwe"]),
        (["My sisters Ann (7) and Eve"], "sister", ["Ann", "Eve"]),
        (["Our cats are Ida (7), Bo and Lu."], "cat", ["Ida", "Bo", "Lu"]),
        (["Ann and I got married in May"], "wife", ["Ann"]),
        (["Ich bin mit Paul verheiratet"], "Mann", ["Paul"]),
        (["My wife Heike", "Heike's mother Elfriede is 93"], "mother-in-law", ["Elfriede"]),
        (["Unsere Tochter Fiona", "Fionas Mann heißt Callum"], "son-in-law", ["Callum"]),
        (["Uwe's wife Gesine cooks", "Birgit and her Mann Fiete"], "wife husband", []),  # not ours
        (["Frau Kowalczyk kommt am Freitag"], "wife", []),  # a title
        (["Meine Frau Gabi"], "wife", ["Gabi"]),
        (["Ich esse Porridge mit Salz, nie mit Zucker"], "wife husband", []),
    ],
)
def test_the_notes_say_who_is_who(lines, relation, names):
    wanted = {idea for word in read(relation).words for idea in word.kin}
    assert [name for name, kin in relatives(lines) if kin & wanted] == names


def test_who_reads_a_question_is_told_the_names():
    found = [Line("My wife Heike sings", "a.md#L1"), Line("Our dog Rex bites", "a.md#L2")]
    assert named("When was my wife born?", found) == "When was my wife Heike born?"
    assert named("What does Heike, my wife, sing?", found) == "What does Heike, my wife, sing?"
    assert named("Where is the key?", found) == "Where is the key?"
    assert more_names("my wife's dog?", found) == "Heike Rex"


@given(st.lists(st.text(max_size=60), max_size=5), st.text(max_size=60))
def test_whatever_the_notes_say_a_question_only_gains_words(lines, question):
    shown = named(question, [Line(line, "a.md#L1") for line in lines])
    assert len(shown) >= len(question)


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("Wie heißt unsere Katze?", "Unser Hund heißt Bello."),
        ("Where does the cat sleep?", "The dog sleeps in the kitchen."),
        ("Wie heißt meine Tochter?", "Meine Frau heißt Petra."),
        ("Who is my daughter?", "Meine Frau heißt Petra."),
        ("Where does my sister live?", "My brother Tom lives in Rome."),
        ("When is my mother's birthday?", "My father was born on 3 May."),
        ("What colour is item number 44?", "Line 61: item number 61 of the inventory, colour blue."),
        ("Wer wohnt in Zimmer 12?", "In Zimmer 14 wohnt Frau Huber."),
    ],
)
def test_another_animal_relative_or_number_is_no_answer(question: str, line: str):
    assert of_another(question, read(line), {})
    found = [Line(line, "a.md#L1")]
    assert ranked(question, found, "words", SmallReader())[0][0] < verdict("words", SmallReader()).least


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("Wie heißt unser Haustier?", "Unser Hund heißt Bello."),
        ("What is our pet called?", "Our cat is called Minka."),
        ("How many siblings do I have?", "My brother is called Tom."),
        ("Wie heißt mein Kind?", "Meine Tochter heißt Bella."),
        ("Where does my mum live?", "My mother lives in Rome."),
        ("Where does my sister live?", "My brother lives with my sister in Rome."),
        ("When is my nephew's birthday?", "My sister had her baby on 3 May."),
        ("Where does my wife's mother live?", "My mother-in-law lives in Rome."),
        ("Who drives our mother?", "My brother brings her to the clinic."),
        ("What is in room 12?", "Room 12 and room 14 are full."),
        ("Is the party in room 12?", "The party is in room 14."),
        ("Who feeds the cat?", "My brother feeds Minka."),
        ("What did the father of the bride say?", "My brother lives in Rome."),
    ],
)
def test_whoever_may_be_meant_is_no_other(question: str, line: str):
    assert not of_another(question, read(line), aliases(["Our cat is called Minka."]))


def test_a_phone_number_is_one_at_the_end_of_a_sentence_too():
    assert lacks("What is Maria's phone number?", "Maria's phone number is 0664 1234567.") == 0.0
    assert lacks("What is Maria's phone number?", "Maria's bill is 0664 1234567.50") > 0.5
