"""Everything about somebody: how it is asked for, and which lines speak of them."""

from __future__ import annotations

import json

import pytest

from homarus.models.notebook.about import everything, speaks
from homarus.models.notebook.evidence import answer
from homarus.models.notebook.match import aliases
from homarus.models.notebook.reader import SmallReader

LINES = ("Lisa is vegetarian.", "Tom lives in Rome.", "Lisa lives in Linz.", "My sister Lisa works at the zoo.")


def asked(question: str, *lines: str, replaces: int | None = None) -> str:
    rows = [
        {"path": "memory/2026-11-19.md", "startLine": at, "snippet": f"- W: {line}"} for at, line in enumerate(lines, 1)
    ]
    if replaces is not None:
        rows[-1]["snippet"] = f"- W(sup=memory/2026-11-19.md#L{replaces}): {lines[-1]}"
    return answer(question, [json.dumps(rows)], SmallReader())


@pytest.mark.parametrize(
    ("question", "whom"),
    [
        ("What do you know about Lisa?", "Lisa"),
        ("What else do I have about the boat?", "the boat"),
        ("What did I tell you about Lisa?", "Lisa"),
        ("everything about Lisa", "Lisa"),
        ("Tell me everything you know about my sister", "my sister"),
        ("What do my notes say about Lisa?", "Lisa"),
        ("Was weißt du über Lisa?", "Lisa"),
        ("Was weißt du alles über meine Schwester?", "meine Schwester"),
        ("Was habe ich dir über Lisa erzählt?", "Lisa"),
        ("Was steht in meinen Notizen über Lisa?", "Lisa"),
        ("alles über Lisa", "Lisa"),
        ("Lisa?", "Lisa?"),
        ("Where does Lisa live?", ""),
        ("What is the wifi password?", ""),
        ("wifi password?", ""),
        ("Was kostet das Boot?", ""),
        ("", ""),
    ],
)
def test_whom_a_question_wants_to_hear_everything_about(question: str, whom: str):
    assert everything(question) == whom


@pytest.mark.parametrize(
    "question", ["What do you know about Lisa?", "Was weißt du über Lisa?", "What do you know about my sister?"]
)
def test_all_lines_about_somebody_are_listed_the_oldest_first(question: str):
    said = asked(question, *LINES)
    places = [said.find(line) for line in LINES if "Lisa" in line]
    assert -1 not in places and places == sorted(places)
    assert "Rome" not in said


def test_what_was_replaced_is_not_listed_and_nothing_told_is_unknown():
    assert "in Linz" not in asked("What do you know about Lisa?", *LINES, "Lisa lives in Wels.", replaces=3)
    assert asked("What do you know about Bob?", *LINES).startswith("I don't know")
    assert speaks("my sister", "Lisa sings.", aliases(LINES)) and not speaks(
        "my brother", "Lisa sings.", aliases(LINES)
    )
