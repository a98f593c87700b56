"""Which line of the notes a correction is about, and which none is."""

from __future__ import annotations

import pytest

from homarus.models.notebook.evidence import Line
from homarus.models.notebook.replaced import same_matter


def meant(correction: str, *lines: str) -> str | None:
    told = [Line(line, f"memory/2026-11-19.md#L{at}") for at, line in enumerate(lines, 1)]
    found = same_matter(correction, told, told[-1].source)
    return found.text if found else None


@pytest.mark.parametrize(
    "correction",
    [
        "Actually Paul has a dog named Rex.",
        "Sorry, Paul's email is paul@example.org.",
        "Update: Paul bought a house.",
        "No, Paul is vegetarian.",
        "Oops, I forgot to tell you that Paul is married to Eva.",
        "Tatsächlich ist Paul 43 Jahre alt.",
    ],
)
def test_a_name_in_common_is_not_enough(correction: str):
    assert meant(correction, "Paul lives in Paris.") is None


def test_each_thing_told_of_somebody_stands_beside_the_others():
    assert meant("Actually Paul's house has 5 rooms.", "Update: Paul bought a house.") is None
    assert meant("correction: opening night is now the 9th", "matinees start at 2.30, evening shows at 7.15") is None


def test_it_is_what_was_told_just_before():
    quote, other = "Vikram's car is in at Kwik Fit for a new clutch, they quoted £620.", "Kwik Fit closes at 6."
    correction = "Actually Kwik Fit rang, it'll be £710 because the flywheel has to be done too."
    assert meant(correction, other, quote) == quote
    assert meant(correction, quote, "Gerald's batteries are size 312.") is None


@pytest.mark.parametrize(
    ("correction", "line"),
    [
        ("Actually Paul moved to Rome.", "Paul lives in Paris."),
        (
            "correction: best man is Femi, Marcus can't get leave",
            "Marcus is best man, he's booked Gdansk for the stag, 4-6 July",
        ),
        ("oh wait, the theory test was moved to the 16th of January", "got my theory test on 9 Jan at 11, costs £23"),
        ("Actually I moved the spare key, Mrs Lucey is minding it now.", "The spare key is under the blue flowerpot."),
        (
            "Not Thursday after all, DryRight comes next Monday.",
            "The damp will be treated on Thursday by a firm called DryRight.",
        ),
        ("Oh no, podiatry for Kenji is cancelled.", "Kenji: podiatry on 18 April at 9.15."),
    ],
)
def test_the_same_kind_of_thing_of_the_same_matter_is_meant(correction: str, line: str):
    assert meant(correction, "Declan was born on 19 July 1979.", line, "Gerald's batteries are size 312.") == line
