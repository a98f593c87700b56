"""Forgetting, undoing, ticking off, and lists, with the real memory tools."""

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


def test_forgotten_is_struck_through_and_not_quoted_again(home: Home):
    home.say("The gate code is 4711.")
    home.say("The alarm code is 2580.")
    assert home.say("forget the gate code").startswith("Struck through: “The gate code is 4711.”")
    assert "- W: ~~The gate code is 4711.~~\n" in home.note
    said = home.say("What is the code of the gate?")
    assert said.startswith("I don't know") and "4711" not in said
    assert "2580" in home.say("What is the alarm code?")
    assert home.say("forget the garage").startswith("I found no such note")
    home.say("Peter owes me ten euros.")
    assert home.say("Vergiss das.").startswith("Durchgestrichen: „Peter owes me ten euros.“")
    assert home.say("Vergiss das.").startswith("So eine Notiz finde ich nicht"), "it is struck already"


@pytest.mark.parametrize(
    ("told", "order"),
    [
        ("Maria's phone number is 0664 1234567.", "forget Maria's phone number"),
        ("Das WLAN-Passwort ist Sonnenblume.", "Vergiss das WLAN-Passwort"),
        ("Die Telefonnummer von Peter ist 0660 111.", "Vergiss die Telefonnummer von Peter"),
        ("My landlord's name is Mr. Brown.", "Forget my landlord's name"),
        ("Peter wohnt in Linz.", "streiche den letzten Eintrag"),
    ],
)
def test_what_a_line_states_is_forgotten_by_its_name(home: Home, told: str, order: str):
    home.say("The bins go out on Monday.")
    home.say(told)
    home.say(order)
    assert f"- W: ~~{told}~~\n" in home.note
    assert home.note.count("~~") == 2


def test_what_was_told_twice_is_known_and_forgotten_wherever_it_stands(home: Home):
    home.say("The gate code is 4711.")
    home.say("Anna likes tea.")
    home.say("The gate code is 4711.")
    first = home.root / "memory" / "2026-11-15.md"
    home.clock.advance(86_400)
    home.say("The gate code is 4711.")
    assert home.say("What is the gate code?").startswith("Your notes say: “The gate code is 4711.”")
    assert home.say("forget the gate code").startswith("Struck through: “The gate code is 4711.”")
    assert first.read_text(encoding="utf-8").count("~~The gate code is 4711.~~") == 2
    assert "~~The gate code is 4711.~~" in home.note
    assert "4711" not in home.say("What is the gate code?")
    home.say("undo")
    assert "~~" not in first.read_text(encoding="utf-8") + home.note


def test_with_what_is_forgotten_goes_what_it_had_replaced(home: Home):
    home.say("The alarm code is 1234.")
    home.say("Actually the alarm code is 9999.")
    said = home.say("forget the alarm code")
    assert "1234" in said and "9999" in said
    assert home.say("What is the alarm code?") == NOTHING_FOUND
    assert home.say("undo").startswith("Back again: ")
    assert "9999" in home.say("What is the alarm code?").splitlines()[0]
    home.say("forget that the alarm code is 1234")
    assert "~~The alarm code is 1234.~~" in home.note


def test_the_last_change_is_undone_and_then_the_one_before(home: Home):
    home.say("Anna likes tea.")
    home.say("todo: pay the rent")
    home.say("Vergiss das.")
    assert "~~Todo: pay the rent~~" in home.note
    assert home.say("undo").startswith("Back again: “Todo: pay the rent”")
    assert "~~" not in home.note
    assert home.say("undo that").startswith("Struck through: “Todo: pay the rent”")
    assert home.say("undo").startswith("Struck through: “Anna likes tea.”")
    assert home.say("undo").startswith("I found no such note")


def test_a_text_that_was_kept_whole_is_forgotten_by_its_title(home: Home):
    home.say("Goulash\n\n1 kg beef\n2 tbsp paprika\n\nFry the onions.\nAdd the meat.")
    (page,) = (home.root / "memory").iterdir()
    home.say("forget the goulash")
    assert page.read_text(encoding="utf-8").count("~~") == 10
    home.say("undo")
    assert page.read_text(encoding="utf-8").count("~~") == 0


