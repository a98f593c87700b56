"""What each agent used today: one line per model call in a file per day, so that restarts and other processes count, too.

The budgets of a day are held against it. What a conversation used stands in its transcript; nothing is lost with these
files but today's bound.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
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
    """The sums of one day, and how far its file was read."""

    def __init__(self) -> None:
        self.sums: dict[str, Spent] = {}
        self.offset = 0


class Spending:
    """Sums per agent and day. Several processes may add to the same day."""

    def __init__(self, folder: Path, today: Callable[[str], date]) -> None:
        self._folder = folder
        self._today = today
        self._days: dict[date, _Day] = {}

    def today(self, agent_id: str) -> Spent:
        """Return what an agent used today, whichever process used it."""
        day = self._today(agent_id)
        known = self._days.setdefault(day, _Day())
        path = self._path(day)
        if path.exists():
            for line in read_lines(path, start=known.offset):
                if line.torn:
                    break
                known.offset = line.offset + len(line.raw) + 1
                _count(known.sums, line.value)
        return known.sums.get(agent_id, Spent())

    def add(self, agent_id: str, spent: Spent) -> None:
        """Count a call. A disk that takes nothing more must not end the turn that was paid for."""
        day = self._today(agent_id)
        path = self._path(day)
        try:
            if not path.exists():
                ensure_dir(self._folder)
                self._forget_old(day)
            with JsonlWriter.open(path) as writer:
                writer.append(msgspec.to_builtins(_Line(agent_id, spent)), durable=False)
        except StorageError as problem:
            _log.warning("today's spending could not be written down: %s", problem)
            _count(self._days.setdefault(day, _Day()).sums, msgspec.to_builtins(_Line(agent_id, spent)))

    def _path(self, day: date) -> Path:
        return self._folder / f"{day.isoformat()}.jsonl"

    def _forget_old(self, day: date) -> None:
        self._days = {known: sums for known, sums in self._days.items() if abs((day - known).days) < KEPT_DAYS}
        for path in self._folder.glob("????-??-??.jsonl"):
            try:
                old = (day - date.fromisoformat(path.stem)).days >= KEPT_DAYS
            except ValueError:
                continue  # not one of ours
            if old:
                path.unlink(missing_ok=True)


def _count(sums: dict[str, Spent], record: object) -> None:
    try:
        line = msgspec.convert(record, _Line)
    except msgspec.ValidationError:
        return  # a line that a crash cut, or that somebody else wrote
    sums[line.agent] = sums.get(line.agent, Spent()).plus(line.spent)
