"""Taking the time: CPU of child processes and calls, wall time where the disk decides, always alternating with a floor."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec


class Row(msgspec.Struct, frozen=True):
    """One line of the table. `ratio` is the value divided by what stands in `against`; `target` is its upper limit."""

    item: str
    value: float
    unit: str
    against: str = ""
    ratio: float | None = None
    target: float | None = None

    @property
    def missed(self) -> bool:
        """Whether there is a target and the ratio is above it."""
        return self.target is not None and self.ratio is not None and self.ratio > self.target


class Spent(msgspec.Struct, frozen=True):
    """What one run of a program took: CPU seconds (user and system) and wall seconds."""

    cpu: float
    wall: float


class Ctx(msgspec.Struct):
    """What a measurement gets: a throw-away folder, the environment, and how often to repeat."""

    work: Path
    env: Mapping[str, str]
    runs: int = 15

    def homarus(self) -> list[str]:
        """Return the command under test: BENCH_HOMARUS_BIN, else the script beside this Python, else the module."""
        chosen = self.env.get("BENCH_HOMARUS_BIN") or Path(sys.executable).with_name("homarus")
        return [str(chosen)] if Path(chosen).exists() else [sys.executable, "-m", "homarus"]

    def folder(self, name: str) -> Path:
        """Return a fresh empty folder."""
        path = self.work / name
        path.mkdir(parents=True)
        return path

    def run(self, command: Sequence[str]) -> Spent:
        """Run a program once in an empty home, its output thrown away; a failing program is a failing measurement."""
        home = self.work / "home"
        home.mkdir(exist_ok=True)
        kept = {name: value for name, value in self.env.items() if name in ("PATH", "LANG", "PYTHONPATH", "TMPDIR")}
        begin = time.perf_counter()
        child = subprocess.Popen(
            command,
            env={**kept, "HOME": str(home), "NO_COLOR": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - begin
        if child.returncode:
            raise SystemExit(f"bench: {' '.join(command)} ended with {child.returncode}")
        return Spent(usage.ru_utime + usage.ru_stime, wall)

    def programs(self, commands: Mapping[str, Sequence[str]]) -> dict[str, Spent]:
        """Run programs in turns, so that a busy moment hits all of them; return the medians by label."""
        for command in commands.values():
            self.run(command)  # warm: byte code is compiled, files are in memory
        taken: dict[str, list[Spent]] = {label: [] for label in commands}
        for _ in range(self.runs):
            for label, command in commands.items():
                taken[label].append(self.run(command))
        return {
            label: Spent(
                statistics.median(spent.cpu for spent in all_spent),
                statistics.median(spent.wall for spent in all_spent),
            )
            for label, all_spent in taken.items()
        }

    def calls(
        self,
        functions: Mapping[str, Callable[[], object]],
        *,
        number: int = 1,
        clock: Callable[[], float] = time.process_time,
    ) -> dict[str, float]:
        """Call functions in turns, `number` times each per round; return the median seconds of one call by label."""
        taken: dict[str, list[float]] = {label: [] for label in functions}
        for round_number in range(self.runs + 1):
            for label, function in functions.items():
                begin = clock()
                for _ in range(number):
                    function()
                if round_number:  # the first round warms up
                    taken[label].append((clock() - begin) / number)
        return {label: statistics.median(seconds) for label, seconds in taken.items()}


def against(item: str, seconds: float, label: str, floor: float, target: float | None = None) -> Row:
    """Return the row for a duration and the floor that was measured with it."""
    ratio = seconds / floor if floor else None
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * scale >= 1:
            return Row(item, seconds * scale, unit, label, ratio, target)
    return Row(item, seconds * 1e9, "ns", label, ratio, target)
