"""One server that we talk to: started when it is first needed, let go when nobody needs it, and started again after it died.

One task owns the connection from its beginning to its end, because the library's scopes must be left where they were
entered; everybody else only sends requests. A call that was cut off is not repeated: nobody knows what it had done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from homarus.core.clock import Clock
from homarus.core.errors import HomarusError, ToolError
from homarus.core.text import single_line
from homarus.plugins.mcp.transport import Place, ServerState, streams

if TYPE_CHECKING:
    from mcp import Client

T = TypeVar("T")
_log = logging.getLogger(__name__)
FAILURES, PAUSE_SECONDS = 3, 30.0  # after so many failed starts in a row nobody tries again for so long


class Connection:
    """A server, as its callers see it. Used from one event loop; `aclose` must be awaited at the end."""

    def __init__(self, place: Callable[[], Awaitable[Place]], name: str, *, idle: float, clock: Clock) -> None:
        self._place = place
        self._name = name
        self._idle = idle
        self._clock = clock
        self._owner: asyncio.Task[None] | None = None
        self._client: asyncio.Future[Client] | None = None
        self._leave = asyncio.Event()
        self._busy = 0
        self._timer: asyncio.TimerHandle | None = None
        self._failures = 0
        self._not_before = 0.0
        self._state = ServerState()

    @property
    def running(self) -> bool:
        return self._owner is not None and not self._owner.done()

    @property
    def busy(self) -> bool:
        return self._busy > 0

    async def use(self, work: Callable[[Client], Awaitable[T]], seconds: float) -> T:
        """Let a client of the server work, and start the server for it if need be. Raises `ToolError` for its failures."""
        self._busy += 1
        self._rest(None)
        try:
            client = await self._connected()
            try:
                async with asyncio.timeout(seconds):
                    return await work(client)
            except TimeoutError:
                cure = f"try something smaller, or raise mcp.servers.{self._name}.timeout"
                raise ToolError(f"the server {self._name} did not answer within {seconds:g} s", cure=cure) from None
        except _library_errors() as problem:
            if getattr(problem, "code", None) == _closed():
                self._leave.set()
            raise ToolError(f"the server {self._name} says: {single_line(_told(problem), 500)}") from None
        finally:
            self._busy -= 1
            if not self._busy:
                self._rest(self._idle)

    async def aclose(self) -> None:
        """End the server and everything that it started."""
        self._rest(None)
        self._leave.set()
        if self._owner is not None:
            await asyncio.wait({self._owner})
        self._client = None

    def _rest(self, seconds: float | None) -> None:
        """Let the server go after a time without calls; None calls that off."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._leave.set)

    async def _connected(self) -> Client:
        if self._client is None or not self.running or self._leave.is_set():
            if self.running:
                await asyncio.wait({self._owner})  # type: ignore[type-var] # it runs, so it is there
            self._begin()
        assert self._client is not None
        return await asyncio.shield(self._client)

    def _begin(self) -> None:
        wait = self._not_before - self._clock.monotonic()
        if wait > 0:
            raise ToolError(
                f"the server {self._name} failed {self._failures} times in a row and rests for {wait:.0f} s",
                cure=f"see 'homarus mcp probe {self._name}'; its last words: {self._state.last_words}",
            )
        self._leave = asyncio.Event()
        self._client = asyncio.get_running_loop().create_future()
        self._client.add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )  # somebody may not wait for it
        self._owner = asyncio.create_task(self._own(self._client, self._leave), name=f"mcp {self._name}")

    async def _own(self, ready: asyncio.Future[Client], leave: asyncio.Event) -> None:
        """Hold the connection until it is to be left, or until the server is gone."""
        from mcp import Client

        from homarus import __version__

        try:
            place = await self._place()
            import mcp_types

            who = mcp_types.Implementation(name="homarus", version=__version__)
            self._state = ServerState()
            async with asyncio.timeout(place.settings.connect_seconds) as limit:
                # Servers from before the newest protocol are asked to introduce themselves the old way.
                async with Client(streams(place, self._state), client_info=who, cache=None) as client:
                    limit.reschedule(None)
                    self._failures = 0
                    ready.set_result(client)
                    leaving = asyncio.create_task(leave.wait())
                    ending = asyncio.create_task(self._state.gone.wait())
                    await asyncio.wait({leaving, ending}, return_when=asyncio.FIRST_COMPLETED)
                    leaving.cancel()
                    ending.cancel()
        except Exception as problem:  # noqa: BLE001 - whatever a server does is its callers' answer, never ours
            self._failed(problem, ready)

    def _failed(self, problem: Exception, ready: asyncio.Future[Client]) -> None:
        problem = _first(problem)
        told = "it did not answer in time" if isinstance(problem, TimeoutError) else single_line(_told(problem), 300)
        if ready.done():
            _log.warning("mcp: the connection to %s ended: %s", self._name, told)
            return
        self._failures += 1
        if self._failures >= FAILURES:
            self._not_before = self._clock.monotonic() + PAUSE_SECONDS
        words = f"; its last words: {self._state.last_words}" if self._state.last_words else ""
        cure = getattr(problem, "cure", "") or f"try 'homarus mcp probe {self._name}'"
        if "answered 401" in words:
            cure = f"sign in: homarus mcp login {self._name}"
        ready.set_exception(ToolError(f"the server {self._name} cannot be reached: {told}{words}", cure=cure))


def _library_errors() -> tuple[type[Exception], ...]:
    from anyio import BrokenResourceError, ClosedResourceError
    from mcp.shared.exceptions import MCPError
    from pydantic import ValidationError

    return (MCPError, ValidationError, BrokenResourceError, ClosedResourceError)


def _closed() -> int:
    import mcp_types

    return int(mcp_types.CONNECTION_CLOSED)


def _first(problem: Exception) -> Exception:
    """Return the first error of a group, however deep: the others follow from it."""
    return _first(problem.exceptions[0]) if isinstance(problem, ExceptionGroup) else problem


def _told(problem: BaseException) -> str:
    if isinstance(problem, HomarusError):
        return problem.message
    return str(problem) or type(problem).__name__
