"""One token that stops a run: it goes through the model stream, the tools, their process groups and the children.

Cancelling is a fact that is announced once and never taken back. It is safe from any thread and from a signal handler.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable
from types import TracebackType

from homarus.core.errors import Cancelled

_log = logging.getLogger(__name__)
# The reasons for which a person ends what goes on in a session. What waits there is forgotten then, wherever it was typed.
STOPPED = "stopped by the user"
STARTS_OVER = "the session starts over"
DELETED = "the session is deleted"
FORGETTING = frozenset({STOPPED, STARTS_OVER, DELETED})
# Whoever asked does not want to know any more: that ends their turn, and nothing else.
TAKEN_BACK = "taken back by whoever asked"
# The program of a turn ends: so does the turn, or, where another program waits for it, whoever has the session next goes on with it.
CLOSED = "the program that worked on this was closed"
HANDED_OVER = "the program was closed; whoever has the session next goes on with this"


class Cancel:
    """Whether somebody asked to stop, and why. A child stops with its parent, a parent never with its child."""

    __slots__ = ("__weakref__", "_callbacks", "_children", "_next", "_reason")

    def __init__(self) -> None:
        self._reason: str | None = None
        self._callbacks: dict[int, Callable[[], object]] = {}
        self._children: dict[int, weakref.ref[Cancel]] = {}
        self._next = 0

    @property
    def cancelled(self) -> bool:
        return self._reason is not None

    @property
    def reason(self) -> str:
        """Return why, in the words of whoever asked first; empty while nobody has."""
        return self._reason or ""

    def cancel(self, reason: str = "stopped") -> bool:
        """Ask to stop and return whether this was the first request; later ones change nothing, not even the reason."""
        if self._reason is not None:
            return False
        self._reason = reason or "stopped"
        callbacks, self._callbacks = list(self._callbacks.values()), {}
        for callback in callbacks:
            try:
                callback()
            except Exception:  # noqa: BLE001 - one listener that fails must not keep the others running
                _log.exception("a cancel callback failed")
        for reference in list(self._children.values()):
            child = reference()
            if child is not None:
                child.cancel(self._reason)
        return True

    def child(self) -> Cancel:
        """Return a token that stops with this one and can be stopped alone. It is held weakly: dropping it frees it."""
        token, children = Cancel(), self._children
        key = id(token)
        children[key] = weakref.ref(token, lambda _: children.pop(key, None))
        if self._reason is not None:
            token.cancel(self._reason)
        return token

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call this once when the token trips (at once if it has) and return what takes the callback off again.

        The callback runs in the thread that cancels, so it must be short and must not wait.
        """
        key, self._next = self._next, self._next + 1
        self._callbacks[key] = callback
        if self._reason is not None and self._callbacks.pop(key, None) is not None:
            callback()
        return lambda: self._callbacks.pop(key, None) and None

    def check(self) -> None:
        if self._reason is not None:
            raise Cancelled(self._reason)

    async def wait(self) -> str:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        remove = self.on_cancel(lambda: soon(loop, done.set))
        try:
            if not self.cancelled:
                await done.wait()
        finally:
            remove()
        return self.reason

    def interrupting(self) -> Interruption:
        """Return a context in which any `await` ends with `Cancelled` as soon as the token trips.

        It must not span the `yield` of a generator: the caller's own awaits would be hit.
        """
        return Interruption(self)


class Interruption:
    """Breaks the current task's await when the token trips, and tells that apart from the task's own cancellation."""

    __slots__ = ("_active", "_before", "_fired", "_loop", "_remove", "_task", "_token")

    def __init__(self, token: Cancel) -> None:
        self._token = token
        self._active = self._fired = False

    def __enter__(self) -> None:
        self._token.check()
        task = asyncio.current_task()
        assert task is not None, "an interruption needs a running task"
        self._task, self._loop = task, task.get_loop()
        self._before = task.cancelling()
        self._active = True
        self._remove = self._token.on_cancel(lambda: soon(self._loop, self._fire))

    def _fire(self) -> None:
        if self._active:
            self._fired = True
            self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._active = False
        self._remove()
        if self._fired and self._task.uncancel() <= self._before and kind is asyncio.CancelledError:
            raise Cancelled(self._token.reason) from None


def soon(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    """Run a callback in a loop from any thread; a loop that is closed has nobody left to tell."""
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        _log.debug("cancelled after the event loop was closed")
