"""One leased home at work: its folder out of the rows, its runtime and its gateway; opened when somebody needs it, closed when nobody does."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
import secrets
import shutil
import time
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from homarus.channels.support import answer_call
from homarus.config.load import load_config
from homarus.config.paths import resolve_paths
from homarus.config.write import Operation, change
from homarus.core.behind import settled
from homarus.core.clock import SystemClock, SystemIds, epoch_ms
from homarus.core.errors import Fenced, HomarusError, StorageError
from homarus.fleet.commits import Commits
from homarus.fleet.homes import INVITE, Invited, merge, seal
from homarus.fleet.large import Objects
from homarus.fleet.objects import HomeObjects
from homarus.fleet.placement import Letter
from homarus.fleet.rows import HomeVolume, Lease
from homarus.fleet.settings import Quota, quota_of
from homarus.fleet.tenancy import confine
from homarus.gateway.peer import literal
from homarus.gateway.scopes import ALL
from homarus.storage.volume import mount, unmount

if TYPE_CHECKING:
    from homarus.fleet.database import Database
    from homarus.gateway.server import Gateway

_log = logging.getLogger(__name__)
Result = TypeVar("Result")
STOP_SECONDS = 20.0  # for a home to let go of everything; what is not done then is cut off
# What a home's programs hear of the worker's own surroundings. Its secrets are not among it.
_SHARED = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")


# What the edge says of a request beside the request itself; NAME is the home's own name in the fleet's domain, if it came by that.
CLIENT, HOST, IDENT, NAME = b"x-homarus-client", b"x-homarus-host", b"x-homarus-ident", b"x-homarus-name"


class Call(msgspec.Struct, frozen=True):
    """A web hook that was kept for a home: the body of a letter."""

    method: str
    path: str  # with its query
    headers: list[tuple[str, str]]
    body: bytes = b""
    client: str = ""


def packed(call: Call) -> bytes:
    return msgspec.msgpack.encode(call)


def as_told(scope: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request as its home is to see it: who asked the edge, and under which name. Nothing of the fleet's own is in it."""
    told = dict(scope["headers"])
    kept = [pair for pair in scope["headers"] if not pair[0].startswith(b"x-homarus-")]
    if HOST in told:  # a socket's own names this worker
        kept = [(b"host", told[HOST]), *(pair for pair in kept if pair[0] != b"host")]
    client, name = (told.get(each, b"").decode("latin-1") for each in (CLIENT, NAME))
    inner = {**scope, "headers": kept, "client": (client, 0), "server": (name, None)}
    if IDENT in told:
        inner["state"] = {**scope.get("state", {}), "ident": told[IDENT].decode("latin-1")}
    return inner


def _from_outside(client: str) -> str:
    """Return an address that is another machine's: nobody who comes through the fleet's door is a program beside the worker."""
    address = literal(client)
    return "" if address is None or address.is_loopback else str(address)


