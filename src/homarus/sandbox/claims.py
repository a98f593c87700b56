"""Who may change files where, among all processes of one home. A yes is to a command as it was shown, with the files it uses.

While a host command that needs a yes is asked for or runs, nothing sandboxed and no file tool changes anything in its folders;
and it is not asked for while something sandboxed runs there. A claim is a locked file: it ends with its process, whatever
ends that.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from homarus.core.errors import ToolError
from homarus.core.text import single_line
from homarus.storage.atomic import ensure_dir

# host: a command that was allowed. shared: what changes files. alone: what changes files while nothing else may.
Kind = Literal["host", "shared", "alone"]
_MUTEX = ".lock"
_NEW = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class _Entry(msgspec.Struct, frozen=True):
    kind: Kind
    paths: tuple[str, ...]
    what: str

    def against(self, other: _Entry) -> str:
        if self.kind == other.kind and self.kind != "alone":
            return ""
        pairs = ((one, two) for one in self.paths for two in other.paths)
        return next((max(one, two, key=len) for one, two in pairs if _overlap(one, two)), "")


class Claim:
    """One claim, held until it is released or its process ends."""

    def __init__(self, file: str = "", fd: int = -1) -> None:
        self._file = file
        self._fd = fd

    def release(self) -> None:
        """Let go; a second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.unlink(self._file)  # noqa: PTH108
            os.close(fd)

    __del__ = release


class Claims:
    """The claims of one home; without a folder there are none."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    @classmethod
    def of(cls, state_dir: Path | None) -> Claims:
        return cls(state_dir / "homarus" / "claims" if state_dir else None)

    def take(self, kind: Kind, paths: Iterable[str], what: str) -> Claim:
        """Return a claim, or raise with who is in the way. Paths are real and absolute."""
        entry = _Entry(kind, tuple(dict.fromkeys(paths)), single_line(what, 80))
        if self._folder is None or not entry.paths:
            return Claim()
        ensure_dir(self._folder)
        mutex = os.open(self._folder / _MUTEX, _NEW, 0o600)
        try:
            fcntl.flock(mutex, fcntl.LOCK_EX)  # for as long as it takes to look around
            for name in os.listdir(self._folder):  # noqa: PTH208
                other = _held(f"{self._folder}/{name}") if name != _MUTEX else None
                if other and (where := entry.against(other)):
                    raise _in_the_way(entry, other, where)
            file = f"{self._folder}/{os.getpid()}-{os.urandom(8).hex()}"
            fd = os.open(file, _NEW | os.O_EXCL, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(fd, msgspec.json.encode(entry))
            return Claim(file, fd)
        finally:
            os.close(mutex)


def _held(file: str) -> _Entry | None:
    """Return what a claim says; one that nobody holds any more is removed."""
    try:
        fd = os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return msgspec.json.decode(os.pread(fd, 1 << 20, 0), type=_Entry)
    else:
        with contextlib.suppress(FileNotFoundError):  # it was released just now
            os.unlink(file)  # noqa: PTH108
        return None
    finally:
        os.close(fd)


def _in_the_way(entry: _Entry, other: _Entry, where: str) -> ToolError:
    if other.kind == "shared":
        why = f"'{other.what}' is running and could change {where}, which '{entry.what}' would use"
        return ToolError(why, cure="wait for it, or end it with process kill")
    why = f"'{other.what}' was allowed as {where} is, or is being asked for, and '{entry.what}' could change that"
    return ToolError(why, cure="wait until it has ended, or end it with process kill")


def _overlap(one: str, other: str) -> bool:
    one, other = f"{one.rstrip('/')}/", f"{other.rstrip('/')}/"
    return one.startswith(other) or other.startswith(one)
