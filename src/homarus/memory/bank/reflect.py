"""Write what the retained facts say about each person or thing to a page of its own. Deterministic, offline, repeatable.

`bank/entities/<Slug>.md` belongs to people: only the regions `current` and `timeline` are ours. A region carries the hash of
what was written there; where that does not fit any more, a person edited it, and it is theirs from then on:

    <!-- reflect:begin id=current hash=3f1c… -->
    - written by the program
    <!-- reflect:end -->

A second run on the same facts changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import date
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct

from homarus.core.origin import mark_origin
from homarus.core.text import single_line, slug
from homarus.memory.bank.pages import change, refresh
from homarus.memory.results import cite

if TYPE_CHECKING:
    from homarus.memory.memory import Memory
    from homarus.memory.read import Fact

FOLDER = "bank/entities"
CURRENT, TIMELINE, TEXT = 12, 40, 300


class Page(Struct, frozen=True):
    """What happened to one page. `kept` names the regions that a person edited."""

    path: str
    name: str
    facts: int
    changed: bool
    kept: tuple[str, ...] = ()


def reflect(memory: Memory, *, dry_run: bool = False, since: date | str | None = None) -> list[Page]:
    """Bring the entity pages in line with the facts; with `dry_run` only say what would change.

    With `since` only the pages of those whom newer facts are about; each page still holds all that is known.
    """
    first = memory.day(since)
    pages, facts = memory.entity_pages(), memory.facts()
    by_entity: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        for entity in fact.entities:
            by_entity[entity].append(fact)
    return [
        _page(memory, pages.get(entity) or f"{FOLDER}/{entity}.md", entity, found, dry_run=dry_run)
        for entity, found in sorted(by_entity.items())
        if slug(entity) == entity  # a name that no file can have stays in the notes
        and (first is None or any((fact.day or 0) >= first.toordinal() for fact in found))
    ]


def _page(memory: Memory, path: str, entity: str, facts: list[Fact], *, dry_run: bool) -> Page:
    ordered = sorted(facts, key=lambda fact: (-(fact.day or 0), fact.path, fact.line))
    regions = {"current": _current(ordered), "timeline": _timeline(ordered)}
    kept: list[str] = []
    changed: list[bool] = []

    def work(before: str) -> str:
        text = before or f"---\nname: {entity}\n---\n\n# {entity}\n"
        for name, body in regions.items():
            done = refresh(text, name, body)
            text = done.text
            if done.kept:
                kept.append(name)
        changed.append(text != before)
        return before if dry_run else text

    change(memory.workspace, path, work)
    return Page(path, PurePosixPath(path).stem, len(facts), changed[0], tuple(kept))


def _current(facts: list[Fact]) -> str:
    """Return what holds now, newest first: what a later fact replaced is left out."""
    rows = [_row(fact) for fact in facts if not fact.superseded][:CURRENT]
    return "\n".join(["## Current", *rows])


def _timeline(facts: list[Fact]) -> str:
    """Return everything by month; what is older than the limit allows is folded into one count."""
    rows: list[str] = ["## Timeline"]
    folded = 0
    months: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        months[date.fromordinal(fact.day).isoformat()[:7] if fact.day else "undated"].append(fact)
    for month, found in months.items():
        room = 0 if folded else max(0, TIMELINE - len(rows))
        rows += [f"### {month}", *map(_row, found[:room])] if room else []
        folded += len(found[room:])
    return "\n".join([*rows, *([f"- and {folded} older facts"] if folded else [])])


def _row(fact: Fact) -> str:
    sure = f" (c={fact.confidence:.2f})" if fact.confidence is not None else ""
    line = f"- {single_line(fact.text, TEXT)}{sure} ({cite(fact.path, fact.line, fact.end_line)})"
    return mark_origin(line, fact.origin)  # else the page would wash it clean
