"""The mark in the environment of every command, by which it and all that it starts are found, wherever they went.

It also says whose command it is: our process and the moment when that began. Linux only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

MARK = "HOMARUS_COMMAND"
_NEEDLE = f"{MARK}=".encode()
_BLOCK = 65536
_MAX_PIDS = 4096
# Up to this many numbers are looked at one by one; beyond that the list of all processes is shorter.
_MAX_SPAN = 256


def owned(mark: str) -> str:
    """Return a mark that also says whose command it is."""
    return f"{_self(os.getpid())}.{mark}"


def is_orphan(value: str) -> bool:
    owner, _, rest = value.partition(".")
    started = rest.rpartition(".")[0]
    return owner.isdigit() and bool(started) and start_of(int(owner)) != started


def all_marked() -> list[tuple[int, str]]:
    """Return every process that carries a mark, and the mark."""
    found: list[tuple[int, str]] = []
    for pid in _pids(0):
        found += [(pid, value) for value in _marks(pid)]
        if len(found) >= _MAX_PIDS:
            break
    return found


def left_of(leader: int, mark: str, *, since: int, marked: bool) -> list[int]:
    """Return what a command of ours has left: who lives in its leader's session and, where asked for, who carries its mark.

    Its leader is not among them. `since` is a process that nothing of it is older than, or zero.
    """
    found, own = [], owned(mark)
    for pid in _pids(since):
        if pid != leader and (_lives_in(leader, pid) or (marked and own in _marks(pid))):
            found.append(pid)
    return found


def family(leader: int) -> list[int]:
    """Return a process, all that live in its session, and all that these started, as far as they live."""
    parents: dict[int, int] = {}
    found = {leader}
    for pid in _pids(0):
        facts = _slurp(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        if facts and facts[0] not in b"ZX":
            parents[pid] = int(facts[1])
            if int(facts[3]) == leader:
                found.add(pid)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found.intersection(parents))


def _lives_in(session: int, pid: int) -> bool:
    facts = _slurp(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return bool(facts) and int(facts[3]) == session and facts[0] not in b"ZX"


def _marks(pid: int) -> list[str]:
    data = _slurp(f"/proc/{pid}/environ")
    if _NEEDLE not in data:
        return []
    values = [part[len(_NEEDLE) :] for part in data.split(b"\x00") if part.startswith(_NEEDLE)]
    return [value.decode("utf-8", "replace") for value in values]


def start_of(pid: int) -> str:
    """Return the moment when a process began, in the kernel's count: with its number, this names one process for good."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "0"


@cache
def _self(pid: int) -> str:
    return f"{pid}.{start_of(pid)}"


def _pids(since: int) -> Sequence[int]:
    """Return the numbers under which processes may be found: those that were given out since one began, if that is few."""
    if since:
        newest = _slurp("/proc/loadavg").rpartition(b" ")[2].strip()
        if newest.isdigit() and since <= int(newest) < since + _MAX_SPAN:
            return range(since, int(newest) + 1)
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - pathlib costs more than the rest
    except OSError:
        return ()


def _slurp(path: str) -> bytes:
    """Return the content of a small file of the kernel's, nothing if it is gone meanwhile or not ours."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        data = b""
        while block := os.read(fd, _BLOCK):
            data += block
        return data
    except OSError:
        return b""
    finally:
        os.close(fd)
