"""Dates in text: explicit days, months, seasons and relative phrases become closed day ranges. Pure; `today` is given.

A range keeps its precision, because a year must never behave like its first of January.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterator
from datetime import date
from functools import cache

from msgspec import Struct

from homarus.core.text import fold

_MONTHS = """january jan,february feb,march mar,april apr,may,june jun,july jul,august aug,september sept sep,october oct,
november nov,december dec"""
MONTHS = {name: number for number, names in enumerate(_MONTHS.split(","), 1) for name in names.split()}
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
SEASONS = {"spring": (3, 5), "summer": (6, 8), "fall": (9, 11), "autumn": (9, 11), "winter": (12, 2)}
_NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
NUMBERS = {word: number for number, word in enumerate(_NUMBERS)} | {"a": 1, "an": 1, "couple of": 2, "a couple of": 2}
NUMBERS |= {"few": 3, "a few": 3, "several": 4}
_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
_ORDINAL = r"(?:st|nd|rd|th)?"
# Words that are months and something else too; alone, without a day or a year, they need a preposition before them.
_AMBIGUOUS = {"may", "march", "mar", "jan", "sep", "dec", "jun", "august", "april", "june"}
_BEFORE_MONTH = r"(?:in|during|of|since|by|until|till|through|from|before|after|last|next|this|early|late|mid)[\s-]+$"


class Span(Struct, frozen=True):
    """A closed range of days that a phrase names, and how exact the phrase was."""

    first: date
    last: date
    precision: str  # day | week | month | season | year | open
    phrase: str = ""

    def shift(self, days: int) -> Span:
        return Span(_clamp(self.first, -days), _clamp(self.last, days), self.precision, self.phrase)


def iso_days(text: str) -> Iterator[date]:
    """Yield every valid YYYY-MM-DD of a text, such as the one in the name of a daily note."""
    for match in re.finditer(r"(?<!\d)(\d{4})-(\d\d)-(\d\d)(?!\d)", text):
        day = _day(int(match[1]), int(match[2]), int(match[3]))
        if day:
            yield day


def parse_time(text: str) -> Span | None:
    """Read the `time` of the Retain grammar: a date, a month, a year, or `a..b`."""
    first, dots, last = text.strip().partition("..")
    start = _point(first)
    if start is None:
        return None
    end = _point(last) if dots else start
    if end is None or end.last < start.first:
        return None
    return Span(start.first, end.last, start.precision if not dots else "day", text.strip())


def _point(text: str) -> Span | None:
    match = re.fullmatch(r"\s*(\d{4})(?:-(\d\d))?(?:-(\d\d))?\s*", text)
    if not match:
        return None
    year, month, day = (int(part) if part else None for part in match.groups())
    assert year is not None
    if month is None:
        return Span(date(year, 1, 1), date(year, 12, 31), "year") if year else None
    if not 1 <= month <= 12 or not year:
        return None
    if day is None:
        return Span(date(year, month, 1), _month_end(year, month), "month")
    exact = _day(year, month, day)
    return Span(exact, exact, "day") if exact else None


def find_spans(text: str, today: date, years: tuple[int, ...] = ()) -> list[Span]:
    """Return the ranges that a text names. A date without a year stands for that date in each of `years`.

    Without `years` the nearest date that is not in the future is meant. Relative phrases count from `today`.
    """
    return _Finder(text, today, years).run()


def has_time_word(text: str) -> bool:
    """Say whether a text, in lower case, speaks of time at all."""
    return _time_words().search(text) is not None


@cache
def _maybe_time() -> re.Pattern[str]:
    return re.compile(
        r"\b(?:ago|today|yesterday|tomorrow|tonight|last|previous|this|next|past|on|\d{4}|spring|summer|fall|autumn|winter|"
        + _MONTH
        + r")\b"
    )


def _family(word: str) -> str:
    """Return which group of rules a word can start; rules of other groups are not even tried."""
    if word in MONTHS:
        return "month"
    if word in SEASONS:
        return "season"
    if word.isdigit():
        return "digits"
    return {"ago": "ago", "today": "near", "yesterday": "near", "tomorrow": "near", "tonight": "near"}.get(
        word, "relative"
    )


@cache
def _time_words() -> re.Pattern[str]:
    return re.compile(
        r"\b(?:yesterday|today|tonight|tomorrow|last|next|ago|weeks?|weekend|months?|years?|days?|"
        + "|".join(WEEKDAYS)
        + r"|morning|since|recently|soon|just|\d{4}|"
        + _MONTH
        + r")\b"
    )


class _Finder:
    """One pass over one text: patterns from exact to vague, and no character is read twice."""

    def __init__(self, text: str, today: date, years: tuple[int, ...]) -> None:
        self.text = text.lower() if text.isascii() else fold(text)
        self.today = today
        self.years = years
        self.taken: list[tuple[int, int]] = []
        self.found: list[Span] = []

    def run(self) -> list[Span]:
        seen = set(_maybe_time().findall(self.text))
        families = {_family(word) for word in seen}
        for needs, pattern, read in _rules() if families else ():
            if needs not in families:
                continue
            for match in _compiled(pattern).finditer(self.text):
                if all(match.end() <= start or match.start() >= end for start, end in self.taken):
                    spans = read(self, match)
                    if spans:
                        self.taken.append(match.span())
                        self.found += [Span(s.first, s.last, s.precision, match[0].strip()) for s in spans]
        return self.found

    def year_choices(self, given: str | None, month: int, day: int = 1) -> list[int]:
        if given:
            return [int(given)]
        if self.years:
            return list(self.years)
        this = self.today.year
        candidate = _day(this, month, day)
        chosen = this if candidate is None or candidate <= self.today else this - 1
        return [chosen] if chosen > 0 else []

    def iso(self, match: re.Match[str]) -> list[Span]:
        day = _day(int(match[1]), int(match[2]), int(match[3]))
        return [Span(day, day, "day")] if day else []

    def iso_month(self, match: re.Match[str]) -> list[Span]:
        span = _point(match[0])
        return [span] if span else []

    def day_range(self, match: re.Match[str]) -> list[Span]:
        groups = match.groupdict()
        first_month = MONTHS[groups["m"]]
        last_month = MONTHS[groups["n"]] if groups["n"] else first_month
        spans = []
        for year in self.year_choices(groups["y"], first_month):
            first = _day(year, first_month, int(groups["d"]))
            last = _day(year + (last_month < first_month), last_month, int(groups["e"]))
            if first and last and first <= last:
                spans.append(Span(first, last, "day"))
        return spans

    def month_day(self, match: re.Match[str]) -> list[Span]:
        groups = match.groupdict()
        month = MONTHS[groups["m"]]
        days = (_day(year, month, int(groups["d"])) for year in self.year_choices(groups["y"], month, 28))
        spans = [Span(day, day, "day") for day in days if day]
        near = re.search(r"\b(?:around|about|near|circa|roughly)\s+$", self.text[: match.start()])
        return [span.shift(3) for span in spans] if near else spans

    def month(self, match: re.Match[str]) -> list[Span]:
        part, name, given = match["part"], match["m"], match["y"]
        alone = name in _AMBIGUOUS and not given and not part
        if alone and not re.search(_BEFORE_MONTH, self.text[: match.start()]):
            return []
        spans = []
        for year in self.year_choices(given, MONTHS[name]):
            first, last = date(year, MONTHS[name], 1), _month_end(year, MONTHS[name])
            if part in {"early", "beginning of", "start of"}:
                last = date(year, MONTHS[name], 12)
            elif part in {"late", "end of"}:
                first = date(year, MONTHS[name], 19)
            elif part in {"mid", "middle of"}:
                first, last = date(year, MONTHS[name], 9), date(year, MONTHS[name], 21)
            spans.append(Span(first, last, "month"))
        return spans

    def season(self, match: re.Match[str]) -> list[Span]:
        low, high = SEASONS[match["s"]]
        rel = match["rel"] or ""
        vague = not match["y"] and not rel and match["s"] in {"spring", "fall"}  # a jump and a tumble, too
        if vague and not re.search(r"\b(?:in|during|of|since|the)\s+$", self.text[: match.start()]):
            return []
        if rel == "last":
            year = self.today.year - (0 if self.today.month > high and high >= low else 1)
            choices = [year]
        elif rel:
            choices = [self.today.year]
        else:
            choices = self.year_choices(match["y"], low)
        spans = []
        for year in choices:
            end_year = year + 1 if high < low else year
            if not (year > 0 and end_year <= date.max.year):
                continue
            spans.append(Span(date(year, low, 1), _month_end(end_year, high), "season"))
        return spans

    def year(self, match: re.Match[str]) -> list[Span]:
        return [Span(date(int(match[1]), 1, 1), date(int(match[1]), 12, 31), "year")]

    def ago(self, match: re.Match[str]) -> list[Span]:
        count = _count(match["n"])
        unit = match["u"]
        if unit == "day":
            day = _clamp(self.today, -count)
            return [Span(day, day, "day")]
        if unit == "week":
            day = _clamp(self.today, -7 * count)
            return [Span(_clamp(day, -3), _clamp(day, 3), "week")]
        if unit == "month":
            year, month = _months_back(self.today, count)
            return [Span(date(year, month, 1), _month_end(year, month), "month")] if year > 0 else []
        year = self.today.year - count
        return [Span(date(year, 1, 1), date(year, 12, 31), "year")] if year > 0 else []

    def past(self, match: re.Match[str]) -> list[Span]:
        count = _count(match["n"]) if match["n"] else 1
        days = {"day": 1, "week": 7, "month": 31, "year": 366}[match["u"]] * count
        return [Span(_clamp(self.today, -days), self.today, "week" if days <= 14 else "month")]

    def relative_unit(self, match: re.Match[str]) -> list[Span]:
        step = {"last": -1, "previous": -1, "this": 0, "next": 1}[match["r"]]
        monday = _clamp(self.today, -self.today.weekday())
        if match["u"] == "week":
            start = _clamp(monday, 7 * step)
            return [Span(start, _clamp(start, 6), "week")]
        if match["u"] == "weekend":
            start = _clamp(monday, 7 * step + 5)
            return [Span(start, _clamp(start, 1), "day")]
        if match["u"] == "month":
            year, month = _months_back(self.today, -step)
            return [Span(date(year, month, 1), _month_end(year, month), "month")] if 0 < year < 9999 else []
        year = self.today.year + step
        return [Span(date(year, 1, 1), date(year, 12, 31), "year")] if 0 < year < 9999 else []

    def near_day(self, match: re.Match[str]) -> list[Span]:
        step = {"today": 0, "tonight": 0, "yesterday": -1, "tomorrow": 1}[match[1]]
        day = _clamp(self.today, step)
        return [Span(day, day, "day")]

    def weekday(self, match: re.Match[str]) -> list[Span]:
        target = WEEKDAYS.index(match["w"])
        rel = match["rel"] or ""
        if rel == "next":
            day = _clamp(self.today, (target - self.today.weekday() - 1) % 7 + 1)
        else:
            back = (self.today.weekday() - target) % 7
            day = _clamp(self.today, -(back or (7 if rel == "last" else 0)))
        return [Span(day, day, "day")]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@cache
def _rules() -> tuple[tuple[str, str, Callable[[_Finder, re.Match[str]], list[Span]]], ...]:
    year = r"(?:,?\s*(?P<y>(?:19|20)\d\d)\b)?"
    dash = r"\s*(?:-|–|—|to|until|through)\s*"
    count = r"(?P<n>\d{1,3}|a couple of|couple of|a few|few|several|an?|" + "|".join(_NUMBERS) + ")"
    day, month, ordinal = r"(?P<d>\d{1,2})", rf"(?P<m>{_MONTH})\b\.?", _ORDINAL
    late = rf"(?P<e>\d{{1,2}}){ordinal}\b"
    units = "(?P<u>day|week|month|year)"
    part = "early|mid|late|(?:beginning|middle|end|start) of"
    before = "in|during|of|for|since|year|before|after|until|by|from"
    of_year = r"(?:\s+(?:of\s+)?(?P<y>(?:19|20)\d\d)\b)?"
    return (
        ("digits", r"(?<![\d-])(\d{4})-(\d\d)-(\d\d)(?!\d)", _Finder.iso),
        ("digits", r"(?<![\d-])(?:19|20)\d\d-(?:0[1-9]|1[0-2])(?![\d-])", _Finder.iso_month),
        ("month", rf"\b{month}\s+{day}{ordinal}{dash}(?:(?P<n>{_MONTH})\b\.?\s+)?{late}{year}", _Finder.day_range),
        ("month", rf"\b{day}{ordinal}{dash}{late}\s+(?:of\s+)?{month}(?P<n>)?{year}", _Finder.day_range),
        ("month", rf"\b{day}{ordinal}\s+(?:of\s+)?{month}{year}", _Finder.month_day),
        ("month", rf"\b{month}\s+{day}{ordinal}\b(?![\d:]){year}", _Finder.month_day),
        ("month", rf"\b(?:(?P<part>{part})[\s-]+)?{month}{year}", _Finder.month),
        ("season", rf"\b(?:(?P<rel>last|this|past)\s+)?(?P<s>{'|'.join(SEASONS)})\b{of_year}", _Finder.season),
        ("digits", rf"\b(?:{before})\s+((?:19|20)\d\d)\b(?!-)", _Finder.year),
        ("ago", rf"\b{count}\s+{units}s?\s+ago\b", _Finder.ago),
        ("relative", rf"\b(?:past|last)\s+(?:{count}\s+){units}s?\b", _Finder.past),
        ("relative", rf"\bpast\s+(?P<n>){units}\b", _Finder.past),
        ("relative", r"\b(?P<r>last|previous|this|next)\s+(?P<u>week|weekend|month|year)\b", _Finder.relative_unit),
        ("near", r"\b(today|tonight|yesterday|tomorrow)\b", _Finder.near_day),
        ("relative", rf"\b(?:(?P<rel>last|this|next|on|past)\s+)(?P<w>{'|'.join(WEEKDAYS)})\b", _Finder.weekday),
    )


def _count(text: str) -> int:
    return int(text) if text.isdigit() else NUMBERS.get(text, 1)


def _day(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _month_end(year: int, month: int) -> date:
    return date(year, month, monthrange(year, month)[1])


def _months_back(day: date, count: int) -> tuple[int, int]:
    index = day.year * 12 + day.month - 1 - count
    return index // 12, index % 12 + 1


def _clamp(day: date, days: int) -> date:
    """Move a day without ever leaving the calendar."""
    return date.fromordinal(min(max(day.toordinal() + days, 1), date.max.toordinal()))
