"""Show what changed between two texts, short enough for a model and quick for a large file."""

from __future__ import annotations

import difflib

from msgspec import Struct

MAX_CHARS = 6_000
_CONTEXT = 3
_MAX_LINES = 2_000


class Change(Struct, frozen=True):
    """A diff and the number of the first line that changed, from 1 (0 when nothing did)."""

    diff: str
    first_line: int


def compare(old: str, new: str) -> Change:
    """Return the difference. Equal ends are passed over first, so that the cost is that of the part which changed."""
    before, after = old.split("\n"), new.split("\n")
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    if head == len(before) == len(after):
        return Change("", 0)
    tail = 0
    while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    start = max(0, head - _CONTEXT)
    gone = before[start : len(before) - max(0, tail - _CONTEXT)]
    came = after[start : len(after) - max(0, tail - _CONTEXT)]
    if max(len(gone), len(came)) > _MAX_LINES:
        return Change(f"@@ line {head + 1} @@ {len(gone):,} lines became {len(came):,}", head + 1)
    lines = list(difflib.unified_diff(gone, came, n=_CONTEXT, lineterm=""))[2:]
    text = "\n".join(_shifted(line, start) for line in lines)
    if len(text) > MAX_CHARS:
        text = text[:MAX_CHARS].rpartition("\n")[0] + "\n[… the diff goes on …]"
    return Change(text, head + 1)


def _shifted(line: str, by: int) -> str:
    """Return a hunk's header with the line numbers of the whole file."""
    if not line.startswith("@@ -"):
        return line.removesuffix("\r")
    parts = line.split(" ")
    moved = []
    for part in parts[1:3]:
        number, comma, count = part[1:].partition(",")
        moved.append(f"{part[0]}{int(number) + by}{comma}{count}")
    return f"@@ {moved[0]} {moved[1]} @@"
