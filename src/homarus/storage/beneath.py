"""Opening a path that must not leave a folder: one system call where the kernel has it, a walk without links elsewhere.

Nothing is checked by name and opened afterwards: every step works on a descriptor that the step before it opened.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
from functools import cached_property
from typing import Self

from homarus.storage.faults import let_go
from homarus.storage.syscalls import BENEATH, NO_MAGICLINKS, NO_SYMLINKS, openat2

_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)
# The kernel is strict: a descriptor that only names a file takes no other flags.
_WITH_O_PATH = _O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_ALWAYS = os.O_CLOEXEC | os.O_NOCTTY
_FOLLOWING = BENEATH | NO_MAGICLINKS
_F_GETPATH: int | None = getattr(fcntl, "F_GETPATH", None)  # macOS
_LINK_IN_THE_WAY = (errno.ELOOP, errno.EMLINK, errno.ENOTDIR)
_MAX_LINKS = 40


class Escape(OSError):
    """The path leads out of its root, or through something that may not be followed."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EXDEV, reason)
        self.reason = reason


class Beneath:
    """A folder by descriptor and real path, below which names are opened. `kernel=False` forces the portable walk."""

    # Whether a kernel without the call has said so: it learns none while we run.
    _unknown_call = False

    def __init__(self, fd: int, path: str | os.PathLike[str], *, kernel: bool = sys.platform == "linux") -> None:
        self.fd = fd
        self._path = path
        self._kernel = kernel

    @cached_property
    def real(self) -> str:
        """Return where the folder is, without links; asked for only where a link must be judged, or for a message."""
        return path_of(self.fd) or os.path.realpath(self._path)

    def open(self, parts: tuple[str, ...], flags: int, *, mode: int = 0o600, follow: bool = True) -> int:
        """Open, or raise `Escape` or the system's error.

        A link that stays inside is followed, also an absolute one; with `follow=False` no part may be a link.
        """
        flags |= _ALWAYS
        if self._kernel and not Beneath._unknown_call:
            rules = _FOLLOWING if follow else _FOLLOWING | NO_SYMLINKS
            try:
                return openat2(
                    self.fd, "/".join(parts) or ".", flags & _WITH_O_PATH if flags & _O_PATH else flags, mode, rules
                )
            except OSError as error:
                self._declined(error, follow)
        return self._walk(parts, flags, mode, follow)

    def open_parent(self, parts: tuple[str, ...]) -> tuple[int, str]:
        """Open the folder that holds the last part, and return it with that part's name.

        For changes (replace, remove), which act on a folder and a name. No part is a link: what was named is what changes, and
        who judged the name has judged the file.
        """
        if not parts or parts[-1] == "..":
            raise Escape("the folder itself is not a file in it")
        fd = self.open(parts[:-1], os.O_RDONLY | os.O_DIRECTORY, follow=False)
        try:
            if stat.S_ISLNK(os.stat(parts[-1], dir_fd=fd, follow_symlinks=False).st_mode):
                raise Escape("a symbolic link is not followed here")
        except FileNotFoundError:
            pass
        except BaseException:
            let_go(fd)
            raise
        return fd, parts[-1]

    def _declined(self, error: OSError, follow: bool) -> None:
        """Raise what the kernel said, unless the walk must decide: no such call here, or a link that may still be inside."""
        if error.errno == errno.ELOOP and not follow:
            raise Escape("a symbolic link is not followed here") from None
        if error.errno == errno.ENOSYS:
            Beneath._unknown_call = True
        # EPERM: some containers answer so for a call they do not know. EAGAIN: a rename raced with the resolution.
        if error.errno not in (errno.ENOSYS, errno.EPERM, errno.EXDEV, errno.EAGAIN, errno.EINVAL, errno.E2BIG):
            raise error

    def _walk(self, parts: tuple[str, ...], flags: int, mode: int, follow: bool) -> int:
        """Go part by part, never through a link of the system's choosing; links are read and judged here."""
        todo = list(reversed(parts))
        links = 0
        with _Trail(self.fd) as trail:
            while todo:
                part = todo.pop()
                if part == "..":
                    trail.up()
                    continue
                try:
                    if not todo:
                        return _open_leaf(trail.here, part, flags, mode)
                    trail.down(part)
                    continue
                except OSError as error:
                    target = _link_target(trail.here, part, error)
                if not follow:
                    raise Escape("a symbolic link is not followed here")
                links += 1
                if links > _MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                todo.extend(reversed(self._inside(trail.names, target)))
                trail.restart()
            return _open_leaf(trail.here, ".", flags, mode)

    def _inside(self, names: list[str], target: str) -> tuple[str, ...]:
        """Return a link's target as parts below the root, or raise. The walk verifies again whatever this finds."""
        real = self.real
        start = target if target.startswith("/") else "/".join([real, *names, target])
        resolved = os.path.realpath(start)
        if resolved == real:
            return ()
        prefix = real.rstrip("/") + "/"
        if not resolved.startswith(prefix):
            raise Escape("a symbolic link leads out of the folder")
        return tuple(resolved[len(prefix) :].split("/"))


def _open_leaf(folder: int, leaf: str, flags: int, mode: int) -> int:
    fd = os.open(leaf, flags | os.O_NOFOLLOW, mode, dir_fd=folder)
    if stat.S_ISLNK(os.fstat(fd).st_mode):  # with O_PATH the descriptor is of the link itself
        let_go(fd)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return fd


def _link_target(folder: int, part: str, error: OSError) -> str:
    """Return where the link points if a link is why a step failed; otherwise raise that failure."""
    if error.errno in _LINK_IN_THE_WAY:
        try:
            return os.readlink(part, dir_fd=folder)
        except OSError:
            pass
    raise error


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
        flags = _O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fds.append(os.open(part, flags, dir_fd=self.here))
        self.names.append(part)

    def up(self) -> None:
        if not self._fds:
            raise Escape("the path leads out of the folder")
        let_go(self._fds.pop())
        self.names.pop()

    def restart(self) -> None:
        while self._fds:
            self.up()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.restart()


def real_path(path: str) -> str:
    """Return where a path leads, without links, as `os.path.realpath` does: one question to the kernel where it answers."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC) if sys.platform == "linux" else -1
    except (OSError, ValueError):
        fd = -1
    if fd < 0:
        return os.path.realpath(path)
    try:
        found = path_of(fd)
    finally:
        let_go(fd)
    # What has no path of its own, such as a pipe, is named by the path that leads to it.
    return found if found is not None and found.startswith("/") else os.path.realpath(path)


def path_of(fd: int) -> str | None:
    """Ask the system which path a descriptor has; None where it does not say."""
    try:
        if _F_GETPATH is not None:
            return os.fsdecode(fcntl.fcntl(fd, _F_GETPATH, b"\0" * 1024).rstrip(b"\0"))
        return os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115  # text, with the bytes of the name as they are
    except OSError:
        pass
    return None
