"""Read a note into lines with what ranking needs: who speaks, which day, which kind, under which heading; and into OpenClaw's chunks. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from functools import cache
from hashlib import sha256

from msgspec import Struct

from homarus.core.origin import take_origin
from homarus.core.patterns import late
from homarus.memory.bank.grammar import RETAIN_HEADING, Bullet, entities_in, parse_bullet, struck
from homarus.memory.schema import (
    CODE,
    CONTINUED,
    FIRST,
    HEADING,
    LABELS,
    NUMBER,
    PROPER,
    QUESTION,
    RETAIN,
    STRUCK,
    TIME,
)
from homarus.memory.terms import STOP, measure
from homarus.memory.timex import Span, find_spans, has_time_word, iso_days, parse_time

SLICE = 2000  # a longer line becomes several units with one line number
TALKS, TALKERS = (
    3,
    50,
)  # lines in which somebody speaks as people do to each other; names in small letters that are counted
DATED = 500  # a longer paragraph speaks of many days, so it has none of its own

_BULLET = late(r"^\s*(?:>\s*)*(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?|^\s*(?:>\s*)+")
_HEADING = late(r"^(#{1,6})\s+(.*?)\s*#*\s*$")
_FENCE = late(r"^\s{0,3}(`{3,}|~{3,})")
_SPEAKER = late(
    r"^(?:\[?\d{1,2}:\d\d(?::\d\d)?(?:\s?[AaPp][Mm])?\]?[\s,–-]*)?(?:\*\*|__)?(?P<name>[^\W\d_][\w .'’-]{0,30}?)(?:\*\*|__)?:(?:\*\*|__)?\s"
)
_COMMENT = late(r"^\s*<!--.*?-->\s*$")
_WORDY = late(r"[^\W_]")
_BINARY = late(r"\s*(?:\S{0,40};base64,)?[A-Za-z0-9+/=_-]{200,}\s*")  # pictures and the like written as letters


class NoteLine(Struct):
    """One line (or slice of a long line) of one file."""

    line: int
    text: str
    day: int | None = None  # proleptic ordinal of the day it was written on
    first: int | None = None  # the days it speaks of, where it names any
    last: int | None = None
    precision: str = ""
    speaker: str = ""
    flags: int = 0
    kind: str = "note"
    entities: tuple[str, ...] = ()
    size: int = 0  # words
    head: int | None = None  # index of the heading above it, in the same list
    bullet: Bullet | None = None
    origin: tuple[str, ...] = ()  # whose words these are, where not the owner's or the agent's own


class Ending(Struct):
    """Where reading a note stopped and what held there, so that lines added behind cost only themselves."""

    lines: int
    units: int
    day: int | None
    heads: list[tuple[int, int, int | None]]
    fence: str
    retain: int
    drawing: bool
    talk: dict[str, int] = {}  # what stands before colons in small letters, and how often with words of a talk
    spoken: bool = False  # somebody spoke under a capital
    bytes: int = 0  # how much of the file was read

    @property
    def chatting(self) -> frozenset[str]:
        """Return who speaks here under a name in small letters: at least two talk, and each of them in several lines."""
        names = frozenset(name for name, lines in self.talk.items() if lines >= TALKS)
        return names if self.spoken or len(names) > 1 else frozenset()


def parse_note(path: str, lines: list[str]) -> list[NoteLine]:
    """Return the units of a note, headings included, in file order; blank lines and what is no prose are left out."""
    return read_note(path, lines)[0]


def read_note(path: str, lines: list[str], after: Ending | None = None) -> tuple[list[NoteLine], Ending | None]:
    """Read the lines of a note, or those after an `Ending`; also return where they end, None inside a fact or front matter."""
    reader = _Reader(path, after)
    return reader.read(lines), reader.ending()


def body_of(text: str) -> str:
    match = _SPEAKER.match(text)
    return text[match.end() :] if match else text


def strip_bullet(line: str) -> str:
    """Return a line without list marks, quote marks and check boxes."""
    return _BULLET.sub("", line, count=1).strip()


def speaker_of(text: str) -> str:
    """Return the name before the first colon, if it looks like one."""
    name = _before_colon(text)
    first = name[:1]
    if not name:
        return ""
    if not (first.isupper() or not first.islower()) or len(name.split()) > 3 or name.lower() in {"http", "https"}:
        return ""
    return name


def _before_colon(text: str) -> str:
    match = _SPEAKER.match(text)
    return match["name"].strip() if match else ""


@cache
def _to_others() -> re.Pattern[str]:
    return re.compile(r"[?？]|\b(?:you|your|yours|u|ur|du|dir|dich|dein\w*|ihr|euch|tú|te|tu|tus|usted|ustedes)\b")


def note_day(path: str) -> date | None:
    """Return the day in a note's path: the last one, so that a dated folder does not win over a dated file."""
    found = list(iso_days(path))
    return found[-1] if found else None


