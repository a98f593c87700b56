"""The search program for machines without ripgrep. It runs on its own, so that a slow pattern can be stopped.

It goes through a folder by descriptor and follows no link, so nothing outside of the folder can be reached whatever is
swapped meanwhile. It prints what ripgrep prints: `path NUL line:text`, or `path NUL` alone when it lists files.
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

_MAX_LINE = 1 << 20  # of a line that is looked at in one piece
_MAX_SHOWN = 2_000
# A file with a NUL among its first bytes is no text, and one with a NUL further on is one up to there.
_HEAD = 1 << 16
_MAX_IGNORE = 1 << 20
_MAX_DEPTH = 200
_CPU_SECONDS = 60
Layers = list[tuple[str, list[Rule]]]


def main() -> None:
    """Read the order from the command line, search below the descriptor it names, and print."""
    order: dict[str, Any] = json.loads(sys.argv[1])
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS + 1))
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    except (ImportError, OSError, ValueError):
        pass
    out = sys.stdout.buffer
    start: str = order["start"]
    layers, fd = _descend(order["fd"], start)
    if not stat.S_ISDIR(os.fstat(fd).st_mode):
        _search_file(fd, order["shown"], order, out, named=True)
        return
    if order["mode"] == "find":
        for name, _ in _files(fd, "", layers, _passed_over(order), start):
            out.write(os.fsencode(name) + b"\0")
        out.flush()
        return
    wanted = compile_glob(order["glob"]) if order["glob"] else None
    for name, folder in _files(fd, "", layers, _passed_over(order), start):
        file = _opened(folder, name.rpartition("/")[2]) if wanted is None or wanted.fullmatch(name) else -1
        if file >= 0:
            _search_file(file, name, order, out)
    out.flush()


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
    try:
        fd = os.open(".gitignore", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return []
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return []
        return [(path, ignore_rules(file.read(_MAX_IGNORE).decode("utf-8", "replace")))]


def _passed_over(order: dict[str, Any]) -> Callable[[str], bool]:
    """Return what says of a path, whatever the rules on the way say, that it is not looked at."""
    names = {".git", "node_modules"} if order["mode"] == "find" else {".git"}
    closed = [compile_glob(f"/{glob}") for glob in order["closed"]]
    return lambda path: path.rpartition("/")[2] in names or any(glob.fullmatch(path) for glob in closed)


def _files(
    folder: int, shown: str, layers: Layers, passed_over: Callable[[str], bool], above: str
) -> Iterator[tuple[str, int]]:
    """Yield every regular file that no rule hides, in order, with a descriptor of its folder."""
    path = "/".join(part for part in (above, shown) if part not in ("", "."))
    layers = [*layers, *_rules(folder, path)]
    try:
        with os.scandir(folder) as entries:
            found = [
                (entry.name, entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False))
                for entry in entries
            ]
    except OSError:
        return
    for name, is_folder, is_file in sorted(found, key=lambda entry: os.fsencode(entry[0])):
        whole = f"{path}/{name}" if path else name
        inner = f"{shown}/{name}" if shown else name
        if not (is_folder or is_file) or passed_over(inner) or ignored(whole, is_folder, layers):
            continue
        if is_file:
            yield inner, folder
        elif inner.count("/") < _MAX_DEPTH and (fd := _opened(folder, name, os.O_DIRECTORY)) >= 0:
            try:
                yield from _files(fd, inner, layers, passed_over, above)
            finally:
                os.close(fd)


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


def _search_file(fd: int, name: str, order: dict[str, Any], out: BinaryIO, *, named: bool = False) -> None:
    """Print the matches in one file; `named` is one that was asked for, not met."""
    flags = re.IGNORECASE if order["ignoreCase"] else 0
    pattern = re.compile(re.escape(order["pattern"]) if order["literal"] else order["pattern"], flags)
    around: int = order["context"]
    before: deque[tuple[int, str]] = deque(maxlen=around or 1)
    shown, follow = 0, 0
    with io.BufferedReader(io.FileIO(fd), _HEAD) as file:
        head = file.peek(_HEAD)
        wide = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        source = _decoded(file) if wide else _pieces(file)
        if b"\0" in head and not wide:
            if named and any(hit for _, _, hit in _lines(source, pattern)):
                out.write(os.fsencode(name) + b": binary file matches\n")
            return
        for number, line, hit in _lines(source, pattern):
            if "\0" in line:
                break
            if hit:
                if around and shown and number - len(before) > shown + 1:
                    out.write(b"--\n")
                for earlier, text in before if around else ():
                    if earlier > shown:
                        _print(out, name, earlier, "-", text)
                _print(out, name, number, ":", line)
                shown, follow = number, around
            elif follow:
                _print(out, name, number, "-", line)
                shown, follow = number, follow - 1
            before.append((number, line))
    out.flush()


def _lines(pieces: Iterator[str], pattern: re.Pattern[str]) -> Iterator[tuple[int, str, bool]]:
    """Yield the lines by number, their first characters, and whether the pattern is in them; no line is held whole."""
    for number, first in enumerate(pieces, 1):
        line, piece = first.rstrip("\r\n"), first
        hit = pattern.search(line) is not None
        while not piece.endswith("\n") and (piece := next(pieces, "")):
            hit = hit or pattern.search(piece.rstrip("\r\n")) is not None
        yield number, line[:_MAX_SHOWN], hit


def _pieces(file: BinaryIO) -> Iterator[str]:
    return (raw.decode("utf-8", "replace") for raw in iter(lambda: file.readline(_MAX_LINE), b""))


def _decoded(file: BinaryIO) -> Iterator[str]:
    text = io.TextIOWrapper(file, "utf-16", errors="replace", newline="\n")
    return iter(lambda: text.readline(_MAX_LINE), "")


def _print(out: BinaryIO, name: str, number: int, sign: str, text: str) -> None:
    out.write(os.fsencode(name) + f"\0{number}{sign}{text}\n".encode("utf-8", "replace"))


if __name__ == "__main__":
    main()
