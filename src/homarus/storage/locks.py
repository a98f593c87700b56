"""One owner per file or folder: a kernel lock that dies with its process. What the lock protects is the caller's matter."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from homarus.core.clock import iso_ms
from homarus.core.errors import Locked
from homarus.core.text import single_line
from homarus.storage.faults import explained, let_go, shown, write_all
from homarus.storage.record import decode, encode

_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
POLL = 0.025
# How long a short piece of work in another process is waited for: hundreds of them may stand in line on a slow disk.
PATIENCE = 60.0
_MAX_CONTENT = 65536
_held: set[OwnerLock] = set()  # by strong reference: a lock ends by release or with the process, not by forgetting it


class OwnerLock:
    """Ownership of one lock file, held until `release` or the end of the process, whatever ends it.

    The file says who holds it, for people and for messages; only the kernel's lock decides. A forked child does not
    own what its parent owns.
    """

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd
        _held.add(self)

    @classmethod
    def acquire(
        cls,
        path: Path,
        *,
        purpose: str,
        now: datetime,
        extra: Mapping[str, Any] | None = None,
        wait: float = 0.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> OwnerLock:
        """Take the lock at once (or within `wait` seconds), or raise `Locked` that names the holder and the cure."""
        content = encode({**(extra or {}), "pid": os.getpid(), "startedAt": iso_ms(now), "purpose": purpose})
        with explained("lock", path):
            # A process that only looks at the lock holds it for an instant; that is waited out in any case.
            for _ in range(max(4, int(wait / POLL) + 1)):
                fd = _try_lock(path)
                if fd is not None:
                    return cls._settle(path, fd, content)
                owner = _read_holder(path)
                if wait < POLL and is_alive(owner.get("pid")):
                    break
                sleep(POLL)
        raise _locked(path, owner)

    @classmethod
    def _settle(cls, path: Path, fd: int, content: bytes) -> OwnerLock:
        try:
            os.ftruncate(fd, 0)
            write_all(fd, content)
        except BaseException:
            _remove(path, fd)
            let_go(fd)
            raise
        return cls(path, fd)

    def say(self, **facts: Any) -> None:
        """Tell those who read the lock file something more, or with None nothing more of that kind."""
        if self._fd < 0:
            return
        try:
            said = _parse(os.pread(self._fd, _MAX_CONTENT, 0)) | facts
            content = encode({name: value for name, value in said.items() if value is not None})
            # Written at once and never shorter than before, so that nobody finds half of it.
            os.pwrite(self._fd, content.ljust(os.fstat(self._fd).st_size), 0)
        except OSError:
            pass  # it only informs

    @property
    def held(self) -> bool:
        return self._fd >= 0

    def release(self) -> None:
        """Give the lock up and remove its file; a second call, or one in a forked child, does nothing."""
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        _held.discard(self)
        _remove(self.path, fd)
        let_go(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _abandon(self) -> None:
        """In a forked child: close the copied descriptor, which leaves the parent's lock alone."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            let_go(fd)


def held_paths() -> set[str]:
    """Return the lock files that this process holds."""
    return {os.fspath(lock.path) for lock in list(_held)}


@contextmanager
def alone_in(folder: Path, *, wait: float = PATIENCE, sleep: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Keep every process out that asks the same for this folder; the lock is the folder itself and leaves no file."""
    with explained("lock", folder):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        wait_for(fd, folder, wait=wait, sleep=sleep)
        yield
    finally:
        let_go(fd)


def wait_for(fd: int, path: Path, *, wait: float = PATIENCE, sleep: Callable[[float], None] = time.sleep) -> None:
    """Take the kernel's lock on an open file or folder; it ends with the descriptor. Raise `Locked` when `wait` is over."""
    with explained("lock", path):
        for _ in range(int(wait / POLL) + 1):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                sleep(POLL)
    raise Locked(f"{shown(path)} is in use by another process", cure="wait until it ends, or stop it")


def holder(path: Path) -> dict[str, Any] | None:
    """Return what the living owner wrote into the lock file ({} if it cannot be read), or None when nobody holds it."""
    with explained("look at lock", path):
        try:
            fd = os.open(path, os.O_RDONLY | _FLAGS)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
        except BlockingIOError:
            return _parse(os.pread(fd, _MAX_CONTENT, 0))
        finally:
            let_go(fd)


def _try_lock(path: Path) -> int | None:
    """Return a locked descriptor of the file that has this name now, or None when somebody else has it."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same_file(fd, path):
                kept, fd = fd, -1
                return kept
        except BlockingIOError:
            return None
        finally:
            if fd >= 0:
                let_go(fd)


def _same_file(fd: int, path: Path) -> bool:
    try:
        named = path.lstat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(fd), named)


def _read_holder(path: Path) -> dict[str, Any]:
    try:
        fd = os.open(path, os.O_RDONLY | _FLAGS)
    except OSError:
        return {}
    try:
        return _parse(os.pread(fd, _MAX_CONTENT, 0))
    finally:
        let_go(fd)


def _parse(raw: bytes) -> dict[str, Any]:
    value, _problem = decode(raw)
    return value if isinstance(value, dict) else {}


def is_alive(pid: object) -> bool:
    if not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def is_suspended(pid: int) -> bool:
    """Say whether a process was stopped, as by Ctrl-Z, and does nothing until it is told to go on; False where the system does not tell."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
    except OSError:
        return False
    return after_name.split()[:1] in (["T"], ["t"])


def _locked(path: Path, owner: dict[str, Any]) -> Locked:
    pid = owner.get("pid")
    pid = pid if isinstance(pid, int) and is_alive(pid) else None
    who = "this process" if pid == os.getpid() else f"process {pid}" if pid else "another process"
    purpose = owner.get("purpose")
    doing = f" ({single_line(str(purpose), 100)})" if purpose else ""
    if pid == os.getpid():
        cure = "release it first"
    else:
        cure = f"stop process {pid}, or wait until it ends" if pid else "wait until it ends"
    return Locked(f"{shown(path)} is held by {who}{doing}", pid=pid, cure=cure)


def _remove(path: Path, fd: int) -> None:
    """Remove our file while it is still locked: whoever makes a new one at this name is alone with that one."""
    try:
        if _same_file(fd, path):
            path.unlink()
    except OSError:
        pass  # the name only informs; the kernel's lock goes with the descriptor


def _after_fork_in_child() -> None:
    for lock in list(_held):
        lock._abandon()  # noqa: SLF001  # this module's own class
    _held.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