@cache
def _proper() -> re.Pattern[str]:
    return re.compile(r"(?<=[a-z,;] )[A-Z][a-z]+")


@cache
def _number() -> re.Pattern[str]:
    return re.compile(
        r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|twice|once|hundred|couple)\b"
    )


@cache
def _first_person() -> re.Pattern[str]:
    return re.compile(r"\b(?:i|my|mine|me|we|our|ich|meine?[mnrs]?|wir|unsere?[mnrs]?|yo|mis?|nosotros|nuestr[oa]s?)\b")


def line_flags(text: str) -> int:
    """Return what can be said of a line without its neighbours. A long paragraph has something of everything."""
    flags = QUESTION if "?" in text[-80:] or "？" in text[-80:] else 0
    if len(text) > DATED:
        return flags | TIME | NUMBER | PROPER | FIRST
    lowered = text.lower()
    if has_time_word(lowered):
        flags |= TIME
    if _number().search(lowered):
        flags |= NUMBER
    if _proper().search(text):
        flags |= PROPER
    if _first_person().search(lowered):
        flags |= FIRST
    return flags


class _Reader:
    """The state of one pass: fences, headings, the open Retain section and the day that holds."""

    def __init__(self, path: str, after: Ending | None) -> None:
        self.units: list[NoteLine] = []
        self.file_day = note_day(path)
        start = after or Ending(0, 0, _ordinal(self.file_day), [], "", 0, False)
        self.line, self.before = start.lines, start.units
        self.day = date.fromordinal(start.day) if start.day else None
        self.heads = list(start.heads)  # (level, index of the heading's unit, its day)
        self.fence = start.fence
        self.retain = start.retain  # level of the open Retain heading
        self.drawing = start.drawing  # a file of Excalidraw: its fences hold pictures
        self.talk, self.spoken = dict(start.talk), start.spoken
        self.unnamed: list[tuple[NoteLine, str]] = []  # lines behind a word in small letters, which may be who speaks
        self.bullet: Bullet | None = None
        self.front = False
        self.origin: tuple[str, ...] = ()  # of the line that is being read

    def read(self, lines: list[str]) -> list[NoteLine]:
        for line in lines:
            self.line = number = self.line + 1
            raw, self.origin = take_origin(line)
            if self._structure(number, raw):
                continue
            if not _WORDY.search(raw) or _COMMENT.match(raw) or _BINARY.fullmatch(raw) or (self.fence and self.drawing):
                if not raw.strip():
                    self.bullet = None
                continue
            self._content(number, raw)
        names = self._state().chatting
        for unit, name in self.unnamed if names else ():
            unit.speaker = name if name in names else ""
        return self.units

    def ending(self) -> Ending | None:
        return None if self.front or self.bullet else self._state()

    def _state(self) -> Ending:
        units, day = self.before + len(self.units), _ordinal(self.day)
        held = (self.heads, self.fence, self.retain, self.drawing, self.talk, self.spoken)
        return Ending(self.line, units, day, *held)

    def _may_speak(self, unit: NoteLine) -> None:
        """Count a word in small letters before a colon: in many chats people go by such names, and runbooks have keys like them."""
        name = _before_colon(unit.text)
        if not (name.isalpha() and name.islower()) or name in LABELS or name in STOP:
            return
        if name not in self.talk and len(self.talk) >= TALKERS:
            return
        self.unnamed.append((unit, name))
        self.talk[name] = self.talk.get(name, 0) + bool(_to_others().search(body_of(unit.text).lower()))

    def _structure(self, number: int, raw: str) -> bool:
        """Handle fences, front matter and headings; say whether the line is used up."""
        if number == 1 and raw.rstrip() == "---":
            self.front = True
            return True
        if self.front:
            self.front = raw.rstrip() not in {"---", "..."}
            self.drawing = self.drawing or raw.startswith("excalidraw-plugin:")
            return not self.front
        if fence := _FENCE.match(raw):
            mark = fence[1]
            if not self.fence:
                self.fence = mark
            elif mark[0] == self.fence[0] and len(mark) >= len(self.fence) and not raw.strip().strip(mark[0]):
                self.fence = ""
            return not _WORDY.search(raw)
        if self.fence:
            return False
        heading = _HEADING.match(raw)
        if heading and heading[2]:
            self._heading(number, len(heading[1]), heading[2], bool(RETAIN_HEADING.match(raw)))
            return True
        return False

    def _heading(self, number: int, level: int, text: str, retain: bool) -> None:
        while self.heads and self.heads[-1][0] >= level:
            self.heads.pop()
        parent = self.heads[-1][1] if self.heads else None
        if retain:
            self.retain = level
        elif self.retain and level <= self.retain:
            self.retain = 0
        self.bullet = None
        dated = next(iter(_heading_days(text)), None)
        if dated:
            self.day = dated
        elif level <= 2 and not any(day != _ordinal(self.file_day) for _, _, day in self.heads):
            self.day = self.file_day
        self.heads.append((level, self.before + len(self.units), _ordinal(self.day)))
        flags = HEADING | (line_flags(text) & (NUMBER | PROPER))
        unit = NoteLine(number, text, _ordinal(self.day), flags=flags, kind="heading", size=measure(text), head=parent)
        unit.origin = self.origin
        self.units.append(unit)

    def _content(self, number: int, raw: str) -> None:
        bullet, continued = None, 0
        if self.retain and not self.fence:
            bullet = parse_bullet(raw)
            if bullet is None and raw[:2] == "  " and self.bullet:
                bullet, continued = self.bullet, CONTINUED  # it belongs to the fact above it
            self.bullet = bullet
        text = raw.strip() if self.fence else strip_bullet(raw)
        for start in range(0, max(1, len(text)), SLICE):
            self._unit(number, text[start : start + SLICE], bullet, continued)

    def _unit(self, number: int, text: str, bullet: Bullet | None, continued: int) -> None:
        speaker = "" if self.fence or bullet else speaker_of(text)
        body = bullet.text if bullet else text
        crossed = bullet.struck if bullet else bool(struck(body_of(text)))
        unit = NoteLine(
            number,
            text,
            _ordinal(self.day),
            speaker=speaker,
            flags=line_flags(body) | (CODE if self.fence else STRUCK if crossed else 0) | continued,
            entities=bullet.entities if bullet else (() if self.fence else entities_in(text)),
            size=measure(body),
            head=self.heads[-1][1] if self.heads else None,
            origin=self.origin,
        )
        span = _occurs(body, self.day, bullet) if len(body) <= DATED or bullet else None
        if span:
            unit.first, unit.last, unit.precision = span.first.toordinal(), span.last.toordinal(), span.precision
        if bullet:
            unit.kind, unit.bullet = bullet.kind, bullet
            unit.flags |= RETAIN
        elif speaker:
            self.spoken = self.spoken or speaker.lower() not in LABELS
        elif not self.fence:
            self._may_speak(unit)
        self.units.append(unit)


