"""The idle watchdog and the cancel token of requests: one timer and one listener, however often they wait.

`with vigil:` stands around each wait for the server. It must not span the `yield` of a generator: the caller's own awaits
would be hit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

from homarus.core.cancel import Cancel, soon
from homarus.core.errors import Cancelled

MAX_SPARE = 8


class Vigil:
    """Breaks a wait that lasts longer than `idle` seconds (`TimeoutError`) or that somebody stops (`Cancelled`)."""

    __slots__ = ("_before", "_cancel", "_remove", "_since", "_task", "_timer", "_why", "idle", "loop")

    def __init__(self, cancel: Cancel, idle: float) -> None:
        self.loop = asyncio.get_running_loop()
        self._task: asyncio.Task[object] | None = None  # who waits now
        self._before = 0
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._remove: Callable[[], None] | None = None
        self._why = ""
        self.begin(cancel, idle)

    def begin(self, cancel: Cancel, idle: float) -> None:
        """Serve a new request; the timer of the one before may still run, and looks after this one then."""
        self._cancel = cancel
        self.idle = idle

    def __enter__(self) -> None:
        cancel = self._cancel
        cancel.check()
        task = asyncio.current_task(self.loop)
        assert task is not None, "a vigil needs a running task"
        self._task, self._before, self._since = task, task.cancelling(), self.loop.time()
        if self._timer is None or self._timer.when() > self._since + self.idle:
            self._arm(self.idle)
        if self._remove is None:
            self._remove = cancel.on_cancel(lambda: soon(self.loop, lambda: self._stop(cancel)))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if not self._why or task is None:
            return
        why, self._why = self._why, ""
        if task.uncancel() <= self._before and kind is asyncio.CancelledError:
            if why == "stopped":
                raise Cancelled(self._cancel.reason) from None
            raise TimeoutError from None

    def close(self) -> None:
        """Let go of the token; a second call does nothing. The timer runs out by itself and finds nobody waiting."""
        if self._remove is not None:
            self._remove()
            self._remove = None

    def _arm(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """Look how long the present wait has lasted: a timer that each piece of data moved would cost more than the data."""
        self._timer = None
        if self._task is None:
            return  # the next wait winds it up again
        left = self._since + self.idle - self.loop.time()
        if left > 0:
            self._arm(left)
        else:
            self._break("idle")

    def _stop(self, cancel: Cancel) -> None:
        if cancel is self._cancel:  # a request that was stopped may be over, and this serves another one
            self._break("stopped")

    def _break(self, why: str) -> None:
        if self._task is not None and not self._why:
            self._why = why
            self._task.cancel()


class Vigils:
    """Vigils that nobody needs now: making and cancelling a timer for each request would cost more than the waiting."""

    def __init__(self) -> None:
        self._spare: list[Vigil] = []

    def begin(self, cancel: Cancel, idle: float) -> Vigil:
        """Return a vigil for a request in the running event loop."""
        if self._spare:
            vigil = self._spare.pop()
            if vigil.loop is asyncio.get_running_loop():
                vigil.begin(cancel, idle)
                return vigil
        return Vigil(cancel, idle)

    def end(self, vigil: Vigil) -> None:
        """Take a vigil back when its request is over."""
        vigil.close()
        if len(self._spare) < MAX_SPARE:
            self._spare.append(vigil)
