"""Replace passages of a text and nothing else, and show what changed. What is outside of a matched passage stays as it is.

A passage is looked for as it is written, then without regard to line endings, then without regard to what models
mistype: quotes, dashes, exotic spaces, trailing spaces, Unicode forms. It must be unique in the first of these readings
in which it occurs. Bytes that are no UTF-8 travel through as surrogates. `compare` shows what changed, short enough for
a model and quick for a large file. No file is touched here.
"""

from __future__ import annotations

import difflib
import unicodedata
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

from msgspec import Struct

from homarus.core.errors import ToolError

BOM = "\ufeff"
MAX_DIFF_CHARS = 6_000
_CONTEXT = 3
_MAX_LINES = 2_000
_PLAIN = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"'),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
    **dict.fromkeys("\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
}


_TABLE = str.maketrans(_PLAIN)
# How much of a difference is shown.
MAX_CHARS = 6_000
_CONTEXT = 3
_MAX_LINES = 2_000


class Edit(Struct, frozen=True):
    old: str
    new: str


class Span(Struct, frozen=True):
    """A replacement by place: `text[start:end]` becomes `new`."""

    start: int
    end: int
    new: str


class View(Struct, frozen=True):
    """A reading of a text: its characters, and where in the text each of them begins and ends."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    def origin(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the span of the text behind a span of the view; None when it would cut a character in two."""
        if start == end:
            at = self.starts[start] if start < len(self.starts) else self.ends[-1] if self.ends else 0
            return at, at
        if (start and self.starts[start - 1] == self.starts[start]) or (
            end < len(self.starts) and self.starts[end] == self.starts[end - 1]
        ):
            return None
        return self.starts[start], self.ends[end - 1]


Reading = Callable[[str], View]


def apply(text: str, edits: Sequence[Edit], where: str) -> str:
    """Return the text with all edits done, each found in the text as it was; raise `ToolError` and change nothing else."""
    mark, body = (BOM, text[1:]) if text.startswith(BOM) else ("", text)
    # Each reading of the text is made once, and only if an edit needs it.
    read = cache(lambda reading: reading(body))
    spans = sorted((locate(body, edit, where, number, read) for number, edit in enumerate(edits)), key=_start)
    for one, other in pairwise(spans):
        if other.start < one.end:
            raise ToolError(f"two edits of {where} overlap", cure="join them into one edit")
    for span in reversed(spans):
        body = body[: span.start] + span.new + body[span.end :]
    if mark + body == text:
        raise ToolError(f"the edit would leave {where} as it is", cure="make newText differ from oldText")
    return mark + body


def _start(span: Span) -> int:
    return span.start


def locate(text: str, edit: Edit, where: str, number: int, read: Callable[[Reading], View]) -> Span:
    """Return the one place of an edit; `read` gives the text in a reading."""
    old, new = edit.old.removeprefix(BOM), edit.new.removeprefix(BOM)
    which = f"edits[{number}]: " if number else ""
    if not old:
        raise ToolError(f"{which}oldText is empty", cure="quote the passage to replace, or use write for a new file")
    if old == new:
        raise ToolError(f"{which}oldText and newText are the same", cure="say what should change")
    readings: tuple[Reading, ...] = (plain, unbroken, loose)
    for view in readings:
        seen, wanted = read(view), view(old).text
        places = _places(seen, wanted) if wanted else []
        if len(places) > 1:
            cure = "quote more lines around the one you mean"
            raise ToolError(f"{which}oldText occurs {len(places)} times in {where}", cure=cure)
        if places:
            return _narrowed(text, seen, places[0], edit=Edit(old, new), view=view)
    if (bare := old.rstrip(" \t")) != old and bare:
        # Blanks at the very end of the passage that the file does not have.
        return locate(text, Edit(bare, new.rstrip(" \t")), where, number, read)
    cure = "read the file again and quote the passage exactly as it stands there"
    raise ToolError(f"{which}oldText does not occur in {where}", cure=cure)


def plain(text: str) -> View:
    return View(text, range(len(text)), range(1, len(text) + 1))


def unbroken(text: str) -> View:
    """The text with every line ending as one newline."""
    if "\r\n" not in text:
        return plain(text)
    starts, ends = array("I"), array("I")
    at = 0
    for line in text.split("\r\n"):
        if at:
            starts.append(at - 2)
            ends.append(at)
        starts.extend(range(at, at + len(line)))
        ends.extend(range(at + 1, at + len(line) + 1))
        at += len(line) + 2
    return View(text.replace("\r\n", "\n"), starts, ends)


