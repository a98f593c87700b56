"""Questions without a mark, and lines that only look like one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.models.notebook.asks import MAYBE, SURE, asks, signs


@pytest.mark.parametrize(
    "text",
    [
        "landlord's number",
        "code to open the lock",
        "until when do I have to upload the papers",
        "In welchem Lokal feiert Vater",
        "Name vom Hausarzt",
        "price of the antenatal class",
        "wann Ferien",
    ],
)
def test_it_asks(text: str):
    assert asks(text) >= MAYBE


@pytest.mark.parametrize(
    "text",
    [
        "did my ankle in last month, physio says no running before Christmas",
        "the spare key is under the pot",
        "Pin fürs Handy ist 2211",
        "Ich vertrage keine Laktose.",
        "dentist moved to Tuesday 3pm",
        "wifi: homebase22",
        "Schlüssel liegt bei Frau Kunz",
    ],
)
def test_it_tells(text: str):
    assert asks(text) < MAYBE


def test_a_question_word_makes_it_sure():
    assert asks("where did I put the passport") >= SURE
    assert asks("wann kommt der Schornsteinfeger") >= SURE


@given(st.text())
def test_every_text_has_signs_and_a_figure(text: str):
    assert signs(text)
    assert asks(text) == asks(text)
