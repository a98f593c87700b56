"""Guarded access to one folder: whatever the name, nothing outside is touched. Which names are wanted is the caller's matter."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Literal, Self

import msgspec

from homarus.core.errors import StorageError
from homarus.core.text import single_line
from homarus.storage.atomic import replace_at
from homarus.storage.beneath import Beneath, Escape, path_of
from homarus.storage.faults import explain, explained, let_go, shown
from homarus.storage.volume import kept_at, sync_names

Kind = Literal["ok", "missing", "validation", "io"]
Name = str | PurePosixPath
_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)
_FOLDER = _O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_ATTEMPTS = 3
_PAUSE = 0.05


class Guarded(msgspec.Struct, frozen=True):
    """The outcome of a guarded read: never an exception, so that one bad file does not end a turn."""

    kind: Kind
    data: bytes = b""
    fingerprint: str = ""
    truncated: bool = False
    reason: str = ""
    realpath: str = ""
    size: int = 0


class BoundaryError(StorageError):
    """A name could not be used below this root. `kind` is missing, validation (refused) or io."""

    def __init__(self, kind: Kind, message: str, *, cure: str = "") -> None:
        super().__init__(message, cure=cure)
        self.kind = kind


class _Unstable(Exception):
    """The file changed while it was read."""


class Root:
    """A folder held by descriptor. Names are relative to it. Reading follows links that stay inside; changing follows none."""

    def __init__(self, path: Path, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.path = path
        self._sleep = sleep
        try:
            fd = os.open(path, _FOLDER)
        except (OSError, ValueError):
            with explained("open folder", path):
                raise
        self._beneath = Beneath(fd, path)

    @property
    def realpath(self) -> str:
        return self._beneath.real

    def close(self) -> None:
        """Let go of the folder; a second call does nothing."""
        fd, self._beneath.fd = self._beneath.fd, -1
        if fd >= 0:
            let_go(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self, name: Name, *, max_bytes: int) -> Guarded:
        """Read a regular file, at most `max_bytes`, as it was at one moment. Pipes and devices are refused, not waited for."""

        def attempt() -> Guarded:
            fd = self._open_regular(name, os.O_RDONLY)
            try:
                before = os.fstat(fd)
                data = _read_up_to(fd, max_bytes + 1, before.st_size)
                real = self._real_of(fd, name)
                after = os.fstat(fd)
            finally:
                let_go(fd)
            if _state(before) != _state(after):
                raise _Unstable
            return Guarded(
                "ok",
                data[:max_bytes],
                _fingerprint(real, after),
                truncated=len(data) > max_bytes,
                realpath=real,
                size=after.st_size,
            )

        return self._guarded(name, attempt)

    def is_still(self, name: str, fingerprint: str) -> bool:
        """Say whether a plain file here is certainly the one that was read with this fingerprint; False is no answer.

        One question to the kernel, for what is asked before every turn. A link is never certain.
        """
        try:
            found = os.stat(name, dir_fd=self._beneath.fd, follow_symlinks=False)
        except (OSError, ValueError):
            return False
        return "/" not in name and fingerprint == _fingerprint(f"{self.realpath}/{name}", found)

    def lacks(self, name: str) -> bool:
        """Say whether there is certainly nothing of this plain name here, neither a file nor a link; False is no answer."""
        try:
            os.stat(name, dir_fd=self._beneath.fd, follow_symlinks=False)
        except FileNotFoundError:
            return "/" not in name
        except (OSError, ValueError):
            pass
        return False

    def fingerprint(self, name: Name) -> Guarded:
        """Return what `read` would return without data: enough to know whether a cached text is still right."""

        def attempt() -> Guarded:
            fd = self._open_regular(name, _O_PATH)
            try:
                found, real = os.fstat(fd), self._real_of(fd, name)
            finally:
                let_go(fd)
            return Guarded("ok", b"", _fingerprint(real, found), realpath=real, size=found.st_size)

        return self._guarded(name, attempt)

    def open(self, name: Name, flags: int, *, follow: Literal["inside", "never"] = "inside", mode: int = 0o600) -> int:
        """Open a regular file (or, with O_DIRECTORY, a folder) and return its descriptor; the caller closes it."""
        try:
            return self._open_regular(name, flags, follow=follow == "inside", mode=mode)
        except OSError as error:
            raise self._refuse(name, error) from error

    def listdir(self, name: Name = ".") -> list[str]:
        """Return the names in a folder, sorted, exactly as they are spelled on the disk."""
        try:
            fd = self._beneath.open(self._parts(name), os.O_RDONLY | os.O_DIRECTORY)
            try:
                with os.scandir(fd) as entries:
                    return sorted(entry.name for entry in entries)
            finally:
                let_go(fd)
        except OSError as error:
            raise self._refuse(name, error) from error

    def exists(self, name: Name) -> bool:
        try:
            let_go(self._beneath.open(self._parts(name), _O_PATH | os.O_NONBLOCK))
        except OSError:
            return False
        return True

    def write(self, name: Name, data: bytes, *, mode: int = 0o600) -> None:
        """Replace or create a file below the root as `write_atomic` does; the folder must exist."""
        self._change(name, lambda folder, leaf: replace_at(folder, leaf, data, mode=mode))

    def remove(self, name: Name) -> None:
        self._change(name, _unlink)

    def make_dirs(self, name: Name, *, mode: int = 0o700) -> list[str]:
        """Make a folder and its parents below the root; what exists stays as it is. Returns those that were made."""
        made: list[str] = []
        try:
            parts = self._parts(name)
            for depth in range(1, len(parts) + 1):
                try:
                    let_go(self._beneath.open(parts[:depth], _O_PATH | os.O_DIRECTORY, follow=False))
                except FileNotFoundError:
                    inner = "/".join(parts[:depth])
                    self._change(inner, lambda folder, leaf: _make_dir(folder, leaf, mode))
                    made.append(inner)
        except (OSError, BoundaryError) as error:
            self.remove_dirs(made)
            raise (error if isinstance(error, BoundaryError) else self._refuse(name, error)) from error
        return made

    def remove_dirs(self, names: Sequence[str]) -> None:
        """Remove folders that were made in vain, the innermost first; one that holds something by now stays."""
        for name in reversed(names):
            try:
                self._change(name, _remove_dir)
            except BoundaryError:
                return

    def _change(self, name: Name, change: Callable[[int, str], None]) -> None:
        try:
            folder, leaf = self._beneath.open_parent(self._parts(name))
            try:
                change(folder, leaf)
            finally:
                let_go(folder)
        except OSError as error:
            raise self._refuse(name, error) from error

    def _parts(self, name: Name) -> tuple[str, ...]:
        if self._beneath.fd < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        text = str(name)
        if "\0" in text or not (text.isascii() or _has_bytes(text)):
            raise Escape("no file can have this name")
        if text.startswith("/"):
            raise Escape("the name must be relative to the folder")
        parts = text.split("/")
        if "" in parts or "." in parts:
            parts = [part for part in parts if part not in ("", ".")]
        return tuple(parts)

    def _open_regular(self, name: Name, flags: int, *, follow: bool = True, mode: int = 0o600) -> int:
        fd = self._beneath.open(self._parts(name), flags | os.O_NONBLOCK, mode=mode, follow=follow)
        try:
            kind = os.fstat(fd).st_mode
            if not stat.S_ISREG(kind):
                if not stat.S_ISDIR(kind):
                    raise Escape("not a regular file")
                if not flags & os.O_DIRECTORY:
                    raise Escape("a folder, not a file")
        except BaseException:
            let_go(fd)
            raise
        return fd

    def _real_of(self, fd: int, name: Name) -> str:
        return path_of(fd) or os.path.realpath(f"{self.realpath}/{name}")

    def _guarded(self, name: Name, attempt: Callable[[], Guarded]) -> Guarded:
        reason = "it changes faster than it can be read"
        for number in range(_ATTEMPTS):
            if number:
                self._sleep(_PAUSE)
            try:
                return attempt()
            except _Unstable:
                continue
            except OSError as error:
                if error.errno not in (errno.EINTR, errno.EAGAIN):
                    return Guarded(_kind(error), reason=_reason(error))
                reason = _reason(error)
        return Guarded("io", reason=reason)

    def _refuse(self, name: Name, error: OSError) -> BoundaryError:
        where = f"{self.realpath.rstrip('/')}/{name}"
        if isinstance(error, Escape):
            return BoundaryError(
                "validation", f"{shown(where)} is refused: {error.reason}", cure="name a file inside the folder"
            )
        said = explain(error, "open", where)
        return BoundaryError(_kind(error), said.message, cure=said.cure)


def _has_bytes(text: str) -> bool:
    """Say whether a name can be spelled in the bytes of a file name; half of a surrogate pair cannot."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True


