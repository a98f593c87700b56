"""What each agent used today: lines in a file per day, so that restarts and other processes count, too.

The budgets of a day are held against it: where there is one, each model call is a line, otherwise each turn. What a conversation used stands in its transcript; nothing is lost with these
files but today's bound.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path

import msgspec

from homarus.agent.budget import Spent
from homarus.core.errors import StorageError
from homarus.storage.atomic import ensure_dir
from homarus.storage.jsonl import JsonlWriter, read_lines

KEPT_DAYS = 3  # agents in other time zones may still be in yesterday

_log = logging.getLogger(__name__)


class _Line(msgspec.Struct, frozen=True, omit_defaults=True):
    agent: str
    spent: Spent


class _Day:
    """The sums of one day, how far its file was read, and who writes to it."""

    def __init__(self, day: date, folder: Path) -> None:
        self._day = day
        self.path = folder / f"{day.isoformat()}.jsonl"
        self.sums: dict[str, Spent] = {}
        self.offset = 0
        self._writer: JsonlWriter | None = None

    def append(self, line: bytes) -> None:
        """Add a line. The first one of a day takes the files of days long gone away."""
        if self._writer is None:
            ensure_dir(self.path.parent)
            self._writer = JsonlWriter.open(self.path)
            for path in self.path.parent.glob("????-??-??.jsonl"):
                if _age(path, self._day) >= KEPT_DAYS:
                    path.unlink(missing_ok=True)
        self._writer.append(line, durable=False)

    def close(self) -> None:
        """Let go of the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class Spending:
    """Sums per agent and day. Several processes may add to the same day."""

    def __init__(self, folder: Path, today: Callable[[str], date]) -> None:
        self._folder = folder
        self._today = today
        self._days: dict[date, _Day] = {}

    def today(self, agent_id: str) -> Spent:
        """Return what an agent used today, whichever process used it."""
        known = self._day(agent_id)
        if known.path.exists():
            for line in read_lines(known.path, start=known.offset):
                if line.torn:
                    break
                known.offset = line.offset + len(line.raw) + 1
                _count(known.sums, line.value)
        return known.sums.get(agent_id, Spent())

    def add(self, agent_id: str, spent: Spent) -> None:
        """Count a call. A disk that takes nothing more must not end the turn that was paid for."""
        known = self._day(agent_id)
        line = _Line(agent_id, spent)
        try:
            known.append(msgspec.json.encode(line))
        except StorageError as problem:
            known.close()
            _log.warning("today's spending could not be written down: %s", problem)
            known.sums[agent_id] = known.sums.get(agent_id, Spent()).plus(spent)

    def close(self) -> None:
        """Let go of the files."""
        for day in self._days.values():
            day.close()

    def _day(self, agent_id: str) -> _Day:
        day = self._today(agent_id)
        if day not in self._days:
            for known in [known for known in self._days if abs((day - known).days) >= KEPT_DAYS]:
                self._days.pop(known).close()
            self._days[day] = _Day(day, self._folder)
        return self._days[day]


class Tally:
    """Writes down what one turn used, for all agents that answer for it."""

    def __init__(self, spending: Spending, agents: Iterable[str], *, at_once: bool) -> None:
        self._spending = spending
        self._agents = tuple(agents)
        self._at_once = at_once
        self._held = Spent()

    def __call__(self, spent: Spent) -> None:
        """Count a call, or the time that the turn took at its end."""
        self._held = self._held.plus(spent)
        if self._at_once or spent.seconds:
            held, self._held = self._held, Spent()
            for agent in self._agents:
                self._spending.add(agent, held)


def _count(sums: dict[str, Spent], record: object) -> None:
    try:
        line = msgspec.convert(record, _Line)
    except msgspec.ValidationError:
        return  # a line that a crash cut, or that somebody else wrote
    sums[line.agent] = sums.get(line.agent, Spent()).plus(line.spent)


def _age(path: Path, today: date) -> int:
    """Return how many days old a file is; one that is not ours is new for ever."""
    try:
        return (today - date.fromisoformat(path.stem)).days
    except ValueError:
        return 0
