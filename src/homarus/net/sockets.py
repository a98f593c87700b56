"""Connections for httpcore2, straight on asyncio's transports: its own go through anyio, which takes a tenth of a turn's CPU time."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from asyncio.staggered import staggered_race
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from functools import partial
from typing import Any

import httpcore2

# Chooses the address that a connection to a host and port goes to, and may refuse to.
Choose = Callable[[str, int], Awaitable[str]]
# So long one address of a host may keep silent until the next one is tried beside it.
NEXT_ADDRESS_SECONDS = 0.25
MAX_WAITING = 1 << 18
MAX_UNSENT = 1 << 16
_INFO = {"client_addr": "sockname", "server_addr": "peername"}
# The connections that were opened for the request that is being sent.
opened: ContextVar[list[httpcore2.AsyncNetworkStream] | None] = ContextVar("opened", default=None)


class _Link(asyncio.Protocol):
    """Keeps what arrived until somebody reads it, and wakes who waits for the other side."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.arrived = bytearray()
        self.ended = False
        self.problem: Exception | None = None
        self._unsent: list[bytes] = []
        self._paused = self._full = False
        self._waiter: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.arrived += data
        if len(self.arrived) > MAX_WAITING and not self._paused:
            self._paused = True
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self.ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended, self.problem = True, exc
        self._wake()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    async def take(self, most: int) -> bytes:
        await self._send()
        while not self.arrived:
            if self.problem is not None:
                raise self.problem
            if self.ended:
                return b""
            await self._wait()
        data = bytes(self.arrived[:most])
        del self.arrived[:most]
        if self._paused and not self.arrived:
            self._paused = False
            self.transport.resume_reading()
        return data

    async def give(self, data: bytes) -> None:
        """Send something: with what is read next, so that a request's head and its body leave in one piece."""
        self._unsent.append(data)
        if len(data) > MAX_UNSENT:
            await self._send()

    async def _send(self) -> None:
        unsent, self._unsent = self._unsent, []
        if unsent and not self.ended:
            self.transport.writelines(unsent)
        while self._full and not self.ended:
            await self._wait()


class Stream(httpcore2.AsyncNetworkStream):
    """One connection. Requests are read and written by one task at a time."""

    def __init__(self, link: _Link) -> None:
        self._link = link

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore2's own contract
        try:
            async with asyncio.timeout(timeout):
                return await self._link.take(max_bytes)
        except TimeoutError as problem:
            raise httpcore2.ReadTimeout from problem
        except OSError as problem:
            raise httpcore2.ReadError(str(problem)) from problem

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        try:
            async with asyncio.timeout(timeout):
                await self._link.give(buffer)
        except TimeoutError as problem:
            raise httpcore2.WriteTimeout from problem
        except OSError as problem:
            raise httpcore2.WriteError(str(problem)) from problem

    async def aclose(self) -> None:
        # Nobody reads any more: what the other side still says, and its farewell in TLS, is not waited for.
        self._link.transport.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore2.AsyncNetworkStream:
        link, loop = _Link(), asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                secured = await loop.start_tls(self._link.transport, link, ssl_context, server_hostname=server_hostname)
            if secured is None:  # lost in the moment in which it was ready
                raise ConnectionResetError("the other side has closed the connection")
            link.connection_made(secured)
        except BaseException as problem:
            await self.aclose()
            if isinstance(problem, TimeoutError):
                raise httpcore2.ConnectTimeout from problem
            if isinstance(problem, OSError):  # of which failures of TLS are a kind
                raise httpcore2.ConnectError(str(problem)) from problem
            raise
        return Stream(link)

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":  # which says of an idle connection that the other side has closed it
            return bool(self._link.arrived) or self._link.ended
        return self._link.transport.get_extra_info(_INFO.get(info, info))


class Sockets(httpcore2.AsyncNetworkBackend):
    """Connects to the address that was chosen for a host, and to no other; TLS still asks for the host's certificate."""

    def __init__(self, choose: Choose | None = None) -> None:
        self._choose = choose

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        address = await self._choose(host, port) if self._choose else host
        try:
            async with asyncio.timeout(timeout):
                sock = await connected(await _addresses(address, port), tuple(socket_options or ()))
                _, link = await asyncio.get_running_loop().create_connection(_Link, sock=sock)
        except TimeoutError as problem:
            raise httpcore2.ConnectTimeout from problem
        except OSError as problem:
            raise httpcore2.ConnectError(str(problem)) from problem
        stream = Stream(link)
        if (mine := opened.get()) is not None:
            mine.append(stream)
        return stream


async def _addresses(host: str, port: int) -> list[Any]:
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):  # an address needs nobody who looks it up
            socket.inet_pton(family, host)
            return [(family, socket.SOCK_STREAM, 0, "", (host, port))]
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


async def connected(addresses: list[Any], options: tuple[Any, ...]) -> socket.socket:
    """Return a connection to the first of a host's addresses that takes it."""

    async def attempt(family: int, kind: int, proto: int, _name: str, address: Any) -> socket.socket:
        made = socket.socket(family, kind, proto)
        try:
            made.setblocking(False)
            for option in options:
                made.setsockopt(*option)
            await asyncio.get_running_loop().sock_connect(made, address)
        except BaseException:
            made.close()
            raise
        return made

    tries = [partial(attempt, *each) for each in addresses]
    if len(tries) == 1:
        return await tries[0]()
    found: tuple[socket.socket | None, Any, list[Exception | None]] = await staggered_race(tries, NEXT_ADDRESS_SECONDS)
    if found[0] is None:
        raise next(problem for problem in found[2] if problem is not None)
    return found[0]
