"""What each agent used today, by this process's count. The budgets of a day are held against it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta

from homarus.agent.budget import Spent, add_usage


class Spending:
    """Sums per agent and day; only yesterday's and today's are kept."""

    def __init__(self, today: Callable[[str], date]) -> None:
        self._today = today
        self._sums: dict[tuple[str, date], Spent] = {}

    def today(self, agent_id: str) -> Spent:
        """Return what an agent used today."""
        return self._sums.get((agent_id, self._today(agent_id)), Spent())

    def add(self, agent_id: str, spent: Spent) -> None:
        """Count what a turn used."""
        day = self._today(agent_id)
        before = self.today(agent_id)
        self._sums = {key: value for key, value in self._sums.items() if key[1] >= day - timedelta(days=1)}
        self._sums[agent_id, day] = Spent(before.calls + spent.calls, add_usage(before.usage, spent.usage))
