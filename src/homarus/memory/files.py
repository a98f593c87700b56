"""Find the notes of a workspace: which files count, which never do, and what each looks like on disk. Reads no content.

Symlinks are never followed and never listed, hidden files and folders are skipped (machine state of other programs
lives there), and a missing folder is an empty one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from msgspec import Struct

from homarus.memory.settings import ExtraPath

CORE_FILES = ("MEMORY.md", "memory.md", "USER.md")
FOLDERS = ("memory", "bank")
SUFFIX = ".md"
MAX_FILES = 200_000
MAX_DEPTH = 32


class Found(Struct, frozen=True):
    """A file on disk: how it is cited, where it is read from, and a stamp that changes when it does."""

    path: str  # as cited: relative to the workspace, or absolute for an extra path outside of it
    root: Path  # the folder that reads must not leave
    name: str  # the path below `root`
    source: str
    stamp: str
    size: int
    mtime: float


class Skipped(Struct, frozen=True):
    """A configured path that was not used, and why."""

    path: str
    reason: str


class NoteSet:
    """The rules for one workspace: its own files plus extra paths."""

    def __init__(self, workspace: Path, extra: Iterable[str | ExtraPath] = (), *, home: Path | None = None) -> None:
        self.workspace = workspace
        self.home = home
        self.extra = tuple(item if isinstance(item, ExtraPath) else ExtraPath(item) for item in extra)
        self.skipped: list[Skipped] = []

    def sweep(self) -> list[Found]:
        """Return every note that exists now, each file once, sorted by path."""
        self.skipped = []
        found: dict[tuple[int, int], Found] = {}
        for item, identity in self._all():
            if len(found) >= MAX_FILES:
                self.skipped.append(Skipped(item.path, f"more than {MAX_FILES:,} notes"))
                break
            found.setdefault(identity, item)
        return sorted(found.values(), key=lambda item: item.path)

    def folders(self) -> list[Path]:
        """Return the folders to watch: the workspace itself and every folder that is walked."""
        roots = [self.workspace / name for name in FOLDERS]
        for item in self.extra:
            target = self.resolve_extra(item)
            roots.append(target if target.is_dir() else target.parent)
        walked = [Path(folder) for root in roots for folder in _folders(os.fspath(root))]
        return [self.workspace, *walked] if self.workspace.is_dir() else walked

    def locate(self, path: str) -> tuple[Path, str] | None:
        """Return (root, name) to read a cited path from, or None when no rule allows it. Looks at no disk content."""
        pure = PurePosixPath(path)
        if not pure.parts or ".." in pure.parts or "\0" in path or "\\" in path or not path.lower().endswith(SUFFIX):
            return None
        if any(part.startswith(".") for part in pure.parts if part != "/"):
            return None
        if not pure.is_absolute():
            if len(pure.parts) == 1 and pure.name in CORE_FILES:
                return self.workspace, pure.name
            if pure.parts[0] in FOLDERS and len(pure.parts) > 1:
                return self.workspace, str(pure)
        return self._locate_extra(pure)

    def resolve_extra(self, item: ExtraPath) -> Path:
        """Return the absolute place of an extra path; `~` is the given home."""
        text = item.path
        if text == "~" or text.startswith("~/"):
            return (self.home or Path.home()) / text[2:]
        return Path(os.path.normpath(self.workspace / text))

    def _all(self) -> Iterator[tuple[Found, tuple[int, int]]]:
        top = os.fspath(self.workspace)
        try:
            names = set(os.listdir(top))  # noqa: PTH208 - exact spelling on case-insensitive file systems, and speed
        except OSError:
            names = set()
        for name in CORE_FILES:
            if name in names:
                yield from self._one(top, name, self.workspace, name)
        for folder in FOLDERS:
            if folder in names:
                yield from self._walk(top, folder, self.workspace, "", "")
        for item in self.extra:
            yield from self._extra(item)

    def _extra(self, item: ExtraPath) -> Iterator[tuple[Found, tuple[int, int]]]:
        target = self.resolve_extra(item)
        if target.is_symlink():
            self.skipped.append(Skipped(item.path, "is a symlink; name the real path"))
            return
        prefix = "" if target.is_relative_to(self.workspace) else target.parent.as_posix().rstrip("/") + "/"
        inside = target.parent.relative_to(self.workspace).as_posix() if not prefix and target != self.workspace else ""
        cited = prefix or (f"{inside}/" if inside not in {"", "."} else "")
        if target.is_dir():
            parent = os.fspath(target.parent)
            cited = "" if target == self.workspace else cited
            yield from self._walk(parent, target.name, target, cited, item.pattern)
        elif target.is_file() and target.name.lower().endswith(SUFFIX):
            yield from self._one(os.fspath(target.parent), target.name, target.parent, cited + target.name)
        else:
            reason = "is no .md file" if target.exists() else "does not exist"
            self.skipped.append(Skipped(item.path, reason))

    def _one(self, folder: str, name: str, root: Path, cited: str) -> Iterator[tuple[Found, tuple[int, int]]]:
        try:
            state = os.lstat(f"{folder}/{name}")
        except OSError:
            return
        if (state.st_mode & 0o170000) == 0o100000:
            yield _found(cited, root, name, "memory", state), (state.st_dev, state.st_ino)

    def _walk(
        self, parent: str, top: str, root: Path, cited: str, pattern: str
    ) -> Iterator[tuple[Found, tuple[int, int]]]:
        """Yield the notes below `parent/top`. Names below `root` are built from where `root` lies on the way."""
        below_root = root == Path(parent) / top
        stack = [
            (f"{parent}/{top}", cited + (f"{top}/" if cited or not self._is_workspace(parent, top) else ""), "", 0)
        ]
        if os.path.islink(stack[0][0]):  # noqa: PTH114
            return
        while stack:
            folder, shown, inner, depth = stack.pop()
            try:
                entries = list(os.scandir(folder))
            except OSError:
                continue
            for entry in entries:
                name = entry.name
                if name[0] == ".":
                    continue
                try:
                    if name.lower().endswith(SUFFIX) and entry.is_file(follow_symlinks=False):
                        if pattern and not fnmatchcase(inner + name, pattern) and not fnmatchcase(name, pattern):
                            continue
                        state = entry.stat(follow_symlinks=False)
                        below = inner + name if below_root else f"{top}/{inner}{name}"
                        yield _found(shown + name, root, below, "memory", state), (state.st_dev, state.st_ino)
                    elif depth < MAX_DEPTH and entry.is_dir(follow_symlinks=False):
                        stack.append((f"{folder}/{name}", f"{shown}{name}/", f"{inner}{name}/", depth + 1))
                except OSError:
                    continue

    def _is_workspace(self, parent: str, top: str) -> bool:
        return Path(parent) / top == self.workspace

    def _locate_extra(self, pure: PurePosixPath) -> tuple[Path, str] | None:
        absolute = Path(os.path.normpath(self.workspace / pure))
        for item in self.extra:
            target = self.resolve_extra(item)
            if target.is_symlink():
                continue
            if absolute == target and target.is_file():
                return target.parent, target.name
            if absolute.is_relative_to(target) and absolute != target:
                inner = absolute.relative_to(target).as_posix()
                if not item.pattern or fnmatchcase(inner, item.pattern) or fnmatchcase(absolute.name, item.pattern):
                    return target, inner
        return None


def _found(path: str, root: Path, name: str, source: str, state: os.stat_result) -> Found:
    return Found(path, root, name, source, stamp_of(state), state.st_size, state.st_mtime)


def stamp_of(state: os.stat_result) -> str:
    """Return what changes whenever a file does: device, inode, size, and both times to the nanosecond."""
    return f"{state.st_dev}:{state.st_ino}:{state.st_size}:{state.st_mtime_ns}:{state.st_ctime_ns}"


def transcripts(folder: Path) -> list[Found]:
    """Return the session transcripts in a folder; they are cited as `sessions/<name>`."""
    found = []
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return []
    for entry in entries:
        if entry.name.endswith(".jsonl") and entry.name[0] != "." and entry.is_file(follow_symlinks=False):
            try:
                state = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            found.append(_found(f"sessions/{entry.name}", folder, entry.name, "sessions", state))
    return sorted(found, key=lambda item: item.path)


def _folders(top: str, depth: int = 0) -> Iterator[str]:
    if depth > MAX_DEPTH or os.path.islink(top):  # noqa: PTH114
        return
    try:
        entries = list(os.scandir(top))
    except OSError:
        return
    yield top
    for entry in entries:
        if entry.name[0] != "." and entry.is_dir(follow_symlinks=False):
            yield from _folders(entry.path, depth + 1)
