"""The files of a configuration: read guarded, joined by `$include`, and each value traceable to its file and line.

An include is confined to the folder of the configuration (and OPENCLAW_INCLUDE_ROOTS), links included. A file that
cannot be used is reported and contributes nothing; nothing here raises for bad content.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from homarus.config.keypath import KeyPath, clashing, format_path, merge_include
from homarus.config.report import Problem
from homarus.config.scan import Member, Node, ScanError, find, is_blank, line_and_column, parse, repeats, scan
from homarus.core.errors import StorageError
from homarus.storage.boundary import Guarded, Root

INCLUDE = "$include"
MAX_BYTES = 2 * 1024 * 1024
MAX_DEPTH = 10
MAX_FILES = 100
MAX_PATH = 4096


class Repeat(NamedTuple):
    """A key that one object has more than once: where in its file, what was read over, and what counts."""

    path: KeyPath
    line: int
    earlier: list[Any]
    last: Any


class Source:
    def __init__(self, path: Path, data: bytes) -> None:
        self.path = path
        self.data = data
        self.document: Any = {}
        # Where in this file an include stands, and what it brought; of two, the later one wins.
        self.includes: list[tuple[KeyPath, Source]] = []
        # Where what one file says lies over something of another shape, of which nothing stays.
        self.clashes: list[KeyPath] = []

    @cached_property
    def text(self) -> str:
        return self.data.decode("utf-8")

    @cached_property
    def tree(self) -> Node | None:
        """Return the spans of this file, or None where it is no JSON5."""
        try:
            return scan(self.text)
        except ScanError:
            return None

    def owner(self, path: KeyPath) -> tuple[Source, KeyPath] | None:
        """Return the file that decides the value at a path, and the path inside that file."""
        if self.tree is not None and find(self.tree, path) is not None:
            return self, path
        for at, child in reversed(self.includes):
            if path[: len(at)] == at:
                found = child.owner(path[len(at) :])
                if found:
                    return found
        return None

    def line(self, path: KeyPath) -> int:
        """Return the line of a key of this file, or of the nearest key around it; 0 where there is none."""
        while self.tree is not None and path:
            found = find(self.tree, path)
            if isinstance(found, Member):
                return line_and_column(self.text, found.key_start)[0]
            path = path[:-1]
        return 0

    def written_twice(self) -> list[Repeat]:
        """Return every key that an earlier one of the same object has already, the last of each."""
        found: list[Repeat] = []

        def walk(node: Node, path: KeyPath) -> None:
            seen: dict[str | int, list[Member]] = {}
            for member in node.members:
                seen.setdefault(member.key, []).append(member)
                walk(member.node, (*path, member.key))
            for key, (*earlier, last) in seen.items():
                if earlier:
                    line = line_and_column(self.text, last.key_start)[0]
                    found.append(Repeat((*path, key), line, [one.node.data() for one in earlier], last.node.data()))

        if repeats(self.text, self.document) and self.tree is not None:
            walk(self.tree, ())
        return found

    def placed(self, at: KeyPath = ()) -> Iterator[tuple[KeyPath, Source]]:
        """Yield this file and all that it includes, each with the place in the whole document where it stands."""
        yield at, self
        for below, child in self.includes:
            yield from child.placed((*at, *below))

    def all(self) -> list[Source]:
        return [self, *(source for _, child in self.includes for source in child.all())]


Overlay = Mapping[Path, bytes]


class Reader:
    """Reads one configuration. `overlay` stands in for files on disk, so that an edit can be tried before it is written."""

    def __init__(self, folder: Path, *, roots: Sequence[Path] = (), overlay: Overlay | None = None) -> None:
        self.folder = folder
        self.roots = [folder, *roots]
        self.overlay = overlay or {}
        self.problems: list[Problem] = []
        self._files = 0

    def main(self, path: Path) -> tuple[Source | None, Any]:
        """Return the main file and its document with everything included; None where there is no file."""
        real = Path(os.path.realpath(path))
        found = self._read(real.parent, real.name, path)
        if found.kind == "missing":
            return None, {}
        source = self._source(path, found)
        return source, self._expand(source.document, source, (), (str(real),)) if source else {}

    def bytes_of(self, path: Path) -> bytes | None:
        """Return what stands in a file of the configuration now, readable or not; None where nothing can be had."""
        real = Path(os.path.realpath(path))
        found = self._read(real.parent, real.name, path)
        return found.data if found.kind == "ok" else None

    def _read(self, root: Path, name: str, shown: Path) -> Guarded:
        if shown in self.overlay:
            return Guarded("ok", self.overlay[shown], realpath=os.path.realpath(shown))
        try:
            with Root(root) as guard:
                return guard.read(name, max_bytes=MAX_BYTES)
        except StorageError as problem:
            gone = isinstance(problem.__cause__, FileNotFoundError | NotADirectoryError)
            return Guarded("missing" if gone else "io", reason=problem.message)

    def _source(self, path: Path, found: Guarded) -> Source | None:
        if found.kind != "ok" or found.truncated:
            reason = (
                f"is larger than {MAX_BYTES // 1024 // 1024} MB"
                if found.truncated
                else f"cannot be read: {found.reason}"
            )
            self._problem(path, 0, "", reason, "check that it is a readable file of your own")
            return None
        source = Source(path, found.data)
        try:
            text = source.text
        except UnicodeDecodeError as problem:
            line = found.data[: problem.start].count(b"\n") + 1
            self._problem(path, line, "", "holds bytes that are no UTF-8", "save it as UTF-8")
            return None
        if is_blank(text):
            self._problem(path, 1, "", "is empty", "write { } into it if no setting is meant")
            return None
        try:
            source.document = parse(text)
        except ScanError as problem:
            line, column = line_and_column(text, problem.offset)
            self._problem(path, line, "", f"{problem.message} (column {column})", "correct that line")
            return None
        return source

    def _expand(self, value: Any, source: Source, path: KeyPath, chain: tuple[str, ...]) -> Any:
        if isinstance(value, list):
            return [self._expand(inner, source, (*path, index), chain) for index, inner in enumerate(value)]
        if not isinstance(value, dict):
            return value
        if INCLUDE not in value:
            return {key: self._expand(inner, source, (*path, key), chain) for key, inner in value.items()}
        own = {key: self._expand(inner, source, (*path, key), chain) for key, inner in value.items() if key != INCLUDE}
        wanted = value[INCLUDE]
        names = wanted if isinstance(wanted, list) else [wanted]
        joined: Any = _NOTHING
        for name in names:
            brought = self._include(name, source, path, chain)
            if brought is not _NOTHING:
                joined = brought if joined is _NOTHING else self._joined(joined, brought, source, path)
        if joined is _NOTHING:
            return own
        if own and not isinstance(joined, dict):
            self._at(
                source, path, "what is included is no object, so the keys beside it cannot lie over it", "split them"
            )
            return own
        return self._joined(joined, own, source, path) if own else joined

    def _joined(self, under: Any, over: Any, source: Source, path: KeyPath) -> Any:
        source.clashes += clashing(under, over, path)
        return merge_include(under, over)

    def _include(self, name: Any, source: Source, path: KeyPath, chain: tuple[str, ...]) -> Any:
        if not isinstance(name, str) or not name.strip() or "\x00" in name or len(name) >= MAX_PATH:
            self._at(source, path, "an include must be a file name or a list of them", 'write $include: "./file.json5"')
            return _NOTHING
        target = Path(os.path.normpath(source.path.parent / name.strip()))
        if len(chain) > MAX_DEPTH or self._files >= MAX_FILES:
            self._at(source, path, f"includes go deeper than {MAX_DEPTH} levels or over {MAX_FILES} files", "join some")
            return _NOTHING
        root = next((root for root in self.roots if target.is_relative_to(root)), None)
        if root is None:
            self._at(
                source, path, f"'{name}' lies outside {self.folder}", "move it there, or set OPENCLAW_INCLUDE_ROOTS"
            )
            return _NOTHING
        self._files += 1
        found = self._read(root, str(target.relative_to(root)), target)
        if found.kind == "missing":
            self._at(source, path, f"'{name}' does not exist", f"create {target} or remove the include")
            return _NOTHING
        if found.realpath in chain:
            self._at(source, path, f"'{name}' includes itself", "break the circle")
            return _NOTHING
        child = self._source(target, found)
        if child is None:
            return _NOTHING
        source.includes.append((path, child))
        return self._expand(child.document, child, (), (*chain, found.realpath))

    def _at(self, source: Source, path: KeyPath, message: str, cure: str) -> None:
        where = (*path, INCLUDE)
        self._problem(source.path, source.line(where), format_path(where), message, cure)

    def _problem(self, path: Path, line: int, key: str, message: str, cure: str) -> None:
        self.problems.append(Problem("error", str(path), line, key, message, cure))


_NOTHING: Any = object()
