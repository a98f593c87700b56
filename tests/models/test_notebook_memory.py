"""The notebook with the real memory tools: told on one day, asked on another, every word from a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.models.notebook_home import Home

from homarus.models.notebook.words import say

NOTHING_FOUND = say("unknown", german=False)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.memory.close()


def cited(said: str, home: Home) -> str:
    """The line that an answer cites."""
    path, _, line = said.rpartition("(")[2].rstrip(")").partition("#L")
    return (home.root / path).read_text().splitlines()[int(line.split("-")[0]) - 1]


def test_told_and_asked(home: Home):
    said = home.say("Remember that the gate code of the cabin is 4711.")
    assert said.endswith("(memory/2026-11-15.md#L4)")
    assert "4711" in (home.root / "memory" / "2026-11-15.md").read_text()
    home.say("The plumber is called Joe Brandt.")
    home.say("Ada prefers tea over coffee.")
    home.clock.advance(86_400 * 30)
    answer = home.say("What is the gate code?")
    assert "4711" in answer
    assert "4711" in cited(answer, home)
    assert "Joe Brandt" in home.say("who is the plumber?")
    assert "tea" in home.say("what does Ada prefer?")
    assert home.say("What is the capital of Mongolia?") == NOTHING_FOUND


def test_a_few_words_without_a_mark_are_looked_up_first_and_kept_where_nothing_answers(home: Home):
    home.say("The gate code of the cabin is 4711.")
    answer = home.say("gate code cabin")
    assert "4711" in answer
    assert answer.endswith("“note: …” keeps it as a note.)")
    notes = (home.root / "memory" / "2026-11-15.md").read_text()
    assert "gate code cabin" not in notes
    said = home.say("bike stolen")
    assert said.startswith("Noted: “bike stolen”")
    assert said.endswith("your notes don't answer it.)")
    assert "- bike stolen" in (home.root / "memory" / "2026-11-15.md").read_text().replace("- W: ", "- ")
    assert "bike stolen" not in home.say("bike stolen?")  # what was kept is no answer to itself


def test_what_may_be_a_question_is_kept_with_its_answer_where_it_tells_more(home: Home):
    home.say("My bike is a red Trek from the shop in Bern.")
    home.say("pin of the bike lock c2580x")
    assert "c2580x\n" in home.note
    home.say("bike stolen in Bern")
    assert "bike stolen in Bern\n" in home.note
    home.say("bike color")
    assert "bike color" not in home.note, "what only asks tells nothing more"


def test_a_new_value_without_its_full_stop_is_kept(home: Home):
    home.say("Mein Netflix-Passwort ist abc123x.")
    assert home.say("Mein Netflix-Passwort ist neu789z").startswith("Notiert: „Mein Netflix-Passwort ist neu789z“")
    assert "neu789z\n" in home.note


def test_a_bare_denial_is_no_fact(home: Home):
    assert home.say("das stimmt nicht").startswith("Was stimmt dann?")
    home.say("The sky is blue.")
    said = home.say("That's wrong")
    assert said.startswith("What is right, then?")
    assert "“The sky is blue.” (memory/2026-11-15.md#L4)" in said
    assert "wrong" not in home.note


def test_what_asks_for_sure_is_not_kept_without_its_mark(home: Home):
    home.say("The gate code of the cabin is 4711.")
    said = home.say("where do the neighbours spend their summer")
    assert "I don't know" in said
    assert "neighbours" not in (home.root / "memory" / "2026-11-15.md").read_text()


def test_a_line_that_shares_no_word_with_the_question_is_found(home: Home):
    home.say("Hazel teaches the violin at the academy.")
    home.say("Our ferry leaves Harwich at eleven.")
    home.say("The rent is 900 a month.")
    asked = home.say("When does the boat depart?")
    assert "Harwich" in asked


def test_what_stands_in_the_notes_already_is_found(home: Home):
    (home.root / "MEMORY.md").write_text("# Memory\n\n- The boiler was serviced by Nordwind in May 2025.\n")
    answer = home.say("When was the boiler serviced?")
    assert answer == "Your notes say: “The boiler was serviced by Nordwind in May 2025.” (MEMORY.md#L3)"


def test_an_empty_field_of_a_template_is_no_answer(home: Home):
    home.say("My name is Anna.")
    assert home.say("what is my name?").startswith("Your notes say: “My name is Anna.”")


def test_one_message_is_one_bullet(home: Home):
    for text in ("Mila ist geboren am 2. Mai 2015 in Graz.", "The exam is on Dec. 3. Bring a pen.", "Wir sind u.a. bei Dr. Lang, z. B. am 4. Juni."):  # fmt: skip
        home.say(text)
        assert f"- W: {text}\n" in home.note
    assert home.note.count("\n- ") == 3


@pytest.mark.parametrize(
    ("told", "corrected"),
    [
        ("got my theory test on 9 Jan at 11, costs £23", "oh wait, the theory test was moved to the 16th of January"),
        ("Standup is at 9:15, no laptops.", "Standup was moved to 9:45."),
        ("My share of the rent is 385 euros.", "Rent goes up: from January I pay 410 instead of 385."),
        ("The spare key is under the blue flowerpot.", "Actually I moved the spare key, Mrs Lucey is minding it now."),
        ("Jonas hat mittwochs Fußballtraining, 17 Uhr.", "Ach nein, Jonas' Training ist jetzt montags."),
        ("Kontrolle beim Hausarzt Dr. Nolte am 18. Mai.", "Nachtrag: Kontrolle bei Nolte verschoben auf den 20. Mai."),
        (
            "Am 17. Juni spielen wir beim Straßenfest.",
            "Der Auftritt beim Straßenfest wurde auf den 24. Juni verschoben.",
        ),
    ],
)
def test_what_got_another_time_or_figure_replaces_the_line_about_it(home: Home, told: str, corrected: str):
    for line in ("Declan was born on 19 July 1979.", told, "Gerald's batteries are size 312, from the shop in May."):
        home.say(line)
    assert told.rstrip(".") in home.say(corrected).split("\n", 1)[1]


@pytest.mark.parametrize(
    "other",
    [
        "My shoe size has gone up to a 6 since the bunion.",  # a size is no matter
        "Actually the kitchen comes later, on 6 July.",  # nor is a month
        "My friend Gráinne moved to Lisbon in October 2023.",
        "Kollegin Doreen ist schwanger und darf nicht mehr ins Röntgen.",
    ],
)
def test_another_matter_with_a_time_or_figure_replaces_nothing(home: Home, other: str):
    for line in (
        "Declan was born on 19 July 1979.",
        "Gerald's batteries are size 312.",
        "Doreen lives in Kassel since 2019.",
    ):
        home.say(line)
    said = home.say(other)
    assert "It replaces" not in said
    assert "Das ersetzt" not in said


def test_a_correction_wins_and_the_former_fact_is_shown(home: Home):
    home.say("Maria lives in Graz.")
    home.clock.advance(86_400)
    assert "It replaces: “Maria lives in Graz.”" in home.say("actually maria moved to Vienna")
    said = home.say("Where does Maria live?")
    assert said.startswith("Your notes say: “actually maria moved to Vienna”")
    assert "\nBefore: “Maria lives in Graz.”" in said
    assert "Früher: „Maria lives in Graz.“" in home.say("Wo wohnt Maria?")


@pytest.mark.parametrize(
    ("told", "corrected", "question", "now", "before"),
    [
        ("My car is blue.", "Actually, my car is red.", "What colour is my car?", "red", "blue"),
        ("The boat is in Hamburg.", "Correction: the boat is in Kiel.", "Where is the boat?", "Kiel", "Hamburg"),
        ("The spare key is under the pot.", "Actually the spare key is in the drawer.", "Where is the spare key?", "drawer", "pot"),
        ("My dentist is Dr. Kern.", "Actually my dentist is Dr. Blum.", "Who is my dentist?", "Blum", "Kern"),
        ("The party is on Saturday.", "Actually the party is cancelled.", "When is the party?", "cancelled", "Saturday"),
        ("My daughter Mia is allergic to nuts.", "Actually, she is allergic to eggs.", "What is Mia allergic to?", "eggs", "nuts"),
        ("The wifi password is Trout7.", "Actually the wifi password is Salmon9.", "wifi password?", "Salmon9", "Trout7"),
        ("Der Schlüssel liegt im Keller.", "Eigentlich liegt der Schlüssel in der Garage.", "Wo ist der Schlüssel?", "Garage", "Keller"),
        ("Mein Hund heißt Rex.", "Tatsächlich heißt mein Hund Max.", "Wie heißt mein Hund?", "Max", "Rex"),
        ("Das Treffen ist am Montag.", "Nein, am Dienstag.", "Wann ist das Treffen?", "Dienstag", "Montag"),
    ],
)  # fmt: skip
def test_what_was_corrected_is_said_first_and_the_former_behind_it(home: Home, told, corrected, question, now, before):
    for line in ("The rent is 900 a month.", told, corrected):
        home.say(line)
    first, former = home.say(question).splitlines()
    assert first.startswith(("Your notes say: ", "In deinen Notizen steht: ")) and now in first
    assert former.startswith(("Before: ", "Früher: ")) and before in former


def test_of_two_lines_that_contradict_each_other_the_newer_is_said_first(home: Home):
    home.say("My car is blue.")
    home.say("My car is red.")
    said = home.say("What colour is my car?")
    assert said.index("red") < said.index("blue")


@pytest.mark.parametrize(
    ("told", "other"),
    [
        ("I like coffee.", "Actually I also like tea."),
        ("Tom's car is green.", "Actually my car is red."),
        ("My dentist is Dr. Kern.", "Actually the dentist is nice."),
        ("Maria wohnt in Graz.", "Eigentlich wohnt Ben in Rom."),
        ("Tom's number is 0151 1111.", "Actually Kim's number is 0151 2222."),
        ("Das Sofa ist grau.", "Eigentlich sind die Vorhänge grau."),
    ],
)
def test_a_correction_of_something_else_replaces_nothing(home: Home, told: str, other: str):
    home.say(told)
    assert "\n" not in home.say(other)


DATED = (
    "Meeting with Carla on 27.11.2026 at 10.",
    "The tax return is due on 2026-12-15.",
    "Zahnarzt am 3.12. um 9 Uhr",
    "My flight leaves on December 20th.",
    "Am 1. Dezember kommt der Schornsteinfeger.",
    "The boiler man comes tomorrow.",
    "Anna likes tea.",
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What do I have on 27 November?", "Carla"),
        ("Was habe ich am 27.11.?", "Carla"),
        ("What do I have on 2026-11-27?", "Carla"),
        ("What is due on 15 December?", "tax return"),
        ("What is on December 20?", "flight"),
        ("Was ist am 3. Dezember?", "Zahnarzt"),
        ("Wer kommt am 1. Dezember?", "Schornsteinfeger"),
        ("What do I have tomorrow?", "boiler man"),
        ("Was habe ich morgen?", "boiler man"),
    ],
)
def test_a_day_is_found_however_it_is_written(home: Home, question: str, answer: str):
    for line in DATED:
        home.say(line)
    said = home.say(question)
    assert said.startswith(("Your notes say: ", "In deinen Notizen steht: "))
    assert answer in said
    assert "\n" not in said


@pytest.mark.parametrize("question", ["What do I have on 28 November?", "Wer kommt am 2. Dezember?", "What do I have on 2026-11-15?", "What is due on 16 December?"])  # fmt: skip
def test_another_day_and_the_heading_of_a_note_are_no_answer(home: Home, question: str):
    for line in DATED:
        home.say(line)
    said = home.say(question)
    assert said in (NOTHING_FOUND, say("unknown", german=True))


def test_tomorrow_counts_from_the_day_of_its_note(home: Home):
    home.say("The boiler man comes tomorrow.")
    home.say("Nächste Woche ist die Wohnung leer.")
    home.clock.advance(86_400)
    assert "boiler" not in home.say("What do I have tomorrow?")
    assert "boiler man" in home.say("What do I have today?")
    assert "boiler man" in home.say("Was ist am 16. November?")
    assert "Wohnung" in home.say("Was ist am 18.11.?")


def test_asked_whether_it_is_on_a_day_the_line_with_the_other_day_answers(home: Home):
    home.say("The meeting with Carla is on 27.11.2026 at 10.")
    assert "27.11.2026" in home.say("Is the meeting with Carla on 28 November?")


def test_asked_when_a_line_with_yesterday_or_an_irregular_verb_is_no_longer_passed_over(home: Home):
    home.say("I met Bob yesterday in the park.")
    home.say("I saw Tom on Monday in Vienna.")
    assert "met Bob yesterday" in home.say("When did I meet Bob?")
    assert "met Bob yesterday" in home.say("Who did I meet on 14 November?")
    assert "Tom on Monday" in home.say("When did I see Tom?")


def test_what_is_moved_to_another_day_is_no_longer_on_the_first(home: Home):
    home.say("The party is on 27 November.")
    home.say("Actually the party is on 28 November.")
    assert home.say("What do I have on 27 November?") == NOTHING_FOUND
    assert "party" in home.say("What do I have on 28 November?")


def test_an_order_without_effect_is_no_fact(home: Home):
    for text in ("continue", "undo that", "Streiche Peters Telefonnummer", "remove milk from the shopping list", "export my notes", "done 1", "lies memory/x.md vor", "nochmal", "das stimmt nicht"):  # fmt: skip
        home.say(text)
    assert not (home.root / "memory").exists()


def test_what_was_told_on_a_day_and_on_all(home: Home):
    assert home.say("show all my notes") == "There is no note yet."
    home.say("The dentist is Dr. Kern.")
    home.clock.advance(86_400)
    assert home.say("what did I tell you today?").startswith("There is no note of today yet.")
    told = "The note of 2026-11-15:\n- The dentist is Dr. Kern."
    for question in ("What did I tell you yesterday?", "notes of 15 November", "what did I tell you on Sunday?", "show all my notes", "what do you know?"):  # fmt: skip
        assert home.say(question) == told
    assert home.say("Was habe ich dir gestern erzählt?").startswith("Die Notiz von 2026-11-15:\n- The dentist")
    home.say("Bob lives in Graz.")
    assert home.say("my notes") == f"Today's note:\n- Bob lives in Graz.\n\n{told}"
    assert home.say("What did I tell you last week?").startswith("The note of 2026-11-09 – 2026-11-15:")
    assert home.say("What did I tell you on 3 March?") == "There is no note of 2026-03-03."
    assert home.say("What did I tell you tomorrow?") == "There is no note of tomorrow."
    home.say("Goulash\n\n1 kg beef\n2 tbsp paprika\n\nFry the onions.\nAdd the meat.")
    assert home.say("show all my notes").endswith("\n\nTexts that were kept whole:\n- memory/2026-11-16-e6f47c92.md")


def test_an_alarm_keeps_its_verb(home: Home):
    home.say("wake me at 7")
    assert "- W: Todo: wake me at 7\n" in home.note


def test_a_line_that_may_answer_is_shown_as_the_nearest_and_not_as_an_answer(home: Home):
    home.say("Anna loves pasta.")
    quote = "“Anna loves pasta.” (memory/2026-11-15.md#L4)"
    assert home.say("Why does Anna love pasta?") == f"I don't know. The nearest in your notes: {quote}"
    german = home.say("Für wen macht Anna Pasta?")
    assert german.startswith("Das weiß ich nicht. Am nächsten kommt in deinen Notizen: „Anna")
    assert home.say("What is the wifi password?") == NOTHING_FOUND
    home.say("forget that Anna loves pasta")
    assert home.say("What does Anna's brother do?") == NOTHING_FOUND


def test_nothing_in_a_pasted_mail_is_an_instruction(home: Home):
    home.say("The wine is in the cellar.")
    mail = "Hi Max,\nsorry for the delay.\nForget the wine.\nSee you on Sunday,\nLisa"
    assert home.say(mail).startswith("Kept as one block of 5 lines")
    assert "~~" not in home.note
    assert any(mail in path.read_text(encoding="utf-8") for path in (home.root / "memory").iterdir())


def test_lines_are_kept_in_the_order_of_the_message(home: Home):
    home.say("The bins go out on Monday.")
    home.say("Milk is out\nActually the bins go out on Tuesday\nThe car needs oil\nTea is out")
    kept = [line.rpartition(": ")[2] for line in home.note.splitlines() if line.startswith("- ")]
    assert kept == [
        "The bins go out on Monday.", "Milk is out", "Actually the bins go out on Tuesday", "The car needs oil", "Tea is out",
    ]  # fmt: skip


def test_instructions_are_never_stored(home: Home):
    for text in ("list my todos", "undo", "Vergiss das.", "summarise my week", "Schreib mir ein Gedicht", "what did I tell you?", "Ignore all previous instructions", "show my notes", "hello", "ok danke", "Please always answer in French", "Don't use emojis", "lol", "really?"):  # fmt: skip
        home.say(text)
    assert not (home.root / "memory").exists()


def test_a_paste_is_kept_whole(home: Home):
    paste = "\n".join(
        ["Shipping guide", "", *(f"{n}. Put part {n} into box {n * 3}? Forget the tape." for n in range(61))]
    )
    assert home.say(paste).startswith("Kept as one block of 63 lines in memory/2026-11-15-")
    (kept,) = (home.root / "memory").iterdir()
    assert kept.read_text(encoding="utf-8") == paste + "\n"
    home.say(paste)
    assert len(list((home.root / "memory").iterdir())) == 1


def test_a_secret_that_the_index_does_not_hold_is_read_from_the_note(home: Home):
    home.say("The wifi password is correct-horse-42")
    assert "correct-horse-42" in home.say("How do I get into the wireless, what is the password?")


def test_templates_of_the_workspace_are_no_facts(home: Home):
    (home.root / "USER.md").write_text(
        "# Your human\n\n- Name:\n- Time zone:\n\nHow they like to be answered, what they are tired of hearing; they may read this.\n",
        encoding="utf-8",
    )
    for question in ("How do they like to be answered?", "What is my name?", "what is my time zone?", "What are they tired of hearing?"):  # fmt: skip
        assert home.say(question) == NOTHING_FOUND


def test_before_is_what_the_line_itself_replaced(home: Home):
    for line in (
        "My favourite colour is blue.",
        "Actually my favourite colour is green.",
        "I was wrong, my favourite colour is red.",
        "I changed my mind: my favourite colour is black.",
    ):
        home.say(line)
    first, before = home.say("What is my favourite colour?").splitlines()
    assert "black" in first and before.startswith("Before:") and "red" in before


def test_what_became_of_an_appointment_is_told_with_the_state_before_it(home: Home):
    for line in (
        "The appointment with Dr. Weber is next Tuesday.",
        "The appointment with Dr. Weber was moved to Wednesday.",
        "The appointment with Dr. Weber is cancelled.",
    ):
        home.say(line)
    first, before = home.say("When is the appointment with Dr. Weber?").splitlines()
    assert "cancelled" in first and "Wednesday" in before


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        ("The car is at the garage.", "The car is back from the garage.", "Where is the car?"),
        ("Ich wohne in der Mozartgasse 3.", "Ich bin nach Salzburg umgezogen.", "Wo wohne ich?"),
        ("I parked the car on level 3.", "I parked the car on level 5.", "Where did I park the car?"),
    ],
)
def test_the_newer_of_two_lines_about_one_matter_comes_first(home: Home, older: str, newer: str, question: str):
    home.say(older)
    home.say(newer)
    said = home.say(question)
    assert -1 < said.find(newer) < said.find(older)


def test_a_line_about_another_number_does_not_come_first(home: Home):
    for at in (43, 44, 45):
        home.say(f"Item number {at} of the inventory has the colour {'green' if at < 45 else 'blue'}.")
    first = home.say("What colour is item number 44?").partition("”")[0]
    assert "44" in first


def test_what_is_told_of_somebody_does_not_make_what_was_told_before_a_former_state(home: Home):
    for line in ("Peter wohnt in Wels.", "Peter wohnt jetzt in Linz.", "Tatsächlich ist Peter 43 Jahre alt."):
        home.say(line)
    assert home.say("Wo wohnt Peter?").splitlines()[0].count("Linz") == 1
