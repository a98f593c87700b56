"""The gateway: one home on the network. The ASGI application, what its parts share, and its life from start to stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import logging
import signal
import socket
from collections.abc import Callable, Coroutine, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from homarus import __version__
from homarus.core.clock import epoch_ms
from homarus.core.errors import ConfigError, HomarusError, Locked
from homarus.core.routes import SessionKey
from homarus.core.text import single_line
from homarus.gateway.auth import Admission, Door
from homarus.gateway.connection import Connection, Receive, Send
from homarus.gateway.devices import Devices
from homarus.gateway.feed import Feed
from homarus.gateway.hub import Hub
from homarus.gateway.life import RESTART_MS, Life
from homarus.gateway.limits import Writes
from homarus.gateway.live import Given, Live
from homarus.gateway.logs import LEDGER, Ledger, LogFile
from homarus.gateway.metrics import Metrics
from homarus.gateway.nodes import Nodes
from homarus.gateway.page_feed import PageFeed
from homarus.gateway.peer import Peer, peer_of
from homarus.gateway.protocol import HANDSHAKE_SECONDS, TICK_SECONDS, Refused
from homarus.gateway.runs import Runs
from homarus.gateway.scopes import Principal
from homarus.gateway.settings import GatewaySettings
from homarus.runtime.local import LocalClient
from homarus.runtime.runtime import Runtime
from homarus.runtime.switchboard import Switchboard
from homarus.storage.atomic import ensure_dir
from homarus.storage.locks import OwnerLock

if TYPE_CHECKING:
    from homarus.gateway.methods.skills import Upload
    from homarus.gateway.telemetry import Telemetry

_log = logging.getLogger(__name__)
MAX_STRANGERS, MAX_STRANGERS_EACH = 1024, 256  # sockets that have not said who they are
SOCKET, LOCK = "gateway.sock", "gateway.lock"
_MALLOC = ((-3, 128 * 1024), (-1, 128 * 1024), (-8, 1))  # from where on to map, when to trim, how many heaps
GARBAGE = (1_000, 5, 5)  # a command lives too briefly to collect any; a gateway does not


class Gateway:
    """One home's network face. An ASGI application: sockets go to `Connection`, the rest to the routes of `http`."""

    def __init__(self, runtime: Runtime, given: Given, *, platforms: Mapping[str, Any] | None = None) -> None:
        self.runtime = runtime
        self.client = LocalClient(runtime)
        home = runtime.home
        self.clock, self.ids = home.clock, home.ids
        self.version, self.host = __version__, single_line(socket.gethostname(), 80)
        self.live = Live(home.config, dict(home.env), given)
        self.devices = Devices(home.config.paths.own_dir / "devices.json", home.clock, home.ids)
        self.door = Door(self.live, self.devices, home.clock, home.ids)
        self.hub = Hub(self)
        self.nodes = Nodes(self)
        self.runs = Runs()
        self.feed = Feed(self)
        self.page_feed = PageFeed(self)
        self.writes = Writes(home.clock.monotonic)
        self.stopping, self.port = "", 0
        self.ledger = Ledger(home.config.paths.own_dir / LEDGER, home.clock)
        self.log: LogFile | None = None  # where this process is the gateway's own
        self.metrics = Metrics()
        self.uploads: dict[str, Upload] = {}
        self._telemetry: Telemetry | None = None
        self.life = Life(self)
        self.client.restarter = self.life.restart
        self.switchboard = Switchboard(self.client, **(platforms or {}))
        self._began = home.clock.monotonic()
        self.max_strangers_each, self.handshake_seconds = MAX_STRANGERS_EACH, HANDSHAKE_SECONDS
        self._strangers: dict[str, int] = {}
        self._intake = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._http = self._routes()

    def _routes(self) -> Any:
        from starlette.applications import Starlette

        from homarus.gateway.http import routes

        return Starlette(routes=list(routes(self)))

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        else:
            await self._http(scope, receive, send)

    async def _socket(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        peer = peer_of(scope, self.live.settings)
        waiting = self._strangers.get(peer.address, 0)
        if waiting >= self.max_strangers_each or sum(self._strangers.values()) >= MAX_STRANGERS or self.stopping:
            await send({"type": "websocket.http.response.start", "status": 503, "headers": [(b"retry-after", b"5")]})
            await send({"type": "websocket.http.response.body", "body": b""})
            return
        self._strangers[peer.address] = waiting + 1
        known = False

        def welcome() -> None:
            nonlocal known
            if not known:
                known = True
                self._one_less(peer.address)
                scope["state"].get("raise_limit", lambda: None)()

        try:
            await Connection(self, peer, receive, send).run(welcome)
        finally:
            if not known:
                self._one_less(peer.address)

    def _one_less(self, address: str) -> None:
        left = self._strangers.get(address, 1) - 1
        self._strangers.pop(address, None)
        if left > 0:
            self._strangers[address] = left

    # What handlers ask.

    @property
    def now_ms(self) -> int:
        return epoch_ms(self.clock.now())

    @property
    def uptime_ms(self) -> int:
        return round((self.clock.monotonic() - self._began) * 1000)

    def failing(self) -> list[str]:
        """Return what keeps the gateway from serving."""
        return [self.stopping] if self.stopping else []

    def sees_details(self, scope: MutableMapping[str, Any]) -> bool:
        return peer_of(scope, self.live.settings).direct

    async def principal(self, request: Any) -> Principal:
        """Return who an HTTP request belongs to. Raises Refused."""
        peer = peer_of(request.scope, self.live.settings)
        return await self.door.bearer(peer, request.headers.get("authorization", ""))

    def agent_name(self, agent_id: str) -> str:
        from homarus.workspace.agents import describe

        config = self.client.home.config
        return describe(config, config.agent(agent_id), self.client.home.env).name or agent_id

    def key(self, session: str, agent: str = "") -> SessionKey:
        """Return the session that a client names. Raises Refused where no agent here has it."""
        try:
            key = self.client.resolve(agent, session)
        except HomarusError as problem:
            raise Refused(problem.message) from None
        if key.agent_id not in {each.id for each in self.client.home.config.agents}:
            raise Refused(f"unknown agent: {key.agent_id}")
        return key

    async def health(self) -> dict[str, Any]:
        from homarus.gateway.overview import health

        return await health(self)

    async def hello(self, connection: Connection, admission: Admission) -> dict[str, Any]:
        from homarus.gateway.overview import hello

        return await hello(self, connection, admission)

    def note_refused(self, peer: Peer, refused: Refused) -> None:
        """Write down that somebody was not let in: where they came from, never what they sent."""
        code = (refused.details or {}).get("code", refused.code)
        self.ledger.note("refused", address=peer.address or "the socket", outcome=str(code))
        self.metrics.refused += 1
        _log.info("refused a connection from %s: %s", single_line(peer.address, 60) or "the socket", code)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Do something beside the request that asked for it; it ends with the gateway at the latest."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def turnstile(self) -> None:
        """Let one message in at a time, and everybody else speak between two: taking one in writes to the disk."""
        async with self._intake:
            await asyncio.sleep(0)

    # Its life.

    async def start(self, *, alone: bool = True) -> None:
        """Listen to the sessions, take up what an earlier process left, begin to tick, and to run jobs.

        `alone` in its process it tunes that for one home; whoever serves many does so once.
        """
        self.feed.start()
        self.page_feed.start()
        for watcher in (self.ledger.take, self.metrics.take):
            self.client.operations.watch(watcher)
        self._begin_telemetry()
        self.ledger.note("started", version=self.version)
        self.spawn(self._tick())
        self.spawn(self.life.watch())
        self.switchboard.join()
        if left := self.runtime.recover():
            _log.info("going on with what an earlier process left in %d sessions", left)
        automation = self.runtime.automation
        automation.listen(self.hub.tell)
        automation.start()
        self.spawn(automation.boot())
        self.spawn(self.switchboard.start())
        if alone:
            self.spawn(asyncio.to_thread(preload))

    def _begin_telemetry(self) -> None:
        """Tell a collector what happens, where the settings ask for it; what keeps it from that keeps nothing else from working."""
        home = self.runtime.home
        if not home.config.get("diagnostics.otel.enabled"):
            return
        from homarus.gateway.telemetry import telemetry_for

        try:
            self._telemetry = telemetry_for(home.config, home.env, self._trace_of, self.clock.monotonic)
        except HomarusError as problem:
            _log.error("nothing is told to a collector: %s", problem)
            return
        if self._telemetry is not None:
            self.client.operations.watch(self._telemetry.take)

    def _trace_of(self, run_id: str) -> str:
        run = self.runs.get(run_id)
        return run.trace if run is not None else ""

    async def _tick(self) -> None:
        while True:
            await self.clock.sleep(TICK_SECONDS)
            await self.hub.tick()

    async def stop(self, reason: str = "gateway stopping") -> None:
        """Tell everybody, close the sockets, end what is done beside requests."""
        self.stopping = reason
        self.ledger.note("stopped")
        self.hub.close(reason, restart_ms=RESTART_MS if self.life.restarts else None)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.switchboard.aclose()
        if self._telemetry is not None:
            await self._telemetry.stop()
        self.ledger.close()


async def serve(
    runtime: Runtime,
    given: Given,
    *,
    ready: Callable[[Gateway], None] | None = None,
    tell: Callable[[str], None] | None = None,
) -> bool:
    """Serve a home until SIGTERM or SIGINT; say whether it is to be started anew, as after SIGHUP.

    Raises ConfigError or Locked where it cannot be served.
    """
    from homarus.gateway import wire

    gateway = Gateway(runtime, given)
    settings, own = gateway.live.settings, runtime.home.config.paths.own_dir
    if not await gateway.live.secret() and settings.auth.mode != "trusted-proxy":
        raise ConfigError(
            "the gateway has no secret", cure="'homarus gateway run' makes one; or set gateway.auth.token"
        )
    ensure_dir(own)
    with contextlib.ExitStack() as held:
        # Any free port is had before the lock, which names it; a certain one only by whoever has the lock.
        port = [] if settings.port else _any_port(settings, given.before)
        for each in port:
            held.callback(each.close)
        lock = _Held(own / LOCK, runtime, port[0].getsockname()[1] if port else settings.port)
        held.enter_context(contextlib.closing(lock))
        port = port or wire.open_port(settings)
        gateway.port = port[0].getsockname()[1]
        unix = wire.open_unix(own / SOCKET)
        server = wire.server(gateway, settings, unix)
        gateway.log = held.enter_context(contextlib.closing(LogFile(runtime.home.config)))
        loop, life = asyncio.get_running_loop(), gateway.life
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, life.stop)
        loop.add_signal_handler(signal.SIGHUP, life.restart)
        serving = asyncio.ensure_future(server.serve(sockets=port))
        try:
            await asyncio.wait({serving, asyncio.ensure_future(server.up.wait())}, return_when=asyncio.FIRST_COMPLETED)
            await gateway.start()
            _log.info("serving on port %d, version %s", gateway.port, gateway.version)
            if ready is not None:
                ready(gateway)
            await asyncio.wait({serving, asyncio.ensure_future(life.ended(tell))}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await gateway.stop()
            server.should_exit = True
            await serving
            (own / SOCKET).unlink(missing_ok=True)
            await runtime.aclose()
    return life.restarts


def _any_port(settings: GatewaySettings, before: int) -> list[socket.socket]:
    """Listen on the port that this process had before it started anew; where somebody else has that now, on any."""
    from homarus.gateway import wire

    if before:
        with contextlib.suppress(ConfigError):
            return wire.open_port(replace(settings, port=before))
    return wire.open_port(settings)


def preload() -> None:
    """Import what the first turn and the first request would: it then waits for nothing, and memory tells the truth."""
    _leave_no_holes()
    from homarus.gateway.methods import table

    table()
    ours = "commands.router commands.table gateway.overview models.providers.openai net.transport sandbox.process tools.gate"
    for name in ours.split():
        importlib.import_module(f"homarus.{name}")
    # What is here now stays for good, and is not looked through again; what comes from now on goes as soon as it can.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE)


def _leave_no_holes() -> None:
    """Let glibc give large pieces back as soon as they are free, and keep one heap for all threads.

    By itself it learns to keep them, and a gateway grows by half a kilobyte with each turn. Elsewhere this does nothing.
    """
    import ctypes

    with contextlib.suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in _MALLOC:
            mallopt(option, value)


class _Held:
    """The right to serve a home; one process has it."""

    def __init__(self, path: Any, runtime: Runtime, port: int) -> None:
        now = runtime.home.clock.now()
        try:
            self._lock = OwnerLock.acquire(path, purpose="gateway", now=now, extra={"port": port})
        except Locked as held:
            where = f"pid {held.pid}" if held.pid else "another process"
            raise Locked(
                f"a gateway serves this home already: {where}",
                pid=held.pid,
                cure="'homarus gateway stop' ends it",
            ) from None

    def close(self) -> None:
        self._lock.release()
