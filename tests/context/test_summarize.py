import pytest

from homarus.context.summarize import HEADINGS, identifiers, problems, reflects
from homarus.core.messages import Assistant, Text, User

GOOD = "\n".join(f"## {heading}\n- something about the invoice ACME-42 and the deadline" for heading in HEADINGS)


def test_a_good_summary_passes() -> None:
    assert problems(GOOD, ask="Please pay the invoice before the deadline", names=["ACME-42"]) == []


def test_each_fault_is_named() -> None:
    found = problems("short", ask="Book the flight to Lisbon", names=["LH-1234"])
    assert [text.split(":")[0].split(" ")[0] for text in found] == ["it", "these", "it", "these"]
    assert "## Exact identifiers" in found[1]
    assert "Lisbon" in found[2]
    assert "LH-1234" in found[3]


def test_the_last_ask_may_be_said_in_other_words() -> None:
    assert reflects("The user wants the flights to Lisbon booked.", "Book a flight to Lisbon on Friday")
    assert not reflects("Everything is done.", "Book a flight to Lisbon on Friday")
    assert reflects("anything", "ok?")


def test_names_are_taken_from_people_and_models_newest_first() -> None:
    messages = [
        User((Text("See https://a.example/x and ticket ABC-7, mail ann@b.example, file /srv/a/notes.md, code 4711."),)),
        Assistant((Text("Commit 3f2a9c1 fixes 550e8400-e29b-41d4-a716-446655440000. It was defaced in 2026."),)),
    ]
    found = identifiers(messages)
    assert set(found) == {
        "https://a.example/x",
        "ABC-7",
        "ann@b.example",
        "/srv/a/notes.md",
        "4711",
        "3f2a9c1",
        "550e8400-e29b-41d4-a716-446655440000",
    }
    assert found[0] == "3f2a9c1"
    assert len(identifiers([User((Text(" ".join(str(n) for n in range(5000, 5100))),))])) == 12


@pytest.mark.parametrize(
    "text",
    [
        "It was founded in 1848 and rebuilt in 1999, again in 2026.",
        "Plan for 2025/2026, (2027) and 2100: nothing yet.",
        "Report FY-2026, Q3-2026 and SEP-26 in UTF-8 with SHA-256, see ISO-8601.",
        "on 2026-05-01 at noon",
    ],
)
def test_years_and_norms_are_no_identifiers(text):
    assert identifiers([User((Text(text),))]) == []


def test_a_year_inside_of_a_name_is_part_of_it():
    text = "Order 48213, ticket OPS-2026, port 8080, /srv/2026/report.pdf"
    assert identifiers([User((Text(text),))]) == ["48213", "OPS-2026", "8080", "/srv/2026/report.pdf"]
