"""Which folders a command sees, and what stays as it is in those that it may write. Each backend shows them in its own way.

What stays: files that shape the agent, where the spec says so, and every git repository, because git runs, outside, what
stands in one. All of `.git` counts and not a list of names: a file that does not exist yet (`commondir`, `config.worktree`)
does the same harm as one that is changed. How a command still commits is the business of `tools/git`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from homarus.core.errors import ToolError
from homarus.sandbox.spec import Access, SandboxSpec

GIT = ".git"
MAX_FOLDERS, MAX_FOUND = 200_000, 500
# What git takes for a repository wherever it meets it, without a `.git`.
_BARE = frozenset({"HEAD", "objects", "refs"})
_GITLINK = 0o160000
# More than this many things at the top of a folder that is closed there, and the rest can only be read.
_MAX_ENTRIES = 300


def layers(spec: SandboxSpec) -> list[tuple[str, bool]]:
    """Return what to show, and whether it can be written, in the order in which one covers the other.

    A folder around something that stays as it is stands there by itself: what something is shown on can be neither renamed
    nor removed, and so no other folder can be put in its place.
    """
    shown: list[tuple[str, bool]] = []
    for root, writable in roots(spec):
        tops = _unlocked(root, spec) if writable and spec.locked else [root]
        if not writable or spec.locked:
            shown.append((root, False))
        for top in tops if writable else ():
            closed = _closed(top, spec)
            shown.append((top, True))
            shown += [(path, True) for path in _between(top, closed)]
            shown += [(path, False) for path in closed]
    return shown


def open_parts(spec: SandboxSpec) -> list[str]:
    """Return what a command may write where nothing can be shown on top of a folder: all around what stays as it is.

    In a folder that holds something of that kind nothing new can be made then, and nothing removed.
    """
    parts: list[str] = []
    for root, writable in roots(spec):
        for top in (_unlocked(root, spec) if spec.locked else [root]) if writable else ():
            parts += without(top, _closed(top, spec))
    return parts


def without(path: str, closed: Sequence[str]) -> list[str]:
    """Return a folder as parts that leave the closed ones out: itself, or what lies in it."""
    if path in closed:
        return []
    if not any(each.startswith(f"{path}/") for each in closed):
        return [path]
    try:
        names = sorted(os.listdir(path))  # noqa: PTH208
    except OSError:
        return []
    return [part for name in names for part in without(f"{path}/{name}", closed)]


def roots(spec: SandboxSpec) -> list[tuple[str, bool]]:
    """Return the folders of a spec with whether each can be written, the outer ones first. What is said twice can be read."""
    own = [(spec.workspace, spec.access is Access.RW)] if spec.access is not Access.NONE else []
    found = [*own, *((mount.path, mount.writable) for mount in spec.mounts)]
    return sorted(found, key=lambda root: (root[0], not root[1]))


def _unlocked(root: str, spec: SandboxSpec) -> list[str]:
    """Return what lies at the top of a folder and may change although the top stays as it is."""
    closed = {name.casefold() for name in spec.locked}
    try:
        with os.scandir(root) as entries:
            found = sorted(entry.name for entry in entries if not entry.is_symlink())
    except OSError:
        return []
    return [f"{root}/{name}" for name in found if name.casefold() not in closed][:_MAX_ENTRIES]


def _closed(top: str, spec: SandboxSpec) -> list[str]:
    """Return what stays as it is below something that can be written. Hooks of the workspace are run by us."""
    hooks = Path(spec.workspace, "hooks")
    own = [str(hooks)] if top == spec.workspace and hooks.is_dir() and not hooks.is_symlink() else []
    inner = [root for root, writable in roots(spec) if not writable and root.startswith(f"{top}/")]
    return sorted({*repositories(top), *own, *inner} - {spec.commits})


def repositories(root: str) -> list[str]:
    """Return every repository below a folder, and every folder in which an index expects one.

    No link is followed; a folder that holds a link in place of its repository counts whole. Too much to look through is
    an error: what was not seen would be open.
    """
    found: set[str] = set()
    for folder, names in _folders(root):
        if names >= _BARE:
            found.add(folder)
        for name in names:
            if name.casefold() == GIT:
                found.add(folder if Path(folder, name).is_symlink() else f"{folder}/{name}")
        if GIT in names:
            found |= {f"{folder}/{path}" for path in _expected(f"{folder}/{GIT}/index") if _lacks(f"{folder}/{path}")}
        if len(found) > MAX_FOUND:
            raise ToolError(f"there are more than {MAX_FOUND} repositories in {root}", cure="move some elsewhere")
    return sorted(found)


def _between(root: str, paths: list[str]) -> list[str]:
    """Return the folders between a root and some paths below it, outermost first."""
    folders = set()
    for path in paths:
        while (path := os.path.dirname(path)) != root and path.startswith(f"{root}/"):
            folders.add(path)
    return sorted(folders)


def _folders(root: str) -> Iterator[tuple[str, set[str]]]:
    """Yield every folder with the names in it; what lies in a repository's own folder is passed over."""
    todo, seen = [root], 0
    while todo:
        folder = todo.pop()
        seen += 1
        if seen > MAX_FOLDERS:
            raise ToolError(f"{root} has more than {MAX_FOLDERS:,} folders", cure="work in a smaller folder")
        try:
            with os.scandir(folder) as entries:
                found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except OSError:  # a file, gone, or not ours to read: then nobody of ours writes there either
            continue
        names = {name for name, _ in found}
        yield folder, names
        if not names >= _BARE:
            todo += [f"{folder}/{name}" for name, is_folder in found if is_folder and name.casefold() != GIT]


def _lacks(folder: str) -> bool:
    """Say whether a folder is there without a repository in it: a command could make one, and git would look into it."""
    path = Path(folder)
    return path.is_dir() and not path.is_symlink() and not os.path.lexists(path / GIT)


def _expected(index: str) -> list[str]:
    """Return where an index expects repositories (submodules), as paths below its folder."""
    try:
        data = Path(index).read_bytes()
    except OSError:
        return []
    if struct.pack(">I", _GITLINK) not in data:
        return []
    return [os.fsdecode(path) for mode, path in _entries(data) if mode == _GITLINK]


def _entries(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield mode and path of every entry of an index, as far as it can be read (versions 2 to 4, SHA-1)."""
    if len(data) < 12 or data[:4] != b"DIRC":
        return
    version, count = struct.unpack_from(">II", data, 4)
    at, path = 12, b""
    for _ in range(count):
        if at + 62 > len(data):
            return
        (mode,), (flags,) = struct.unpack_from(">I", data, at + 24), struct.unpack_from(">H", data, at + 60)
        start = at + (64 if flags & 0x4000 else 62)
        if version == 4:
            drop, start = _varint(data, start)
            end = data.find(b"\0", start)
            path, at = path[: len(path) - drop] + data[start:end], end + 1
        else:
            end = data.find(b"\0", start)
            path, at = data[start:end], at + ((end - at) // 8 + 1) * 8
        if end < 0:
            return
        yield mode, path


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = data[at] & 127
    while at < len(data) - 1 and data[at] & 128:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 127)
    return value, at + 1
