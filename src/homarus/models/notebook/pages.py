"""Files and notes as a whole: what stands in one, which there are, and what was told on a day or on all. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

from homarus.core.messages import ToolCall, ToolResult
from homarus.core.patterns import late
from homarus.models.notebook import evidence, words
from homarus.models.notebook.days import Named, days
from homarus.models.notebook.desk import PATH, Desk, Got, Next, wrong
from homarus.models.notebook.grammar import Intent, Kind

MAX_SHOWN_LINES, MAX_SHOWN = 80, 6_000
MAX_DAYS = 7
_TEXT = late(r"\d{4}-\d\d-\d\d-[0-9a-f]{8}\.md")  # a text that was kept whole
_PAGE = late(r"\d{4}-\d\d-\d\d(?=\.md)")


def files(intent: Intent, got: Got, desk: Desk) -> Next:
    """Read a file out, or say which there are."""
    call = desk.call("ls" if intent.kind is Kind.LIST else "read", {PATH: intent.text})
    if call is None or not got:
        return [call] if call else desk.say("no_files")
    if why := wrong(got[0]):
        return desk.say(words.FAILED[intent.kind], why=why, about=intent.text)
    return f"{intent.text}:\n\n{_shown(got[0].text)}"


def notes_of_a_day(intent: Intent, got: Got, desk: Desk) -> Next:
    """Say what was told today, or on the days that are named."""
    asked = past(days(intent.text, desk.day, asked=True), desk.day) if intent.text else [desk.day]
    pages = [day.isoformat() for day in asked]
    if not pages:
        return desk.say("nothing_of_day", day=intent.text)
    calls = _reading(pages, desk)
    if len(got) < len(calls):
        return calls
    lines = [line for result in got for line in _kept(result)]
    if not calls:
        return desk.say("no_files")
    if pages == [desk.today]:
        return _listed("today", lines, desk) if lines else desk.say("nothing_today")
    named = pages[0] if len(pages) == 1 else f"{pages[0]} – {pages[-1]}"
    return _listed("of_day", lines, desk, day=named) if lines else desk.say("nothing_of_day", day=named)


def all_notes(intent: Intent, got: Got, desk: Desk) -> Next:
    """Say what the newest notes hold, newest day first, and how many there are besides."""
    listing = desk.call("ls", {PATH: "memory"})
    if listing is None:
        return notes_of_a_day(Intent(Kind.TODAY), got, desk)
    if not got:
        return [listing]
    there = sorted(set(_PAGE.findall(got[0].text)), reverse=True) if not got[0].is_error else []
    texts = [] if got[0].is_error else sorted(set(_TEXT.findall(got[0].text)), reverse=True)[:MAX_DAYS]
    calls = _reading(there[:MAX_DAYS], desk)
    if len(got) <= len(calls):
        return calls
    said = [
        _listed("today" if page == desk.today else "of_day", lines, desk, day=page)
        for page, result in zip(there, got[1:], strict=False)
        if (lines := _kept(result))
    ]
    older = len(there) - MAX_DAYS
    if texts:
        said.append(desk.say("texts") + "".join(f"\n- memory/{name}" for name in texts))
    return "\n\n".join([*said, *([desk.say("older", days=older)] if older > 0 else [])]) or desk.say("no_notes")


def past(asked: Sequence[Named], today: date) -> list[date]:
    """Return the days that are asked for as far as they have been, each in the year in which it was last."""
    found = []
    for one in asked:
        ranges = [
            (first, last) if first <= today or one.year else (_year_before(first), _year_before(last))
            for first, last in one.ranges
        ]
        first, last = max((pair for pair in ranges if pair[0] <= today), default=(today, today - timedelta(1)))
        found += [first + timedelta(at) for at in range((min(last, today) - first).days + 1)]
    return sorted(set(found))[-MAX_DAYS:]


def _year_before(day: date) -> date:
    return day.replace(year=day.year - 1, day=min(day.day, 28) if day.month == 2 else day.day)


def _reading(pages: Sequence[str], desk: Desk) -> list[ToolCall]:
    return [call for page in pages if (call := desk.call("read", {PATH: f"memory/{page}.md"}))]


def _kept(result: ToolResult) -> list[str]:
    parsed = [] if result.is_error else [evidence.parse(line, "") for line in result.text.splitlines()]
    return [line.text for line in parsed if line.text and not line.struck]


def _listed(name: str, lines: Sequence[str], desk: Desk, **values: object) -> str:
    return desk.say(name, **values) + "".join(f"\n- {line}" for line in lines[:MAX_SHOWN_LINES])


def _shown(text: str) -> str:
    lines = text.rstrip().splitlines()
    shown = "\n".join(lines[:MAX_SHOWN_LINES])[:MAX_SHOWN]
    return shown if shown == text.rstrip() else f"{shown}\n\n[… {len(lines)} lines in all]"
