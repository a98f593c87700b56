"""Instructions on how to answer, and notes to oneself that only sound so."""

from __future__ import annotations

import pytest

from homarus.models.notebook.orders import on_manner


@pytest.mark.parametrize(
    "text",
    [
        "Please always answer in French",
        "always reply in English",
        "From now on speak German with me.",
        "Please be brief",
        "you should always be polite",
        "Don't use emojis",
        "Never mention my sister",
        "don't tell me what to do",
        "Keep your answers short",
        "Antworte immer auf Deutsch",
        "Sei bitte kurz",
        "Benutze keine Emojis",
        "Never tell anyone my password",
        "Sag niemandem mein Passwort",
        "Erwähne meine Schwester nie",
        "Frag mich nicht nach meiner Schwester",
    ],
)
def test_it_is_about_answers_or_about_me(text: str):
    assert on_manner(text)


@pytest.mark.parametrize(
    "text",
    [
        "Don't put the cat's bowl in the dishwasher",
        "Don't tell anyone about the party",
        "Don't tell Tom my new address",
        "Never lend Tom money again",
        "Don't mention the party to Anna",
        "Never answer the door after ten",
        "Always use the blue bin for paper",
        "be nice to Anna",
        "Be at the station at 6",
        "From now on I work on Tuesdays",
        "Write to Anna in German",
        "Sprich mit Frau Kunz über die Miete",
        "Ann speaks German with me",
    ],
)
def test_it_is_a_note_to_oneself(text: str):
    assert not on_manner(text)
