from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.memory.timex import find_spans, has_time_word, iso_days, parse_time

TODAY = date(2026, 6, 17)  # a Wednesday
YEARS = (2025, 2026)


def spans(text, years=()):
    return [(s.first.isoformat(), s.last.isoformat(), s.precision) for s in find_spans(text, TODAY, years)]


@pytest.mark.parametrize(
    ("text", "first", "last", "precision"),
    [
        ("on 2025-11-27", "2025-11-27", "2025-11-27", "day"),
        ("in 2025-11", "2025-11-01", "2025-11-30", "month"),
        ("8 May 2023", "2023-05-08", "2023-05-08", "day"),
        ("the 8th of May, 2023", "2023-05-08", "2023-05-08", "day"),
        ("May 8th, 2023", "2023-05-08", "2023-05-08", "day"),
        ("May 2023", "2023-05-01", "2023-05-31", "month"),
        ("early June 2025", "2025-06-01", "2025-06-12", "month"),
        ("late June 2025", "2025-06-19", "2025-06-30", "month"),
        ("mid-June 2025", "2025-06-09", "2025-06-21", "month"),
        ("summer 2022", "2022-06-01", "2022-08-31", "season"),
        ("winter of 2022", "2022-12-01", "2023-02-28", "season"),
        ("in 2024", "2024-01-01", "2024-12-31", "year"),
        ("last week", "2026-06-08", "2026-06-14", "week"),
        ("this week", "2026-06-15", "2026-06-21", "week"),
        ("last weekend", "2026-06-13", "2026-06-14", "day"),
        ("last month", "2026-05-01", "2026-05-31", "month"),
        ("last year", "2025-01-01", "2025-12-31", "year"),
        ("yesterday", "2026-06-16", "2026-06-16", "day"),
        ("three days ago", "2026-06-14", "2026-06-14", "day"),
        ("2 weeks ago", "2026-05-31", "2026-06-06", "week"),
        ("a month ago", "2026-05-01", "2026-05-31", "month"),
        ("ten years ago", "2016-01-01", "2016-12-31", "year"),
        ("past 3 days", "2026-06-14", "2026-06-17", "week"),
        ("last Friday", "2026-06-12", "2026-06-12", "day"),
        ("on Wednesday", "2026-06-17", "2026-06-17", "day"),
        ("last Wednesday", "2026-06-10", "2026-06-10", "day"),
        ("next Monday", "2026-06-22", "2026-06-22", "day"),
        ("around Nov 27, 2025", "2025-11-24", "2025-11-30", "day"),
        ("Nov 27–Dec 1, 2025", "2025-11-27", "2025-12-01", "day"),
        ("March 3-5, 2026", "2026-03-03", "2026-03-05", "day"),
        ("3-5 March 2026", "2026-03-03", "2026-03-05", "day"),
        ("30 February 2024", "2024-02-01", "2024-02-29", "month"),
        ("in March", "2026-03-01", "2026-03-31", "month"),
        ("in May", "2026-05-01", "2026-05-31", "month"),
        ("in August", "2025-08-01", "2025-08-31", "month"),
        ("3 September", "2025-09-03", "2025-09-03", "day"),
    ],
)
def test_phrases(text, first, last, precision):
    assert spans(f"What happened {text}?") == [(first, last, precision)]


@pytest.mark.parametrize(
    "text",
    [
        "May I come in?",
        "you may go",
        "the soldiers march on",
        "Ask April about June",
        "August is a name",
        "my Mac mar the finish",
        "a spring in the mattress",
        "they fall down",
        "version 1.2.3 of 80 percent",
        "2025-13-45 is no day",
        "call 1234-56-789",
    ],
)
def test_what_is_no_date(text):
    assert spans(text) == []


def test_a_date_without_a_year_stands_for_every_year_of_the_notes():
    assert spans("on 8 May", YEARS) == [("2025-05-08", "2025-05-08", "day"), ("2026-05-08", "2026-05-08", "day")]


def test_a_year_alone_is_never_its_first_day():
    (span,) = find_spans("in 2024", TODAY)
    assert (span.last - span.first).days == 365


def test_leap_days_exist_only_in_leap_years():
    assert spans("29 February", (2023, 2024)) == [("2024-02-29", "2024-02-29", "day")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2025-11-27", ("2025-11-27", "2025-11-27", "day")),
        ("2025-11", ("2025-11-01", "2025-11-30", "month")),
        ("2025", ("2025-01-01", "2025-12-31", "year")),
        ("2025-11-27..2025-12-01", ("2025-11-27", "2025-12-01", "day")),
        ("2025..2026-03", ("2025-01-01", "2026-03-31", "day")),
        ("2025-02-30", None),
        ("2026..2025", None),
        ("soon", None),
        ("", None),
    ],
)
def test_times_of_the_retain_grammar(text, expected):
    span = parse_time(text)
    assert (span and (span.first.isoformat(), span.last.isoformat(), span.precision)) == expected


def test_time_words():
    assert has_time_word("see you sunday")
    assert not has_time_word("no clue")


def test_days_in_paths():
    assert list(iso_days("memory/2025-01-01/2026-02-03-trip.md")) == [date(2025, 1, 1), date(2026, 2, 3)]
    assert list(iso_days("memory/12025-01-011.md")) == []


@given(st.text(max_size=120), st.dates())
def test_any_text_on_any_day_gives_valid_ranges(text, today):
    for span in find_spans(text, today):
        assert span.first <= span.last


@given(
    st.lists(
        st.sampled_from(
            [
                "last",
                "next",
                "may",
                "3",
                "5th",
                "june",
                "2024",
                "ago",
                "ten",
                "years",
                "days",
                "weeks",
                "on",
                "monday",
                "-",
                "since",
                "winter",
                "early",
                "9999",
            ]
        ),
        max_size=10,
    ),
    st.dates(),
)
def test_time_soup_gives_valid_ranges(words, today):
    for span in find_spans(" ".join(words), today):
        assert span.first <= span.last
