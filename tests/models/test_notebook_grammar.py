"""What the notebook takes a message for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.models.notebook.grammar import MAX_INTENTS, Intent, Kind, content_words, read_message

TABLE = [
    ("Remember that the gate code is 4711.", Kind.KEEP, "the gate code is 4711."),
    ("please remember: my sister is called Ada", Kind.KEEP, "my sister is called Ada"),
    ("note that we moved to Porto", Kind.KEEP, "we moved to Porto"),
    ("Note: buy oat milk", Kind.KEEP, "buy oat milk"),
    ("don't forget the tax letter", Kind.KEEP, "the tax letter"),
    ("The dentist is on 3 December at 9.", Kind.KEEP, "The dentist is on 3 December at 9."),
    ("Peter prefers short replies", Kind.KEEP, "Peter prefers short replies"),
    ("Wir ziehen im Mai um.", Kind.KEEP, "Wir ziehen im Mai um."),
    ("When is the dentist?", Kind.ASK, "When is the dentist?"),
    ("what is my sister called", Kind.ASK, "what is my sister called"),
    ("do you remember the gate code?", Kind.ASK, "do you remember the gate code?"),
    ("Peter's favourite colour?", Kind.ASK, "Peter's favourite colour?"),
    ("search my notes for plumber", Kind.ASK, "plumber"),
    ("look up the wifi password", Kind.ASK, "the wifi password"),
    ("tell me about Ada", Kind.ASK, "Ada"),
    ("¿cuándo es la cena?", Kind.ASK, "¿cuándo es la cena?"),
    ("read MEMORY.md", Kind.READ, "MEMORY.md"),
    ("Show me memory/2026-11-15.md", Kind.READ, "memory/2026-11-15.md"),
    ("cat `notes/plan.txt`", Kind.READ, "notes/plan.txt"),
    ("list files", Kind.LIST, "."),
    ("ls memory", Kind.LIST, "memory"),
    ("show the files in memory/", Kind.LIST, "memory/"),
    ("what files are there?", Kind.LIST, "."),
    ("what time is it?", Kind.TIME, ""),
    ("What's the date today?", Kind.TIME, ""),
    ("status", Kind.STATUS, ""),
    ("/status", Kind.STATUS, ""),
    ("what's your status?", Kind.STATUS, ""),
    ("help", Kind.HELP, ""),
    ("What can you do?", Kind.HELP, ""),
    ("which model are you?", Kind.HELP, ""),
    ("How do I connect a real model?", Kind.HELP, ""),
    ("are you an AI?", Kind.HELP, ""),
    ("", Kind.HELP, ""),
    ("hi", Kind.GREET, ""),
    ("Thanks!", Kind.THANK, ""),
    ("good morning", Kind.GREET, ""),
    ("danke dir", Kind.THANK, ""),
    ("good night", Kind.PART, ""),
    ("ok", Kind.NOD, ""),
    ("🦞", Kind.NOD, ""),
    ("?", Kind.HELP, ""),
    ("How are you?", Kind.SELF, ""),
    ("are you ChatGPT?", Kind.SELF, ""),
    ("can you browse the web?", Kind.SELF, ""),
    ("Is my data safe?", Kind.SELF, ""),
    ("can you tell me where my keys are?", Kind.ASK, "can you tell me where my keys are?"),
    ("do you know my name?", Kind.ASK, "do you know my name?"),
    ("what did I tell you today?", Kind.TODAY, ""),
    ("what do you know about me?", Kind.TODAY, ""),
    ("show my notes", Kind.TODAY, ""),
    ("what did I tell you about the gate?", Kind.ASK, "what did I tell you about the gate?"),
    ("remind me tomorrow to buy milk", Kind.REMIND, "remind me tomorrow to buy milk"),
    ("write me a poem about the sea", Kind.BEYOND, "write me a poem about the sea"),
    ("Translate 'good morning' to German", Kind.BEYOND, "Translate 'good morning' to German"),
    ("run ls -la", Kind.BEYOND, "run ls -la"),
    ("tell me a joke", Kind.BEYOND, "tell me a joke"),
    ("write down that we moved", Kind.KEEP, "we moved"),
    ("call mum on Sunday", Kind.KEEP, "call mum on Sunday"),
    ("buy oat milk", Kind.KEEP, "buy oat milk"),
    ("forget the gate code", Kind.FORGET, "the gate code"),
    ("Read HEARTBEAT.md. If nothing needs attention, reply HEARTBEAT_OK.", Kind.HEARTBEAT, ""),
    ("Write durable notes to memory/2026-11-15.md now; reply NO_REPLY if there is nothing to keep.", Kind.SILENT, ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "about"), TABLE)
def test_one_sentence(text: str, kind: Kind, about: str):
    assert read_message(text) == (Intent(kind, about),)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("My cat is called Tom. What is my dog called?", [Kind.KEEP, Kind.ASK]),
        ("Hi! Remember that the bin goes out on Friday.", [Kind.KEEP]),
        ("- milk is out\n- the car needs oil", [Kind.KEEP, Kind.KEEP]),
        ("When is lunch? Who comes?", [Kind.ASK, Kind.ASK]),
        ("Same. Same. Same.", [Kind.KEEP]),
    ],
)
def test_several_sentences(text: str, kinds: list[Kind]):
    assert [intent.kind for intent in read_message(text)] == kinds


def test_what_a_statement_says_is_kept_word_for_word():
    assert read_message("- the car needs oil\n- milk is out")[0].text == "the car needs oil"
    assert read_message("Kaffee: 250 g, 18 €/kg.")[0].text == "Kaffee: 250 g, 18 €/kg."


def test_a_question_about_a_token_is_a_question():
    assert read_message("What does NO_REPLY mean?")[0].kind is Kind.ASK


@given(st.text(max_size=200))
def test_every_message_means_something(text: str):
    found = read_message(text)
    assert 1 <= len(found) <= MAX_INTENTS


def test_words():
    assert content_words("What are the meetings about?") == {"meet"}
    assert content_words("Meeting") == {"meet"}
    assert content_words("Peter's parties") == {"peter", "party"}
    assert content_words("what do you know?") == frozenset()


@pytest.mark.parametrize(
    "text",
    [
        "Remember that my dentist is Dr. Molar on Friday at 3",
        "Note: Mrs. Smith and Prof. Jones meet at St. Mary, e.g. on Monday, ca. 5 pm",
        "Merke dir: Termin z.B. am Montag, Zimmer Nr. 4",
    ],
)
def test_a_short_form_ends_no_sentence(text: str):
    (found,) = read_message(text)
    assert found.kind is Kind.KEEP
    assert found.text.split()[-1] == text.split()[-1]


def test_a_full_stop_ends_a_sentence():
    kinds = [intent.kind for intent in read_message("My cat is Tom. Where does Dr. Molar work?")]
    assert kinds == [Kind.KEEP, Kind.ASK]
