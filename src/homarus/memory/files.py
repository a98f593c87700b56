"""Find the notes of a workspace: which files count, which never do, and what each looks like on disk. Reads no content.

Symlinks are never followed and never listed, hidden files and folders are skipped (machine state of other programs
lives there), and a missing folder is an empty one. Extra paths of the settings obey the same rules.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from msgspec import Struct

from homarus.core.patterns import late
from homarus.memory.settings import ExtraPath

_WILD = late(r"[*?\[]")


class Extra(Struct, frozen=True):
    """One extra path: a file or folder `name` below `root`. From `root` on no link is followed, so what the owner named
    cannot be swapped for something else; one inside the workspace is held by the workspace itself."""

    given: str
    root: Path
    name: str  # empty for the workspace itself
    inside: bool
    pattern: re.Pattern[str] | None = None
    by_name: bool = False  # a pattern without a folder looks at the last name alone

    @property
    def place(self) -> Path:
        return self.root / self.name

    def cited(self, below: str) -> str:
        return below if self.inside else f"{self.root.as_posix().rstrip('/')}/{below}"

    def matches(self, inner: str) -> bool:
        """Say whether a file counts, by its path below the extra path."""
        return self.pattern is None or bool(
            self.pattern.fullmatch(PurePosixPath(inner).name if self.by_name else inner)
        )

    def is_linked(self) -> bool:
        """Say whether a link lies on the way from `root`."""
        at = os.fspath(self.root)
        for part in PurePosixPath(self.name).parts:
            at = f"{at}/{part}"
            if os.path.islink(at):  # noqa: PTH114 - no Path object per component of every sweep
                return True
        return False

    def locate(self, absolute: Path) -> tuple[Path, str] | None:
        """Return (root, name) for an absolute path that this extra path covers. Hidden names below it never count."""
        place = self.place
        if absolute == place:
            return (self.root, self.name) if self.name and self.matches(place.name) else None
        if not absolute.is_relative_to(place):
            return None
        inner = absolute.relative_to(place)
        if any(part.startswith(".") for part in inner.parts) or not self.matches(inner.as_posix()):
            return None
        return self.root, (PurePosixPath(self.name) / inner.as_posix()).as_posix()


def resolve(item: str | ExtraPath, workspace: Path, home: Path | None) -> Extra | None:
    """Return where an entry of `extraPaths` lies; `~` is the given home. None for one that names nothing."""
    entry = item if isinstance(item, ExtraPath) else ExtraPath(item)
    text, wild = _split(entry.path.strip())
    if not text or "\0" in text:
        return None
    glob = entry.pattern or wild
    if text == "~" or text.startswith("~/"):
        text = os.fspath((home or Path.home()) / text[2:])
    place = Path(os.path.normpath(workspace / text))
    inside = place.is_relative_to(workspace)
    root = workspace if inside else place.parent
    name = place.relative_to(root).as_posix()
    return Extra(entry.path, root, "" if name == "." else name, inside, _compiled(glob), "/" not in glob)


def _split(path: str) -> tuple[str, str]:
    """Split a path with wildcards into the folder before the first of them and the pattern below it."""
    parts = path.split("/")
    at = next((at for at, part in enumerate(parts) if _WILD.search(part)), len(parts))
    if at == len(parts):
        return path, ""
    # A pattern of its own level only: `docs/*.md` does not reach below docs.
    rest = "/".join(parts[at:])
    return "/".join(parts[:at]) or ("/" if path.startswith("/") else "."), rest if "/" in rest else f"./{rest}"


def _compiled(glob: str) -> re.Pattern[str] | None:
    """Return a glob as an expression: `*` and `?` stay within a name, `**` crosses folders."""
    glob = glob.removeprefix("./")
    if not glob:
        return None
    out, at = "", 0
    while at < len(glob):
        if glob.startswith("**/", at):
            out, at = out + "(?:.*/)?", at + 3
        elif glob.startswith("**", at):
            out, at = out + ".*", at + 2
        elif glob[at] == "*":
            out, at = out + "[^/]*", at + 1
        elif glob[at] == "?":
            out, at = out + "[^/]", at + 1
        elif glob[at] == "[" and (end := glob.find("]", at + 2)) > 0:
            inner = glob[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            out, at = out + f"[{'^' + inner[1:] if inner[0] in '!^' else inner}]", end + 1
        else:
            out, at = out + re.escape(glob[at]), at + 1
    try:
        return re.compile(out, re.DOTALL)
    except re.error:
        return re.compile(re.escape(glob))


CORE_FILES = ("MEMORY.md", "memory.md", "USER.md")
FOLDERS = ("memory", "bank")
SUFFIX = ".md"
MAX_FILES = 200_000
MAX_DEPTH = 32
MAX_WALKED = 2_000


class Found(Struct, frozen=True):
    """A file on disk: how it is cited, where it is read from, and a stamp that changes when it does."""

    path: str  # as cited: relative to the workspace, or absolute for an extra path outside of it
    root: Path  # the folder that reads must not leave
    name: str  # the path below `root`
    source: str
    stamp: str
    size: int
    mtime: float


class NoteSet:
    """The rules for one workspace: its own files plus extra paths."""

    def __init__(self, workspace: Path, extra: Iterable[str | ExtraPath] = (), *, home: Path | None = None) -> None:
        self.workspace = workspace
        self.home = home
        given = [(item if isinstance(item, str) else item.path, resolve(item, workspace, home)) for item in extra]
        self.extra = tuple(found for _, found in given if found is not None)
        self._empty = [f"{path}: names no path" for path, found in given if found is None]
        self.skipped: list[str] = []  # configured paths that were not used, and why

    def sweep(self) -> list[Found]:
        """Return every note that exists now, each file once, sorted by path."""
        self.skipped = list(self._empty)
        found: dict[tuple[int, int], Found] = {}
        for item, identity in self._all():
            if len(found) >= MAX_FILES:
                self.skipped.append(f"{item.path}: more than {MAX_FILES:,} notes")
                break
            found.setdefault(identity, item)
        return sorted(found.values(), key=lambda item: item.path)

    def elsewhere(self) -> int:
        """Count the Markdown files below the workspace that are no notes; gives up after a few thousand folders."""
        count = 0
        for walked, (folder, below, names) in enumerate(os.walk(self.workspace)):
            top = folder == os.fspath(self.workspace)
            below[:] = [name for name in below if name[0] != "." and not (top and name in {*FOLDERS, "skills"})]
            count += 0 if top else sum(name.lower().endswith(SUFFIX) for name in names)
            if walked >= MAX_WALKED:
                break
        return count

    def folders(self) -> list[Path]:
        """Return the folders to watch: the workspace itself and every folder that is walked."""
        roots = [self.workspace / name for name in FOLDERS]
        for extra in self.extra:
            if not extra.is_linked():
                roots.append(extra.place if extra.place.is_dir() else extra.place.parent)
        walked = [Path(folder) for root in roots for folder in _folders(os.fspath(root))]
        return [self.workspace, *walked] if self.workspace.is_dir() else walked

    def locate(self, path: str) -> tuple[Path, str] | None:
        """Return (root, name) to read a cited path from, or None when no rule allows it. Looks at no disk content."""
        pure = PurePosixPath(path)
        if not pure.parts or ".." in pure.parts or "\0" in path or "\\" in path or not path.lower().endswith(SUFFIX):
            return None
        if not pure.is_absolute() and not any(part.startswith(".") for part in pure.parts):
            if len(pure.parts) == 1 and pure.name in CORE_FILES:
                return self.workspace, pure.name
            if pure.parts[0] in FOLDERS and len(pure.parts) > 1:
                return self.workspace, str(pure)
        absolute = Path(os.path.normpath(self.workspace / pure))
        places = (extra.locate(absolute) for extra in self.extra if not extra.is_linked())
        return next((place for place in places if place is not None), None)

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
                yield from self._walk(Extra(folder, self.workspace, folder, inside=True))
        for extra in self.extra:
            yield from self._extra(extra)

    def _extra(self, extra: Extra) -> Iterator[tuple[Found, tuple[int, int]]]:
        place = extra.place
        if extra.is_linked():
            self.skipped.append(f"{extra.given}: is a symlink, or lies behind one; name the real path")
        elif place.is_dir():
            yield from self._walk(extra)
        elif place.is_file() and place.name.lower().endswith(SUFFIX):
            yield from self._one(os.fspath(extra.root), extra.name, extra.root, extra.cited(extra.name))
        else:
            self.skipped.append(f"{extra.given}: {'is no .md file' if place.exists() else 'does not exist'}")

    def _one(self, folder: str, name: str, root: Path, cited: str) -> Iterator[tuple[Found, tuple[int, int]]]:
        try:
            state = os.lstat(f"{folder}/{name}")
        except OSError:
            return
        if (state.st_mode & 0o170000) == 0o100000:
            yield _found(cited, root, name, "memory", state), (state.st_dev, state.st_ino)

    def _walk(self, extra: Extra) -> Iterator[tuple[Found, tuple[int, int]]]:
        """Yield the notes of a folder and of those below it; never through a link."""
        if extra.is_linked():
            return
        stack = [(os.fspath(extra.place), f"{extra.name}/" if extra.name else "", "", 0)]
        while stack:
            folder, below, inner, depth = stack.pop()
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
                        if extra.matches(inner + name):
                            state = entry.stat(follow_symlinks=False)
                            item = _found(extra.cited(below + name), extra.root, below + name, "memory", state)
                            yield item, (state.st_dev, state.st_ino)
                    elif depth < MAX_DEPTH and entry.is_dir(follow_symlinks=False):
                        stack.append((f"{folder}/{name}", f"{below}{name}/", f"{inner}{name}/", depth + 1))
                except OSError:
                    continue


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
