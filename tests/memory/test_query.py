from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.memory.query import analyse, intents_of, names_in, time_spans

TODAY = date(2026, 6, 17)
NAMES = [
    ("Melanie", ()),
    ("Caroline", ()),
    ("Anna Berg", ()),
    ("Anna Holm", ()),
    ("Robert", ("Bob", "Bobby")),
    ("Decision", ()),
]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("What did Melanie paint?", ("Melanie",)),
        ("what did melanie paint?", ("Melanie",)),
        ("What did Mel paint?", ("Melanie",)),
        ("Where is Melanie's car?", ("Melanie",)),
        ("Did Bob call?", ("Robert",)),
        ("Did Anna Berg call?", ("Anna Berg",)),
        ("Did Anna call?", ()),  # two people
        ("Did Caroline meet Melanie?", ("Melanie", "Caroline")),
        ("melt the butter", ()),
        ("the carol singers", ()),
        ("which decision was made", ()),  # a label, no person
        ("", ()),
    ],
)
def test_names(text, found):
    assert set(names_in(text, NAMES)) == set(found)


def test_names_leave_the_core():
    query = analyse("What did Melanie paint in the garden?", today=TODAY, names=NAMES)
    assert query.terms == ("melanie", "paint", "garden")
    assert query.core == ("paint", "garden")
    assert analyse("Melanie", today=TODAY, names=NAMES).core == ("melanie",)


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("When did it start?", "when"),
        ("How long has she lived there?", "when"),
        ("what year was that", "when"),
        ("how many cats", "how_many"),
        ("Who called?", "who"),
        ("Where did they go?", "where"),
        ("What does Peter prefer?", "preference"),
        ("Where does he live now?", "current"),
        ("list all the boats", "list"),
    ],
)
def test_intents(text, intent):
    assert intent in intents_of(text)
    assert "when" not in intents_of("the boats")


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("what happened since 2025-11-27", "2025-11-27", "9999-12-31"),
        ("anything after 2025-11-27?", "2025-11-27", "9999-12-31"),
        ("notes before 2025-11-27", "0001-01-01", "2025-11-27"),
        ("all notes until May 2026", "0001-01-01", "2026-05-31"),
        ("plans since last week", "2026-06-08", "9999-12-31"),
        ("plans since 2025", "2025-01-01", "9999-12-31"),
        ("on 2025-11-27", "2025-11-27", "2025-11-27"),
    ],
)
def test_open_ranges(text, first, last):
    (span,) = time_spans(text, TODAY)
    assert (span.first.isoformat(), span.last.isoformat()) == (first, last)


@given(st.text(max_size=150))
def test_any_question_can_be_taken_apart(text):
    query = analyse(text, today=TODAY, names=NAMES)
    assert set(query.core) <= set(query.terms)


def test_words_that_only_shape_a_question_are_not_looked_for():
    asked = analyse("What kind of things did Anna mention about boats?", today=TODAY, names=[("Anna", ())])
    assert asked.core == ("boats",)
    assert "kind" in asked.terms
    assert analyse("boat kind", today=TODAY).core == ("boat", "kind")  # no question: every word is meant
    assert analyse("What type?", today=TODAY).core == ("type",)
