"""The patch format: from its text to operations, and from an operation to the new text of a file. Pure.

    *** Begin Patch
    *** Update File: src/app.py
    @@ def main():
    -    old line
    +    new line
    *** Add File: docs/new.md
    +first line
    *** End Patch

Lines of a file that a patch only mentions keep their own bytes; a line that it adds gets the file's own line ending, and
a file without a newline at its end still has none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import dropwhile, islice
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.errors import ToolError
from homarus.core.patterns import late
from homarus.tools.textedit import BOM, loose

BEGIN, END, AT_END = "*** Begin Patch", "*** End Patch", "*** End of File"
_HEADS = {"*** Add File: ": "add", "*** Update File: ": "update", "*** Delete File: ": "delete"}
_MOVE = "*** Move to: "
_CURE = "write *** Begin Patch, then *** Add File: / *** Update File: / *** Delete File: sections, then *** End Patch"
_WRAPPING = late(r"\s*(?:```\w*|EOF|PATCH|(?:apply_patch\s*)?(?:<<-?\s*['\"]?\w+['\"]?)?)\s*")
Form = Callable[[str], str]


class Hunk(Struct, frozen=True):
    """A run of lines to find and what they become. `marks` are lines that come somewhere before it."""

    marks: tuple[str, ...]
    # Each line with its sign: a space for context, minus, plus.
    lines: tuple[tuple[str, str], ...]
    at_end: bool = False
    # How many empty lines at its end may as well be the space between two parts of the patch.
    blank: int = 0

    @property
    def old(self) -> list[str]:
        """The lines as they must stand in the file."""
        return [text for sign, text in self.lines if sign != "+"]


class Operation(Struct, frozen=True):
    kind: Literal["add", "update", "delete"]
    path: str
    move_to: str = ""
    content: str = ""
    hunks: tuple[Hunk, ...] = ()


def parse(text: str) -> list[Operation]:
    """Read a patch, or raise `ToolError` that names the line it could not understand."""
    lines = text.replace("\r\n", "\n").strip("\n").split("\n")
    # What some models wrap a patch in: a fence, a here-document, a command.
    while lines and _WRAPPING.fullmatch(lines[0]):
        lines.pop(0)
    while lines and _WRAPPING.fullmatch(lines[-1]):
        lines.pop()
    if len(lines) < 2 or lines[0].strip() != BEGIN or lines[-1].strip() != END:
        raise ToolError(f"the patch must begin with '{BEGIN}' and end with '{END}'", cure=_CURE)
    rest = deque(lines[1:-1])
    operations = []
    while rest:
        head = rest.popleft().strip()
        if not head:
            continue
        kind, path = next(
            ((kind, head[len(mark) :].strip()) for mark, kind in _HEADS.items() if head.startswith(mark)), ("", "")
        )
        if not path:
            raise ToolError(f"the patch has an unexpected line: '{head[:80]}'", cure=_CURE)
        operations.append(_operation(kind, path, rest))
    if not operations:
        raise ToolError("the patch is empty", cure=_CURE)
    return operations


def _operation(kind: str, path: str, rest: deque[str]) -> Operation:
    if kind == "delete":
        return Operation("delete", path)
    if kind == "add":
        added = []
        while _skip_blanks(rest) and not rest[0].lstrip().startswith("*** "):
            line = rest.popleft()
            if not line.startswith("+"):
                raise ToolError(f"a line of the new file {path} does not begin with '+': '{line[:80]}'", cure=_CURE)
            added.append(line[1:])
        return Operation("add", path, content="".join(line + "\n" for line in added))
    move = rest.popleft()[len(_MOVE) :].strip() if rest and rest[0].startswith(_MOVE) else ""
    hunks = []
    while _skip_blanks(rest) and (not rest[0].startswith("*** ") or rest[0].strip() == AT_END):
        hunks.append(_hunk(path, rest))
    if not hunks and not move:
        raise ToolError(f"the update of {path} changes nothing", cure="add lines that begin with '-' or '+'")
    return Operation("update", path, move_to=move, hunks=tuple(hunks))


def _skip_blanks(rest: deque[str]) -> bool:
    """Pass empty lines before a new part of the patch, and say whether there is more."""
    blank = next((number for number, line in enumerate(rest) if line.strip()), len(rest))
    if blank == len(rest) or rest[blank].lstrip().startswith(("*** ", "@@")):
        for _ in range(blank):
            rest.popleft()
    return bool(rest)


def _hunk(path: str, rest: deque[str]) -> Hunk:
    marks = []
    while rest and rest[0].startswith("@@"):
        mark = rest.popleft()[2:].strip()
        # A diff's own header (-12,3 +12,4 @@) says nothing that can be relied on.
        marks += [mark.rpartition("@@")[2].strip() if mark.startswith("-") and "@@" in mark else mark]
    lines: list[tuple[str, str]] = []
    while rest and not rest[0].startswith(("@@", "*** ")):
        line = rest.popleft()
        sign, text = (line[0], line[1:]) if line else (" ", "")
        if sign not in " +-":
            raise ToolError(
                f"a line of the update of {path} begins with neither ' ', '-' nor '+': '{line[:80]}'", cure=_CURE
            )
        lines.append((sign, text))
    at_end = bool(rest) and rest[0].strip() == AT_END
    if at_end:
        rest.popleft()
    blank = len(lines) - len([*dropwhile(lambda line: line == (" ", ""), reversed(lines))])
    if blank == len(lines):
        raise ToolError(f"a hunk of {path} is empty", cure="give context, '-' and '+' lines after '@@'")
    return Hunk(tuple(mark for mark in marks if mark), tuple(lines), at_end, blank)


def patched(text: str, operation: Operation) -> str:
    """Return the new text of a file, or raise and name the hunk that does not fit."""
    mark, body = (BOM, text[1:]) if text.startswith(BOM) else ("", text)
    old = _split(body)
    seen = _Seen([text for text, _ in old])
    found: list[tuple[int, Hunk]] = []
    cursor = 0
    for hunk in operation.hunks:
        start, fitting = _place(seen, hunk, cursor, operation.path)
        found.append((start, fitting))
        # What is added without a place goes to the end; the next hunk may still stand anywhere before.
        cursor = start + len(fitting.old) if fitting.old or fitting.marks else cursor
    new: list[tuple[str, str]] = []
    cursor = 0
    for start, hunk in sorted(found, key=lambda item: item[0]):
        new += old[cursor:start]
        cursor = start
        for sign, line in hunk.lines:
            if sign == "+":
                new.append((line, ""))
                continue
            if sign == " ":
                new.append(old[cursor])
            cursor += 1
    return mark + _joined([*new, *old[cursor:]], body)


def _split(body: str) -> list[tuple[str, str]]:
    if "\n" not in body and "\r" in body:  # as on a Macintosh before the year 2001
        *lines, last = body.split("\r")
        return [*((line, "\r") for line in lines), *([(last, "")] if last else [])]
    whole = []
    for line in body.split("\n")[:-1]:
        whole.append((line[:-1], "\r\n") if line.endswith("\r") else (line, "\n"))
    last = body.rpartition("\n")[2]
    return [*whole, (last, "")] if last else whole


def _joined(lines: list[tuple[str, str]], body: str) -> str:
    crlf = body.count("\r\n")
    ending = "\r\n" if crlf and crlf * 2 >= body.count("\n") else "\r" if "\r" in body and "\n" not in body else "\n"
    whole = [(text, own or ending) for text, own in lines]
    if whole and body and not body.endswith(("\n", "\r")):
        whole[-1] = (whole[-1][0], "")
    return "".join(text + own for text, own in whole)


class _Seen:
    """The lines of a file, and how they look to a reader who is ever less strict. Each look is made once."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self._forms: dict[Form, list[str]] = {str: lines}

    def as_read(self, form: Form) -> list[str]:
        if form not in self._forms:
            self._forms[form] = [form(line) for line in self.lines]
        return self._forms[form]