def _occurs(body: str, day: date | None, bullet: Bullet | None) -> Span | None:
    """Return when the line's matter happened: its attributes first, then phrases in its text."""
    if bullet:
        start, end = bullet.attr("from"), bullet.attr("to")
        given = bullet.attr("t") or (f"{start}..{end}" if start and end else start or end)
        span = parse_time(given) if given else None
        if span:
            return span
    if day is None:
        return next(
            (span for span in find_spans(body, date(1, 1, 1)) if span.precision != "open" and span.first.year > 1), None
        )
    spans = find_spans(body, day)
    return spans[0] if spans else None


def _heading_days(text: str) -> list[date]:
    """Return days that a heading is about: it must be mostly the date, not a title that happens to hold one."""
    spans = [span for span in find_spans(text, date(1, 1, 1)) if span.precision == "day" and span.first.year > 1]
    return [span.first for span in spans if len(span.phrase) * 2 >= len(text.strip())]


def _ordinal(day: date | None) -> int | None:
    return day.toordinal() if day else None


CHARS_PER_TOKEN = 4
SMALLEST_CHUNK = 32


class Chunk(Struct, frozen=True):
    """A piece of a file: 1-based, inclusive lines, and the text that stands there."""

    start_line: int
    end_line: int
    text: str
    hash: str


