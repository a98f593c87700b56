"""A control group around one command. It counts for root too, whom the kernel's limit on processes does not hold.

For an ordinary user the limits that a command inherits are enough, and nothing is made here.
"""

from __future__ import annotations

import contextlib
import os
import time
from functools import cache
from pathlib import Path

from homarus.sandbox.spec import Limits

_TOP = Path("/sys/fs/cgroup")
_PREFIX = "homarus-"


class Cage:
    """One group, made before its command starts and removed after its end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def entrance(self) -> str:
        """Return the file into which a process writes its number to enter."""
        return str(self._folder / "cgroup.procs")

    def close(self) -> None:
        """Remove the group. One that a dying process has not left yet is removed with the next."""
        if not _removed(self._folder):
            _left.add(self._folder)


# Groups whose last process was still going when its command had ended.
_left: set[Path] = set()
_STALE_SECONDS = 60.0


def make(mark: str, limits: Limits) -> Cage | None:
    """Return a group with the limits, or None where groups cannot be made or are not needed."""
    base = _base(os.getuid())
    if base is None or not limits.processes:
        return None
    for old in list(_left):
        if _removed(old):
            _left.discard(old)
    folder = base / f"{_PREFIX}{mark}"
    try:
        folder.mkdir()
        # The wrapping itself takes a few: bubblewrap twice, and the shell that sets the limits.
        (folder / "pids.max").write_text(str(limits.processes + 4))
        memory = folder / "memory.max"
        if limits.memory_bytes and memory.exists():
            memory.write_text(str(limits.memory_bytes))
    except OSError:
        with contextlib.suppress(OSError):
            folder.rmdir()
        return None
    return Cage(folder)


@cache
def _base(uid: int) -> Path | None:
    """Return the folder in which groups can be made: below our own group, never beside it."""
    if uid != 0:
        return None
    try:
        own = dict(_own_groups(Path("/proc/self/cgroup").read_text(encoding="ascii")))
    except OSError:
        return None
    if (_TOP / "cgroup.controllers").exists():
        folder = _TOP / own.get("", "/").lstrip("/")
        usable = _enabled(folder)
    else:
        folder = _TOP / "pids" / own.get("pids", "/").lstrip("/")
        usable = folder.is_dir()
    if not usable or not os.access(folder, os.W_OK):
        return None
    _sweep(folder)
    return folder


def _sweep(folder: Path) -> None:
    """Remove what a program that was killed left behind. A young group may be one whose command is about to enter."""
    for old in folder.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - old.stat().st_ctime > _STALE_SECONDS:
                _removed(old)


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()  # the kernel refuses while a process is in it
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _enabled(folder: Path) -> bool:
    """Say whether children of a group of version 2 have the controller, switching it on where that is allowed."""
    control = folder / "cgroup.subtree_control"
    try:
        if "pids" not in control.read_text(encoding="ascii").split():
            control.write_text("+pids +memory")
        return "pids" in control.read_text(encoding="ascii").split()
    except OSError:
        return False


def _own_groups(text: str) -> list[tuple[str, str]]:
    found = []
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        found += [(name, path) for name in names.split(",")] if number != "0" else [("", path)]
    return found
