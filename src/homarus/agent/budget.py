"""What a run may cost: calls, tokens, money and time, for itself and for the day. Pure."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.messages import Cost, Usage


class Limits(Struct, frozen=True, rename="camel"):
    """Upper bounds; zero means none. They are checked before a call, so that the last one never starts."""

    calls: int = 0
    tokens: int = 0
    money: float = 0.0
    seconds: float = 0.0


UNBOUNDED = Limits()


class Spent(Struct, frozen=True):
    """What was used so far."""

    calls: int = 0
    usage: Usage = Usage()
    seconds: float = 0.0

    def add(self, usage: Usage, *, calls: int = 1) -> Spent:
        """Return this and one more call."""
        return Spent(self.calls + calls, add_usage(self.usage, usage), self.seconds)

    def plus(self, other: Spent) -> Spent:
        """Return the sum of two."""
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
        """Count a call of a sub-agent."""
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
        """Count how long the turn ran."""
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
