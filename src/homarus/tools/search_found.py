"""What grep and find have found: taken piece by piece as the search prints it, and bounded. Starts nothing.

A piece is `path NUL line:text` for grep and a path for find. Paths are names that anybody may have chosen.
"""

from __future__ import annotations

import re
from typing import Protocol

from homarus.tools.paths import Spot, spelled
from homarus.tools.tool import ToolOutput, said

MAX_LINE, MAX_BYTES = 500, 51_200
_MAX_NAME = 4_096


class Found(Protocol):
    """What takes the pieces of a search."""

    separator: bytes
    note: str

    def take(self, piece: bytes) -> bool:
        """Take a piece; False when there is enough."""
        ...

    @property
    def nothing(self) -> bool:
        """Say whether nothing was found yet."""
        ...

    def begin_again(self) -> None:
        """Forget what was begun: another search starts over."""
        ...


class Matches:
    """Collects the lines of grep."""

    separator = b"\n"

    def __init__(self, limit: int, glob: re.Pattern[str] | None, hint: str = "") -> None:
        self._limit = limit
        self._glob = glob
        self._hint = hint
        self._lines: list[str] = []
        self._matches = self._size = 0
        self._begun = b""  # of a path that holds a line break
        self._binary = False
        self.note = ""

    @property
    def nothing(self) -> bool:
        """Say whether nothing was found yet."""
        return not self._matches and not self._binary

    def begin_again(self) -> None:
        """Forget a path that was begun: it may be the last words of a program that failed."""
        self._begun, self._lines = b"", []

    def take(self, piece: bytes) -> bool:
        """Take a line; False when there is enough."""
        name, found, rest = piece.partition(b"\0")
        if not found:
            self._begin(piece)
            return True
        name, self._begun = self._begun + name, b""
        path = name.decode("utf-8", "replace").removeprefix("./")
        if self._glob and not self._glob.fullmatch(path):
            return True
        number = re.match(rb"(\d+)([:-])", rest)
        if number is None:
            return True
        match, text = number[2] == b":", rest[number.end() :].decode("utf-8", "replace").rstrip("\r")
        if match and self._matches >= self._limit:
            self.note = f"more than {self._limit} matches; narrow the pattern, the path or the glob"
            return False
        line = text if len(text) <= MAX_LINE else text[:MAX_LINE] + " […]"
        at, shown = int(number[1]), spelled(path)
        self._lines.append(f"{shown}:{at}: {line}" if match else f"{shown}-{at}- {line}")
        self._matches += match
        self._size += len(self._lines[-1]) + 1
        if self._size > MAX_BYTES:
            self.note = f"cut at {MAX_BYTES:,} bytes; narrow the pattern, the path or the glob"
            return False
        return True

    def _begin(self, piece: bytes) -> None:
        """Take what is no match: the line between two groups, a word about a file that is no text, part of a path."""
        if piece == b"--":
            self._lines += ["--"] if self._lines else []
        elif b"inary file matches" in piece:
            self._binary = True
        elif len(self._begun) < _MAX_NAME:
            self._begun += piece + b"\n"

    def output(self, spot: Spot) -> ToolOutput:
        """Return what the model is told."""
        note = f"\n\n[{self.note}]" if self.note else ""
        if not self._matches and self._binary:
            return said(f"{spot.path} is no text; the pattern occurs in it.{note}", matches=1)
        if not self._matches:
            hint = f" [{self.note or self._hint}]" if self.note or self._hint else ""
            return said(f"No matches in {spot.path}.{hint}", matches=0)
        return said("\n".join(self._lines).strip("-\n") + note, matches=self._matches, truncated=bool(note))


class Names:
    """Collects the paths of find. Folders are known from the files in them."""

    separator = b"\0"

    def __init__(self, limit: int, wanted: re.Pattern[str]) -> None:
        self._limit = limit
        self._wanted = wanted
        self._found: list[str] = []
        self._folder = ""
        self._size = 0
        self.note = ""

    @property
    def nothing(self) -> bool:
        """Say whether nothing was found yet."""
        return not self._found

    def begin_again(self) -> None:
        """Forget the folder that was gone through last."""
        self._folder = ""

    def take(self, piece: bytes) -> bool:
        """Take a path; False when there is enough."""
        name = piece.decode("utf-8", "replace").removeprefix("./")
        if not name:
            return True
        folder = name.rpartition("/")[0]
        if folder != self._folder:
            # Paths come in order, so a folder that the last one was in has been seen.
            parts = folder.split("/") if folder else []
            for depth in range(1, len(parts) + 1):
                inner = "/".join(parts[:depth])
                if not f"{self._folder}/".startswith(inner + "/") and self._wanted.fullmatch(inner):
                    self._add(inner + "/")
            self._folder = folder
        if self._wanted.fullmatch(name):
            self._add(name)
        if len(self._found) > self._limit or self._size > MAX_BYTES:
            self._found = self._found[: self._limit]
            self.note = f"the first {len(self._found):,}; narrow the pattern or the path"
            return False
        return True

    def _add(self, name: str) -> None:
        self._found.append(spelled(name))
        self._size += len(name) + 1

    def output(self, spot: Spot) -> ToolOutput:
        """Return what the model is told."""
        if not self._found:
            return said(f"Nothing found in {spot.path}." + (f" [{self.note}]" if self.note else ""), found=0)
        note = f"\n\n[{self.note}]" if self.note else ""
        return said("\n".join(self._found) + note, found=len(self._found), truncated=bool(note))
