"""Find SKILL.md files below a root and read their headers: bounded, in a fixed order, and never outside of the root.

A skill's folder is not searched further. What is found carries stamps of every file and folder that was looked at, so
that `library` can tell later, by looking at those alone, whether searching again could find anything else.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from homarus.core.errors import StorageError
from homarus.core.text import single_line
from homarus.skills.header import MAX_NAME, SkillHeader, read_header, visible
from homarus.skills.settings import SkillLimits
from homarus.storage.boundary import Guarded, Root

FILE = "SKILL.md"
MAX_DEPTH = 6
# However many folders lie below a root, no more than this are opened.
MAX_FOLDERS = 5_000
BUNDLED = Path(__file__).parent / "bundled"
_SKIPPED = frozenset({"node_modules", "__pycache__"})


class Source(StrEnum):
    """Where a skill was found, from strongest to weakest."""

    WORKSPACE = "workspace"
    PROJECT = "workspace-agents"
    PERSONAL = "personal"
    MANAGED = "managed"
    BUNDLED = "bundled"
    EXTRA = "extra"
    PLUGIN = "plugin"


# Folders that only the owner writes: links in them may lead anywhere.
FREE = frozenset({Source.PERSONAL, Source.MANAGED, Source.PLUGIN})


class SkillRoot(Struct, frozen=True):
    """One folder to search. `links` are real folders outside of it that links in it may lead to."""

    source: Source
    path: str
    links: tuple[str, ...] = ()


class Skill(Struct, frozen=True, gc=False):
    """One skill. `folder` and `file` are spelled as they were found; `fingerprint` changes whenever the file does."""

    name: str
    source: Source
    folder: str
    file: str
    header: SkillHeader
    fingerprint: str = ""

    @property
    def key(self) -> str:
        return self.header.skill_key or self.name


class Stamp(NamedTuple):
    """The state of a path, relative to its root, when it was looked at; zeros when it was not there."""

    path: str
    inode: int = 0
    changed_ns: int = 0


class Scan(Struct, frozen=True):
    skills: tuple[Skill, ...] = ()
    stamps: tuple[Stamp, ...] = ()
    problems: tuple[str, ...] = ()


def standard_roots(
    *,
    workspace: Path | None = None,
    home: Path | None = None,
    state_dir: Path | None = None,
    extra: Iterable[Path] = (),
    links: Iterable[Path] = (),
) -> tuple[SkillRoot, ...]:
    """Return the roots from strongest to weakest, bundled ones included; `links` is `skills.load.allowSymlinkTargets`."""
    places: list[tuple[Source, Path]] = []
    if workspace is not None:
        places += [(Source.WORKSPACE, workspace / "skills"), (Source.PROJECT, workspace / ".agents" / "skills")]
    if home is not None:
        places.append((Source.PERSONAL, home / ".agents" / "skills"))
    if state_dir is not None:
        places.append((Source.MANAGED, state_dir / "skills"))
    places.append((Source.BUNDLED, BUNDLED))
    places += [(Source.EXTRA, path) for path in extra]
    if state_dir is not None:
        places.append((Source.PLUGIN, state_dir / "plugin-skills"))
    allowed = tuple(os.path.realpath(path) for path in links)
    return tuple(SkillRoot(source, os.fspath(path), allowed) for source, path in places)


def scan_root(root: SkillRoot, limits: SkillLimits) -> Scan:
    """Search one root. A root that is not there gives nothing but a stamp that says so."""
    search = _Search(root, limits)
    try:
        with Root(Path(root.path)) as folder:
            search.visit(folder, "", root.path, folder.realpath, 0)
    except StorageError as problem:
        search.stamp(root.path)
        if os.path.lexists(root.path):
            search.problems.append(single_line(str(problem)))
    return Scan(tuple(search.skills), tuple(search.stamps), tuple(search.problems))


def read_text(skill: Skill, limits: SkillLimits) -> str:
    """Return a skill's whole text as it is now, from the very file that was listed; raises StorageError if it is gone."""
    real = Path(skill.fingerprint.rpartition("|")[0])
    with Root(real.parent) as folder:
        found = folder.read(real.name, max_bytes=limits.max_skill_file_bytes)
    if found.kind != "ok" or found.truncated:
        reason = found.reason or ("it grew too large" if found.truncated else "it is gone")
        raise StorageError(f"{skill.file} cannot be read: {reason}", cure="run `homarus skills check`")
    return found.data.decode("utf-8", "replace")


