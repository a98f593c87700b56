"""What a run may cost: calls, tokens, money and time, for itself and for the day.

What each agent used today is lines in a file per day, so that restarts and other processes count, too. Where there is a
budget for the day each model call is a line, otherwise each turn. What a conversation used stands in its transcript;
nothing is lost with these files but today's bound.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from homarus.core.errors import StorageError
from homarus.core.messages import Cost, Usage
from homarus.storage.atomic import ensure_dir
from homarus.storage.jsonl import JsonlWriter, read_lines

KEPT_DAYS = 3  # agents in other time zones may still be in yesterday

_log = logging.getLogger(__name__)


class Limits(Struct, frozen=True, rename="camel"):
    """Upper bounds; zero means none. They are checked before a call, so that the last one never starts."""

    calls: Annotated[int, Meta(ge=0)] = 0
    tokens: Annotated[int, Meta(ge=0)] = 0
    money: Annotated[float, Meta(ge=0)] = 0.0
    seconds: Annotated[float, Meta(ge=0)] = 0.0


UNBOUNDED = Limits()


class Spent(Struct, frozen=True):
    """What was used so far."""

    calls: int = 0
    usage: Usage = Usage()
    seconds: float = 0.0

    def add(self, usage: Usage, *, calls: int = 1) -> Spent:
        return Spent(self.calls + calls, add_usage(self.usage, usage), self.seconds)

    def plus(self, other: Spent) -> Spent:
        usage = add_usage(self.usage, other.usage)
        return Spent(self.calls + other.calls, usage, self.seconds + other.seconds)

    def after(self, seconds: float) -> Spent:
        """Return this with the time that the run has taken."""
        return replace(self, seconds=seconds)


class Budgets(Struct, frozen=True):
    """The block `agents.defaults.budget` (or an agent's own): what one run may use, and what all runs of a day may."""

    run: Limits = Limits()
    day: Limits = Limits()


def retry_limit(profiles: int) -> int:
    """Return how many failed attempts one run may make in all: more keys are more ways to try, within bounds."""
    return min(160, max(32, 24 + 8 * profiles))


class Meter:
    """Counts every model call that a turn causes: its answers, the summaries it needs, the saving of memory."""

    def __init__(
        self,
        note: Callable[[Spent], None] = lambda _spent: None,
        today: Callable[[], Spent] = Spent,
        *,
        budgets: Budgets | None = None,
        above: Meter | None = None,
    ) -> None:
        self._note = note
        self.today = today  # what all turns of the day used, this one with them
        self.budgets = budgets or Budgets()
        self.spent = Spent()
        # What sub-agents used that this turn started, and the turn that started this one: their calls are its calls.
        self._below = Spent()
        self._above = above

    def add(self, usage: Usage) -> None:
        """Count one call, at once: what a crash interrupts afterwards was paid for all the same."""
        self.spent = self.spent.add(usage)
        self._note(Spent(1, usage))
        if self._above is not None:
            self._above.join(usage)

    def join(self, usage: Usage) -> None:
        self._below = self._below.add(usage)
        if self._above is not None:
            self._above.join(usage)

    def reached(self, seconds: float = 0.0) -> Exceeded | None:
        """Return the first bound that is reached: of this run with its sub-agents, of the day, or of the run above."""
        found = None
        if self.budgets.run != UNBOUNDED:
            found = exceeded(self.spent.plus(self._below).after(seconds), self.budgets.run, whose="this run's")
        if found is None and self.budgets.day != UNBOUNDED:
            found = exceeded(self.today(), self.budgets.day, whose="today's")
        return found or (self._above.reached() if self._above is not None else None)

    def took(self, seconds: float) -> None:
        self._note(Spent(seconds=seconds))


class Exceeded(Struct, frozen=True):
    """Which bound is reached: its name, and a sentence for the user."""

    what: str
    text: str


def exceeded(spent: Spent, limits: Limits, *, whose: str) -> Exceeded | None:
    """Return the first bound that is reached, or None."""
    if limits.seconds and spent.seconds >= limits.seconds:
        return Exceeded("seconds", f"{whose} limit of {limits.seconds:.0f} seconds is reached")
    if limits.calls and spent.calls >= limits.calls:
        return Exceeded("calls", f"{whose} budget of {limits.calls} model calls is used up")
    if limits.tokens and spent.usage.total >= limits.tokens:
        return Exceeded("tokens", f"{whose} budget of {limits.tokens:,} tokens is used up")
    if limits.money and spent.usage.cost.total >= limits.money:
        return Exceeded("money", f"{whose} budget of ${limits.money:.2f} is used up")
    return None


def add_usage(one: Usage, other: Usage) -> Usage:
    """Return the sum of two usages."""
    cost = Cost(
        one.cost.input + other.cost.input,
        one.cost.output + other.cost.output,
        one.cost.cache_read + other.cost.cache_read,
        one.cost.cache_write + other.cost.cache_write,
    )
    return Usage(
        one.input + other.input,
        one.output + other.output,
        one.cache_read + other.cache_read,
        one.cache_write + other.cache_write,
        cost,
    )


class _Line(Struct, frozen=True, omit_defaults=True):
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
        """Add a line. The first one of a day removes the files of days long past."""
        if self._writer is None:
            ensure_dir(self.path.parent)
            self._writer = JsonlWriter.open(self.path)
            for path in self.path.parent.glob("????-??-??.jsonl"):
                if _age(path, self._day) >= KEPT_DAYS:
                    path.unlink(missing_ok=True)
        self._writer.append(line, durable=False)

    def close(self) -> None:
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
