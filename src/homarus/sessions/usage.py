"""What sessions cost: tokens, cache share and money by day, model or session, counted from the transcripts themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, tzinfo
from typing import Literal

from msgspec import Struct, structs

from homarus.core.errors import ConfigError
from homarus.core.messages import Assistant, Usage, User
from homarus.core.routes import SessionKey, SessionKind
from homarus.sessions.codec import Json, from_message, to_ms, to_usage
from homarus.sessions.entry import Custom, Entry, MessageEntry

By = Literal["day", "model", "session", "agent", "purpose", "cause"]
ANSWER = "answer"
# A note on a call whose answer is no part of the conversation: a summary, the saving of memory.
NOTE = "homarus.usage"
_BY_ITSELF = frozenset(
    {SessionKind.SUBAGENT, SessionKind.CRON, SessionKind.HOOK, SessionKind.BOOT, SessionKind.HEARTBEAT}
)


class Call(Struct, frozen=True):
    """One answer of a model and what it took. `purpose` says what it was for, where it answered nobody."""

    entry_id: str
    time: int
    model: str
    usage: Usage
    purpose: str = ANSWER
    # What the answer was an answer to, where nobody typed it: a heartbeat, a job.
    occasion: str = ""


class Total(Struct, frozen=True):
    name: str
    calls: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float = 0.0

    @property
    def tokens(self) -> int:
        return self.input + self.output + self.cache_read + self.cache_write

    @property
    def cache_share(self) -> float:
        prompt = self.input + self.cache_read + self.cache_write
        return self.cache_read / prompt if prompt else 0.0

    def plus(self, usage: Usage) -> Total:
        return Total(
            self.name,
            self.calls + 1,
            self.input + usage.input,
            self.output + usage.output,
            self.cache_read + usage.cache_read,
            self.cache_write + usage.cache_write,
            self.cost + usage.cost.total,
        )

    def joined(self, other: Total) -> Total:
        """Return both together, under this one's name."""
        fields = structs.astuple(self)[1:], structs.astuple(other)[1:]
        return Total(self.name, *(mine + theirs for mine, theirs in zip(*fields, strict=True)))


def usage_note(purpose: str, answer: Assistant) -> Json:
    stored = from_message(answer)
    data = {"purpose": purpose, **{name: stored[name] for name in ("provider", "model", "usage")}}
    return {"customType": NOTE, "data": data}


def calls(entries: Iterable[Entry]) -> Iterator[Call]:
    """Yield the answers in a transcript that say what they took, on every branch: all of them were paid for."""
    occasion = ""
    for entry in entries:
        if isinstance(entry, MessageEntry) and isinstance(entry.message, User):
            occasion = str((entry.message.provenance or {}).get("kind") or "")
            continue
        if isinstance(entry, MessageEntry) and entry.role == "assistant":
            body, purpose = entry.body, ANSWER
        elif isinstance(entry, Custom) and entry.custom_type == NOTE:
            data = entry.data.get("data")
            body = data if isinstance(data, dict) else {}
            purpose = str(body.get("purpose") or "unknown")
        else:
            continue
        usage = to_usage(body.get("usage"))
        if usage.total or usage.cost.total:
            model = "/".join(str(body[name]) for name in ("provider", "model") if body.get(name))
            time = to_ms(body.get("timestamp")) or entry.time
            yield Call(entry.id, time, model or "unknown", usage, purpose, occasion)


def cause(call: Call, session: str) -> str:
    """Return why a call was made: answers, what they needed besides, or the automation that asked for it."""
    if call.purpose != ANSWER:
        return call.purpose
    if call.occasion in {"heartbeat", "cron", "hook"}:
        return call.occasion
    try:
        kind = SessionKey.parse(session).kind
    except ConfigError:
        return ANSWER
    return str(kind.value) if kind in _BY_ITSELF else ANSWER


class Ledger:
    """Adds up calls under a name. A call that stands in two transcripts (a fork, an archive) counts once."""

    def __init__(self, by: By, zone: tzinfo, *, since: int = 0, until: int | None = None) -> None:
        self.by = by
        self._zone = zone
        self._since = since
        self._until = until
        self._seen: set[tuple[str, int]] = set()
        self.totals: dict[str, Total] = {}
        # The part of it that went into summaries, saving memory and the like, by purpose.
        self.aside: dict[str, Total] = {}

    def add(self, session: str, agent: str, entries: Iterable[Entry]) -> None:
        for call in calls(entries):
            mark = (call.entry_id, call.time)
            if mark in self._seen or call.time < self._since or (self._until is not None and call.time >= self._until):
                continue
            self._seen.add(mark)
            names = {"day": self.day(call.time), "model": call.model, "session": session, "agent": agent}
            name = cause(call, session) if self.by == "cause" else names.get(self.by, call.purpose)
            self.totals[name] = self.totals.get(name, Total(name)).plus(call.usage)
            if call.purpose != ANSWER:
                known = self.aside.get(call.purpose, Total(call.purpose))
                self.aside[call.purpose] = known.plus(call.usage)

    def day(self, time: int) -> str:
        return f"{datetime.fromtimestamp(time / 1000, UTC).astimezone(self._zone):%Y-%m-%d}" if time else "unknown"

    def rows(self) -> list[Total]:
        found = list(self.totals.values())
        if self.by == "day":
            return sorted(found, key=lambda total: total.name)
        return sorted(found, key=lambda total: (-total.cost, -total.tokens, total.name))

    def sum(self) -> Total:
        found = [structs.astuple(total)[1:] for total in self.totals.values()]
        return Total("total", *map(sum, zip(*found, strict=True)))


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
