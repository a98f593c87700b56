"""Append a fact to today's note, at its place in the Retain section; the rest of the note stays byte for byte."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

from homarus.core.origin import mark_origin, take_origin
from homarus.memory.bank.grammar import RETAIN_HEADING, Bullet, format_bullet
from homarus.memory.bank.pages import change


def retain(workspace: Path, bullet: Bullet, day: date, origin: Sequence[str] = ()) -> tuple[str, int]:
    """Write the bullet below `## Retain` of the day's note and return (path, line); `origin` names whose words it holds."""
    name = f"memory/{day.isoformat()}.md"
    lines: list[int] = []

    def add(text: str) -> str:
        after, line = insert(text, mark_origin(format_bullet(bullet), origin), day)
        lines.append(line)
        return after

    change(workspace, name, add)
    return name, lines[0]


def insert(text: str, bullet: str, day: date) -> tuple[str, int]:
    """Return the note with the bullet as the last one of its Retain section, and the bullet's line number. Pure."""
    newline = "\r\n" if "\r\n" in text else "\n"
    if not text.strip():
        made = newline.join((f"# {day.isoformat()}", "", "## Retain", bullet, ""))
        return made, 4
    body = text if text.endswith("\n") else text + newline
    lines = body.split("\n")  # keeps a trailing \r with its line
    lines.pop()
    at = _section_end(lines)
    ending = "\r" if newline == "\r\n" else ""
    if at is None:
        lines += [ending, f"## Retain{ending}", bullet + ending]
        at = len(lines) - 1
    else:
        lines.insert(at, bullet + ending)
    return "\n".join(lines) + "\n", at + 1


def _section_end(lines: list[str]) -> int | None:
    """Return where the next bullet of the last Retain section goes, or None without such a section."""
    starts = [
        (at, match) for at, line in enumerate(lines) if (match := RETAIN_HEADING.match(take_origin(line)[0].rstrip()))
    ]
    if not starts:
        return None
    start, heading = starts[-1]
    end = len(lines)
    for at in range(start + 1, len(lines)):
        stripped = lines[at].lstrip()
        level = len(stripped) - len(stripped.lstrip("#"))
        if 0 < level <= len(heading[1]) and stripped[level : level + 1] == " ":
            end = at
            break
    while end > start + 1 and not lines[end - 1].strip():
        end -= 1
    return end