class Served:
    """A home with a runtime in this process. `lost` is called, in any thread, when a write of it was refused."""

    def __init__(
        self,
        database: Database,
        lease: Lease,
        root: Path,
        *,
        env: Mapping[str, str],
        objects: Objects | None = None,
        quota: Quota | None = None,
        lost: Any = lambda: None,
        commits: Commits | None = None,
    ) -> None:
        self.lease, self.quota = lease, quota or Quota()
        self.folder = Path(os.path.realpath(root)) / lease.home
        self.volume = HomeVolume(database, lease, self.folder, objects=objects, lost=lost, commits=commits)
        self._context = contextvars.copy_context()  # in which all that it says waits for what it wrote
        self._context.run(settled.set, self.volume.durable)
        self.gateway: Gateway | None = None
        self.calls = self.requests = 0  # requests and sockets that have not ended, and requests alone
        self.used = time.monotonic()
        self.unfinished = False  # whether it was closed in the middle of a turn
        self.postman = asyncio.Lock()
        self.gone = asyncio.Event()  # set when it is closed: whatever is being said here ends
        self._database, self._objects = database, objects
        self.sealed = time.monotonic()
        self._env = {name: env[name] for name in _SHARED if name in env}

    async def open(self) -> None:
        """Make the folder from the rows and begin to serve it. Raises HomarusError, and then nothing is left open."""
        began = time.monotonic()
        try:
            await asyncio.to_thread(self._materialise)
            there = time.monotonic()
            mount(str(self.folder), self.volume)
            self.gateway = await self.task(self._begun())
        except BaseException:
            await self.close()
            raise
        now, owes = time.monotonic(), len(self.gateway.runtime.lanes.busy)
        facts = (self.lease.home, now - began, there - began, owes)
        _log.info("home %s opened in %.2f s, %.2f s of it for its rows; it goes on in %d sessions", *facts)

    def task(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Begin something as this home's own."""
        return asyncio.get_running_loop().create_task(work, context=self._context.copy())

    def _materialise(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, mode=0o700)
        rows = self._database.rows("select quota::text as quota from home where home = $1", self.lease.home)
        self.quota = quota_of(self.quota, rows[0]["quota"] if rows else None)
        self.volume.most, self.volume.most_files = self.quota.stored_bytes, self.quota.files
        self.volume.materialise()

    async def _begun(self) -> Gateway:
        from homarus.agent.home import Home
        from homarus.gateway.live import Given
        from homarus.gateway.server import Gateway
        from homarus.gateway.settings import GatewaySettings
        from homarus.runtime.runtime import Runtime

        env = {**self._env, "HOME": str(self.folder)}
        config = load_config(resolve_paths(env), env)
        auth = config.block("gateway", GatewaySettings).auth
        if not (auth.token or auth.password or auth.mode == "trusted-proxy"):
            await asyncio.to_thread(
                change, config, env, [Operation("set", ("gateway", "auth", "token"), secrets.token_urlsafe(32))]
            )
            config = load_config(resolve_paths(env), env)
        # The tenant writes this file; on a machine that others share it cannot mean more than this.
        config.bound(lambda document: confine(document, self.folder, self.quota))
        gateway = Gateway(Runtime(Home(config, env, clock=SystemClock(), ids=SystemIds())), Given())
        gateway.switchboard.manager.calls = {}
        await gateway.start(alone=False)
        return gateway

    @property
    def busy(self) -> bool:
        """Say whether a turn runs: the moment to give the home away is when none does."""
        return self.gateway is not None and bool(self.gateway.runtime.lanes.busy)

    @property
    def resting(self) -> bool:
        """Say whether nothing runs, waits or is connected: then it costs nobody anything to close it."""
        gateway = self.gateway
        if gateway is None or self.calls:
            return gateway is None
        runtime = gateway.runtime
        return runtime.lanes.idle and not runtime.automation.at_work and not self.stays

    @property
    def stays(self) -> bool:
        """Say whether it listens to a platform by itself, so that closing it would make it deaf."""
        return self.gateway is not None and any(each.enabled for each in self.gateway.switchboard.status())

    def wakes_in(self) -> float | None:
        """Return in how many seconds it wants to be opened again by itself; None if never."""
        if self.gateway is None or self.stays:
            return 0.0
        due = self.gateway.runtime.automation.next_ms
        return None if due is None else max(0.0, (due - epoch_ms(self.gateway.clock.now())) / 1000)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Let the home answer: its gateway, or the account whose platform calls here. No account has a port of its own on a shared machine."""
        scope = {**scope, "client": (_from_outside(scope["client"][0]), 0)}
        gateway, path = self.gateway, scope["path"]
        if scope["type"] != "http" and gateway is not None:
            await gateway(scope, receive, send)
            return
        manager = gateway.switchboard.manager if gateway is not None and not gateway.stopping else None
        answer = (manager.calls or {}).get(path) if manager is not None else None
        if answer is not None:
            await answer_call(scope, receive, send, path, answer)
        elif gateway is not None and manager is not None and not manager.expects(path):
            await gateway(scope, receive, send)
        else:  # an account that is starting, or a home that is on its way out: the same call finds its place in a moment
            kind = "http.response" if scope["type"] == "http" else "websocket.http.response"
            await send({"type": f"{kind}.start", "status": 503, "headers": [(b"retry-after", b"1")]})
            await send({"type": f"{kind}.body", "body": b"not now"})

    async def deliver(self, letter: Letter) -> bool:
        """Hand a kept web hook or an invitation in; False when it must be tried again later."""
        if self.gateway is None or self.gateway.stopping:
            return False
        try:
            if letter.key.startswith(INVITE):
                invited = msgspec.msgpack.decode(letter.body, type=Invited)
                self.gateway.devices.expect(invited.digest, ALL, invited.until_ms)
                await self.volume.durable()
                return True
            call = msgspec.msgpack.decode(letter.body, type=Call)
        except StorageError as problem:
            _log.warning("%s does not take %s yet: %s", letter.home, letter.key, problem)
            return False
        except ValueError:
            _log.error("a letter for %s cannot be read: %s", letter.home, letter.key)
            return True
        status = await self.task(_asked(self, call, letter.key))
        await self.volume.durable()
        later = status >= 500 or status in {408, 425, 429}
        if later:
            _log.warning("%s does not take %s yet: %s", letter.home, letter.key, status)
        elif status >= 400:
            _log.warning("%s refuses %s: %s", letter.home, letter.key, status)
        return not later

    def seal(self) -> bool:
        """Make long logs one object, and many lines one row; False where something was written meanwhile, and more is left to do."""
        self.volume.tidy()
        self.sealed, before = time.monotonic(), self.volume.calm
        if before is None:
            return False

        def calm() -> bool:
            return self.volume.calm == before

        if isinstance(self._objects, HomeObjects):
            seal(self._database, self._objects.store, self.lease, calm=calm)
        merge(self._database, self.lease, calm=calm)
        return calm()

    async def close(self) -> None:
        """Let go of everything. What the rows must know is in them, unless the home is somebody else's."""
        gateway, self.gateway = self.gateway, None
        try:
            await self._stop(gateway)
        finally:  # also where nobody waits for it any more
            self.gone.set()
        await self._leave_open()
        unmount(str(self.folder))
        await asyncio.to_thread(shutil.rmtree, self.folder, True)

    async def _stop(self, gateway: Gateway | None) -> None:
        if gateway is not None:
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await gateway.stop("the home moves to another machine")
                    self.gone.set()  # whoever was just coming in goes, too
                    self.unfinished = not gateway.runtime.lanes.idle or gateway.runtime.automation.at_work
                    if self.unfinished:
                        await self._leave_open()
                    await gateway.runtime.aclose()
            except (HomarusError, OSError) as problem:
                if not isinstance(problem, Fenced):
                    _log.warning("home %s was not closed cleanly: %s", self.lease.home, problem)
            except Exception:  # noqa: BLE001 - the lease must be given up whatever else breaks
                _log.exception("home %s was not closed cleanly", self.lease.home)

    async def _leave_open(self) -> None:
        """Write what was done so far, and nothing after it: a turn that is cut off then goes on with whoever opens the home next."""
        try:
            if not self.volume.fenced:
                with contextlib.suppress(StorageError):
                    await asyncio.to_thread(self.volume.settle)
                    await self.volume.durable()
        finally:
            self.volume.drop()


async def _asked(app: Any, call: Call, ident: str) -> int:
    """Put one request to a gateway in this process and return the status of its answer."""
    parts = urlsplit(call.path)
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in call.headers]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": call.method, "scheme": "http",
        "path": parts.path, "raw_path": parts.path.encode(), "query_string": parts.query.encode(), "root_path": "",
        "headers": headers, "client": (call.client, 0), "server": ("127.0.0.1", 0),
        "state": {"ident": ident},
    }  # fmt: skip
    status = 500
    given = [{"type": "http.request", "body": call.body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        return given.pop() if given else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]

    try:
        await app(scope, receive, send)
    except Fenced:
        return 503
    return status
