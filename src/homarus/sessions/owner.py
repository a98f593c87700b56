"""Who may write a transcript or the index: one process at a time, of this program or of OpenClaw.

Our own lock is the kernel's and dies with its process. OpenClaw's is a file that names a pid: it counts while that very
process lives, however old it is, and no longer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from homarus.core.clock import epoch_ms, iso_ms
from homarus.core.errors import Locked
from homarus.sessions.codec import to_ms
from homarus.storage.faults import beside
from homarus.storage.locks import OwnerLock
from homarus.storage.record import decode

_POLL = 0.025
_PURPOSE = "purpose"  # only our own lock files have it


def own(
    path: Path,
    now: datetime,
    *,
    purpose: str = "session",
    wait: float = 0.0,
    sleep: Callable[[float], None] = time.sleep,
) -> OwnerLock:
    """Take the right to write a file, or raise `Locked` with the pid of its owner and what to do about it."""
    lock = beside(path, ".lock")
    left = max(1, int(wait / _POLL))
    while (pid := _foreign_owner(lock)) is not None:
        left -= 1
        if left <= 0:
            cure = f"stop process {pid} (an OpenClaw gateway?), or wait until it ends"
            raise Locked(f"{path} is being written by process {pid}", pid=pid, cure=cure, ours=False)
        sleep(_POLL)
    # OpenClaw reads `createdAt` in the lock of a transcript and `startedAt` in that of the index.
    return OwnerLock.acquire(
        lock, purpose=f"{purpose} {path.name}", now=now, extra={"createdAt": iso_ms(now)}, wait=wait, sleep=sleep
    )


def owner_of(path: Path) -> int | None:
    """Return the pid of the process that may write a file now, or None when nobody holds it. Changes nothing."""
    from homarus.storage.locks import holder

    lock = beside(path, ".lock")
    held = holder(lock)
    if held is not None:
        pid = held.get("pid")
        return pid if isinstance(pid, int) else -1
    return _foreign_owner(lock)


def _foreign_owner(lock: Path) -> int | None:
    """Return the living process that an OpenClaw lock file names."""
    try:
        content: Any = decode(lock.read_bytes()[:65536])[0]
    except OSError:
        return None
    if not isinstance(content, dict) or _PURPOSE in content:
        return None
    pid = content.get("pid")
    if not isinstance(pid, int) or pid <= 0 or pid == os.getpid() or not _alive(pid):
        return None
    made = to_ms(content.get("createdAt")) or to_ms(content.get("startedAt")) or to_ms(content.get("acquiredAt"))
    started = _process_start(pid)
    # A process that began after the lock was made is another one that got the same number.
    return None if made and started and started > made + 2000 else pid


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _process_start(pid: int) -> int:
    """Return when a process began, in milliseconds since 1970; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        boot = next(
            int(line.split()[1])
            for line in Path("/proc/stat").read_text(encoding="utf-8").splitlines()
            if line.startswith("btime ")
        )
        seconds = boot + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration):
        return 0
    return epoch_ms(datetime.fromtimestamp(seconds, UTC))
