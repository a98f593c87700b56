"""One socket: the handshake, then requests in and responses and events out. What a slow client does not read is bounded."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from homarus.core.errors import HomarusError
from homarus.core.text import single_line
from homarus.gateway.auth import Challenge, ClientInfo, Hello
from homarus.gateway.logs import who
from homarus.gateway.methods import Call, dispatch
from homarus.gateway.peer import Peer
from homarus.gateway.protocol import (
    MAX_BUFFERED,
    PROBE_PROTOCOL,
    PROTOCOL,
    SLOW_BYTES,
    Close,
    Code,
    Refused,
    Request,
    close_reason,
    event_frame,
    event_head,
    failure,
    read_params,
    read_request,
    response,
    where,
)
from homarus.gateway.scopes import Principal

if TYPE_CHECKING:
    from homarus.gateway.server import Gateway

_log = logging.getLogger(__name__)
MAX_AT_ONCE = 256  # requests of one socket that are worked on; the next one is read when one of them is done

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Outgoing:
    """Frames on their way to one client. The writer is there only while something waits, so an idle socket costs little."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._frames: deque[bytes] = deque()
        self._writer: asyncio.Task[None] | None = None
        self.bytes = 0
        self.closed = False

    async def accept(self) -> None:
        await self._send({"type": "websocket.accept"})

    def put(self, frame: bytes) -> None:
        if self.closed:
            return
        if self.bytes + len(frame) > MAX_BUFFERED:
            self.close(Close.POLICY, "slow consumer")
            return
        self._frames.append(frame)
        self.bytes += len(frame)
        self._wake()

    def close(self, code: Close, reason: str) -> None:
        """Send what waits, unless there is too much of it, and then close."""
        if not self.closed:
            self.closed = True
            if self.bytes > SLOW_BYTES:
                self._frames.clear()
            self._code, self._reason = code, close_reason(reason)
            self._wake()

    async def done(self) -> None:
        if self._writer is not None:
            await asyncio.wait({self._writer})

    def _wake(self) -> None:
        if self._writer is None or self._writer.done():
            self._writer = asyncio.ensure_future(self._write())

    async def _write(self) -> None:
        try:
            while self._frames:
                frame = self._frames.popleft()
                await self._send({"type": "websocket.send", "text": frame.decode()})
                self.bytes -= len(frame)
            if self.closed:
                await self._send({"type": "websocket.close", "code": int(self._code), "reason": self._reason})
        except (OSError, RuntimeError):  # the other end is gone
            self.closed = True
            self._frames.clear()