def test_a_list_has_all_that_was_put_on_it_and_not_taken_off(home: Home):
    home.say("Shopping list: milk, bread and eggs")
    home.say("Add butter to the shopping list")
    both = home.say("What is on my shopping list?")
    assert "milk, bread and eggs" in both and "butter" in both
    assert "“Shopping list: bread, eggs”" in home.say("remove the milk from the shopping list")
    left = home.say("What is on the shopping list?")
    assert "milk" not in left and "bread, eggs" in left and "butter" in left
    assert home.say("remove bread from my list").startswith("Noted: “Shopping list: eggs”")
    assert home.say("take butter off the shopping list").startswith("Struck through: “Shopping list: butter”")
    assert home.say("What's on the shopping list?").startswith("Your notes say: “Shopping list: eggs”")
    home.say("undo")
    home.say("undo")
    assert "bread, eggs" in home.say("show the shopping list")
    assert home.say("remove soap from the shopping list").startswith("I found no such note")


def test_a_list_that_nobody_made_is_looked_up_like_anything_else(home: Home):
    home.say("Put Tom on the guest list for the party.")
    assert "Tom" in home.say("What is on the guest list?")


def test_tasks_are_ticked_off_by_number_or_where_they_stand_twice(home: Home):
    for text in ("todo water the lawn", "todo: buy stamps", "- [ ] paint the fence", "todo: buy stamps"):
        home.say(text)
    assert [line.split(" (")[0] for line in home.say("my todos").splitlines()[1:]] == ["- water the lawn", "- paint the fence", "- buy stamps"]  # fmt: skip
    assert home.say("done 2").startswith("Done: “Todo: paint the fence”")
    home.say("done: buy stamps")
    assert home.note.count("~~Todo: buy stamps~~") == 2
    assert home.say("done 7").startswith("I found no such note")


def test_an_errand_that_was_run_names_the_task_that_is_open(home: Home):
    home.say("I have to call the bank tomorrow")
    home.say("todo: pay the rent by Friday")
    said = home.say("I called the bank")
    assert said.startswith("Noted: “I called the bank”")
    assert "(Still to do: “Todo: call the bank tomorrow”" in said
    assert "\n" not in home.say("I bought a house")
    assert home.say("mark the rent as done").startswith("Done: “Todo: pay the rent by Friday”")


def test_between_two_that_fit_alike_it_asks(home: Home):
    home.say("The gate code is 4711.")
    home.say("The gate code of the farm is 1234.")
    before = home.note
    assert home.say("forget the gate code").startswith("Which one?")
    assert home.note == before


def test_todos_are_listed_and_ticked_off(home: Home):
    assert home.say("my todos") == "Nothing to do stands in your notes."
    home.say("todo: pay the gas bill")
    home.say("call mum on Sunday")
    assert "I cannot remind you by myself" in home.say("remind me to water the ferns")
    assert [line.split(" (")[0] for line in home.say("what do I have to do?").splitlines()] == [
        "To do:", "- pay the gas bill", "- call mum on Sunday", "- water the ferns",
    ]  # fmt: skip
    assert home.say("done: pay the gas bill").startswith("Done: “Todo: pay the gas bill”")
    assert "gas" not in home.say("meine Aufgaben")


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("todo: buy printer paper", "I finished reading the paper"),
        ("todo: clean the garage", "I have completed the garage course"),
        ("I need to buy paint and fix the roof.", "I finished painting the fence"),
        ("todo: buy paper", "I finished the paper"),
        ("todo: Keller aufräumen", "Der Kellerbrand ist erledigt"),
    ],
)
def test_what_only_sounds_like_a_tick_is_kept_as_a_note(home: Home, task: str, said: str):
    home.say(task)
    home.say(said)
    assert "~~" not in home.note
    assert f"{said}\n" in home.note


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("todo: clean the garage", "I finished cleaning the garage"),
        ("todo: do the laundry", "I've done the laundry"),
        ("todo: Gasrechnung bezahlen", "Die Gasrechnung ist erledigt"),
        ("todo: buy printer paper", "done: paper"),
        ("todo: buy printer paper", "I’ve done the printer paper todo"),
    ],
)
def test_a_sentence_that_names_the_task_ticks_it_off(home: Home, task: str, said: str):
    home.say(task)
    assert home.say(said).startswith(("Done: “Todo: ", "Erledigt: „Todo: "))
    assert home.note.count("\n- ") == 1


def test_one_word_in_common_is_not_enough_to_strike(home: Home):
    for text in ("todo: call the plumber", "todo: buy printer paper", "The gate code is 5."):
        home.say(text)
    for text in ("done: call mum", "done: buy milk", "forget the safe code", "forget everything", "Drop the gate key at Ann's"):  # fmt: skip
        home.say(text)
    assert "~~" not in home.note
