"""The private folder of one command, mostly below /tmp. It is locked while its owner lives; what is not locked was left behind.

A lock ends with its process whatever ends that. So what a killed process left behind can be told from what is in use,
by every other process of ours, and only by the user whose folders they are.
"""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import suppress
from itertools import count

TOP = "/tmp"  # noqa: S108 - each folder in it is made new, for us alone
PREFIX = "homarus-sandbox-"
_TRIES = 10
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A tree as deep as this was made to be in the way; what is left of it is removed at another time.
_MAX_DEPTH = 100_000
_swept: set[int] = set()


class Scratch:
    """One folder, made before its command starts and removed after its end."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd  # the folder itself, whatever its name leads to meanwhile

    def removed_empty(self) -> bool:
        """Remove the folder if nothing is in it, and say whether it is gone."""
        try:
            os.rmdir(self.path)  # noqa: PTH106 - pathlib costs more than the rest
        except FileNotFoundError:
            pass
        except OSError:
            return False
        self._let_go()
        return True

    def remove(self) -> None:
        """Remove the folder and everything in it, which may take a while. No link is followed."""
        if self.fd >= 0 and not self.removed_empty():
            with suppress(OSError):  # then it is swept later
                _empty(self.fd)
                os.rmdir(self.path)  # noqa: PTH106
            self._let_go()

    def _let_go(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


def make(top: str = TOP, prefix: str = PREFIX) -> Scratch:
    """Make a folder that nobody else can look into. Its name cannot be known before, and what exists is never taken."""
    for _ in range(_TRIES):
        path = f"{top}/{prefix}{os.urandom(8).hex()}"
        os.mkdir(path, 0o700)  # noqa: PTH102
        with suppress(BlockingIOError, FileNotFoundError):  # somebody who sweeps was faster than our lock
            if (found := _locked(path)) is not None:
                return found
    raise OSError(f"a folder in {top} does not stay ours")


def sweep_once() -> None:
    """Remove what was left behind, beside what is going on, and once in a process. For the first that is made."""
    if os.getpid() not in _swept:
        _swept.add(os.getpid())
        threading.Thread(target=sweep).start()


def sweep(top: str = TOP, prefix: str = PREFIX) -> list[str]:
    """Remove what processes that are gone left behind and return the names; folders of other users are not touched."""
    gone = []
    with os.scandir(top) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(prefix)]
    for name in names:
        with suppress(OSError):
            if (found := _locked(f"{top}/{name}")) is not None:
                found.remove()
                gone.append(name)
    return gone


def _locked(path: str) -> Scratch | None:
    """Return a folder of our own, locked; None if somebody else owns it, holds it or has just removed it."""
    fd = os.open(path, os.O_RDONLY | _FOLDER)
    try:
        facts = os.fstat(fd)
        if facts.st_uid == os.geteuid():
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(facts, os.stat(path, follow_symlinks=False)):  # noqa: PTH116
                kept, fd = fd, -1
                return Scratch(path, kept)
        return None
    finally:
        if fd >= 0:
            os.close(fd)


def _empty(top: int) -> None:
    """Remove everything in a folder. However deep it goes, two folders are open at most: what is nested moves up first."""
    stem, fresh = os.urandom(8).hex(), count()
    for _ in range(_MAX_DEPTH):
        names = os.listdir(top)
        for name in names:
            if _unlinked(name, top):
                continue
            folder = _opened(name, top)
            try:
                for inner in os.listdir(folder):  # noqa: PTH208
                    if not _unlinked(inner, folder):
                        os.close(_opened(inner, folder))
                        os.rename(inner, f"{stem}-{next(fresh)}", src_dir_fd=folder, dst_dir_fd=top)
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=top)
        if not names:
            return


def _unlinked(name: str, folder: int) -> bool:
    try:
        os.unlink(name, dir_fd=folder)
    except (IsADirectoryError, PermissionError):  # what Linux and macOS say of a folder
        return False
    return True


def _opened(name: str, parent: int) -> int:
    """Return a folder that can be emptied and moved, whatever its mode was."""
    try:
        fd = os.open(name, os.O_RDONLY | _FOLDER, dir_fd=parent)
    except PermissionError:
        shut = os.open(name, os.O_PATH | _FOLDER, dir_fd=parent)
        os.chmod(f"/proc/self/fd/{shut}", 0o700)  # noqa: PTH101 - a descriptor of this kind knows no fchmod
        os.close(shut)
        fd = os.open(name, os.O_RDONLY | _FOLDER, dir_fd=parent)
    os.fchmod(fd, 0o700)
    return fd
