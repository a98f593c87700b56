"""Commands that outlived a process that was killed: found by a mark that it left, and ended by the next one.

A process that starts commands leaves a file while it lives. Where a file of a dead process lies, and only then, the
machine is searched for what that process left behind; looking through all processes at every start would cost too much.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from homarus.core.later import later
from homarus.storage.atomic import ensure_dir

if TYPE_CHECKING:
    from homarus.sandbox import ownership, process
else:
    process, ownership = later("homarus.sandbox.process"), later("homarus.sandbox.ownership")


class Orphans:
    """The marks of one home."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mark: Path | None = None
        self._swept = False

    def mark(self) -> None:
        """Note that this process starts commands. The note need not survive the machine, only the process."""
        if self._mark is None:
            ensure_dir(self._folder)
            self._mark = self._folder / f"{os.getpid()}.{ownership.start_of(os.getpid())}"
            self._mark.touch(mode=0o600)

    def sweep(self) -> list[int]:
        """End what dead processes left behind, once, and return the ids of what was ended."""
        if self._swept or not self._folder.is_dir():
            return []
        self._swept = True
        dead = [path for path in self._folder.iterdir() if _is_dead(path.name)]
        ended = process.end_orphans() if dead else []
        for path in dead:
            path.unlink(missing_ok=True)
        return ended

    def clear(self) -> None:
        """Take the mark away: everything that this process started has ended."""
        if self._mark is not None:
            self._mark.unlink(missing_ok=True)
            self._mark = None


def _is_dead(name: str) -> bool:
    pid, _, started = name.partition(".")
    return pid.isdigit() and ownership.start_of(int(pid)) != started
