"""The door of a fleet: finds who holds a home and passes HTTP and WebSockets on to them. It keeps nothing and knows no secret of a home.

A tenant gets what its quota says of this door, and no more: messages a second, bytes of an upload, connections. What nobody takes right
now waits a moment, and a web hook is made durable before it is acknowledged.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import signal
import socket
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote
from uuid import uuid4

import msgspec

from homarus.core.errors import StorageError
from homarus.core.text import single_line
from homarus.fleet.served import Call, packed
from homarus.fleet.settings import Fleet, Quota, is_home
from homarus.fleet.watch import Moved, Place, Watch
from homarus.gateway.peer import client_of, is_listed, literal
from homarus.gateway.protocol import MAX_PAYLOAD, Close
from homarus.net.client import HttpClient, Response
from homarus.net.errors import HttpError

_log = logging.getLogger(__name__)
HOME, SECRET, CLIENT = "x-homarus-home", "x-homarus-fleet", "x-homarus-client"
HOST, IDENT, NAME = "x-homarus-host", "x-homarus-ident", "x-homarus-name"
# By these senders tell that it is the same call again. The first that is there counts.
_IDENTS = ("idempotency-key", "webhook-id", "x-github-delivery", "x-gitlab-event-uuid", "x-request-id")
NOT_HERE = 421  # a worker's word for a home that it does not hold
PATIENCE = 30.0  # seconds that a request waits for somebody to take its home
PAUSE, LONGEST_PAUSE = 0.05, 0.25
FRESH = 1.0  # seconds for which an owner is believed to be one
MAX_KNOWN = 100_000
MAX_CLIENTS = 50_000
MAX_HELD = 512 << 20  # bytes of bodies that are on their way, of all homes
BURST = 2.0  # seconds' worth of messages that may come at once
_HOP = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "host",
    "content-length", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-prefix", "x-real-ip", "forwarded",
})  # fmt: skip
_SAFE_TO_REPEAT = frozenset({"GET", "HEAD", "OPTIONS"})
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Directory(Protocol):
    """What the edge asks the database. Raises StorageError while that is away."""

    async def find(self, home: str) -> Place | None:
        """Return where a home is now; None where there is no such home."""

    async def places(self, homes: Sequence[str]) -> Mapping[str, Place]:
        """Return where many homes are, with one question; those that are none are left out."""

    async def leave(self, home: str, key: str, body: bytes) -> bool:
        """Keep something for a home until its owner takes it in; False where there is no such home, or too much waits."""


class Problem(Exception):
    """What the edge answers by itself."""

    def __init__(self, status: int, words: str, wait: float = 0) -> None:
        super().__init__(words)
        self.status, self.words, self.wait = status, words, wait


class Pace:
    """So many a second, and a few at once: what a home may ask of the door."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, home: str, rate: float) -> float:
        """Take one and return 0; or return in how many seconds there is another."""
        most, now = max(1.0, rate * BURST), self._clock()
        left, before = self._left.get(home, (most, now))
        left = min(most, left + (now - before) * rate)
        self._left[home] = (left - 1 if left >= 1 else left, now)
        self._left.move_to_end(home)
        if len(self._left) > MAX_KNOWN:
            self._left.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) / rate


