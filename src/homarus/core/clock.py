"""Time and identity, passed in everywhere: no other module asks the machine what time it is or rolls dice."""

from __future__ import annotations

import os
import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """What time it is. Implementations never go back in `monotonic`."""

    def now(self) -> datetime:
        """Return the moment, aware of its zone, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that only grow; for measuring, never for storing."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class Ids(Protocol):
    def uuid(self) -> str: ...

    def short(self) -> str:
        """Return eight fresh hexadecimal digits; the caller checks for a clash in its own file."""
        ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        import asyncio  # here, because commands that never sleep start in half the time without it

        await asyncio.sleep(seconds)


class ManualClock:
    """A clock that moves only when told to: for tests and for replaying history."""

    def __init__(self, start: datetime) -> None:
        self._now = start.astimezone(UTC)
        self._elapsed = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._elapsed

    def advance(self, seconds: float) -> None:
        """Move time forward; a jump back is `set`."""
        self._now += timedelta(seconds=seconds)
        self._elapsed += max(0.0, seconds)

    def set(self, moment: datetime) -> None:
        """Jump to a moment, as a clock correction does; monotonic time does not follow."""
        self._now = moment.astimezone(UTC)

    async def sleep(self, seconds: float) -> None:
        import asyncio

        self.advance(seconds)
        await asyncio.sleep(0)


class SystemIds:
    def uuid(self) -> str:
        return str(uuid.uuid4())

    def short(self) -> str:
        return os.urandom(4).hex()


class CountingIds:
    """Identifiers that count up: two runs of the same script give the same bytes."""

    def __init__(self, start: int = 1) -> None:
        self._next = start

    def _take(self) -> int:
        value, self._next = self._next, self._next + 1
        return value

    def uuid(self) -> str:
        return str(uuid.UUID(int=self._take()))

    def short(self) -> str:
        return f"{self._take():08x}"


def epoch_ms(moment: datetime) -> int:
    """Return milliseconds since 1970, the form in which OpenClaw's files store moments."""
    return round(moment.timestamp() * 1000)


def iso_ms(moment: datetime) -> str:
    """Return `YYYY-MM-DDTHH:MM:SS.mmmZ`, the form of every timestamp in a transcript."""
    return f"{moment.astimezone(UTC).isoformat(timespec='milliseconds')[:-6]}Z"


def chance() -> float:
    """Return a number from 0 up to 1 that nobody can foresee; whoever depends on it takes it as an argument."""
    import random

    return random.random()  # noqa: S311 - it spreads retries, and guards nothing
