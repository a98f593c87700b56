"""Whole files, written so that a crash at any moment leaves the old or the new content. Appending is `jsonl`."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import stat
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Self

from homarus.core.clock import iso_ms
from homarus.core.errors import StorageError
from homarus.core.patterns import late
from homarus.storage.faults import (
    beside,
    explained,
    let_go,
    open_folder,
    refuse_special,
    shown,
    sync_file,
    write_all,
)
from homarus.storage.syscalls import rename_new
from homarus.storage.volume import kept, kept_at, sync_names

_TEMP_NAME = late(r"\.homarus-\d+-[0-9a-f]{16}\.tmp")
_COPY_BLOCK = 1 << 20


class Staged:
    """A temp file in the folder of its target: it takes the target's name whole, or it is removed.

    Its name is short and fixed in length, so that the longest legal target name works. It holds a lock while its
    writer lives, which is how `sweep_temps` knows the dead ones.
    """

    def __init__(self, folder: int) -> None:
        self._folder = folder
        self._name = ""
        self.fd = -1

    def __enter__(self) -> Self:
        try:
            while not self._open():
                self._discard()
        except BaseException:  # also what a signal handler raises: the name is known before the file exists
            self._discard()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._discard()

    def _open(self) -> bool:
        """Create the file and lock it; False if a sweep took it in the instant between."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        self._name = f".homarus-{os.getpid()}-{os.urandom(8).hex()}.tmp"
        self.fd = os.open(self._name, flags, 0o600, dir_fd=self._folder)
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX)
        except OSError:
            return True  # no locks here: then nobody can sweep here either
        return os.fstat(self.fd).st_nlink > 0

    def _discard(self) -> None:
        name, self._name = self._name, ""
        fd, self.fd = self.fd, -1
        if name:
            try:
                os.unlink(name, dir_fd=self._folder)
            except OSError:
                pass  # never made, or it stays recognisable and a sweep removes it
        if fd >= 0:
            let_go(fd)

    def seal(self, mode: int, like: os.stat_result | None = None) -> None:
        """Give the content its permissions (and the owner of the file it replaces) and bring it to the disk."""
        if like is not None:
            mode = like.st_mode & 0o777
            if not _take_owner(self.fd, like):
                mode &= ~0o070  # the old group's rights would go to another group
        os.fchmod(self.fd, mode)
        if not kept_at(self._folder, self._name):  # else durable it is there
            sync_file(self.fd)

    def replace(self, name: str, *, lasting: bool = True) -> None:
        """Take this name; what had it before is gone in the same instant."""
        with kept_at(self._folder, name) as elsewhere:
            elsewhere.put(self.fd, durable=lasting)
            os.rename(self._name, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._name = ""

    def claim(self, name: str) -> bool:
        """Take this name only if it is free; return whether it was."""
        with kept_at(self._folder, name) as elsewhere:
            if elsewhere and _lstat(self._folder, name) is not None:
                return False
            elsewhere.put(self.fd)
            if not rename_new(self._folder, self._name, name):
                return False
        self._name = ""
        return True


def _take_owner(fd: int, like: os.stat_result) -> bool:
    """Give a file the owner and group of another, as far as this user may; return whether at least the group is kept."""
    mine = os.fstat(fd)
    if (mine.st_uid, mine.st_gid) == (like.st_uid, like.st_gid):
        return True
    for uid in (like.st_uid, -1):
        try:
            os.fchown(fd, uid, like.st_gid)
            return True
        except PermissionError:
            continue
    return False


Content = bytes | Iterable[bytes]


def _pour(fd: int, content: Content) -> None:
    """Write what is given whole or in pieces; small pieces go together, and never all of them are in memory."""
    if isinstance(content, bytes):
        write_all(fd, content)
        return
    held: list[bytes] = []
    size = 0
    for piece in content:
        held.append(piece)
        size += len(piece)
        if size >= _COPY_BLOCK:
            write_all(fd, b"".join(held))
            held, size = [], 0
    write_all(fd, b"".join(held))


def replace_at(folder: int, name: str, data: Content, *, mode: int, lasting: bool = True) -> None:
    """Replace a file of an open folder; the building block for callers that already hold its descriptor."""
    old = _regular_or_none(folder, name)
    with Staged(folder) as temp:
        _pour(temp.fd, data)
        temp.seal(mode, old)
        temp.replace(name, lasting=lasting)
    if lasting:
        sync_names(folder)


def write_atomic(path: Path, data: Content, *, mode: int = 0o600, lasting: bool = True) -> None:
    """Replace a file: afterwards it is new and durable, or this raised `StorageError` and it is as it was.

    Without `lasting` a power cut may bring the old file back, as whole as it was: for what the next turn says again.

    Only if the last step, the sync of the folder, is what failed, the new content is there and may not survive a power cut.
    An existing file keeps its permissions and owner; a symbolic link stays, and the file it points to is replaced.
    """
    with explained("write", path):
        target = _through_links(path)
        with open_folder(os.path.dirname(target)) as folder:
            replace_at(folder, os.path.basename(target), data, mode=mode, lasting=lasting)


def create_new(path: Path, data: Content, *, mode: int = 0o600) -> bool:
    """Create a file with all its content, durably; return False and touch nothing if the name is taken."""
    with explained("create", path), open_folder(os.path.dirname(path)) as folder:
        name = os.path.basename(path)
        if _lstat(folder, name) is not None:
            return False
        with Staged(folder) as temp:
            _pour(temp.fd, data)
            temp.seal(mode)
            created = temp.claim(name)
        sync_names(folder)
        return created


def ensure_dir(path: Path, *, mode: int = 0o700) -> None:
    """Make a folder and its parents, durably. An existing folder stays as it is."""
    with explained("create folder", path):
        missing: list[Path] = []
        probe = path
        while not probe.is_dir():
            if os.path.lexists(probe) and not probe.is_dir():  # asked again: somebody may just have made it
                raise StorageError(
                    f"cannot create folder {shown(path)}: {shown(probe)} is not a folder",
                    cure="move it, or check the path",
                )
            missing.append(probe)
            if probe == probe.parent:
                break
            probe = probe.parent
        for folder in reversed(missing):
            try:
                with kept(folder) as elsewhere:
                    elsewhere.make_dir(mode)
                    folder.mkdir(mode)
                    folder.chmod(mode)  # whatever the umask says
            except FileExistsError:
                continue  # somebody else was faster
            with open_folder(folder.parent) as fd:
                sync_names(fd)
        if not path.is_dir():
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))


