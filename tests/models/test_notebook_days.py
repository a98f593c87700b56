"""Days as people write them, in both languages; and which line speaks of the day that a question names."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.models.notebook.days import agenda, days, meets, spelled, whether

TODAY = date(2026, 11, 18)  # a Wednesday
ENGLISH = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
GERMAN = [
    "Januar",
    "Februar",
    "März",
    "April",
    "Mai",
    "Juni",
    "Juli",
    "August",
    "September",
    "Oktober",
    "November",
    "Dezember",
]
FORMS = (
    lambda day: day.isoformat(),
    lambda day: f"{day.day}.{day.month}.{day.year}",
    lambda day: f"{day.day:02}.{day.month:02}.{day.year % 100:02}",
    lambda day: f"{day.day}/{day.month}/{day.year}",
    lambda day: f"{day.day} {ENGLISH[day.month - 1]} {day.year}",
    lambda day: f"the {day.day}th of {ENGLISH[day.month - 1]} {day.year}",
    lambda day: f"{ENGLISH[day.month - 1]} {day.day}, {day.year}",
    lambda day: f"{ENGLISH[day.month - 1][:3]}. {day.day}th, {day.year}",
    lambda day: f"am {day.day}. {GERMAN[day.month - 1]} {day.year}",
)
WITHOUT_YEAR = (
    lambda day: f"am {day.day}.{day.month}.",
    lambda day: f"{day.day} {ENGLISH[day.month - 1]}",
    lambda day: f"on {ENGLISH[day.month - 1]} {day.day}",
    lambda day: f"am {day.day}. {GERMAN[day.month - 1]} um 9 Uhr",
)
any_modern = st.dates(date(2000, 1, 1), date(2090, 12, 31))
any_day = st.dates(date(1950, 1, 1), date(2090, 12, 31))


@given(any_modern, st.sampled_from(FORMS), any_day)
def test_a_day_is_read_however_it_is_written(day: date, form, written: date):
    assert [one.ranges for one in days(f"Dinner {form(day)}", written)] == [((day, day),)]
    assert [one.ranges for one in days(f"Dinner {form(day)}")] == [((day, day),)]


@given(any_day, st.sampled_from(WITHOUT_YEAR), any_day)
def test_without_a_year_a_note_means_the_next_such_day_and_a_question_any(day: date, form, written: date):
    (named,) = days(f"Dinner {form(day)}", written)
    ((first, last),) = named.ranges
    assert first == last >= written
    assert (first.month, first.day) == (day.month, day.day)
    assert first - written < timedelta(days=366 * 8 + 1)
    assert meets(days(f"What is {form(day)}?", written, asked=True), days(f"Dinner on {day.isoformat()}"))


@given(any_modern, st.sampled_from(FORMS), any_modern, st.sampled_from(FORMS))
def test_a_question_meets_a_line_with_its_day_and_no_other(asked: date, one, told: date, other):
    question = days(f"What is on {one(asked)}?", TODAY, asked=True)
    assert meets(question, days(f"Dinner {other(told)}", TODAY)) is (asked == told)
    assert meets(question, days(f"Dinner {other(asked)}", TODAY)) is True
    assert meets(question, days("Dinner", TODAY)) is None


@given(st.text(max_size=60), any_day)
def test_any_text_is_read(text: str, written: date):
    for one in days(text, written):
        assert text[one.start : one.end]
        assert all(first <= last for first, last in one.ranges)
    assert isinstance(spelled(days(text, written, asked=True)), str)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("tomorrow", "2026-11-19", "2026-11-19"),
        ("übermorgen", "2026-11-20", "2026-11-20"),
        ("gestern", "2026-11-17", "2026-11-17"),
        ("Morgen kommt Ann", "2026-11-19", "2026-11-19"),
        ("next week", "2026-11-23", "2026-11-29"),
        ("letzte Woche", "2026-11-09", "2026-11-15"),
        ("am Wochenende", "2026-11-21", "2026-11-22"),
        ("on Friday", "2026-11-20", "2026-11-20"),
        ("next Wednesday", "2026-11-25", "2026-11-25"),
        ("letzten Montag", "2026-11-16", "2026-11-16"),
        ("11/27/2026", "2026-11-27", "2026-11-27"),  # day first, unless it cannot be one
        ("on 1/12", "2026-12-01", "2026-12-01"),
        ("am 29.2.", "2028-02-29", "2028-02-29"),
    ],
)
def test_relative_days_count_from_the_day_of_writing(text: str, first: str, last: str):
    assert [one.ranges for one in days(text, TODAY)] == [((date.fromisoformat(first), date.fromisoformat(last)),)]


@pytest.mark.parametrize(
    "text",
    ["Guten Morgen", "open 24/7", "he sat in the sun", "it may 5 times", "um 9.30 Uhr", "am 31.2.", "1/2 cup", "10.20.30.40", "1.5 kg"],
)  # fmt: skip
def test_what_is_no_day_is_none(text: str):
    assert days(text, TODAY) == []


def test_a_weekday_beside_a_date_adds_nothing_and_one_that_comes_again_is_each():
    assert meets(days("on 20 November", TODAY, asked=True), days("Fri 27 November", TODAY)) is False
    assert meets(days("on 20 November", TODAY, asked=True), days("Choir every Friday", TODAY)) is True
    assert meets(days("am Freitag", TODAY, asked=True), days("Chor ist montags", TODAY)) is False
    assert meets(days("on Friday", TODAY, asked=True), days("The doctor comes on Friday", date(2025, 1, 1))) is None


def test_what_a_question_about_a_day_asks_for():
    for text, all_of_it in (("What do I have on 27 November?", True), ("Was steht morgen an?", True), ("Who comes on Friday?", False)):  # fmt: skip
        assert agenda(text, days(text, TODAY, asked=True)) is all_of_it
    assert not agenda("What do I have?", [])
    assert whether("Is the party on Friday?") and not whether("Who comes on Friday?")
    assert "27.11.2026" in spelled(days("on 27 November", TODAY, asked=True))
