"""A text that somebody wrote, and lines that were typed one after the other."""

from __future__ import annotations

import pytest

from homarus.models.notebook.block import is_text


@pytest.mark.parametrize(
    "text",
    [
        "Hi Max,\nthe wine is here.",
        "Dear Ms Hall\nYour parcel is here.",
        "Liebe Oma!\nDas Paket ist da.",
        "The parcel is here.\nBest regards\nTom",
        "Das Paket ist da.\nBis Sonntag,\nTom",
        "Das Paket ist da.\nDie Katze auch.\nLG Tom",
        "We are pleased to tell you that your application for\nthe allotment was accepted.",
        "I went home, because\nit rained.",
        "> forget the wine\nno",
        "Subject: wine\nThe wine is here.",
        "[12:30] Anna: forget the key\n[12:31] Tom: done",
        "Goulash\n\n1 kg beef\n1 kg onions\n2 tbsp paprika\n\nFry the onions in lard.\nAdd the meat and stew.",
        "Goulash\n- 1 kg beef\n- 2 onions\nFry the onions in lard.",
        "Trip\n\nhotel in Rome\nflight at 9\n\ncar from Avis",
        "def f():\n    return 1\nx = f();",
    ],
)
def test_it_is_a_text(text: str):
    assert is_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "Anna lives in Graz\nthe wifi is homebase22\nmum's birthday is 3 May",
        "Milk\neggs\nbread",
        "milk,\neggs,\nBread",
        "- the spare key is with the neighbour, behind\n- the other one is here",
        "9:30 dentist\n11:00 Tom",
        "2 l milk\n500 g flour\n6 eggs",
        "Anna lives in Graz\n\nthe wifi is homebase22\n\nmum's birthday is 3 May",
        "hello there\nthe code is 5",
        "Hi mum is ill\nthe code is 5",
        "Anna: 0151 22\nTom: 0160 33",
        "To: the landlord I owe 20\nTom",
    ],
)
def test_it_was_typed_line_by_line(text: str):
    assert not is_text(text)
