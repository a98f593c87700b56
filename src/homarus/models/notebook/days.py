"""Days that a text names, however they are written, in English and German. Pure; the day that a text was written on is given.

`memory/timex.py` reads English for ranking, where a date without a year is the last such day; a note speaks of the next one, and a
question that leaves the year out means the day in any year.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta

from msgspec import Struct, structs

from homarus.core.patterns import late
from homarus.models.notebook.language import MONTH, fold, read, stem

_MONTHS = {name: number for number, names in enumerate(["jan", "feb", "mar", "apr", "may,mai", "jun", "jul", "aug", "sep", "oct,okt", "nov", "dec,dez"], 1) for name in names.split(",")}  # fmt: skip
_NAMES = "January Januar,February Februar,March März,April April,May Mai,June Juni,July Juli,August August,September September,October Oktober,November November,December Dezember"
_WEEKDAYS = ("mon", "tue die", "wed mit", "thu don", "fri fre", "sat sam son", "sun son")
_WEEKDAY = r"(?P<w>(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:days?)?\b|(?:(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch|sonnabend)s?\b)"
_YEAR = r"(?:,?\s+(?P<y>(?:19|20)\d\d)\b)?"
_PATTERNS = [
    late(pattern, re.IGNORECASE)
    for pattern in (
        r"(?<![\d.-])(?P<y>(?:19|20)\d\d)-(?P<m>\d\d)-(?P<d>\d\d)(?!\d)",
        r"(?<![\d.,])(?P<d>\d{1,2})\.\s?(?P<m>\d{1,2})\.(?:\s?(?P<y>(?:19|20)\d\d|\d\d(?!\d|\s?(?:uhr|h\b|:))))?(?!\d)",
        r"(?<![\d/])(?P<d>\d{1,2})/(?P<m>\d{1,2})/(?P<y>(?:19|20)\d\d|\d\d)(?![\d/])",
        r"\b(?:on|by|until|till|am|vom|bis|zum)\s(?P<d>\d{1,2})/(?P<m>\d{1,2})(?![\d/])",
        rf"(?<![\d.,:-])(?P<d>\d{{1,2}})(?:st|nd|rd|th|\.)?\s+(?:of\s+)?(?P<name>{MONTH})\.?{_YEAR}",
        rf"\b(?P<name>{MONTH})\.?\s+(?:the\s+)?(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\b(?![.:]\d|\s?(?:am|pm|%|€)\b){_YEAR}",
        r"\b(?P<near>day after tomorrow|day before yesterday|today|tonight|tomorrow|yesterday|heute|übermorgen|vorgestern|gestern)\b",
        r"(?<!guten )(?<!heute )(?<!gestern )(?<!am )(?<!jeden )(?<!tag )(?<!woch )\b(?P<near>morgen)\b",
        r"\b(?P<r>this|next|last|coming|diese[rnms]?|(?:über)?nächste[rnms]?|kommende[rnms]?|letzte[rnms]?|vorige[rnms]?)\s+(?P<unit>week(?:end)?|woche(?:nende)?)\b",
        r"\b(?P<r>am|at the|on the)\s+(?P<unit>weekend|wochenende)\b",
        rf"\b(?:(?P<r>this|next|last|coming|every|each|diese[rnms]?|nächste[rnms]?|kommende[rnms]?|letzte[rnms]?|vorige[rnms]?|jede[rnms]?)\s+)?{_WEEKDAY}",
    )
]  # fmt: skip
_BESIDE = late(r"[,.]?\s+(?:(?:the|den|dem|der),?\s+)?", re.IGNORECASE)
_WORDS = (
    "have got planned plan plans happening happens happen going on up scheduled schedule appointment appointments event events calendar anything something agenda "
    "steht stehen ansteht an los geplant vor termin termine Termin Termine kalender Kalender haben habe gibt etwas irgendwas"
)
_NEAR = {"today": 0, "tonight": 0, "heute": 0, "tomorrow": 1, "morgen": 1, "yesterday": -1, "gestern": -1, "übermorgen": 2,
         "vorgestern": -2, "day after tomorrow": 2, "day before yesterday": -2}  # fmt: skip
_AGENDA = frozenset(map(stem, _WORDS.split(" ")))
_WHETHER = late(
    r"\W*(?:is|are|was|were|do|does|did|has|have|had|will|can|could|should|ist|sind|war|waren|hat|habe|haben|wird|kann|muss|soll|kommt|geht)\b",
    re.IGNORECASE,
)
Range = tuple[date, date]


class Named(Struct, frozen=True):
    """A day or a week that a text names: the ranges that may be meant, and where it stands in the text."""

    ranges: tuple[Range, ...]
    start: int
    end: int
    year: bool = True  # which year is known: it was said, or follows from the day of writing
    weekday: int = -1  # named by its name alone
    weekly: bool = False


def days(text: str, written: date | None = None, *, asked: bool = False) -> list[Named]:
    """Return the days that a text names. Without the day on which it was written, nothing is known of "tomorrow".

    A question (`asked`) that leaves the year out means such a day in any year, and "on Friday" the last one as well as the next.
    """
    found: list[Named] = []
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            if all(match.end() <= one.start or match.start() >= one.end for one in found):
                named = _named(match, written, asked)
                if named is not None:
                    found.append(named)
    found.sort(key=lambda one: one.start)
    # In "Friday, 27 November" the weekday adds nothing.
    dated = [one.start for one in found if one.weekday < 0]
    return [
        structs.replace(one, ranges=())
        if one.weekday >= 0 and any(0 < at - one.end < 7 and _BESIDE.fullmatch(text, one.end, at) for at in dated)
        else one
        for one in found
    ]


def meets(asked: Sequence[Named], told: Sequence[Named]) -> bool | None:
    """Say whether a line is about a day that is asked for: yes, no, or None where it names no day."""
    if not told or not asked:
        return None
    if any(_meet(one, other) for one in asked for other in told):
        return True
    # "On Tuesday" may be any Tuesday that a line speaks of: it neither is the day for sure, nor another.
    same = {one.weekday for one in asked} & {other.weekday for other in told} - {-1}
    return None if same else False


def spelled(asked: Sequence[Named]) -> str:
    """Return the ways to write the days that are asked for, for a search that knows only words."""
    known = {day: None for one in asked for first, last in one.ranges for day in _between(first, last)}
    return " ".join(f"{day.isoformat()} {_written(day)}" for day in list(known)[:9])


def beside(question: str, asked: Sequence[Named]) -> str:
    """Return what a question holds beside the days that it asks for."""
    for one in reversed(asked):
        question = f"{question[: one.start]} {question[one.end :]}"
    return question


def agenda(question: str, asked: Sequence[Named]) -> bool:
    """Say whether a question asks for whatever there is on its days: it holds nothing else."""
    words = read(beside(question, asked)).words
    return bool(asked) and not read(question).wanted and all(word.light or word.stem in _AGENDA for word in words)


def whether(question: str) -> bool:
    """Say whether a question can be answered with yes or no: then a line with another day answers it, too."""
    return _WHETHER.match(question) is not None


def _written(day: date) -> str:
    names = _NAMES.split(",")[day.month - 1].split()
    forms = [
        f"{day.day}.{day.month}.{day.year}",
        f"{day.day}.{day.month}.",
        f"{day.day} {names[0]}",
        f"{day.day}. {names[1]}",
    ]
    return " ".join(dict.fromkeys([*forms, names[0][:3], f"{day:%A}"]))


def _between(first: date, last: date) -> Iterator[date]:
    return (first + timedelta(days=at) for at in range(min((last - first).days, 31) + 1))


def _meet(asked: Named, told: Named) -> bool:
    for first, last in asked.ranges:
        if told.weekly:
            if any(day.weekday() == told.weekday for day in _between(first, last)):
                return True
            continue
        for other, end in told.ranges:
            start, stop = (
                (first, last) if asked.year and told.year else (_moved(first, other.year), _moved(last, other.year))
            )
            if start <= end and other <= stop:
                return True
    return False


def _moved(day: date, year: int) -> date:
    try:
        return day.replace(year=year)
    except ValueError:
        return day.replace(year=year, day=28)


def _named(match: re.Match[str], written: date | None, asked: bool) -> Named | None:
    groups = match.groupdict()
    place = match.span()
    if "d" in groups:
        return _dated(
            groups,
            match[0],
            (min(match.start(part) for part in ("d", "m", "y", "name") if groups.get(part)), match.end()),
            written,
            asked,
        )
    if written is None and not groups.get("w"):
        return None
    if "near" in groups:
        assert written is not None
        ranges = _ahead(written, _NEAR[groups["near"].lower()], 1)
    elif "unit" in groups:
        assert written is not None
        ranges = _week(groups["r"].lower(), groups["unit"].lower(), written)
    else:
        return _weekday(groups, match[0], place, written, asked)
    return Named(ranges, *place) if ranges else None


def _dated(
    groups: dict[str, str | None], said: str, place: tuple[int, int], written: date | None, asked: bool
) -> Named | None:
    name, year, day = groups.get("name"), groups.get("y"), int(groups["d"] or 0)
    if (
        name
        and fold(name)[:3] in {"may", "mar"}
        and name.islower()
        and not year
        and not re.search(r"\d(?:st|nd|rd|th)\b", said)
    ):
        return None  # "it may 5 times", "march 10 miles"
    month = _MONTHS[fold(name)[:3]] if name else int(groups["m"] or 0)
    if not name and "/" in said and month > 12:
        day, month = month, day
    if year:
        exact = _day(int(year) + (2000 if len(year) == 2 else 0), month, day)
        return Named(((exact, exact),), *place) if exact else None
    start = written.year if written else 2024  # a leap year
    for at in range(start, min(start + 9, date.max.year + 1)):
        exact = _day(at, month, day)
        if exact and (written is None or exact >= written):
            return Named(((exact, exact),), *place, year=written is not None and not asked)
    return None


def _weekday(
    groups: dict[str, str | None], said: str, place: tuple[int, int], written: date | None, asked: bool
) -> Named | None:
    name, how = fold(groups["w"] or ""), fold(groups["r"] or "")
    short = len(name) <= 5 and not name.endswith(("day", "tag"))
    if short and (said[:1].islower() or not (groups["w"] or "")[:1].isupper()):
        return None  # "he sat", "the sun"
    number = 5 if name.startswith(("sonnab", "sam")) else 6 if name.startswith("son") else next(
        at for at, starts in enumerate(_WEEKDAYS) if name[:3] in starts.split()
    )  # fmt: skip
    weekly = how.startswith(("every", "each", "jede")) or (name.endswith("s") and name not in {"tues", "thurs"})
    if weekly:
        return Named((), *place, weekday=number, weekly=True)
    if written is None:
        return Named((), *place, weekday=number)
    ahead = (number - written.weekday()) % 7
    back = (written.weekday() - number) % 7 or 7
    if how.startswith(("last", "letzt", "vorig")):
        return Named(_ahead(written, -back, 1), *place)
    if how.startswith(("next", "nachst")):
        return Named(_ahead(written, ahead or 7, 1), *place)
    return Named(_ahead(written, ahead, 1) + (_ahead(written, -back, 1) if asked else ()), *place, weekday=number)


def _week(how: str, unit: str, written: date) -> tuple[Range, ...]:
    step = 2 if how.startswith("über") else 1 if how.startswith(("next", "nächst", "coming", "komm")) else -1 if how.startswith(("last", "letzt", "vorig")) else 0  # fmt: skip
    monday = 7 * step - written.weekday()
    return _ahead(written, monday + 5, 2) if unit.endswith(("end", "ende")) else _ahead(written, monday, 7)


def _ahead(day: date, step: int, count: int) -> tuple[Range, ...]:
    """Return so many days from so many days on, if the calendar has them."""
    try:
        return ((day + timedelta(days=step), day + timedelta(days=step + count - 1)),)
    except OverflowError:
        return ()


def _day(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None
