"""Dreaming: what was asked for again and again is taken over from daily notes into MEMORY.md, by night and without a model.

    light   the last two days: what was written, each thing once
    REM     the last week: what came up on most days
    deep    lines that earned a place: asked for often enough, on enough occasions, by enough different questions

Only the owner's and the agent's own words count, a line is taken as it stands in its note now, and what it says must still hold. MEMORY.md never
grows over its limit: the oldest block that dreaming wrote makes room, never a line of yours. `DREAMS.md` is the diary; it is in no prompt.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from math import log1p
from typing import TYPE_CHECKING

from msgspec import Struct, field

from homarus.core.redact import MARK
from homarus.core.text import estimate_tokens, single_line, slug
from homarus.memory.bank.grammar import parse_bullet
from homarus.memory.bank.journal import record
from homarus.memory.bank.opinions import ALIKE, cosine
from homarus.memory.bank.pages import change, read_page
from homarus.memory.bank.promote import CORE, MAX_CORE
from homarus.memory.bank.signals import Signal, fingerprint, read
from homarus.memory.read import NoteLine
from homarus.memory.terms import content_words

if TYPE_CHECKING:
    from homarus.memory.memory import Memory

DREAMS = "DREAMS.md"
LIGHT, REM, DEEP, HALF_LIFE = 2, 7, 30, 14  # days
STAGED, TWINS, THEMES, STRENGTH = 100, 0.9, 10, 0.75
MAX_TOKENS, MAX_DIARY = 160, 12_000
HEADING = "## Promoted From Short-Term Memory"
_BLOCK = re.compile(rf"^{HEADING} \((\d{{4}}-\d\d-\d\d)\)\n(?:(?!^#).*\n?)*", re.MULTILINE)
_NIGHT = re.compile(r"^## (\d{4}-\d\d-\d\d)\n(?:(?!^## ).*\n?)*", re.MULTILINE)
_DAILY = re.compile(r"memory/\d{4}-\d\d-\d\d[^/]*\.md")


class Gates(Struct, frozen=True, rename="camel"):
    """`memory.dreaming`: when it happens by itself (never, unless a time is set), and what a line must have earned."""

    schedule: str = ""  # as of cron, in the zone of the default agent
    min_score: float = 0.75
    min_recall_count: int = 3
    min_unique_queries: int = 3
    limit: int = 10


class Earned(Struct, frozen=True):
    """A line of a daily note and what speaks for it."""

    line: NoteLine
    score: float
    asked: int
    questions: int


class Night(Struct):
    """What one night did. `run` names it for `undo`; empty where nothing was written."""

    day: str
    staged: int = 0
    themes: list[str] = field(default_factory=list)
    promoted: list[Earned] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    waiting: list[tuple[str, str]] = field(default_factory=list)  # asked for, but not yet enough, and what is missing
    run: str = ""


def dream(memory: Memory, gates: Gates | None = None, *, dry_run: bool = False) -> Night:
    """Go through the signals of the last weeks and promote what earned it; a second run on the same day changes nothing."""
    gates, today = gates or Gates(), memory.today()
    lines = memory.daily_lines(today.toordinal() - DEEP, today.toordinal())
    own = [line for line in lines if not line.origin and _DAILY.fullmatch(line.path)]
    night = Night(today.isoformat())
    staged = _light(own, today.toordinal())
    night.staged = len(staged)
    night.themes = _themes(own, today.toordinal())
    gone = {(fact.path, fact.line) for fact in memory.knowledge().facts if not fact.holds}
    core = read_page(memory.workspace, CORE)
    for earned in _ranked(
        own, read(memory.workspace, today.toordinal() - DEEP), staged, night.themes, today.toordinal()
    ):
        if _mark(earned.line) in core:
            continue
        if why := _missing(earned, gates):
            night.waiting.append((earned.line.citation, why))
        elif why := _unfit(earned.line, gone):
            night.refused.append((earned.line.citation, why))
        elif len(night.promoted) < gates.limit:
            night.promoted.append(earned)
    if not dry_run:
        _write(memory, night)
    return night


def _missing(earned: Earned, gates: Gates) -> str:
    """Say which gates a line has not passed yet; empty where it has passed all."""
    held = (
        (earned.asked, gates.min_recall_count, "times asked for"),
        (earned.questions, gates.min_unique_queries, "different questions"),
        (earned.score, gates.min_score, "score"),
    )
    return ", ".join(f"{name} {has:.3g} of {needed}" for has, needed, name in held if has < needed)


def _light(lines: Sequence[NoteLine], today: int) -> list[NoteLine]:
    """Return what was written in the last days, newest first, each thing once."""
    staged: list[NoteLine] = []
    for line in sorted(lines, key=lambda line: (-(line.day or 0), line.path, line.line)):
        if (line.day or 0) < today - LIGHT or len(staged) == STAGED:
            break
        if not any(cosine(line.text, other.text) >= TWINS for other in staged):
            staged.append(line)
    return staged


def _themes(lines: Iterable[NoteLine], today: int) -> list[str]:
    """Return the names that came up on most of the days of a week on which anything was written."""
    days: dict[str, set[int]] = defaultdict(set)
    active: set[int] = set()
    for line in lines:
        if line.day is not None and line.day > today - REM:
            active.add(line.day)
            for name in line.entities:
                days[slug(name)].add(line.day)
    strong = {name: len(seen) / len(active) for name, seen in days.items() if len(seen) > 1}
    kept = sorted((name for name, strength in strong.items() if strength >= STRENGTH), key=lambda n: (-strong[n], n))
    return kept[:THEMES]


def _ranked(
    lines: Sequence[NoteLine], signals: Iterable[Signal], staged: Sequence[NoteLine], themes: Sequence[str], today: int
) -> list[Earned]:
    asked: dict[tuple[str, str], list[Signal]] = defaultdict(list)
    for signal in signals:
        asked[signal.path, signal.text].append(signal)
    found = []
    for line in lines:
        # By what it says, not by its number: lines move.
        own = asked.pop((line.path, fingerprint(line.text)), [])
        if own:
            light = sum(line != other and cosine(line.text, other.text) >= ALIKE for other in staged)
            rem = sum(slug(name) in themes for name in line.entities)
            questions = len({signal.query for signal in own})
            found.append(Earned(line, score(line, own, light, rem, today), len(own), questions))
    return sorted(found, key=lambda earned: (-earned.score, earned.line.path, earned.line.line))


def score(line: NoteLine, signals: Sequence[Signal], light: int, rem: int, today: int) -> float:
    """Return how much speaks for a line, 0 to about 1."""
    days = sorted({signal.day for signal in signals})
    fresh: float = 0.5 ** (max(0, today - days[-1]) / HALF_LIFE)
    several = 0.55 * log1p(len(days) - 1) / log1p(4) + 0.45 * (days[-1] - days[0]) / REM
    concepts = len(line.entities) + sum(len(word) > 4 for word in content_words(line.text))
    return (
        0.30 * min(1.0, sum(signal.score for signal in signals) / len(signals))
        + 0.24 * min(1.0, log1p(len(signals)) / log1p(10))
        + 0.15 * min(1.0, len({signal.query for signal in signals}) / 5)
        + 0.15 * fresh
        + 0.10 * (min(1.0, several) if len(days) > 1 else 0.2)
        + 0.06 * min(1.0, concepts / 6)
        + fresh * (0.06 * min(1.0, log1p(light) / log1p(6)) + 0.09 * min(1.0, log1p(rem) / log1p(6)))
    )


def _unfit(line: NoteLine, gone: set[tuple[str, int]]) -> str:
    """Return why a line should not stand in every prompt, however often it was asked for."""
    text = line.text
    if (line.path, line.line) in gone or "~~" in text:
        return "it does not hold any more"
    if MARK in text:  # as the index has it
        return "it holds a secret"
    if estimate_tokens(text) > MAX_TOKENS:
        return f"it is longer than {MAX_TOKENS} tokens"
    if len(content_words(text)) < 3 or text.endswith("?") or text.startswith(("#", "```", "|", "<!--")):
        return "it is no statement"
    return ""


def _mark(line: NoteLine) -> str:
    return f"<!-- dream {fingerprint(line.text)} -->"


def _plainly(line: NoteLine) -> str:
    """Return what a line says, without the marks of a retained fact: MEMORY.md is read by people and in every prompt."""
    bullet = parse_bullet(f"- {line.text}")
    if bullet is None or bullet.inferred:
        return line.text
    names = [name for name in bullet.entities if name not in bullet.text]
    return f"{', '.join(names)}: {bullet.text}" if names else bullet.text


def _write(memory: Memory, night: Night) -> None:
    before: dict[str, str] = {}
    if night.promoted:
        rows = "".join(
            f"- {_plainly(earned.line)} (Source: {earned.line.citation}) {_mark(earned.line)}\n"
            for earned in night.promoted
        )
        _changed(memory, CORE, lambda text: _with_block(text, night, rows), before)
    old = next(
        (match[0] for match in _NIGHT.finditer(read_page(memory.workspace, DREAMS)) if match[1] == night.day), ""
    )
    if night.promoted or (not old and night.staged):
        _changed(memory, DREAMS, lambda text: _diary(text, night), before)
    if before:
        night.run = record(memory.workspace, before, date.fromisoformat(night.day))


def _changed(memory: Memory, name: str, work: Callable[[str], str], before: dict[str, str]) -> None:
    text = read_page(memory.workspace, name)
    if change(memory.workspace, name, work):
        before[name] = text


def _with_block(text: str, night: Night, rows: str) -> str:
    """Return MEMORY.md with the block of a night. Old blocks of dreaming make room; where that is not enough, rows are left out."""
    kept = list(rows.splitlines(keepends=True))
    while True:
        body = text.rstrip("\n") + ("\n\n" if text.strip() else "")
        whole = f"{body}{HEADING} ({night.day})\n{''.join(kept)}"
        if len(whole) <= MAX_CORE:
            return whole
        oldest = min(_BLOCK.finditer(text), key=lambda match: match[1], default=None)
        if oldest is not None:
            # What somebody wrote below its heading is theirs and stays.
            own = [
                line for line in oldest[0].splitlines(keepends=True)[1:] if "<!-- dream " not in line and line.strip()
            ]
            text = text[: oldest.start()] + "".join(own) + text[oldest.end() :]
        elif len(kept) > 1:
            night.refused.append((night.promoted.pop().line.citation, f"{CORE} is full"))
            kept.pop()
        else:
            night.refused += [(earned.line.citation, f"{CORE} is full") for earned in night.promoted]
            night.promoted.clear()
            return text


def _diary(text: str, night: Night) -> str:
    counted = Counter(why for _, why in night.refused)
    rows = [
        f"- light: {night.staged} things of the last two days",
        f"- REM: {', '.join(night.themes) or 'nothing that came up on most days'}",
        *(
            f"- deep: took over {single_line(_plainly(each.line), 200)} ({each.line.citation}; asked {each.asked} times by {each.questions} questions, {each.score:.2f})"
            for each in night.promoted
        ),
        *(f"- deep: left {count} where they are: {why}" for why, count in sorted(counted.items())),
    ]
    rest = "".join(match[0] for match in _NIGHT.finditer(text) if match[1] != night.day)
    head = text[: match.start()] if (match := _NIGHT.search(text)) else text or "# Dreams\n\n"
    nights = [match[0].rstrip("\n") + "\n\n" for match in _NIGHT.finditer(rest)]
    nights.append(f"## {night.day}\n" + "\n".join(rows) + "\n")
    while len(nights) > 1 and sum(map(len, nights)) > MAX_DIARY:
        nights.pop(0)
    return head.rstrip("\n") + "\n\n" + "".join(nights)
