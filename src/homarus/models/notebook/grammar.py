"""What a message to the notebook asks for, by small rules that can be read off the table in the tests. Pure.

A line is one note, never torn: only a question or an instruction beside a statement is taken out of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from enum import StrEnum

from msgspec import Struct

from homarus.core.patterns import late
from homarus.models.notebook import phrases
from homarus.models.notebook.asks import MAYBE, SURE, TELLS, asks, states
from homarus.models.notebook.block import is_text
from homarus.models.notebook.days import beside, days
from homarus.models.notebook.orders import on_manner


class Kind(StrEnum):
    """What the notebook can do with a sentence."""

    KEEP = "keep"
    PASTE = "paste"
    TODO = "todo"
    REMIND = "remind"
    ASK = "ask"
    LOOK = "look"  # it may be a question: look first, and keep what nothing answers
    READ = "read"
    LIST = "list"
    TODOS = "todos"
    DONE = "done"
    TELLS_DONE = "tells done"  # it may tick a task off: kept as it is where it names none
    FORGET = "forget"
    UNDO = "undo"
    DENIED = "denied"
    LISTED = "listed"  # what stands on a list that has a name; its text is the question
    UNLIST = "unlist"  # take something off such a list: "name: what"
    TODAY = "today"  # the notes of today, or of the day that its text names
    NOTES = "notes"
    TIME = "time"
    STATUS = "status"
    HELP = "help"
    GREET = "greet"
    THANK = "thank"
    PART = "part"
    NOD = "nod"
    SELF = "self"
    BEYOND = "beyond"
    SILENT = "silent"
    HEARTBEAT = "heartbeat"


class Intent(Struct, frozen=True):
    """One thing that a message asks for; `text` is what it is about, in the words of the message."""

    kind: Kind
    text: str = ""


MAX_LINES, MAX_LENGTH = 8, 1_500  # a longer message is a paste: kept whole, as one block
_ANY_DAY = date(2000, 1, 1)  # whether a text names a day does not depend on the day
_S = re.IGNORECASE | re.DOTALL

_WHOLE = (
    (phrases.HELP, Kind.HELP),
    (phrases.TIME, Kind.TIME),
    (phrases.STATUS, Kind.STATUS),
    (phrases.GREET, Kind.GREET),
    (phrases.THANK, Kind.THANK),
    (phrases.PART, Kind.PART),
    (phrases.NOD, Kind.NOD),
    (phrases.TODOS, Kind.TODOS),
    (phrases.TODAY, Kind.TODAY),
    (phrases.NOTES, Kind.NOTES),
    (phrases.UNDO, Kind.UNDO),
    (phrases.DENIED, Kind.DENIED),
    (phrases.SELF, Kind.SELF),
)
# Those whose text is what stands behind the words that name them, in this order.
_ABOUT = (
    (phrases.LIST, Kind.LIST),
    (phrases.READ, Kind.READ),
    (phrases.TODO, Kind.TODO),
    (phrases.KEEP, Kind.KEEP),
    (phrases.FORGET, Kind.FORGET),
    (phrases.REMIND, Kind.REMIND),
    (phrases.DONE, Kind.DONE),
    (phrases.SEARCH, Kind.ASK),
)
_ORDERS = (
    (phrases.LIST, Kind.LIST),
    (phrases.READ, Kind.READ),
    (phrases.TODO, Kind.TODO),
    (phrases.KEEP, Kind.KEEP),
    (phrases.FORGET, Kind.FORGET),
    (phrases.REMIND, Kind.REMIND),
    (phrases.DONE, Kind.DONE),
)
_GERMAN_ORDERS = (
    (late(rf"{phrases.TO_KEEP}\s*[:,]?\s+(?:dass |folgendes:? )?(?!w(?:o|ann|er|ie|as|en|em)\b)(.+)|(\S+ .+) {phrases.TO_KEEP}", _S), Kind.KEEP),
    (late(r"(?:mich|uns) (?:bitte )?(?:(?:\w+ )?daran )?erinnern,? (?:dass |an )?(?!w(?:o|ann|er|ie|as)\b)(.+)|(?:mich|uns) (.+?) erinnern", _S), Kind.REMIND),
    (late(r"(.+?) (?:auf|in) (?:die|meine|unsere) (?:[\w-]+-?)?liste (?:setzen|schreiben|packen|tun)", _S), Kind.TODO),
    (late(r"(.+?) (?:abhaken|als erledigt markieren)", _S), Kind.DONE),
    (late(rf"(?:{phrases.NOTIZ} (?:über|zu|zum|zur|mit|von|vom)\s+)?(.+?) (?:löschen|streichen|vergessen)|vergessen, (?:dass )?(.+)", _S), Kind.FORGET),
)  # fmt: skip
# What is told; what strikes a line; what only looks into files; and in which lines a sentence may stand that is something else.
_TOLD = frozenset({Kind.KEEP, Kind.TODO, Kind.REMIND, Kind.TELLS_DONE})
_STRIKES = frozenset({Kind.FORGET, Kind.DONE, Kind.UNDO, Kind.UNLIST})
_FILES = frozenset({Kind.READ, Kind.LIST, Kind.REMIND})
_PARTED = _TOLD - {Kind.REMIND} | _STRIKES | {Kind.ASK, Kind.GREET, Kind.THANK, Kind.NOD, Kind.BEYOND}
# Said beside something else, these need no answer of their own.
_MANNERS = frozenset({Kind.GREET, Kind.THANK, Kind.PART, Kind.NOD})


def read_message(text: str) -> tuple[Intent, ...]:
    """Return what a message asks for, in its order. A line is one note; a text is one block, and so is a file."""
    if files := phrases.FILE.findall(text):
        words = phrases.FILE.sub("", text).strip()
        said = read_message(words) if words else ()
        if any(intent.kind not in {Kind.KEEP, Kind.TODO} for intent in said):
            return (Intent(Kind.BEYOND, words),)  # work on what came along
        told = tuple(intent for intent in said if not phrases.THIS.fullmatch(intent.text))
        return (*told, *(Intent(Kind.PASTE, f"{name}:\n{body.strip()}") for name, body in files))
    text = text.strip()
    if not text:
        return (Intent(Kind.HELP),)
    if phrases.HEARTBEAT.search(text):
        return (Intent(Kind.HEARTBEAT),)
    if phrases.FLUSH.search(text) and phrases.FLUSH_TOPIC.search(text):
        return (Intent(Kind.SILENT),)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) == 1 and len(text) <= MAX_LENGTH:
        said = _line(text)
        keeps = said == (Intent(Kind.KEEP, text),)
        unsure = keeps and (_may_ask(text) or phrases.ASKED.search(text) or _ends_asking(text))
        return (Intent(Kind.LOOK, text),) if unsure or (said == (Intent(Kind.ASK, text),) and _may_tell(text)) else said
    first = read_sentence(lines[0])
    if len(lines) > 1 and _on_what_follows(first, lines[0]):
        return (Intent(Kind.BEYOND, lines[0]),)
    if len(lines) > MAX_LINES or len(text) > MAX_LENGTH or "```" in text or is_text(text):
        return (Intent(Kind.PASTE, text),)
    if phrases.THIS_LIST.fullmatch(lines[0]):
        return tuple(dict.fromkeys(Intent(Kind.KEEP, phrases.MARK.sub("", line)) for line in lines[1:]))
    if lines[0].endswith(":") and first.kind in {Kind.KEEP, Kind.TODO, Kind.TODOS}:
        return _listed(first, lines)
    items = [phrases.MARK.sub("", line) for line in lines]
    return _lines(items, listed=items != lines) or (Intent(Kind.PASTE, text),)


def _on_what_follows(first: Intent, line: str) -> bool:
    """Say whether a first line asks for work on the lines behind it."""
    if line.endswith(":"):
        return first.kind in {Kind.BEYOND, Kind.ASK}
    return first.kind is Kind.BEYOND and phrases.THESE.search(line) is not None


def _listed(first: Intent, lines: Sequence[str]) -> tuple[Intent, ...]:
    """Read a list under its heading: one note, or a task each."""
    items = [phrases.MARK.sub("", line).rstrip(",;") for line in lines[1:]]
    if phrases.TASK_LIST.fullmatch(lines[0]):
        return tuple(dict.fromkeys(Intent(Kind.TODO, phrases.BOX.sub("", item)) for item in items))
    rest = "".join(f"{item} " if item.endswith((".", "!", "?")) else f"{item}, " for item in items).rstrip(", ")
    lead = first.text if phrases.KEEP.fullmatch(lines[0]) else lines[0]
    return (Intent(Kind.KEEP, f"{lead} {rest}"),)


def _lines(lines: Sequence[str], *, listed: bool) -> tuple[Intent, ...]:
    """Read a few lines, each for itself; nothing where they look like a text that somebody else wrote.

    An instruction or a question amidst statements is such a sign: only the last line may be one. To strike something, every line must say so, or the
    only one that does must begin like an order ("done: …"). In a list "check the pressure" is an item.
    """
    each = [_line(line) for line in lines]
    said = [(at, intent) for at, line in enumerate(each) for intent in line if intent.kind not in _MANNERS]
    told = {intent.kind for _, intent in said if intent.kind in _TOLD}
    if told or listed:
        as_what = Kind.TODO if told == {Kind.TODO} else Kind.KEEP
        said = [(at, _told_beside(intent, lines[at], as_what, last=at == len(lines) - 1)) for at, intent in said]
    strikes = [at for at, intent in said if intent.kind in _STRIKES]
    if strikes and len(strikes) < len(said) and (len(strikes) > 1 or not phrases.PLAIN.match(lines[strikes[0]])):
        return ()
    acts = {at for at, intent in said if intent.kind not in _TOLD | _STRIKES}
    if acts - {len(lines) - 1} and len(acts) < len({at for at, _ in said}):
        return ()
    return tuple(dict.fromkeys(intent for _, intent in said)) or each[0][:1]


def _told_beside(intent: Intent, text: str, as_what: Kind, *, last: bool) -> Intent:
    """Return what a line or sentence is beside one that tells something: without a question mark it seldom asks, and "order 6 from Axminster" is a note."""
    if intent.kind is Kind.ASK and not phrases.ASKED.search(intent.text) and not (last and _asks_for_sure(intent.text)):
        return Intent(Kind.KEEP, text)
    if intent.kind is Kind.BEYOND and not (phrases.WORK.fullmatch(text) or on_manner(_straight(text))):
        return Intent(as_what, text)
    return intent


def _asks_for_sure(text: str) -> bool:
    return phrases.QUESTION.match(text) is not None and not phrases.CLAUSE.match(text) and asks(text) >= SURE


def _line(text: str) -> tuple[Intent, ...]:
    """Read one line: statements stay together as they were written, whatever stops they hold."""
    whole = read_sentence(text)
    ends = [
        end
        for end in phrases.END.finditer(text)
        if not phrases.SHORT.search(text[: end.start()]) or _begins_question(text[end.end() :])
    ]
    if not ends or whole.kind not in _PARTED:
        return (whole,)
    marks = [(mark.start(), mark.end()) for mark in ends] + [(len(text), len(text))]
    spans = list(zip([0, *(end for _, end in marks)], [at for at, _ in marks], strict=False))
    parts = [read_sentence(text[start:at]) for start, at in spans]
    if any(part.kind in _TOLD for part in parts):
        parts = [_part(part, text[slice(*spans[n])], n, len(parts)) for n, part in enumerate(parts)]
    found: list[Intent] = []
    kept = 0
    for (start, at), part in zip(spans, parts, strict=True):
        # "Actually" and "Also" before a stop, and the rest of "on Dec. 3.", are parts of what is told.
        if part.kind in _TOLD and found and found[-1].kind in _TOLD:
            joined = read_sentence(text[kept:at])
            found[-1] = joined if joined.kind in _TOLD else Intent(Kind.KEEP, text[kept:at].strip())
        elif part.kind not in _MANNERS:
            kept = start
            found.append(part)
    return tuple(dict.fromkeys(found)) or (whole,)


def _part(part: Intent, text: str, at: int, many: int) -> Intent:
    """Return what a sentence is beside others in its line that tell something.

    A question amidst them, or one that does not begin like one ("Freeze? Ask Una."), is part of what is told, and so is
    everything that would be an order elsewhere, but for a first sentence that says what to strike.
    """
    if part.kind in _STRIKES or part.kind is Kind.NOD:
        return part if at == 0 else Intent(Kind.KEEP, text)
    if part.kind in _TOLD | _MANNERS | {Kind.BEYOND}:
        return _told_beside(part, text, Kind.KEEP, last=False)
    asks_something = phrases.ASKED.search(text) and (phrases.OPENING.match(text) or part.kind is not Kind.ASK)
    return part if part.kind in _FILES or (asks_something and at in (0, many - 1)) else Intent(Kind.KEEP, text)


def _begins_question(text: str) -> bool:
    return text[:1].isupper() and "?" in text and phrases.OPENING.match(text) is not None


def _may_ask(text: str) -> bool:
    return not phrases.CLAUSE.match(text) and asks(text) >= MAYBE and not states(text)


def _may_tell(text: str) -> bool:
    """Say whether a line that begins like a question with a verb may be none: "did my ankle in last month"."""
    begins = phrases.QUESTION.match(text) or phrases.TO_YOU.match(text)
    return not (begins or phrases.ASKED.search(text)) and asks(text) < SURE


def _ends_asking(text: str) -> bool:
    """Say whether a line tells why and then asks: "I'm at the shop, which filter do I need", "the nurse wants to know when I …"."""
    if phrases.TO_KNOW.search(text):
        return True
    *before, last = phrases.SAID_BEFORE.split(text)
    return (
        bool(before)
        and phrases.LAST_ASKS.match(last) is not None
        and not phrases.CLAUSE.match(last)
        and asks(last) >= SURE
    )


def _straight(text: str) -> str:
    """Return a text with the apostrophes that the rules are written with, letter for letter as long."""
    return text.replace("’", "'")


def finished(text: str) -> str:
    """Return what a sentence says is finished, in its own words."""
    found = phrases.TELLS_DONE.fullmatch(_straight(text))
    return next((group for group in found.groups() if group), "") if found else ""


def read_sentence(text: str) -> Intent:
    """Return what one sentence asks for."""
    text = text.strip()
    plain = _straight(text)
    if order := _request(text):
        return order
    for pattern, kind in _WHOLE:
        if pattern.fullmatch(plain):
            return Intent(kind)
    if order := _on_lists(text) or _of_a_day(text):
        return order
    asked = bool(phrases.ASKED.search(text)) and (asks(text) >= TELLS or phrases.OPENING.match(plain) is not None)
    for pattern, kind in _ABOUT:
        if (found := pattern.fullmatch(plain)) and (
            not asked or kind in {Kind.LIST, Kind.READ, Kind.ASK} or phrases.PLAIN.match(plain)
        ):
            return _about(found, text, kind)
    # "summarise", alone, is an order without its object.
    if not asked and (_is_order(plain) or phrases.BEYOND.fullmatch(f"{plain.rstrip('.!')} it")):
        return Intent(Kind.BEYOND, text)
    if asked or (phrases.OPENING.match(plain) and _may_ask(plain)):
        return Intent(Kind.ASK, text)
    if phrases.TELLS_DONE.fullmatch(plain):
        return Intent(Kind.TELLS_DONE, text)
    return Intent(Kind.TODO if phrases.ERRAND.fullmatch(plain) else Kind.KEEP, text)


def _is_order(text: str) -> bool:
    return bool(
        phrases.AGAIN.fullmatch(text)
        or phrases.WORK.fullmatch(text)
        or on_manner(text)
        or phrases.BEYOND.fullmatch(text)
    )


def _about(found: re.Match[str], text: str, kind: Kind) -> Intent:
    """Return an intent with the words behind those that name it, as they were written."""
    at = next((at for at in range(1, found.re.groups + 1) if found[at]), 0)
    about = text[slice(*found.span(at))].strip() if at else ""
    return Intent(kind, about.rstrip("?") if kind is Kind.ASK else about or ".")


def _request(text: str) -> Intent | None:
    """Read what is asked for politely ("can you note that …?") as the order that it is, mark or no mark."""
    polite = phrases.POLITE.match(_straight(text))
    if polite is None:
        return None
    rest = text[polite.end() :].rstrip(" .!?")
    if order := _on_lists(rest):
        return order
    for pattern, kind in _GERMAN_ORDERS if polite["du"] else _ORDERS:
        if found := pattern.fullmatch(_straight(rest)):
            if kind is Kind.KEEP and not polite["du"] and not phrases.TELLING.match(_straight(rest)):
                return Intent(Kind.ASK, text) if phrases.RECALLING.match(rest) else None
            return _about(found, rest, kind)
    return None


def _on_lists(text: str) -> Intent | None:
    """Read what is put on a list that has a name, taken off it, or asked of it."""
    plain = _straight(text)
    for pattern, kind in (
        (phrases.ON_LIST, Kind.KEEP),
        (phrases.ONTO_LIST, Kind.KEEP),
        (phrases.OFF_LIST, Kind.UNLIST),
    ):
        if found := pattern.fullmatch(plain):
            name = text[slice(*found.span("list"))]
            return Intent(kind, f"{name[:1].upper()}{name[1:]}: {text[slice(*found.span('item'))]}")
    found = phrases.LISTED.fullmatch(plain)
    return Intent(Kind.LISTED, text) if found and (found["order"] or "?" in text) else None


def _of_a_day(text: str) -> Intent | None:
    """Read what asks for all that was told on a day, if a day is all that it names."""
    found = phrases.TOLD_ON.fullmatch(_straight(text))
    when = next((group for group in found.groups() if group), "") if found else ""
    named = days(when, _ANY_DAY, asked=True)
    return Intent(Kind.TODAY, when) if named and phrases.BESIDE_A_DAY.fullmatch(beside(when, named)) else None
