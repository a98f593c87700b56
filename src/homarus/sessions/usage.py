"""What sessions cost: tokens, cache share and money by day, model or session, counted from the transcripts themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, tzinfo
from typing import Literal

from msgspec import Struct

from homarus.core.messages import Usage
from homarus.sessions.codec import to_ms, to_usage
from homarus.sessions.entry import Entry, MessageEntry

By = Literal["day", "model", "session", "agent"]


class Call(Struct, frozen=True):
    """One answer of a model and what it took."""

    entry_id: str
    time: int
    model: str
    usage: Usage


class Total(Struct, frozen=True):
    """A sum over calls."""

    name: str
    calls: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float = 0.0

    @property
    def tokens(self) -> int:
        """Return all tokens, in and out."""
        return self.input + self.output + self.cache_read + self.cache_write

    @property
    def cache_share(self) -> float:
        """Return which part of the prompts came from the provider's cache, from 0 to 1."""
        prompt = self.input + self.cache_read + self.cache_write
        return self.cache_read / prompt if prompt else 0.0

    def plus(self, usage: Usage) -> Total:
        """Return the sum with one more call in it."""
        return Total(
            self.name,
            self.calls + 1,
            self.input + usage.input,
            self.output + usage.output,
            self.cache_read + usage.cache_read,
            self.cache_write + usage.cache_write,
            self.cost + usage.cost.total,
        )


def calls(entries: Iterable[Entry]) -> Iterator[Call]:
    """Yield the answers in a transcript that say what they took, on every branch: all of them were paid for."""
    for entry in entries:
        if isinstance(entry, MessageEntry) and entry.role == "assistant":
            body = entry.body
            usage = to_usage(body.get("usage"))
            if usage.total or usage.cost.total:
                model = "/".join(str(body[name]) for name in ("provider", "model") if body.get(name))
                yield Call(entry.id, to_ms(body.get("timestamp")) or entry.time, model or "unknown", usage)


class Ledger:
    """Adds up calls under a name. A call that stands in two transcripts (a fork, an archive) counts once."""

    def __init__(self, by: By, zone: tzinfo, *, since: int = 0) -> None:
        self.by = by
        self._zone = zone
        self._since = since
        self._seen: set[tuple[str, int]] = set()
        self.totals: dict[str, Total] = {}

    def add(self, session: str, agent: str, entries: Iterable[Entry]) -> None:
        """Count a transcript."""
        for call in calls(entries):
            mark = (call.entry_id, call.time)
            if mark in self._seen or call.time < self._since:
                continue
            self._seen.add(mark)
            name = {"day": self.day(call.time), "model": call.model, "session": session, "agent": agent}[self.by]
            self.totals[name] = self.totals.get(name, Total(name)).plus(call.usage)

    def day(self, time: int) -> str:
        """Return the local day of a moment."""
        return f"{datetime.fromtimestamp(time / 1000, UTC).astimezone(self._zone):%Y-%m-%d}" if time else "unknown"

    def rows(self) -> list[Total]:
        """Return the sums: days in their order, everything else by what it cost, then by tokens."""
        found = list(self.totals.values())
        if self.by == "day":
            return sorted(found, key=lambda total: total.name)
        return sorted(found, key=lambda total: (-total.cost, -total.tokens, total.name))

    def sum(self) -> Total:
        """Return everything together."""
        found = self.totals.values()
        return Total(
            "total",
            sum(total.calls for total in found),
            sum(total.input for total in found),
            sum(total.output for total in found),
            sum(total.cache_read for total in found),
            sum(total.cache_write for total in found),
            sum(total.cost for total in found),
        )


def bars(values: Iterable[float], width: int = 24) -> list[str]:
    """Return one bar per value, the largest of them `width` wide; anything above zero shows."""
    sizes = list(values)
    top = max(sizes, default=0)
    eighths = " ▏▎▍▌▋▊▉█"
    drawn = []
    for value in sizes:
        steps = max(1, round(value / top * width * 8)) if top and value > 0 else 0
        drawn.append("█" * (steps // 8) + (eighths[steps % 8] if steps % 8 else ""))
    return drawn