def _make_dir(folder: int, leaf: str, mode: int) -> None:
    try:
        with kept_at(folder, leaf) as elsewhere:
            elsewhere.make_dir(mode)
            os.mkdir(leaf, mode, dir_fd=folder)
    except FileExistsError:
        return  # somebody else was faster; the next part finds out whether it is a folder
    sync_names(folder)


def _remove_dir(folder: int, leaf: str) -> None:
    with kept_at(folder, leaf) as elsewhere:
        os.rmdir(leaf, dir_fd=folder)
        elsewhere.remove()  # an empty folder that comes back after a crash harms nobody; what it held would


def _unlink(folder: int, leaf: str) -> None:
    with kept_at(folder, leaf) as elsewhere:
        if elsewhere:
            os.stat(leaf, dir_fd=folder, follow_symlinks=False)
        elsewhere.remove()
        os.unlink(leaf, dir_fd=folder)
    sync_names(folder)


def _read_up_to(fd: int, limit: int, size: int) -> bytes:
    """Read a file that said how big it is: one call with a buffer of that size, and more only where there is more."""
    data = os.read(fd, min(limit, size + 1, 1 << 20))
    if 0 < len(data) == size:
        return data
    pieces, limit = [data], limit - len(data)
    while limit > 0 and (piece := os.read(fd, min(limit, 1 << 20))):
        pieces.append(piece)
        limit -= len(piece)
    return b"".join(pieces)


def _state(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _fingerprint(real: str, found: os.stat_result) -> str:
    return f"{real}|{found.st_dev}:{found.st_ino}:{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}"


def _kind(error: OSError) -> Kind:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return "missing"
    # ELOOP: a circle of links. ENXIO: a socket. Both are something else than a file, not a failing disk.
    if isinstance(error, Escape) or error.errno in (errno.ELOOP, errno.ENXIO, errno.EXDEV):
        return "validation"
    return "io"


def _reason(error: OSError) -> str:
    text = error.reason if isinstance(error, Escape) else os.strerror(error.errno) if error.errno else str(error)
    return single_line(text, 300)
