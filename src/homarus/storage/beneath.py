"""Opening a path that must not leave a folder: one system call where the kernel has it, a walk without links elsewhere.

Nothing is checked by name and opened afterwards: every step works on a descriptor that the step before it opened.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Self

_SYS_OPENAT2 = 437  # the same number on every Linux architecture that has it
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_UNSUPPORTED = (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG)
_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)
_FOLDER = _O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_MAX_LINKS = 40
_available = sys.platform == "linux"


class Escape(OSError):
    """The path leads out of its root, or through something that may not be followed."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EXDEV, reason)
        self.reason = reason


def open_beneath(
    root: int, real: str, parts: tuple[str, ...], flags: int, *, mode: int = 0o600, follow: bool = True
) -> int:
    """Open `parts` below the folder `root` (whose real path is `real`), or raise `Escape` or the system's error.

    A link that stays inside is followed, also an absolute one; with `follow=False` no part may be a link.
    """
    flags |= os.O_CLOEXEC | os.O_NOCTTY
    if _available:
        fd = _openat2(root, "/".join(parts) or ".", flags, mode, follow)
        if fd is not None:
            return fd
    return _walk(root, real, parts, flags, mode, follow)


def _openat2(root: int, name: str, flags: int, mode: int, follow: bool) -> int | None:
    """Ask the kernel; None means that the walk must decide (no such call here, or a link that may still be inside)."""
    global _available  # noqa: PLW0603  # learned once per process: a kernel does not gain a system call later
    import ctypes

    if flags & os.O_PATH:  # the call is strict: a descriptor that only names a file takes no other flags
        flags &= os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
    resolve = _BENEATH | _NO_MAGICLINKS | (0 if follow else _NO_SYMLINKS)
    how = (ctypes.c_uint64 * 3)(flags, mode if flags & os.O_CREAT else 0, resolve)
    while True:
        fd = _libc().syscall(_SYS_OPENAT2, root, os.fsencode(name), ctypes.byref(how), ctypes.sizeof(how))
        if fd >= 0:
            return int(fd)
        code = ctypes.get_errno()
        if code == errno.EINTR:
            continue
        if code in _UNSUPPORTED:
            # EPERM and EINVAL can also be this file's own answer; the walk then meets the same error by itself.
            _available = _available and code not in (errno.ENOSYS, errno.E2BIG)
            return None
        if code in (errno.EXDEV, errno.EAGAIN):
            return None
        if code == errno.ELOOP and not follow:
            raise Escape("a symbolic link is not followed here")
        raise OSError(code, os.strerror(code))


@cache
def _libc() -> Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _walk(root: int, real: str, parts: tuple[str, ...], flags: int, mode: int, follow: bool) -> int:
    """Open part by part, never through a link of the kernel's choosing; links are read and judged here."""
    todo = list(reversed(parts))
    links = 0
    with _Trail(root) as trail:
        while todo:
            part = todo.pop()
            if part == "..":
                trail.up()
                continue
            try:
                if not todo:
                    return _open_last(trail.here, part, flags, mode)
                trail.down(part)
                continue
            except OSError as error:
                target = _link_target(trail.here, part, error)
            if not follow:
                raise Escape("a symbolic link is not followed here")
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            todo.extend(reversed(_inside(real, trail.names, target)))
            trail.restart()
        return os.open(".", flags & ~os.O_CREAT, dir_fd=trail.here)


def _open_last(folder: int, part: str, flags: int, mode: int) -> int:
    fd = os.open(part, flags | os.O_NOFOLLOW, mode, dir_fd=folder)
    if flags & _O_PATH and stat.S_ISLNK(os.fstat(fd).st_mode):  # such a descriptor can be of the link itself
        os.close(fd)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return fd


def _link_target(folder: int, part: str, error: OSError) -> str:
    """Return where the link points if a link is why opening failed; otherwise raise that failure."""
    # O_NOFOLLOW answers ELOOP for a link (EMLINK on some systems), O_DIRECTORY may answer ENOTDIR first.
    if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):
        try:
            return os.readlink(part, dir_fd=folder)
        except OSError:
            pass
    raise error


def _inside(real: str, names: list[str], target: str) -> tuple[str, ...]:
    """Return a link's target as parts below the root, or raise. The walk verifies again whatever this finds."""
    resolved = os.path.realpath("/".join([real, *names, target]) if not target.startswith("/") else target)
    if resolved == real:
        return ()
    prefix = real if real.endswith("/") else real + "/"
    if not resolved.startswith(prefix):
        raise Escape("a symbolic link leads out of the folder")
    return tuple(resolved[len(prefix) :].split("/"))


class _Trail:
    """The open folders between the root and here, so that `..` goes back the way we came."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._fds: list[int] = []
        self.names: list[str] = []

    @property
    def here(self) -> int:
        return self._fds[-1] if self._fds else self._root

    def down(self, part: str) -> None:
        self._fds.append(os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=self.here))
        self.names.append(part)

    def up(self) -> None:
        if not self._fds:
            raise Escape("the path leads out of the folder")
        os.close(self._fds.pop())
        self.names.pop()

    def restart(self) -> None:
        while self._fds:
            self.up()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.restart()


@contextmanager
def folder_beneath(root: int, real: str, parts: tuple[str, ...]) -> Iterator[int]:
    """Hold a folder below the root open, readable, so that its names can be listed and synced."""
    fd = open_beneath(root, real, parts, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)
