"""A control group around one command. It counts for root too, whom the kernel's limit on processes does not hold.

For an ordinary user the limits that a command inherits are enough, and nothing is made here.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from homarus.sandbox.ownership import is_orphan, owned
from homarus.sandbox.spec import Limits

_TOP = Path("/sys/fs/cgroup")
_PREFIX = "homarus-"
_V1_MEMORY = "memory.limit_in_bytes"


class Cage:
    """The groups of one command, made before it starts and removed after its end: one, or two where each limit has its own."""

    def __init__(self, *folders: str) -> None:
        self._folders = folders

    @property
    def entrances(self) -> tuple[str, ...]:
        """Return the files into which a process writes its number to enter."""
        return tuple(f"{folder}/cgroup.procs" for folder in self._folders)

    def processes(self) -> list[int]:
        """Return who is in it: also what has left the command's session and thrown its mark away."""
        try:
            return [int(number) for number in Path(self.entrances[0]).read_text(encoding="ascii").split()]
        except OSError:
            return []

    def close(self) -> None:
        """Remove the groups. One that a dying process has not left yet is removed with the next, or when we end."""
        for folder in self._folders:
            _remove(folder)


# Groups whose last process was still going when its command had ended.
_left: set[str] = set()


def make(mark: str, limits: Limits) -> Cage | None:
    """Return groups with the limits, or None where groups cannot be made or are not needed."""
    bases = _bases(os.getuid())
    if not bases or not limits.processes:
        return None
    _remove_left()
    name = f"{_PREFIX}{owned(mark)}"
    counting = f"{bases[0]}/{name}"
    # The wrapping itself takes a few: bubblewrap twice, and the shell that sets the limits.
    if not _made(counting, {"pids.max": limits.processes + 4}):
        return None
    if not limits.memory_bytes:
        return Cage(counting)
    if bases[0] == bases[-1]:
        _bound(counting, {"memory.max": limits.memory_bytes, "memory.swap.max": 0})
        return Cage(counting)
    weighing = f"{bases[-1]}/{name}"
    return Cage(counting, weighing) if _made(weighing, {_V1_MEMORY: limits.memory_bytes}) else Cage(counting)


def _made(folder: str, limits: Mapping[str, int]) -> bool:
    """Make one group; a group whose limits do not hold is none."""
    try:
        os.mkdir(folder)  # noqa: PTH102 - this runs before every command, and a Path costs as much as the call
        for name, value in limits.items():
            _put(f"{folder}/{name}", value)
    except OSError:
        with contextlib.suppress(OSError):
            os.rmdir(folder)  # noqa: PTH106
        return False
    return True


def _bound(folder: str, limits: Mapping[str, int]) -> None:
    """Set further limits, as far as this kernel knows them."""
    for name, value in limits.items():
        with contextlib.suppress(OSError):
            _put(f"{folder}/{name}", value)


def _put(file: str, value: int) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, b"%d" % value)
    finally:
        os.close(fd)


@cache
def _bases(uid: int) -> tuple[Path, ...]:
    """Return the folders in which groups can be made, for processes and for memory: below our own group, never beside it."""
    if uid != 0:
        return ()
    try:
        own = dict(_own_groups(Path("/proc/self/cgroup").read_text(encoding="ascii")))
    except OSError:
        return ()
    if (_TOP / "cgroup.controllers").exists():
        folder = _TOP / own.get("", "/").lstrip("/")
        folders = [folder] if _enabled(folder) else []
    else:
        folders = [_TOP / kind / own.get(kind, "/").lstrip("/") for kind in ("pids", "memory")]
    usable = [folder for folder in folders if folder.is_dir() and os.access(folder, os.W_OK)]
    if usable[:1] != folders[:1]:
        return ()  # without a count of processes the rest is not worth it
    for old in [old for folder in usable for old in _orphaned(folder)]:
        _remove(old)
    return tuple(usable)


def sweep() -> None:
    """End what is still in the groups of processes of ours that were killed, and remove them. For a start-up."""
    for base in _bases(os.getuid()):
        for old in _orphaned(base):
            for pid in Cage(old).processes():
                if pid:  # zero is a process that cannot be seen from here
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)
            _remove(old)


def _orphaned(base: Path) -> list[str]:
    return [str(old) for old in base.glob(f"{_PREFIX}*") if is_orphan(old.name.removeprefix(_PREFIX))]


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
