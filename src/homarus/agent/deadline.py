"""How long a run may take: its token trips when the time is over. While a person is asked, the clock of the run stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from homarus.core.cancel import Cancel
from homarus.core.clock import Clock


class Deadline:
    """Watches one run while its context lasts. No seconds means no end."""

    def __init__(self, seconds: float, cancel: Cancel, clock: Clock) -> None:
        # When it ends, for those who decide whether another try still fits; a pause moves the end, but not this.
        self.moment = clock.monotonic() + seconds if seconds else None
        self._left = seconds
        self._seconds = seconds
        self._cancel = cancel
        self._timer: asyncio.TimerHandle | None = None
        self._waits = 0
        self.expired = False

    def __enter__(self) -> Self:
        self._go_on()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hold()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let no time pass meanwhile; calls that run together may each ask a person."""
        self._waits += 1
        self._hold()
        try:
            yield
        finally:
            self._waits -= 1
            if not self._waits and self._seconds:
                self._go_on()

    def _go_on(self) -> None:
        if self._seconds and not self.expired:
            # Time as it passes for people: a clock that was set back must not make a run endless.
            self._timer = asyncio.get_running_loop().call_later(max(0.0, self._left), self._over)

    def _hold(self) -> None:
        if self._timer is not None:
            self._left = self._timer.when() - asyncio.get_running_loop().time()
            self._timer.cancel()
            self._timer = None

    def _over(self) -> None:
        self._timer, self.expired = None, True
        self._cancel.cancel(f"the run took longer than {self._seconds:g} seconds, its limit (timeoutSeconds)")