class Connection:
    """A client that is connected, or tries to."""

    def __init__(self, gateway: Gateway, peer: Peer, receive: Receive, send: Send) -> None:
        self.gateway = gateway
        self.peer = peer
        self.id = gateway.ids.uuid()
        self.principal = Principal(frozenset(), "")
        self.client = ClientInfo(id="")
        self.caps: frozenset[str] = frozenset()
        # What a node says that it can do.
        self.commands: frozenset[str] = frozenset()
        self.offers: dict[str, list[str]] = {}
        # Sessions of which this client wants every message, and whether it wants to know of changes in the list.
        self.messages_of: set[str] = set()
        self.wants_sessions = False
        self.since = gateway.now_ms
        self._receive = receive
        self._out = Outgoing(send)
        self._seq = 0
        self._working: set[asyncio.Task[None]] = set()
        self.leaving: list[Callable[[], None]] = []
        # What our own clients listen to, by the name that they gave it.
        self.streams: dict[str, Callable[[], None]] = {}

    # Out.

    def tell(self, head: bytes, *, fetchable: bool = False, version: dict[str, int] | None = None) -> None:
        """Send an event. One that can be fetched again is dropped while the client is slow, and does not count."""
        if fetchable and self._out.bytes > SLOW_BYTES:
            return
        self._seq += 1
        self._out.put(event_frame(head, self._seq, version))

    def tell_apart(self, name: str, payload: Any) -> None:
        """Send an event to this client alone; it is not numbered."""
        self._out.put(event_frame(event_head(name, payload)))

    def answer(self, frame: bytes) -> None:
        self._out.put(frame)

    def close(self, code: Close, reason: str) -> None:
        self._out.close(code, reason)

    # In.

    async def run(self, raise_limit: Callable[[], None]) -> None:
        """Serve the socket until it closes. `raise_limit` lets bigger frames in, once it is known whose they are."""
        if (await self._receive())["type"] != "websocket.connect":
            return
        await self._out.accept()
        if not await self._handshake():
            await self._out.done()
            return
        raise_limit()
        self.gateway.hub.join(self)
        if self.principal.role == "node":
            self.leaving.append(self.gateway.nodes.join(self))
        try:
            while (data := await self._frame()) is not None and not self._out.closed:
                await self._take(data)
        finally:
            for task in self._working:
                task.cancel()
            for leave in (*self.leaving, *self.streams.values()):
                leave()
            self.gateway.hub.leave(self)
            await self._out.done()

    async def _frame(self) -> bytes | str | None:
        message = await self._receive()
        if message["type"] != "websocket.receive":
            return None
        found: bytes | str = message.get("text") or message.get("bytes") or ""
        return found

    async def _handshake(self) -> bool:
        challenge = Challenge(self.gateway.ids.uuid(), self.gateway.now_ms)
        said = {"nonce": challenge.nonce, "ts": challenge.ts, "capabilities": []}
        self._out.put(event_frame(event_head("connect.challenge", said)))
        try:
            async with asyncio.timeout(self.gateway.handshake_seconds):
                data = await self._frame()
        except TimeoutError:
            self.close(Close.NORMAL, "handshake timeout")
            return False
        if data is None:
            return False
        try:
            request = read_request(data)
        except Refused:
            self.close(Close.NORMAL, "invalid handshake")
            return False
        try:
            await self._connect(request, challenge)
        except Refused as refused:
            self.gateway.note_refused(self.peer, refused)
            self.answer(failure(request.id, refused))
            self.close(refused.close, refused.message)
            return False
        return True

    async def _connect(self, request: Request, challenge: Challenge) -> None:
        if request.method != "connect":
            raise Refused("invalid handshake: first request must be connect")
        hello: Hello = read_params("connect", request.params, Hello)
        newest, oldest = hello.max_protocol, hello.min_protocol
        if not oldest <= PROTOCOL <= newest:
            details = {
                "code": "PROTOCOL_MISMATCH",
                "expectedProtocol": PROTOCOL,
                "minimumProbeProtocol": PROBE_PROTOCOL,
            }
            raise Refused("protocol mismatch", details=details, close=Close.PROTOCOL)
        admission = await self.gateway.door.admit(self.peer, hello, challenge)
        self.principal, self.client = admission.principal, hello.client
        self.caps, self.commands = frozenset(hello.caps), frozenset(hello.commands)
        self.gateway.ledger.note("connected", address=self.peer.address, client=hello.client.id, **who(self.principal))
        self.answer(response(request.id, await self.gateway.hello(self, admission)))
        if admission.asked is not None:
            self.gateway.hub.tell("device.pair.requested", admission.asked)

    async def _take(self, data: bytes | str) -> None:
        try:
            request = read_request(data)
        except Refused as refused:
            self.close(Close.POLICY, refused.message)
            return
        if len(self._working) >= MAX_AT_ONCE:
            await asyncio.wait(self._working, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.ensure_future(self._work(request))
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _work(self, request: Request) -> None:
        try:
            if not await self.gateway.door.still_holds(self.principal):
                self.close(Close.POLICY, "credential changed")
                return
            call = Call(self.gateway, self.principal, request.method, self, request.id, request.traceparent)
            self.answer(response(request.id, await dispatch(call, request.params)))
        except Refused as refused:
            if refused.code is Code.FORBIDDEN:
                self.gateway.ledger.called(self.principal, request.method, refused.code, self.peer.address)
            self.answer(failure(request.id, refused))
        except HomarusError as problem:
            self.answer(failure(request.id, Refused(str(problem))))
        except Exception as problem:  # noqa: BLE001 - one request that goes wrong is that request's matter
            _log.error("%s failed: %s", single_line(request.method, 60), where(problem))
            self.answer(failure(request.id, Refused("internal error; the gateway's log says more", Code.UNAVAILABLE)))
