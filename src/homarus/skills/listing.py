"""The list of skills that a prompt shows: one XML element, within its budget whatever the skills say. Pure.

Over budget, names and places are kept longest: first the descriptions get shorter, then they go, then skills go from
the end, and a comment says so. Equal input gives equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from homarus.core.patterns import late
from homarus.core.text import escape_xml
from homarus.skills.discover import Skill
from homarus.skills.header import INVISIBLE
from homarus.skills.settings import SkillLimits

LONGEST, SHORTEST = 220, 4
_OPEN, _CLOSE = "<available_skills>\n", "</available_skills>"
_CONTROL = late("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# Part of emoji in folder names; the path must stay exactly as it is.
_WITHOUT_JOINTS = dict.fromkeys(map(ord, "\u200d\ufe0e\ufe0f"))


class _Row(Struct, frozen=True):
    name: str
    description: str
    location: str

    def render(self, limit: int | None) -> str:
        text = "" if limit == 0 else f"    <description>{_cut(self.description, limit)}</description>\n"
        return f"  <skill>\n    <name>{self.name}</name>\n{text}    <location>{self.location}</location>\n  </skill>\n"


def why_unlisted(skill: Skill) -> str:
    """Return why a skill is never shown to a model, or nothing where it may be."""
    if not skill.header.description:
        return "it has no description"
    if not skill.header.model_invocable:
        return "only people invoke it (disable-model-invocation)"
    path = skill.file
    if path.isascii() and path.isprintable():
        return ""
    if _CONTROL.search(path) or INVISIBLE.search(path.translate(_WITHOUT_JOINTS)):
        return "its path holds characters that a prompt cannot show"
    return ""


def in_order(skills: Iterable[Skill]) -> list[Skill]:
    """Return the skills that may be shown, by name: a prompt shows them from the front, as many as its limits allow."""
    return sorted((skill for skill in skills if not why_unlisted(skill)), key=lambda skill: (skill.name, skill.file))


def render(skills: Iterable[Skill], limits: SkillLimits, home: str) -> str:
    """Return the list as XML of at most `max_skills_prompt_chars` characters; empty where there is nothing to show."""
    shown = in_order(skills)
    rows = [
        _Row(escape_xml(each.name), each.header.description, escape_xml(compact(each.file, home))) for each in shown
    ]
    kept = rows[: max(0, limits.max_skills_in_prompt)]
    budget = limits.max_skills_prompt_chars
    limit = _longest_that_fits(kept, len(rows), budget)
    if limit is None or limit > 0:
        return _assemble(kept, len(rows), limit)
    count = len(kept)
    sizes = [len(row.render(0)) for row in kept]
    size = sum(sizes) + len(_assemble((), len(rows), 0))
    while count and size + len(str(count)) > budget:
        count -= 1
        size -= sizes[count]
    return _assemble(kept[:count], len(rows), 0) if count else ""


def compact(path: str, home: str) -> str:
    """Return a path with the home folder as `~`: shorter, and the same for every user of a shared prompt cache."""
    prefix = home.rstrip("/") + "/"
    return f"~/{path[len(prefix) :]}" if len(prefix) > 1 and path.startswith(prefix) else path


def _longest_that_fits(rows: Sequence[_Row], total: int, budget: int) -> int | None:
    """Return how long descriptions may be: None for whole, 0 where even the shortest do not fit."""
    if len(_assemble(rows, total, None)) <= budget:
        return None
    low, high = SHORTEST - 1, LONGEST
    while low < high:
        middle = (low + high + 1) // 2
        if len(_assemble(rows, total, middle)) <= budget:
            low = middle
        else:
            high = middle - 1
    return low if low >= SHORTEST else 0


def _assemble(rows: Sequence[_Row], total: int, limit: int | None) -> str:
    if not rows and limit is None:
        return ""
    notes = []
    if len(rows) < total:
        notes.append(f"{len(rows)} of {total} skills")
    if limit is not None:
        notes.append("descriptions shortened" if limit else "descriptions left out")
    notice = f"<!-- {', '.join(notes)}; `homarus skills list` shows all -->\n" if notes else ""
    return f"{notice}{_OPEN}{''.join(row.render(limit) for row in rows)}{_CLOSE}"


def _cut(text: str, limit: int | None) -> str:
    if limit is not None and len(text) > limit:
        text = text[: limit - 1].rstrip() + "…"
    return escape_xml(text)
