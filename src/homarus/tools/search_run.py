"""The program behind grep and find. It runs in a process of its own, so that a slow pattern can be stopped.

It goes through a folder by descriptor and follows no link, so nothing outside of the folder can be reached whatever is
swapped meanwhile. It prints one JSON list per line: what kind of row it is, the file or folder that it is about, and the rest
of the row. Only the standard library: it starts without site-packages.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from homarus.tools.globs import Rule, compile_glob, ignore_rules, ignored

MAX_SHOWN = 500  # characters of a line that are shown
_MAX_LINE = 1 << 20  # of a line that is looked at in one piece
# A file of this size or less is looked through in one piece first: most files hold nothing that is looked for.
_WHOLE = 1 << 20
# A file with a NUL among its first bytes is no text, and one with a NUL further on is one up to there.
_HEAD = 1 << 16
_MAX_IGNORE = 1 << 20
_MAX_DEPTH = 200
_CPU_SECONDS, _MEMORY = 60, 1 << 30
Layers = list[tuple[str, list[Rule]]]


def main() -> None:
    """Read the order from the command line, search below the descriptor it names, and print."""
    order: dict[str, Any] = json.loads(sys.argv[1])
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS + 1))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    except (ImportError, OSError, ValueError):
        pass
    layers, fd = _descend(order["fd"], order["start"])
    wanted = compile_glob(order["glob"]) if order["glob"] else None
    if order["mode"] == "find":
        for name, _ in _walk(fd, "", layers, order):
            if wanted is None or wanted.fullmatch(name.rstrip("/")):
                _print("name", _spelled(name))
            if name.endswith("/"):
                sys.stdout.flush()
        return
    grep = _Grep(order)
    if not stat.S_ISDIR(os.fstat(fd).st_mode):
        grep.file(fd, order["shown"], named=True)
        return
    for name, folder in _walk(fd, "", layers, order):
        if not name.endswith("/") and (wanted is None or wanted.fullmatch(name)):
            file = _opened(folder, name.rpartition("/")[2])
            if file >= 0:
                grep.file(file, name)


def _print(kind: str, name: str, text: str = "") -> None:
    sys.stdout.write(json.dumps([kind, name, text]) + "\n")


def _spelled(name: str) -> str:
    """Return a name as it is shown: one with a line break in it must not look like two."""
    name = os.fsencode(name).decode("utf-8", "replace")
    return name if name.isprintable() else "".join(char if char.isprintable() else ascii(char)[1:-1] for char in name)


def _descend(root: int, start: str) -> tuple[Layers, int]:
    """Open the place to start at, and collect the rules of the folders above it."""
    layers: Layers = []
    fd, path = os.dup(root), ""
    for part in [part for part in start.split("/") if part not in ("", ".")]:
        layers += _rules(fd, path)
        inner = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
        os.close(fd)
        fd, path = inner, f"{path}/{part}" if path else part
    return layers, fd


def _rules(folder: int, path: str) -> Layers:
    fd = _opened(folder, ".gitignore")
    if fd < 0:
        return []
    with os.fdopen(fd, "rb") as file:
        return [(path, ignore_rules(file.read(_MAX_IGNORE).decode("utf-8", "replace")))]


def _passed_over(order: dict[str, Any]) -> Callable[[str], bool]:
    """Return what says of a path, whatever the rules on the way say, that it is not looked at."""
    names = {".git", "node_modules"} if order["mode"] == "find" else {".git"}
    closed = [compile_glob(f"/{glob}") for glob in order["closed"]]
    return lambda path: path.rpartition("/")[2] in names or any(glob.fullmatch(path) for glob in closed)


def _walk(folder: int, shown: str, layers: Layers, order: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield every folder, with a slash behind its name, and every regular file that no rule hides, in order, and a
    descriptor of the folder that it is in.
    """
    above = "" if order["start"] == "." else order["start"]
    passed_over = _passed_over(order)

    def walk(folder: int, shown: str, layers: Layers) -> Iterator[tuple[str, int]]:
        path = "/".join(part for part in (above, shown) if part)
        layers = [*layers, *_rules(folder, path)]
        try:
            with os.scandir(folder) as entries:
                found = sorted(
                    (os.fsencode(entry.name), entry.name, entry.is_dir(follow_symlinks=False))
                    for entry in entries
                    if entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)
                )
        except OSError:
            return
        for _, name, is_folder in found:
            inner = f"{shown}/{name}" if shown else name
            if passed_over(inner) or ignored(f"{path}/{name}" if path else name, is_folder, layers):
                continue
            if not is_folder:
                yield inner, folder
            elif inner.count("/") < _MAX_DEPTH and (fd := _opened(folder, name, os.O_DIRECTORY)) >= 0:
                try:
                    yield f"{inner}/", folder
                    yield from walk(fd, inner, layers)
                finally:
                    os.close(fd)

    yield from walk(folder, shown, layers)


