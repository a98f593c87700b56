"""Runs that clients started, by the id that they chose: the same id a second time is the same run. Bounded."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

import msgspec
from msgspec import Struct

from homarus.core.routes import SessionKey

# What is forgotten here is found in its transcript; twice as many are kept while they are young.
KEPT, KEPT_SECONDS = 1_000, 1_800.0
# The channel under which messages from clients are accepted; with the run's id it makes the key of a message.
CHANNEL = "webchat"


class Run(Struct, gc=False):
    """One run. `status` is empty while it goes on, then ok, error or timeout."""

    id: str
    session: SessionKey
    started_ms: int
    # The message's key in its lane.
    key: str = ""
    # A request waits for the end and tells it itself; the feed only tells others.
    awaited: bool = False
    # The message is known to be durable; whoever asks again before that is told nothing yet.
    taken: bool = False
    status: str = ""
    error: str = ""
    stop_reason: str = ""
    ended_ms: int = 0
    text: str = ""
    # As it was told: thousands of answers are kept, and as one piece each takes a third of the room.
    result: msgspec.Raw | None = None
    done: asyncio.Event | None = None
    # The W3C trace that the request belongs to, as it came.
    trace: str = ""

    @property
    def ended(self) -> bool:
        return bool(self.status)

    def end(self, status: str, now_ms: int, *, error: str = "", stop_reason: str = "", text: str = "") -> None:
        """Note how it ended; the first word counts."""
        if not self.ended:
            self.status, self.error, self.stop_reason, self.text = status, error, stop_reason, text
            self.ended_ms = now_ms
            if self.done is not None:
                self.done.set()


class Runs:
    """The newest runs; those that go on are never forgotten."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._open: dict[SessionKey, list[Run]] = {}

    def get(self, ident: str) -> Run | None:
        return self._runs.get(ident)

    def begin(self, ident: str, session: SessionKey, now_ms: int, trace: str = "") -> Run:
        run = Run(ident, session, now_ms, f"{CHANNEL}:default:{ident}", trace=trace)
        self._runs[ident] = run
        self._open.setdefault(session, []).append(run)
        for _ in range(len(self._runs) - KEPT):
            oldest = next(iter(self._runs.values()))
            if not oldest.ended:
                self._runs.move_to_end(oldest.id)  # it must not keep those after it
            elif now_ms - oldest.ended_ms < KEPT_SECONDS * 1000 and len(self._runs) < 2 * KEPT:
                break
            else:
                del self._runs[oldest.id]
        return run

    def forget(self, run: Run) -> None:
        """Take back a run whose message was not accepted, so that it can be tried again."""
        self._runs.pop(run.id, None)
        self.close(run)

    def open_in(self, session: SessionKey) -> list[Run]:
        """Return the runs of a session that go on."""
        return list(self._open.get(session, ()))

    def close(self, run: Run) -> None:
        left = [each for each in self._open.get(run.session, ()) if each is not run]
        if left:
            self._open[run.session] = left
        else:
            self._open.pop(run.session, None)

    async def ended(self, run: Run, seconds: float) -> bool:
        """Wait for the end of a run; False when it did not come in time."""
        if run.ended:
            return True
        if run.done is None:
            run.done = asyncio.Event()
        try:
            async with asyncio.timeout(seconds):
                await run.done.wait()
        except TimeoutError:
            return False
        return True