class Edge:
    """An ASGI application. Any number of them may stand before one fleet."""

    def __init__(self, fleet: Fleet, directory: Directory, http: HttpClient, *, patience: float = PATIENCE) -> None:
        self._fleet, self._directory, self._http, self._patience = fleet, directory, http, patience
        self._domain = f".{fleet.domain.lower().strip('.')}" if fleet.domain else ""
        self._known: OrderedDict[str, tuple[float, Place]] = OrderedDict()
        self._pace = Pace(time.monotonic)
        self.watch = Watch(directory.places)
        self._open: Counter[str] = Counter()
        self.held_bytes = 0
        self.counts: Counter[tuple[str, str]] = Counter()
        self.stopping = False
        self._warned = False  # of a proxy that nobody listed

    @property
    def secret(self) -> str:
        return self._fleet.secret

    @property
    def connections(self) -> int:
        return self._open.total()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_socket = scope["type"] == "websocket"
        try:
            if not is_socket and (own := _own_page(self, scope)) is not None:
                await _answer(send, 200, own, kind=b"text/plain; version=0.0.4")
                return
            home, path = self.target(scope)
            with self._connected(home, place := await self._find(home)):
                await (self._socket if is_socket else self._request)(scope, receive, send, (home, path, place))
        except Problem as problem:
            self._count("websocket" if is_socket else "http", str(problem.status))
            await _refuse(send, problem, socket=is_socket)
        except StorageError as problem:
            _log.warning("the database is away: %s", problem)
            await _refuse(send, Problem(503, "the fleet's database is away", 2), socket=is_socket)

    def target(self, scope: Scope) -> tuple[str, str]:
        """Return the home and the path of a request: by the first label of its host, or by /h/<home>/."""
        path: str = scope["path"]
        if path.startswith("/h/"):
            home, slash, rest = path[3:].partition("/")
            if is_home(home):
                return home, f"/{rest}" if slash else "/"
        name = _name(_host(scope))
        home = name.removesuffix(self._domain)
        if not self._domain or not name.endswith(self._domain) or not is_home(home):
            raise Problem(404, "no home is named: its name stands before the domain, or after /h/")
        return home, path

    @contextlib.contextmanager
    def _connected(self, home: str, place: Place) -> Any:
        if self.stopping:
            raise Problem(503, "this door closes", 1)
        if self._open[home] >= place.quota.connections:
            raise Problem(429, "this home has too many connections", 1)
        self._open[home] += 1
        try:
            yield
        finally:
            self._open[home] -= 1
            if not self._open[home]:
                del self._open[home]

    async def _find(self, home: str, *, anew: bool = False) -> Place:
        now, kept = time.monotonic(), self._known.get(home)
        if kept is not None and kept[1].address and not anew and now - kept[0] < FRESH:
            return kept[1]
        place = await self._directory.find(home)
        if place is None:
            self._known.pop(home, None)
            raise Problem(404, "there is no such home")
        self._known[home] = (now, place)
        self._known.move_to_end(home)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return place

    def _count(self, kind: str, outcome: str) -> None:
        self.counts[kind, outcome] += 1

    # HTTP

    async def _request(self, scope: Scope, receive: Receive, send: Send, to: tuple[str, str, Place]) -> None:
        home, path, place = to
        if wait := self._pace.wait(home, place.quota.messages_per_second):
            raise Problem(429, "this home asks too much", wait)
        with contextlib.ExitStack() as held:
            body = await self._body(scope, receive, place.quota.upload_bytes, held)
            hook = scope["method"] == "POST" and path.startswith(tuple(self._fleet.webhooks))
            headers = self._headers(scope, home)
            if hook:
                told = next((headers[name] for name in _IDENTS if headers.get(name)), "") or uuid4().hex
                headers[IDENT] = f"hook:{path.strip('/')[:100]}:{told[:100]}"
            try:
                again = hook or scope["method"] in _SAFE_TO_REPEAT
                reply, place = await self._passed(scope, to, headers, body, again=again)
                if reply.status >= 500 and hook:
                    await reply.close()
                    raise Problem(reply.status, "the home cannot take it in")
            except Problem:
                if not hook:
                    raise
                await self._keep(home, f"{path}?{scope['query_string'].decode('latin-1')}", headers, body)
                self._count("http", "kept")
                await _answer(send, 202, '{"ok":true,"kept":true}', kind=b"application/json")
                return
        self._count("http", str(reply.status))
        try:
            async with self.watch.over(home, place):
                await _stream(reply, send)
        except Moved:
            raise ConnectionResetError("the home moved in the middle of an answer") from None

    async def _body(self, scope: Scope, receive: Receive, most: int, held: contextlib.ExitStack) -> bytes:
        told = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if told.isdigit() and int(told) > most:
            raise Problem(413, f"a body may have {most:,} bytes")
        data = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Problem(499, "the client is gone")
            piece = message.get("body", b"")
            self.held_bytes += len(piece)
            held.callback(self._let_go, len(piece))
            data += piece
            if len(data) > most:
                raise Problem(413, f"a body may have {most:,} bytes")
            if self.held_bytes > MAX_HELD:
                raise Problem(503, "too much is on its way", 1)
            if not message.get("more_body"):
                return bytes(data)

    def _let_go(self, size: int) -> None:
        self.held_bytes -= size

    async def _passed(
        self, scope: Scope, to: tuple[str, str, Place], headers: dict[str, str], body: bytes, *, again: bool
    ) -> tuple[Response, Place]:
        """Return the owner's reply, and where it is from. Nothing that an owner may have begun is given to another, unless that is harmless."""
        home, path, place = to
        ends, pause = time.monotonic() + self._patience, PAUSE
        while True:
            if place.address:
                url = f"{place.address}{quote(path, safe='/%:@!$&()*+,;=~-._')}"
                url += f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else ""
                try:
                    async with self.watch.over(home, place):
                        sent = [body] if body else []
                        reply = await self._http.request(scope["method"], url, headers=headers, body=sent)
                    if reply.status != NOT_HERE:
                        return reply, place
                    await reply.close()
                except (HttpError, Moved) as problem:
                    if not again and not str(problem).startswith("no connection"):
                        raise Problem(502, "the worker was lost while it answered: look whether it was done") from None
            if time.monotonic() + pause > ends:
                raise Problem(503, "nobody holds this home right now", 2)
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE, pause * 2)
            place = await self._find(home, anew=True)

    def _headers(self, scope: Scope, home: str) -> dict[str, str]:
        """Return the client's headers without any that could speak for us, and ours."""
        found: dict[str, str] = {}
        for raw, value in scope["headers"]:
            name = raw.decode("latin-1").lower()
            if name not in _HOP and not name.startswith(("x-homarus-", "sec-websocket-")):
                text = value.decode("latin-1")
                joined = "; " if name == "cookie" else ", "
                found[name] = f"{found[name]}{joined}{text}" if name in found else text
        host = _host(scope)
        name = _name(host) if self._domain and _name(host) == f"{home}{self._domain}" else ""
        ours = {HOME: home, SECRET: self._fleet.secret, CLIENT: self._client(scope), NAME: name, "host": host or home}
        return found | ours

    def _client(self, scope: Scope) -> str:
        """Return whom a request is from: the socket's other end, or whom a proxy that is listed names.

        A proxy on this machine makes everybody look as if they were here, and its own programs are no more than others: they are
        given no address, and no home takes them for programs on its machine.
        """
        address = literal(str((scope.get("client") or ("", 0))[0]))
        told = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if (named := client_of(told)) is not None:
            if is_listed(address, self._fleet.trusted_proxies):
                address = named
            elif not self._warned:
                self._warned = True
                _log.warning("%s speaks for others: if it is your proxy, name it in 'trustedProxies'", address)
        return "" if address is None or address.is_loopback else str(address)

    async def _keep(self, home: str, path: str, headers: dict[str, str], body: bytes) -> None:
        """Make a web hook durable: whoever takes the home next hands it in, under the name that a first try had, too."""
        given = [(name, value) for name, value in headers.items() if not name.startswith("x-homarus-")]
        call = Call("POST", path.removesuffix("?"), given, body, headers[CLIENT])
        if not await self._directory.leave(home, headers[IDENT], packed(call)):
            raise Problem(507, "too much waits for this home", 60)

    # WebSockets

    async def _socket(self, scope: Scope, receive: Receive, send: Send, to: tuple[str, str, Place]) -> None:
        from websockets.exceptions import ConnectionClosed

        home, _, place = to
        if (await receive())["type"] != "websocket.connect":
            return
        if wait := self._pace.wait(home, place.quota.messages_per_second):
            raise Problem(429, "this home asks too much", wait)
        upstream, place = await self._upstream(scope, to)
        tasks: set[asyncio.Task[None]] = set()
        try:
            await send({"type": "websocket.accept", "subprotocol": upstream.subprotocol})
            self._count("websocket", "101")
            inward = asyncio.ensure_future(self._inward(receive, upstream, home, place.quota))
            outward = asyncio.ensure_future(_outward(upstream, send, scope, place.quota))
            tasks = {inward, outward}
            async with self.watch.over(home, place):
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            await _cancelled(tasks - done)
            for task in done:
                if (problem := task.exception()) is not None and not isinstance(problem, ConnectionClosed):
                    raise problem
            if outward in done:
                # A worker that is gone, and one that gave the home away, mean the same to a client: come again.
                code = upstream.close_code if upstream.close_code in range(1000, 5000) else Close.RESTART
                code = Close.RESTART if code in {1005, 1006, 1011, 1015} else code
                await _closed(send, code, upstream.close_reason or "")
        except Moved:
            upstream.transport.abort()  # whoever stopped does not say goodbye
            await _cancelled(tasks)
            self._count("websocket", "moved")
            await _closed(send, Close.RESTART, "the home moved")
        finally:
            await _cancelled(tasks)
            await upstream.close()

    async def _upstream(self, scope: Scope, to: tuple[str, str, Place]) -> tuple[Any, Place]:
        from websockets.asyncio.client import connect
        from websockets.exceptions import InvalidStatus, WebSocketException

        home, path, place = to
        headers = self._headers(scope, home)
        host = headers.pop("host")
        query = f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else ""
        ends, pause = time.monotonic() + self._patience, PAUSE
        while True:
            if place.address:
                url = f"ws{place.address.removeprefix('http')}{quote(path, safe='/%:@!$&()*+,;=~-._')}{query}"
                try:
                    async with self.watch.over(home, place):
                        upstream = await connect(
                            url, additional_headers={**headers, HOST: host}, compression=None, proxy=None,
                            subprotocols=scope.get("subprotocols") or None, max_size=MAX_PAYLOAD, ping_interval=None,
                            open_timeout=10, user_agent_header=None, close_timeout=5,
                        )  # fmt: skip
                    return upstream, place
                except InvalidStatus as refused:
                    if refused.response.status_code not in {NOT_HERE, 502, 503}:
                        raise Problem(refused.response.status_code, "the home refuses the connection") from None
                except (OSError, TimeoutError, WebSocketException, Moved):
                    pass  # the owner is gone: somebody else will be it
            if time.monotonic() + pause > ends:
                raise Problem(503, "nobody holds this home right now", 2)
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE, pause * 2)
            place = await self._find(home, anew=True)

    async def _inward(self, receive: Receive, upstream: Any, home: str, quota: Quota) -> None:
        """Pass a client's messages on, no faster than its home may have them: who is too quick is read more slowly."""
        while True:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                return
            while wait := self._pace.wait(home, quota.messages_per_second):
                self._count("websocket", "slowed")
                await asyncio.sleep(wait)
            await upstream.send(message["text"] if message.get("text") is not None else message.get("bytes", b""))


