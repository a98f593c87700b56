"""Who listens to what, and the one place that calls them. A handler can fail in any way without the caller noticing.

Handlers run one after another: families before the exact key, then by `order`, then as registered. Each works on its
own copy of the event. What it changed counts only when it comes back in time and without an error, so a hook that
fails halfway, or that comes back after its time, has changed nothing.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.beside import beside_the_loop, describe
from homarus.hooks.events import HookEvent, family, listening_order

DEFAULT_TIMEOUT = 30.0
# How deep the copies go: context -> list -> item. Deeper values are shared.
_COPY_DEPTH = 3

log = logging.getLogger("homarus.hooks")


class Handler(Protocol):
    """What listens. It may be a plain function or a coroutine function; a returned value is ignored."""

    def __call__(self, event: HookEvent, /) -> Awaitable[None] | None: ...


class Listener(Struct, frozen=True, eq=False):
    key: str
    handler: Handler
    source: str
    order: int = 0
    timeout: float | None = None
    options: dict[str, Any] = {}


class HookRegistry:
    """The listeners of one process. Registering while an event is under way does not change who hears that event."""

    def __init__(self, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        self._timeout = timeout
        self._listeners: dict[str, list[Listener]] = {}
        # Handlers that ran out of time and have not ended yet; held so that their end is noticed and quiet.
        self._late: set[asyncio.Task[BaseException | None]] = set()

    def register(
        self,
        key: str,
        handler: Handler,
        *,
        source: str,
        order: int = 0,
        timeout: float | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Callable[[], None]:
        """Add a listener for a key or a family; return what removes it again."""
        name = family(key)
        listener = Listener(name, handler, source, order, timeout, dict(options or {}))
        self._listeners.setdefault(name, []).append(listener)
        # The sort is stable: equal orders stay as they were registered.
        self._listeners[name].sort(key=lambda each: each.order)

        def remove() -> None:
            there = self._listeners.get(name, [])
            if listener in there:
                there.remove(listener)

        return remove

    def clear(self) -> None:
        self._listeners.clear()

    def listeners(self, key: str) -> tuple[Listener, ...]:
        """Return who would hear this key, in the order of calling."""
        return tuple(each for name in listening_order(key) for each in self._listeners.get(name, ()))

    async def emit(self, event: HookEvent, *, timeout: float | None = None) -> HookEvent:  # noqa: ASYNC109 - for each
        """Tell every listener and return the event as they left it; never raises, except when cancelled itself."""
        for listener in self.listeners(event.key):
            given = _given(event, listener)
            limit = listener.timeout or timeout or self._timeout
            _settle(event, given, listener, await self._call(listener, given, limit))
        return event

    def emit_sync(self, event: HookEvent, *, timeout: float | None = None) -> HookEvent:
        """Tell every listener from code that is not asynchronous, such as the building of a prompt.

        Works inside and outside of a running event loop, because every handler gets a thread of its own, and a
        coroutine a loop in it. Without a listener it costs next to nothing.
        """
        for listener in self.listeners(event.key):
            given = _given(event, listener)
            limit = listener.timeout or timeout or self._timeout
            _settle(event, given, listener, run_alone(listener.handler, given, limit))
        return event

    async def _call(self, listener: Listener, event: HookEvent, limit: float) -> BaseException | None:
        task = asyncio.create_task(_contained(listener.handler, event))
        try:
            # Not wait_for: that waits for ever for a handler that swallows its cancellation.
            done, _ = await asyncio.wait({task}, timeout=limit)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if done:
            return task.result()
        task.cancel()
        self._late.add(task)
        task.add_done_callback(self._late.discard)
        return _late(limit)


async def _contained(handler: Handler, event: HookEvent) -> BaseException | None:
    """Run a handler and return what it raised; a hook must not even end the process with `sys.exit`."""
    try:
        answer = handler(event) if inspect.iscoroutinefunction(handler) else await beside_the_loop(handler, event)
        if inspect.isawaitable(answer):
            await answer
    except (Exception, SystemExit, asyncio.CancelledError, KeyboardInterrupt) as problem:  # noqa: BLE001 - see above
        return problem
    return None


def run_alone(function: Callable[[Any], Any], given: Any, limit: float) -> BaseException | None:
    """Run somebody's function in a thread that nobody waits for longer than `limit`; return what it raised."""
    outcome: list[BaseException | None] = []
    done = threading.Event()

    async def finish(answer: Awaitable[None]) -> None:
        # Ends a coroutine that is late; one that swallows this goes on in its own thread and touches nobody.
        async with asyncio.timeout(limit):
            await answer

    def work() -> None:
        problem: BaseException | None = None
        try:
            answer = function(given)
            if inspect.isawaitable(answer):
                asyncio.run(finish(answer))
        except BaseException as raised:  # noqa: BLE001 - handed over to the one who waits
            problem = raised
        outcome.append(problem)
        done.set()

    threading.Thread(target=work, name="hook", daemon=True).start()
    return outcome[0] if done.wait(limit) else _late(limit)


def _late(limit: float) -> TimeoutError:
    return TimeoutError(f"no answer within {limit:g} s")


def _given(event: HookEvent, listener: Listener) -> HookEvent:
    context, messages = _copy(event.context, _COPY_DEPTH), list(event.messages)
    return replace(event, context=context, messages=messages, options=dict(listener.options), failed=[])


def _settle(event: HookEvent, given: HookEvent, listener: Listener, problem: BaseException | None) -> None:
    """Take over what a handler did to its copy, or say in the log why nothing of it counts."""
    problem = problem or _misshapen(given)
    if problem is None:
        _adopt(event, given)
    else:
        event.failed.append(listener.source)
        log.warning("hook %s failed on %s: %s", listener.source, event.key, describe(problem))


def _copy(value: Any, depth: int) -> Any:
    if depth and isinstance(value, dict):
        return {key: _copy(item, depth - 1) for key, item in value.items()}
    if depth and isinstance(value, list):
        return [_copy(item, depth - 1) for item in value]
    return value


def _misshapen(given: HookEvent) -> Exception | None:
    # A handler is a stranger's code: what it left has the declared types only if we look.
    context: object = given.context
    messages: object = given.messages
    if isinstance(context, dict) and isinstance(messages, list):
        return None
    return TypeError("it left a context that is no dict, or messages that are no list")


def _adopt(event: HookEvent, given: HookEvent) -> None:
    """Take over what a handler changed, into the very objects that the emitter holds."""
    _assign(event.context, given.context)
    left: list[Any] = list(given.messages)
    event.messages[:] = [text for text in left if isinstance(text, str)]


def _assign(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    for key in [key for key in ours if key not in theirs]:
        del ours[key]
    for key, value in theirs.items():
        mine = ours.get(key)
        if isinstance(mine, list) and isinstance(value, list) and mine is not value:
            mine[:] = value
        else:
            ours[key] = value