def move_aside(path: Path, label: str, now: datetime) -> Path:
    """Rename a damaged or finished file to `<path>.<label>.<moment>` and return that; nothing is ever overwritten."""
    suffix = f".{label}.{iso_ms(now).replace(':', '-')}"
    with explained("move aside", path), open_folder(os.path.dirname(path)) as folder:
        for attempt in range(1000):
            aside = beside(path, suffix + (f".{attempt}" if attempt else ""))
            with kept_at(folder, os.path.basename(path)) as elsewhere:
                if elsewhere and _lstat(folder, aside.name) is not None:
                    continue
                elsewhere.move(aside.name)
                moved = rename_new(folder, os.path.basename(path), aside.name)
            if moved:
                sync_names(folder)
                return aside
        raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))


def backup(path: Path, *, keep: int = 5) -> Path | None:
    """Copy a file to `<path>.bak` and push older copies to `.bak.1`, `.bak.2`, …; at most `keep` copies stay.

    Return None when there is no file. The new copy is complete on the disk before an older one moves.
    """
    copies = [beside(path, ".bak" + (f".{number}" if number else "")) for number in range(max(1, keep))]
    with explained("back up", path), open_folder(os.path.dirname(path)) as folder:
        try:
            source = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        try:
            refuse_special(os.fstat(source), path)
            with Staged(folder) as temp:
                while block := os.read(source, _COPY_BLOCK):
                    write_all(temp.fd, block)
                temp.seal(0o600, os.fstat(source))
                _rotate(folder, [copy.name for copy in copies])
                temp.replace(copies[0].name)
        finally:
            let_go(source)
        sync_names(folder)
    return copies[0]


def keep_copy(path: Path, label: str) -> None:
    """Copy a file to `<path>.<label>.bak`, or to the next free name, before another form replaces it."""
    with explained("read", path):
        content = path.read_bytes()
    for number in range(1000):
        if create_new(beside(path, f".{label}.bak" + (f".{number}" if number else "")), content):
            return
    raise StorageError(f"cannot keep a copy of {shown(path)}", cure="remove old .bak files beside it")


def remove(path: Path) -> bool:
    """Remove a file; False when there was none."""
    with explained("remove", path):
        try:
            with kept(path) as elsewhere:
                if elsewhere and not os.path.lexists(path):  # nothing changes, here or there
                    return False
                elsewhere.remove()
                path.unlink()
        except FileNotFoundError:
            return False
    return True


def sweep_temps(folder: Path) -> list[str]:
    """Remove the temp files that killed writers left in a folder, and return their names; a living writer's stay."""
    with explained("clean", folder), open_folder(folder) as fd:
        with os.scandir(fd) as entries:
            names = [entry.name for entry in entries if _TEMP_NAME.fullmatch(entry.name)]
        return [name for name in names if _sweep(fd, name)]


def _sweep(folder: int, name: str) -> bool:
    """Remove one temp file if its writer is gone. It is removed while locked: a writer that is about to lock it sees that."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or not found.st_nlink:
            return False
        os.unlink(name, dir_fd=folder)
        return True
    except OSError:
        return False  # its writer lives, or another sweep was faster
    finally:
        let_go(fd)


def _through_links(path: Path) -> str:
    if not path.is_symlink():
        return os.fspath(path)
    target = os.path.realpath(path)
    if Path(target).is_symlink():  # realpath gives up on a circle
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return target


def _lstat(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _regular_or_none(folder: int, name: str) -> os.stat_result | None:
    found = _lstat(folder, name)
    if found is not None:
        refuse_special(found, name)
    return found


def _rotate(folder: int, names: list[str]) -> None:
    for younger, older in reversed(list(itertools.pairwise(names))):
        try:
            with kept_at(folder, younger) as elsewhere:
                if elsewhere and _lstat(folder, younger) is None:
                    continue
                elsewhere.move(older)
                os.rename(younger, older, src_dir_fd=folder, dst_dir_fd=folder)
        except FileNotFoundError:
            continue
