"""Append a fact to today's note. The rest of the file stays byte for byte; the write is whole or not at all."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

from homarus.core.errors import StorageError
from homarus.memory.bank.grammar import RETAIN_HEADING, Bullet, format_bullet
from homarus.storage.atomic import ensure_dir, write_atomic
from homarus.storage.boundary import BoundaryError, Root

MAX_NOTE = 16 << 20


def retain(workspace: Path, bullet: Bullet, day: date) -> tuple[str, int]:
    """Write the bullet below `## Retain` of the day's note and return (path, line)."""
    name = f"memory/{day.isoformat()}.md"
    ensure_dir(workspace / "memory", mode=0o755)
    before = _current(workspace, name)
    text, line = insert(before.decode("utf-8", "surrogateescape"), format_bullet(bullet), day)
    write_atomic(workspace / name, text.encode("utf-8", "surrogateescape"), mode=0o644)
    return name, line


def _current(workspace: Path, name: str) -> bytes:
    try:
        with Root(workspace) as root:
            fd = root.open(name, os.O_RDONLY, follow="never")
            with open(fd, "rb") as handle:  # noqa: PTH123 - a descriptor, not a path
                data = handle.read(MAX_NOTE + 1)
    except BoundaryError as problem:
        if problem.kind == "missing":
            return b""
        raise
    if len(data) > MAX_NOTE:
        raise StorageError(f"{name} is larger than {MAX_NOTE >> 20} MB", cure="move older parts into another note")
    return data


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
    starts = [(at, match) for at, line in enumerate(lines) if (match := RETAIN_HEADING.match(line.rstrip("\r")))]
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
