"""Folders that are also kept elsewhere. On one machine none is: then all of this is one look at an empty table."""

from __future__ import annotations

import os
from typing import Protocol, Self

from homarus.storage.beneath import path_of
from homarus.storage.faults import sync_folder

_mounted: dict[str, Volume] = {}


class Volume(Protocol):
    """The other copy of one folder. Paths are relative to it.

    A verb returns when the change is durable there, and only then it happens on this disk; a verb that raises has changed
    nothing. Between `begin` and `end` nobody else changes this folder; `end` with a problem says that the disk did not follow.
    """

    def begin(self) -> None: ...
    def end(self, path: str, problem: BaseException | None) -> None: ...
    def append(self, path: str, at: int, data: bytes, mode: int, *, durable: bool) -> None: ...
    def put(self, path: str, fd: int, *, durable: bool) -> None: ...
    def make_dir(self, path: str, mode: int) -> None: ...
    def move(self, path: str, to: str) -> None: ...
    def remove(self, path: str) -> None: ...

    def changed(self) -> None:
        """Note that somebody else, such as a command, may have changed files; that is kept before the next durable write."""

    def derived(self, path: str) -> None:
        """Note that a file is made from others: it is not kept."""


class Kept:
    """One name in a folder that is kept elsewhere, while it changes."""

    def __init__(self, volume: Volume, path: str) -> None:
        self._volume, self._path = volume, path

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Self:
        self._volume.begin()
        return self

    def __exit__(self, _kind: object, problem: BaseException | None, _trace: object) -> None:
        self._volume.end(self._path, problem)

    def append(self, at: int, data: bytes, mode: int, *, durable: bool) -> None:
        self._volume.append(self._path, at, data, mode, durable=durable)

    def put(self, fd: int, *, durable: bool = True) -> None:
        """Keep the whole content, and the mode, of a file that is about to take this name."""
        self._volume.put(self._path, fd, durable=durable)

    def make_dir(self, mode: int) -> None:
        self._volume.make_dir(self._path, mode)

    def move(self, to: str) -> None:
        """Give it another name in the same folder; what had that name is gone."""
        self._volume.move(self._path, f"{os.path.dirname(self._path)}/{to}".lstrip("/"))

    def remove(self) -> None:
        self._volume.remove(self._path)


class _Nowhere(Kept):
    def __init__(self) -> None:
        pass

    def __bool__(self) -> bool:
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, problem: BaseException | None, _trace: object) -> None: ...
    def append(self, at: int, data: bytes, mode: int, *, durable: bool) -> None: ...
    def put(self, fd: int, *, durable: bool = True) -> None: ...
    def make_dir(self, mode: int) -> None: ...
    def move(self, to: str) -> None: ...
    def remove(self) -> None: ...


NOWHERE = _Nowhere()


def mount(folder: str, volume: Volume) -> None:
    """Keep everything below a folder in this volume, too. Files that are open for appending by then are not."""
    _mounted[os.path.realpath(folder)] = volume


def unmount(folder: str) -> None:
    _mounted.pop(os.path.realpath(folder), None)


def kept(path: str | os.PathLike[str]) -> Kept:
    """Return where else a file is kept, by its path; a link as its last part is the link itself."""
    if not _mounted:
        return NOWHERE
    folder, name = os.path.split(os.fspath(path))
    return _found(f"{os.path.realpath(folder)}/{name}")


def kept_at(folder: int, name: str) -> Kept:
    """Return the same for a name in an open folder."""
    return _found(f"{path_of(folder)}/{name}") if _mounted else NOWHERE


def sync_names(folder: int) -> None:
    """Bring the names of an open folder to the disk, unless it is kept elsewhere: durable it is there, and this disk may forget."""
    if not kept_at(folder, "."):
        sync_folder(folder)


def changed(path: str | os.PathLike[str]) -> None:
    """Say that a program other than this one may have changed files here."""
    if _mounted and (found := _volume(os.path.realpath(path))) is not None:
        found[0].changed()


def derived(path: str | os.PathLike[str]) -> None:
    """Say that a file here can be made again from others."""
    if _mounted and (found := _volume(os.path.realpath(path))) is not None:
        found[0].derived(found[1])


def _found(full: str) -> Kept:
    found = _volume(full)
    return NOWHERE if found is None else Kept(*found)


def _volume(full: str) -> tuple[Volume, str] | None:
    """Return the volume of the innermost mounted folder above a path, and the path within it."""
    folder = full
    while folder not in _mounted:
        folder, before = os.path.dirname(folder), folder
        if folder == before:
            return None
    return _mounted[folder], os.path.relpath(full, folder)