def _place(seen: _Seen, hunk: Hunk, cursor: int, path: str) -> tuple[int, Hunk]:
    """Return where a hunk begins, and the hunk: without the empty lines at its end if only so it fits."""
    try:
        return _find(seen, hunk, cursor, path), hunk
    except ToolError:
        if not hunk.blank:
            raise
        shorter = replace(hunk, lines=hunk.lines[: -hunk.blank], blank=0)
        return _find(seen, shorter, cursor, path), shorter


def _find(seen: _Seen, hunk: Hunk, cursor: int, path: str) -> int:
    """Return the line at which a hunk begins: exactly as written if it is there, else as a reader sees it."""
    for mark in hunk.marks:
        cursor = _seek(seen, mark, cursor, path) + 1
    wanted = hunk.old
    if not wanted:
        return cursor if hunk.marks else len(seen.lines)
    forms: tuple[Form, ...] = (str, str.rstrip, _plain)
    for form in forms:
        lines, old = seen.as_read(form), [form(text) for text in wanted]
        if hunk.at_end:
            last = len(lines) - len(old)
            places = [last] if last >= cursor and lines[last:] == old else []
        else:
            places = list(islice(occurrences(lines, old, cursor), 100))
        if len(places) > 1 and not hunk.marks:
            raise ToolError(
                f"a hunk of {path} fits at {len(places)} places (lines {', '.join(str(at + 1) for at in places[:5])})",
                cure="give more context lines, or the function it is in after @@",
            )
        if places:
            return places[0]
    raise ToolError(
        f"a hunk of {path} does not fit: '{wanted[0][:80]}' and its {len(wanted) - 1} following lines are not there in this order",
        cure="read the file again; the '-' and context lines must stand there as written",
    )


def occurrences(lines: Sequence[str], wanted: Sequence[str], start: int) -> Iterator[int]:
    """Yield where a run of lines stands, overlapping ones too. No line is looked at twice, however alike they all are."""
    # For each line of the run: how many of its first lines stand before the next one, if that one is not what is there.
    back = [0] * len(wanted)
    held = 0
    for at in range(1, len(wanted)):
        while held and wanted[at] != wanted[held]:
            held = back[held - 1]
        held += wanted[at] == wanted[held]
        back[at] = held
    held = 0
    for at in range(start, len(lines)):
        while held and (held == len(wanted) or lines[at] != wanted[held]):
            held = back[held - 1]
        held += lines[at] == wanted[held]
        if held == len(wanted):
            yield at - held + 1


def _seek(seen: _Seen, mark: str, cursor: int, path: str) -> int:
    forms: tuple[Form, ...] = (str.strip, _plain)
    for form in forms:
        try:
            return seen.as_read(form).index(form(mark), cursor)
        except ValueError:
            continue
    raise ToolError(f"the line '{mark[:80]}' after @@ is not in {path}", cure="copy it from the file, or leave it out")


def _plain(text: str) -> str:
    return text.strip() if text.isascii() else loose(text).text.strip()