class _Search:
    def __init__(self, root: SkillRoot, limits: SkillLimits) -> None:
        self.root = root
        self.limits = limits
        self.skills: list[Skill] = []
        self.stamps: list[Stamp] = []
        self.problems: list[str] = []
        self._seen: set[str] = set()
        self._entered: set[str] = set()
        self._folders = 0
        self._candidates = 0

    def visit(self, base: Root, prefix: str, path: str, real: str, depth: int) -> bool:
        """Look at the folder `path`, which is `prefix` below `base`; return False when a limit ends the search.

        `real` is the same folder without links.
        """
        if self._folders >= MAX_FOLDERS:
            self.problems.append(f"{self.root.path}: only the first {MAX_FOLDERS} folders were searched")
            return False
        self._folders += 1
        file = f"{path}/{FILE}"
        found = base.read(prefix + FILE, max_bytes=self.limits.max_skill_file_bytes)
        if found.kind == "missing":
            return depth >= MAX_DEPTH or self._descend(base, prefix, path, real, depth)
        if found.kind == "validation" and (target := self._allowed_target(file)):
            with Root(Path(target).parent) as elsewhere:
                found = elsewhere.read(Path(target).name, max_bytes=self.limits.max_skill_file_bytes)
        return self._candidate(path, file, found)

    def stamp(self, path: str) -> None:
        """Remember how a path looks before anything is read from it."""
        try:
            found = os.stat(path)  # noqa: PTH116 - a thousand Path objects cost more than the stats
            self.stamps.append(Stamp(self._below(path), found.st_ino, found.st_ctime_ns))
        except OSError:
            self.stamps.append(Stamp(self._below(path)))

    def _below(self, path: str) -> str:
        return path[len(self.root.path) + 1 :] or "."

    def _candidate(self, path: str, file: str, found: Guarded) -> bool:
        if self._candidates >= self.limits.max_candidates_per_root:
            self.problems.append(f"{self.root.path}: more than {self._candidates} skills; the rest is left out")
            return False
        self._candidates += 1
        if found.kind != "ok":
            self.stamp(file)
            self.problems.append(f"{file}: {found.reason or 'not there any more'}")
        elif found.realpath not in self._seen:
            self._seen.add(found.realpath)
            _, inode, _, _, changed = found.fingerprint.rpartition("|")[2].split(":")
            self.stamps.append(Stamp(self._below(file), int(inode), int(changed)))
            if found.truncated:
                self.problems.append(f"{file}: larger than {self.limits.max_skill_file_bytes:,} bytes")
            else:
                self._take(path, file, found)
        return True

    def _take(self, path: str, file: str, found: Guarded) -> None:
        header = read_header(found.data.decode("utf-8", "replace"))
        name = header.name or visible(os.path.basename(path), MAX_NAME) or "unnamed"
        self.skills.append(Skill(name, self.root.source, path, file, header, found.fingerprint))

    def _descend(self, base: Root, prefix: str, path: str, real: str, depth: int) -> bool:
        if real in self._entered:
            return True
        self._entered.add(real)
        self.stamp(path)
        for entry, linked in self._folders_in(path):
            child, shown = f"{prefix}{entry}/", f"{path}/{entry}"
            if linked and not base.exists(child):
                if not self._follow(shown, depth + 1):
                    return False
            elif not self.visit(
                base, child, shown, os.path.realpath(shown) if linked else f"{real}/{entry}", depth + 1
            ):
                return False
        return True

    def _follow(self, path: str, depth: int) -> bool:
        """Look behind a link that leaves the root, where that is allowed."""
        target = os.path.realpath(path)
        if not os.path.isdir(target):  # noqa: PTH112 - as above
            return True
        if not self._allowed_target(path):
            self.stamp(path)
            self.problems.append(f"{path}: a link that leads out of {self.root.path} (skills.load.allowSymlinkTargets)")
            return True
        try:
            with Root(Path(target)) as elsewhere:
                return self.visit(elsewhere, "", path, target, depth)
        except StorageError as problem:
            self.problems.append(single_line(str(problem)))
            return True

    def _allowed_target(self, path: str) -> str:
        """Return where a link leads if it may lead there."""
        target = os.path.realpath(path)
        inside = any(target == allowed or target.startswith(allowed + os.sep) for allowed in self.root.links)
        return target if self.root.source in FREE or inside else ""

    def _folders_in(self, path: str) -> Iterator[tuple[str, bool]]:
        """Yield the names of the folders in a folder, and whether each is a link."""
        try:
            with os.scandir(path) as entries:
                found = [
                    (entry.name, entry.is_symlink())
                    for entry in entries
                    if entry.name[0] != "." and entry.name not in _SKIPPED and _is_folder(entry)
                ]
        except OSError as problem:
            self.problems.append(f"{path}: {problem.strerror}")
            found = []
        # Links come last: what they lead to is better known by its own name.
        return iter(sorted(found, key=lambda pair: (pair[1], pair[0])))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
