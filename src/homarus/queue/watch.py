"""Notice a turn that no longer moves: said after two minutes, ended after six. A tool that works is not a turn that stands."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from homarus.core.cancel import Cancel
from homarus.core.events import RunEvent, ToolEnded, ToolStarted

_log = logging.getLogger(__name__)
WARN_SECONDS = 120.0
_BEGAN: dict[type[RunEvent], int] = {ToolStarted: 1, ToolEnded: -1}


class Timers(Protocol):
    """What of an event loop a watch needs."""

    def time(self) -> float: ...
    def call_later(self, delay: float, callback: Callable[[], object], /) -> asyncio.TimerHandle: ...


def abort_after(warn: float) -> float:
    """Return when a turn without progress is ended: three times as late as it is noticed, and not within five minutes."""
    return max(300.0, 3 * warn)


class Watch:
    """Watches one turn while its context lasts."""

    def __init__(
        self,
        name: str,
        cancel: Cancel,
        *,
        warn: float = WARN_SECONDS,
        abort: float | None = None,
        timers: Timers | None = None,
    ) -> None:
        self._name = name
        self._loop: Timers = timers or asyncio.get_running_loop()
        self._cancel = cancel
        self._warn = warn
        self._abort = abort_after(warn) if abort is None else abort
        self._timer: asyncio.TimerHandle | None = None
        self._tools = 0
        self._last = 0.0

    def __enter__(self) -> Self:
        self.moved()
        self._arm(self._warn)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def moved(self, began: int = 0) -> None:
        """Note that something happened; `began` is 1 for a tool that starts to work and -1 for one that is done."""
        self._last = self._loop.time()
        self._tools += began

    def _arm(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """Look how long nothing has happened. Looking is cheap, so a turn that moves only costs a look now and then."""
        still = self._loop.time() - self._last
        if still < self._warn:
            self._arm(self._warn - still)
        elif still < self._abort or self._tools > 0:
            doing = "a tool works" if self._tools > 0 else "nothing happens"
            _log.warning("the turn of %s has not moved for %.0f s: %s", self._name, still, doing)
            self._arm(max(self._warn, self._abort - still) if self._tools > 0 else self._abort - still)
        else:
            self._cancel.cancel(f"nothing happened for {still:.0f} seconds")


def watched(watch: Watch, emit: Callable[[RunEvent], None]) -> Callable[[RunEvent], None]:
    """Return an emitter whose every event counts as a move."""

    def told(event: RunEvent) -> None:
        watch.moved(_BEGAN.get(type(event), 0))
        emit(event)

    return told
