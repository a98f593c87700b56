"""Truncated a long file to a number of characters: most of its head, some of its tail, and a mark that says so. Pure.

The result never exceeds the limit, whatever the limit is. Text that comes in neutralised stays inert: a cut never
leaves half a line that could pose as a line of the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from homarus.core.patterns import late
from homarus.core.text import poses, single_line

HEAD_SHARE, TAIL_SHARE = 0.70, 0.20
# With a digest the tail is smaller, and the rules from the middle get a share of their own.
DIGEST_HEAD, DIGEST_SHARE, DIGEST_TAIL = 0.45, 0.35, 0.15
# Less room than this beside the two-line mark, and the one-line mark takes its place.
MIN_USABLE = 16

_RULE_WORDS = late(
    r"\b(?:must|never|always|do not|don't|cannot|only|forbidden|required|ask first|confirm|private|secret|stop)\b",
    re.IGNORECASE,
)
_HEADING = late(r" {0,3}#{1,6}[ \t]")
_ITEM = late(r"\s*(?:[-*+]|\d{1,3}[.)])[ \t]")


class Truncated(Struct, frozen=True):
    text: str
    head: int
    tail: int
    total: int

    @property
    def truncated(self) -> bool:
        return self.head + self.tail < self.total


def truncate(text: str, limit: int, name: str, *, digest: bool = False, beyond: int = 0) -> Truncated:
    """Return text of at most `limit` characters; `digest` keeps the rules that stand in the part left out.

    `beyond` says how much longer the file is than the text: then there is a mark in any case, and no tail.
    """
    total = len(text) + beyond
    if len(text) <= limit and not beyond:
        return Truncated(text, total, 0, total)
    if limit <= 0:
        return Truncated("", 0, 0, total)
    name = single_line(name, 200)
    shares = (1.0, 0.0) if beyond else (HEAD_SHARE, TAIL_SHARE)
    if limit - len(_mark(name, total, total, total)) >= MIN_USABLE:
        return (digest and _with_digest(text, limit, name, beyond)) or _around(
            text, limit, shares, total, lambda head, tail: _mark(name, head, tail, total)
        )
    if limit - len(_compact(total, total, total)) >= 1:
        return _around(text, limit, shares, total, lambda head, tail: _compact(head, tail, total))
    head, _ = _whole_lines(text, min(limit - 1, len(text)), 0)
    return Truncated(text[:head] + "…", head, 0, total)


def _mark(name: str, head: int, tail: int, total: int) -> str:
    # Tools that post-process prompts look for these two lines.
    return (
        f"\n\n[...truncated, read {name} for full content...]\n"
        f"…(truncated {name}: kept {head}+{tail} chars of {total})…\n\n"
    )


def _compact(head: int, tail: int, total: int) -> str:
    return f"\n[…truncated {head}+{tail}/{total}]\n"


def _fit(limit: int, mark: int, head_share: float, tail_share: float) -> tuple[int, int]:
    """Return how much of head and tail fits beside a mark; the tail gives way first."""
    head, tail = int(limit * head_share), int(limit * tail_share)
    tail = max(0, min(tail, limit - mark - head))
    return max(0, min(head, limit - mark - tail)), tail


def _whole_lines(text: str, head: int, tail: int) -> tuple[int, int]:
    """Give up the half line on either side of the cut if it could pose as a line of the prompt."""
    start = text.rfind("\n", 0, head) + 1
    if poses(text[start:head]):
        head = start
    if tail:
        begin = len(text) - tail
        end = text.find("\n", begin)
        end = len(text) if end < 0 else end
        if poses(text[begin:end]):
            tail = len(text) - end
    return head, tail


def _around(
    text: str, limit: int, shares: tuple[float, float], total: int, mark: Callable[[int, int], str]
) -> Truncated:
    head, tail = _fit(limit, len(mark(total, total)), *shares)
    head, tail = _whole_lines(text, min(head, len(text)), tail)
    after = mark(head, tail)
    return Truncated(text[:head] + (after + text[-tail:] if tail else after.rstrip("\n")), head, tail, total)


def _with_digest(text: str, limit: int, name: str, beyond: int) -> Truncated | None:
    """Return head, rules of the middle and tail, or None where the middle holds no rules."""
    size, total = len(text), len(text) + beyond
    head, tail = int(limit * DIGEST_HEAD), 0 if beyond else int(limit * DIGEST_TAIL)
    head, tail = _whole_lines(text, min(head, size), tail)
    mark = _mark(name, head, tail, total)
    label = "[rules from the part left out]\n"
    room = min(int(limit * DIGEST_SHARE), limit - head - tail - len(mark) - len(label) - 2)
    rules = _rules(text[head : size - tail], room)
    if not rules:
        return None
    return Truncated(text[:head] + mark + label + rules + ("\n\n" + text[-tail:] if tail else ""), head, tail, total)


def _rules(middle: str, room: int) -> str:
    """Return the headings, list items and rule lines of a text that fit, the weightiest chosen first, in their order."""
    lines = middle.split("\n")
    # The first and the last line may be halves of lines.
    ranked = sorted((weight, number) for number, line in enumerate(lines[1:-1], 1) if (weight := _weight(line)))
    chosen: list[int] = []
    for _, number in ranked:
        cost = len(lines[number]) + 1
        if cost <= room:
            room -= cost
            chosen.append(number)
    return "\n".join(lines[number] for number in sorted(chosen))


def _weight(line: str) -> int:
    """Return 1 for a rule, 2 for a heading, 3 for any other list item, 0 for prose."""
    if _RULE_WORDS.search(line):
        return 1
    if _HEADING.match(line):
        return 2
    return 3 if _ITEM.match(line) else 0
