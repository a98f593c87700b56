"""Append a fact to today's note, and change any page that people and the program share.

One writer at a time, never through a link, whole or not at all; the rest of a file stays byte for byte.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

from homarus.core.errors import StorageError
from homarus.core.origin import mark_origin
from homarus.memory.bank.grammar import RETAIN_HEADING, Bullet, format_bullet
from homarus.storage.atomic import ensure_dir
from homarus.storage.boundary import BoundaryError, Root

MAX_PAGE = 16 << 20


def change(workspace: Path, name: str, work: Callable[[str], str]) -> bool:
    """Replace a page by what `work` makes of its text (empty where there is none); False when that is the same.

    Two who change pages at once, in this process or another, do so one after the other: nobody's line is lost. Bytes
    that are no UTF-8 survive.
    """
    place = (workspace / name).parent
    ensure_dir(place, mode=0o755)
    with Root(workspace) as root:
        folder = root.open(Path(name).parent.as_posix(), os.O_RDONLY | os.O_DIRECTORY, follow="never")
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            before = _read(root, name)
            after = work(before.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
            if after == before:
                return False
            root.write(name, after, mode=0o644)
        finally:
            # Said, not left to closing: a process forked meanwhile holds a copy of the descriptor, and the lock with it.
            fcntl.flock(folder, fcntl.LOCK_UN)
            os.close(folder)
    return True


def _read(root: Root, name: str) -> bytes:
    try:
        fd = root.open(name, os.O_RDONLY, follow="never")
    except BoundaryError as problem:
        if problem.kind == "missing":
            return b""
        raise
    with open(fd, "rb") as handle:  # noqa: PTH123 - a descriptor, not a path
        data = handle.read(MAX_PAGE + 1)
    if len(data) > MAX_PAGE:
        raise StorageError(f"{name} is larger than {MAX_PAGE >> 20} MB", cure="move older parts into another note")
    return data


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