def _host(scope: Scope) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")


def _name(host: str) -> str:
    """Return the name in a Host header."""
    name, _, port = host.rpartition(":")
    return (name if port.isdigit() else host).lower().rstrip(".")


async def _cancelled(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _closed(send: Send, code: int, reason: str) -> None:
    with contextlib.suppress(RuntimeError, OSError):
        await send({"type": "websocket.close", "code": code, "reason": reason})


async def _outward(upstream: Any, send: Send, scope: Scope, quota: Quota) -> None:
    count = 0
    async for data in upstream:
        count += 1
        if count == 2:  # the first asks who it is, the second comes after that was told
            scope.get("state", {}).get("raise_limit", lambda: None)()
        await send({"type": "websocket.send", "text" if isinstance(data, str) else "bytes": data})


async def _stream(reply: Response, send: Send) -> None:
    """Give a reply on as it comes: events of a turn are not held back for the next one."""
    try:
        head = [
            (n.encode("latin-1"), v.encode("latin-1"))
            for n, v in reply.headers.items()
            if n not in _HOP - {"content-length"}
        ]
        await send({"type": "http.response.start", "status": reply.status, "headers": head})
        while piece := await reply.next():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    except HttpError as problem:
        # The head is out: that the rest is missing can only be shown by ending the connection.
        raise ConnectionResetError(single_line(str(problem), 100)) from None
    finally:
        await reply.close()


def _own_page(edge: Edge, scope: Scope) -> str | None:
    if scope["path"] in {"/healthz", "/readyz"}:
        return "stopping\n" if edge.stopping else "ok\n"
    shown = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    if scope["path"] == "/metrics" and hmac.compare_digest(shown, f"Bearer {edge.secret}".encode()):
        return edge_metrics(edge)
    return None


def edge_metrics(edge: Edge) -> str:
    """Return figures as Prometheus reads them. No home is named: there are too many, and who is busy is nobody's business."""
    lines = ["# TYPE homarus_edge_requests_total counter"]
    lines += [
        f'homarus_edge_requests_total{{kind="{k}",outcome="{o}"}} {n}' for (k, o), n in sorted(edge.counts.items())
    ]
    lines += ["# TYPE homarus_edge_connections gauge", f"homarus_edge_connections {edge.connections}"]
    lines += ["# TYPE homarus_edge_held_bytes gauge", f"homarus_edge_held_bytes {edge.held_bytes}"]
    return "\n".join(lines) + "\n"


async def _answer(
    send: Send, status: int, text: str, *, kind: bytes, more: Mapping[bytes, bytes] | None = None
) -> None:
    data = text.encode()
    headers = [(b"content-type", kind), (b"content-length", str(len(data)).encode()), *(more or {}).items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": data})


async def _refuse(send: Send, problem: Problem, *, socket: bool) -> None:
    wait = {b"retry-after": str(int(problem.wait) + 1).encode()} if problem.wait else {}
    if problem.status == 499:
        return
    if socket:
        start = {"type": "websocket.http.response.start", "status": problem.status, "headers": list(wait.items())}
        await send(start)
        await send({"type": "websocket.http.response.body", "body": problem.words.encode()})
        return
    text = msgspec.json.encode({"error": {"message": problem.words, "code": problem.status}}).decode()
    await _answer(send, problem.status, text, kind=b"application/json", more={**wait, b"connection": b"close"})


async def serve(edge: Edge, listening: socket.socket, *, ready: Callable[[], None] = lambda: None) -> None:
    """Run an edge until SIGTERM or SIGINT; what is under way then has some seconds."""
    from homarus.gateway import wire
    from homarus.gateway.settings import GatewaySettings

    loop, ending = asyncio.get_running_loop(), asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, ending.set)
    server = wire.server(edge, GatewaySettings(), None)
    server.config.limit_concurrency = MAX_CLIENTS
    serving = asyncio.ensure_future(server.serve(sockets=[listening]))
    await server.up.wait()
    ready()
    await asyncio.wait({asyncio.ensure_future(ending.wait()), serving}, return_when=asyncio.FIRST_COMPLETED)
    edge.stopping = True
    server.should_exit = True
    await serving
