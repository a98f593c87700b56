"""A control group around one command. It counts for root too, whom the kernel's limit on processes does not hold.

For an ordinary user the limits that a command inherits are enough, and nothing is made here.
"""

from __future__ import annotations

import atexit
import contextlib
import os
from functools import cache
from pathlib import Path

from homarus.sandbox.marks import is_orphan, owned
from homarus.sandbox.spec import Limits

_TOP = Path("/sys/fs/cgroup")
_PREFIX = "homarus-"


class Cage:
    """One group, made before its command starts and removed after its end."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @property
    def entrance(self) -> str:
        """Return the file into which a process writes its number to enter."""
        return f"{self._folder}/cgroup.procs"

    def processes(self) -> list[int]:
        """Return who is in it: also what has left the command's session and thrown its mark away."""
        try:
            return [int(number) for number in Path(self.entrance).read_text(encoding="ascii").split()]
        except OSError:
            return []

    def close(self) -> None:
        """Remove the group. One that a dying process has not left yet is removed with the next, or when we end."""
        _remove(self._folder)


# Groups whose last process was still going when its command had ended.
_left: set[str] = set()


def make(mark: str, limits: Limits) -> Cage | None:
    """Return a group with the limits, or None where groups cannot be made or are not needed."""
    base = _base(os.getuid())
    if base is None or not limits.processes:
        return None
    _remove_left()
    folder = f"{base}/{_PREFIX}{owned(mark)}"
    try:
        os.mkdir(folder)  # noqa: PTH102 - this runs before every command, and a Path costs as much as the call
        # The wrapping itself takes a few: bubblewrap twice, and the shell that sets the limits.
        _put(f"{folder}/pids.max", limits.processes + 4)
        if limits.memory_bytes:
            with contextlib.suppress(FileNotFoundError):  # version 1 keeps memory elsewhere
                _put(f"{folder}/memory.max", limits.memory_bytes)
    except OSError:
        with contextlib.suppress(OSError):
            os.rmdir(folder)  # noqa: PTH106
        return None
    return Cage(folder)


def _put(file: str, value: int) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, b"%d" % value)
    finally:
        os.close(fd)


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


def sweep() -> None:
    """Remove the groups of processes of ours that were killed."""
    base = _base(os.getuid())
    if base is not None:
        _sweep(base)


def _sweep(base: Path) -> None:
    for old in base.glob(f"{_PREFIX}*"):
        if is_orphan(old.name.removeprefix(_PREFIX)):
            _remove(str(old))


def _remove(folder: str) -> None:
    if not _removed(folder):
        if not _left:
            atexit.register(_remove_left)
        _left.add(folder)


def _remove_left() -> None:
    _left.difference_update([old for old in _left if _removed(old)])


def _removed(folder: str) -> bool:
    try:
        os.rmdir(folder)  # noqa: PTH106 - the kernel refuses while a process is in it
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