def loose(text: str) -> View:
    """The text as a reader sees it: plain quotes, dashes and spaces, composed letters, no spaces at the ends of lines."""
    forms: list[str] = []
    starts, ends = array("I"), array("I")
    at = 0
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        last = number == len(lines)
        body = line if last else line.removesuffix("\r")
        # Most lines read as they are written; looking at each character of a large file takes half a minute.
        if body.isascii() or _is_plain(body):
            form = body if last else body.rstrip(" \t")
            starts.extend(range(at, at + len(form)))
            ends.extend(range(at + 1, at + len(form) + 1))
        else:
            form = _loose_line(body, at, starts, ends, keep=last)
        forms.append(form)
        at += len(line) + 1
        if not last:
            starts.append(at - 1 - (len(line) - len(body)))
            ends.append(at)
    return View("\n".join(forms), starts, ends)


def _is_plain(line: str) -> bool:
    same = unicodedata.is_normalized("NFKC", line) and line.translate(_TABLE) == line
    return same and not any(map(unicodedata.combining, line))


def _loose_line(line: str, base: int, starts: array[int], ends: array[int], *, keep: bool) -> str:
    """Return one line as a reader sees it, and note where each of its characters comes from."""
    chars: list[str] = []
    at, first = 0, len(starts)
    while at < len(line):
        end = at + 1
        while end < len(line) and unicodedata.combining(line[end]):
            end += 1
        form = unicodedata.normalize("NFKC", line[at:end].translate(_TABLE)).translate(_TABLE)
        chars.extend(form)
        starts.extend([base + at] * len(form))
        ends.extend([base + end] * len(form))
        at = end
    text = "".join(chars)
    seen = text if keep else text.rstrip(" \t")
    del starts[first + len(seen) :], ends[first + len(seen) :]
    return seen


def _places(view: View, wanted: str) -> list[tuple[int, int]]:
    """Return the first few places, overlapping ones too: two readings of one edit are one too many."""
    found: list[tuple[int, int]] = []
    at = view.text.find(wanted)
    while at >= 0 and len(found) < 100:
        if view.origin(at, at + len(wanted)) is not None:
            found.append((at, at + len(wanted)))
        at = view.text.find(wanted, at + 1)
    return found


def _narrowed(text: str, seen: View, place: tuple[int, int], *, edit: Edit, view: Reading) -> Span:
    """Return the span without the whole lines that old and new share at both ends: those keep their own bytes."""
    old, new = edit.old, edit.new
    head = _shared(old, new)
    tail = _shared_end(old[head:], new[head:])
    start, end = place
    start += len(view(old[:head]).text)
    end -= len(view(old[len(old) - tail :]).text) if tail else 0
    span = seen.origin(start, end) or seen.origin(*place)
    assert span is not None
    if seen.origin(start, end) is None:
        head = tail = 0
    fresh = new[head : len(new) - tail]
    return Span(*span, _with_endings(fresh, ending_at(text, *span)))


def _shared(old: str, new: str) -> int:
    size = 0
    for one, other in zip(old.splitlines(keepends=True), new.splitlines(keepends=True), strict=False):
        if one != other or not one.endswith("\n"):
            break
        size += len(one)
    return size


def _shared_end(old: str, new: str) -> int:
    size = 0
    for one, other in zip(reversed(old.split("\n")[1:]), reversed(new.split("\n")[1:]), strict=False):
        if one != other:
            break
        size += len(one) + 1
    return size


def ending_at(text: str, start: int, end: int) -> str:
    """Return the line ending that is right at a place: its own, the next one, or the last before it."""
    at = text.find("\n", start, end)
    at = at if at >= 0 else text.find("\n", end)
    at = at if at >= 0 else text.rfind("\n", 0, start)
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"


def _with_endings(text: str, ending: str) -> str:
    return text if ending == "\n" else text.replace("\r\n", "\n").replace("\n", ending)


class Change(Struct, frozen=True):
    """A diff and the number of the first line that changed, from 1 (0 when nothing did)."""

    diff: str
    first_line: int


def compare(old: str, new: str) -> Change:
    """Return the difference. Equal ends are passed over first, so that the cost is that of the part which changed."""
    before, after = old.split("\n"), new.split("\n")
    if before[-1] == after[-1] == "":  # behind the last line break there is no line
        del before[-1], after[-1]
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
    if len(text) > MAX_DIFF_CHARS:
        text = text[:MAX_DIFF_CHARS].rpartition("\n")[0] + "\n[… the diff goes on …]"
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