def decode(data: bytes) -> str:
    """Return a note's text: UTF-8, UTF-16 with its mark, or what older Windows programs wrote.

    A note whose last character is still being written stays UTF-8; what fits nothing shows as replacement marks.
    """
    if data[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return data.decode("utf-16", "replace")
    text = data.decode("utf-8", "replace")
    if "\ufffd" not in text:
        return text
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as problem:
        torn = problem.start >= len(data) - 3
        if not torn and all(char <= "\x7f" or char == "\ufffd" for char in text) and b"\0" not in data:
            return data.decode("cp1252", "replace")
    return text


def split_lines(text: str) -> list[str]:
    """Return the lines as an editor numbers them: CRLF or LF, no byte-order mark, no empty line after the last newline."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return lines


def chunk_lines(lines: list[str], *, tokens: int = 400, overlap: int = 80) -> list[Chunk]:
    """Cut greedily at `tokens * 4` characters and carry back whole lines of at least `overlap * 4` characters.

    A line longer than a chunk is cut into slices that all keep its number. Every line is in at least one chunk, and no
    range ends after the last line.
    """
    return chunk_numbered(enumerate(lines, 1), tokens=tokens, overlap=overlap)


def chunk_numbered(lines: Iterable[tuple[int, str]], *, tokens: int = 400, overlap: int = 80) -> list[Chunk]:
    """Cut lines that bring their numbers with them, as the messages of a transcript do."""
    limit, carry = max(SMALLEST_CHUNK, tokens * CHARS_PER_TOKEN), max(0, overlap) * CHARS_PER_TOKEN
    chunks: list[Chunk] = []
    buffer: list[tuple[int, str]] = []
    size = 0
    for number, line in lines:
        for start in range(0, max(1, len(line)), limit):
            piece = line[start : start + limit]
            if buffer and size + len(piece) + 1 > limit:
                chunks.append(_emit(buffer))
                buffer = _carry(buffer, carry)
                size = sum(len(text) + 1 for _, text in buffer)
            buffer.append((number, piece))
            size += len(piece) + 1
    if buffer and any(text.strip() for _, text in buffer):
        chunks.append(_emit(buffer))
    return [chunk for chunk in chunks if chunk.text.strip()]


def _emit(buffer: list[tuple[int, str]]) -> Chunk:
    text = "\n".join(piece for _, piece in buffer)
    return Chunk(
        start_line=buffer[0][0],
        end_line=buffer[-1][0],
        text=text,
        hash=sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
    )


def _carry(buffer: list[tuple[int, str]], wanted: int) -> list[tuple[int, str]]:
    """Return the tail to repeat: whole lines until their sum reaches `wanted`, the one that crosses it included."""
    kept: list[tuple[int, str]] = []
    size = 0
    for number, piece in reversed(buffer):
        if size >= wanted:
            break
        kept.insert(0, (number, piece))
        size += len(piece) + 1
    return kept
