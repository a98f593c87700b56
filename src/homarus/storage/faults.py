"""System calls at their edge: errors become `StorageError` with path and cure; writes and syncs are complete or fail."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from homarus.core.errors import StorageError
from homarus.core.text import single_line

_CURES = {
    errno.ENOSPC: "the disk is full: free some space and try again",
    errno.EDQUOT: "the disk quota is used up: free some space and try again",
    errno.EFBIG: "the file is larger than this system allows: raise the limit (ulimit -f) or start a new file",
    errno.EROFS: "the file system is mounted read-only: mount it writable or choose another folder",
    errno.EACCES: "give this user access (chown or chmod), or choose another folder",
    errno.EPERM: "give this user access (chown, chmod or chattr -i), or choose another folder",
    errno.EIO: "the disk reports an error: check it before you trust this folder again",
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n)",
    errno.ENFILE: "too many files are open on this machine: close programs or raise fs.file-max",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOENT: "create it first, or check the path",
    errno.ENOTDIR: "a part of the path is a file: check the path",
    errno.EISDIR: "a folder is in the way: move it, or check the path",
    errno.EEXIST: "something is in the way: move it, or check the path",
    errno.ELOOP: "a symbolic link is in the way or points to itself: replace it by the real file or folder",
    errno.EBUSY: "the file itself is a mount point: mount its folder instead",
    errno.EXDEV: "it lies on another file system or layer: copy it by hand",
    errno.ENOLCK: "this file system has no locks: move the folder to a local disk",
    errno.ENOTSUP: "this file system cannot do that: move the folder to a local disk",
    errno.ESTALE: "the network file system lost the file: mount it again",
}
_MISSING = (errno.ENOENT, errno.ENOTDIR)
# What a file system answers that cannot sync this kind of descriptor; every other error is a real failure.
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EROFS)
_HAS_DATASYNC = hasattr(os, "fdatasync") and not hasattr(fcntl, "F_FULLFSYNC")


class Missing(StorageError):
    """There is no such file or folder. Its own class, so that absence is never mistaken for damage."""


def shown(path: str | os.PathLike[str]) -> str:
    """Return a path fit for one line of a message, whatever bytes its name is made of."""
    try:
        raw = os.fsencode(path)
    except UnicodeEncodeError:  # half of a surrogate pair: no file has such a name, but a configuration may
        raw = os.fspath(path).encode("utf-8", "backslashreplace")
    return single_line(raw.decode("utf-8", "backslashreplace"), 500)


def explain(error: OSError, action: str, path: str | os.PathLike[str]) -> StorageError:
    """Return the error to raise for a failed system call: what was tried, where, why and what helps."""
    code = error.errno or 0
    kind = Missing if code in _MISSING else StorageError
    reason = os.strerror(code) if code else str(error)
    return kind(f"cannot {action} {shown(path)}: {reason}", cure=_CURES.get(code, ""))


@contextmanager
def explained(action: str, path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn every `OSError` of the block, and a path that no file can have, into a `StorageError`."""
    try:
        yield
    except OSError as error:
        raise explain(error, action, path) from error
    except ValueError as error:
        if isinstance(error, UnicodeEncodeError) or "null" in str(error):
            message = f"cannot {action} {shown(path)}: no file can have this name"
            raise StorageError(message, cure="check the path") from error
        raise


def refuse_special(found: os.stat_result, path: str | os.PathLike[str]) -> None:
    """Raise for what is no regular file: devices and pipes stay alone, and a folder is no file."""
    if stat.S_ISDIR(found.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        raise StorageError(f"{shown(path)} is not a regular file", cure="check the path")


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write every byte or raise; the system may take a write in pieces (EINTR is repeated by Python itself)."""
    written = os.write(fd, data)
    if written == len(data):
        return  # almost always
    view = memoryview(data)[written:]
    while view:
        written = os.write(fd, view)
        if not written:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        view = view[written:]


def let_go(fd: int) -> None:
    """Close a descriptor that was only read, is already synced or no longer matters: an error says nothing new here."""
    try:
        os.close(fd)
    except OSError:
        pass


def sync_file(fd: int) -> None:
    """Return only when the file's content and size are on the disk; a failed sync is never repeated as if it could heal."""
    full = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone stops at the drive's cache
    if full is not None:
        try:
            fcntl.fcntl(fd, full)
            return
        except OSError as error:
            if error.errno not in _NO_SYNC:
                raise
    os.fsync(fd)


def sync_data(fd: int) -> None:
    """Like `sync_file`, without the metadata that a reader does not need."""
    if _HAS_DATASYNC:
        os.fdatasync(fd)
    else:
        sync_file(fd)


def sync_folder(fd: int) -> None:
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


@contextmanager
def open_folder(path: str | os.PathLike[str]) -> Iterator[int]:
    """Hold a descriptor of a folder, so that work inside it survives the folder being renamed."""
    fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        let_go(fd)


def beside(path: Path, suffix: str) -> Path:
    """Return a path in the same folder with a suffix, its name cut so that the whole fits the usual 255 bytes."""
    room = 255 - len(os.fsencode(suffix))
    name = os.fsencode(path.name)
    if len(name) > room:
        name = name[:room].decode("utf-8", "ignore").encode() or name[:room]
    return path.with_name(os.fsdecode(name) + suffix)