def _opened(folder: int, name: str, flags: int = 0) -> int:
    """Open a file or a folder; -1 for a link, for what is gone or another kind by now, and for what is not ours to read."""
    try:
        fd = os.open(name, flags | os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return -1
    if flags or stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return -1


class _Grep:
    """Prints the lines of files in which a pattern is."""

    def __init__(self, order: dict[str, Any]) -> None:
        text: str = order["pattern"]
        flags = re.IGNORECASE if order["ignoreCase"] else 0
        self._search = re.compile(re.escape(text) if order["literal"] else text, flags).search
        # What every file with a match holds as it stands, where the pattern is nothing else.
        plain = (order["literal"] or not set(text) & set("\\.+*?()|[]{}^$")) and not flags
        self._needle = text.encode() if plain else b""
        self._around: int = order["context"]

    def file(self, fd: int, name: str, *, named: bool = False) -> None:
        """Look through one file; `named` is one that was asked for, not met."""
        with io.FileIO(fd) as raw:
            data = raw.read(_WHOLE + 1) or b""
            wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            if len(data) <= _WHOLE and not wide and not self._is_in(data):
                return
            raw.seek(0)
            source = io.BufferedReader(raw)
            pieces = _decoded(source) if wide else _pieces(source)
            if b"\0" in data[:_HEAD] and not wide:
                if named and any(hit for _, _, hit in self._lines(pieces)):
                    _print("binary", _spelled(name))
                return
            self._print_matches(_spelled(name), pieces)

    def _is_in(self, data: bytes) -> bool:
        if self._needle and self._needle not in data:
            return False
        lines = data.decode("utf-8", "replace").split("\n")
        return any(map(self._search, (line.rstrip("\r") for line in lines) if b"\r" in data else lines))

    def _print_matches(self, name: str, pieces: Iterator[str]) -> None:
        before: deque[tuple[int, str]] = deque(maxlen=self._around or 1)
        shown, follow = 0, 0
        for number, line, hit in self._lines(pieces):
            if "\0" in line:
                break
            if hit:
                if self._around and shown and number - len(before) > shown + 1:
                    _print("gap", name)
                for earlier, text in before if self._around else ():
                    if earlier > shown:
                        _print("context", name, f"-{earlier}- {_cut(text)}")
                _print("match", name, f":{number}: {_cut(line)}")
                shown, follow = number, self._around
            elif follow:
                _print("context", name, f"-{number}- {_cut(line)}")
                shown, follow = number, follow - 1
            before.append((number, line))
        if shown and self._around:
            _print("gap", name)
        sys.stdout.flush()

    def _lines(self, pieces: Iterator[str]) -> Iterator[tuple[int, str, bool]]:
        """Yield the lines by number, their first characters, and whether the pattern is in them; none is held whole."""
        for number, first in enumerate(pieces, 1):
            line, piece = first.rstrip("\r\n"), first
            hit = self._search(line) is not None
            while not piece.endswith("\n") and (piece := next(pieces, "")):
                hit = hit or self._search(piece.rstrip("\r\n")) is not None
            yield number, line[: MAX_SHOWN + 1], hit


def _cut(line: str) -> str:
    return line if len(line) <= MAX_SHOWN else f"{line[:MAX_SHOWN]} […]"


def _pieces(file: BinaryIO) -> Iterator[str]:
    return (raw.decode("utf-8", "replace") for raw in iter(lambda: file.readline(_MAX_LINE), b""))


def _decoded(file: BinaryIO) -> Iterator[str]:
    text = io.TextIOWrapper(file, "utf-16", errors="replace", newline="\n")
    return iter(lambda: text.readline(_MAX_LINE), "")


if __name__ == "__main__":
    main()
