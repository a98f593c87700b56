"""How much of a disk one command took: what it changed where it may write, and what it removed and still holds. Linux only.

Others write to the same disk. How much is free says that somebody takes too much, and this says who.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress

from homarus.sandbox.ownership import family

# What a command may have taken and still be none of those that fill a disk, when it is nearly full.
MODEST = 64 << 20
_COARSE_NS = 20_000_000  # the kernel's own clock, by which files change, goes in steps
_BLOCK = 512  # of st_blocks, on every disk


def is_too_much(before: int, now: int, most: int, own: int) -> bool:
    """Say whether a command must end that took `own` bytes of a disk with `before` bytes free when it began, and `now` left.

    Whoever took more than they may; when three quarters are gone, whoever took much; and everybody before nothing is left,
    because then all else stops, too.
    """
    if now < before // 8:
        return True
    return own > (min(most, MODEST) if now < before // 4 else most)


def taken(places: Iterable[str], leader: int, since_ns: int, most: int) -> int | None:
    """Return how many bytes a command took since it began; None where not all of it can be seen.

    A file that it changed counts whole. Whoever is over `most` for sure is counted no further.
    """
    total, seen, disks = 0, set[tuple[int, int]](), set[int]()
    folders = list(places)
    try:
        for place in folders:
            disks.add(os.stat(place).st_dev)  # noqa: PTH116
        while folders and total <= most:
            try:
                entries = os.scandir(folders.pop())
            except (FileNotFoundError, NotADirectoryError):
                continue
            with entries:
                for entry in entries:
                    try:
                        facts = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    if stat.S_ISDIR(facts.st_mode):
                        folders.append(entry.path)
                    if facts.st_ctime_ns >= since_ns - _COARSE_NS:
                        total += _once(facts, seen)
        for pid in family(leader) if total <= most else ():
            total += _held(pid, disks, seen)
    except OSError:
        return None  # folders without rights or without end, or a process that does not show what it holds
    return total


def _once(facts: os.stat_result, seen: set[tuple[int, int]]) -> int:
    file = (facts.st_dev, facts.st_ino)
    if file in seen:
        return 0
    seen.add(file)
    return facts.st_blocks * _BLOCK


def _held(pid: int, disks: set[int], seen: set[tuple[int, int]]) -> int:
    """Return the size of files without a name that a process keeps. Raises OSError where that cannot be known."""
    total, place = 0, f"/proc/{pid}"
    try:
        open_ones = os.listdir(f"{place}/fd")  # noqa: PTH208
        with open(f"{place}/maps", "rb") as lines:  # noqa: PTH123
            mapped = [line for line in lines if line.endswith(b" (deleted)\n")]
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it has ended
    for name in open_ones:
        with suppress(FileNotFoundError, ProcessLookupError):  # closed meanwhile
            facts = os.stat(f"{place}/fd/{name}")  # noqa: PTH116
            if stat.S_ISREG(facts.st_mode) and not facts.st_nlink and facts.st_dev in disks:
                total += _once(facts, seen)
    for line in mapped:
        disk, inode = line.split()[3:5]
        major, minor = (int(part, 16) for part in disk.split(b":"))
        if os.makedev(major, minor) in disks and (os.makedev(major, minor), int(inode)) not in seen:
            raise PermissionError("a file without a name is only mapped, and its size not told")
    return total
