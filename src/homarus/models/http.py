"""A small HTTP/1.1 client for model calls: streams, keeps connections alive, and makes one TLS context per process.

Why not a library: `httpx2` costs 72 ms of CPU to import and 0.65 ms a request, this module 1 ms and 0.12 ms, and a whole
`homarus agent` run has 150 ms. It speaks to servers that the user configured; fetching arbitrary pages is not its business.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from homarus.models.connection import Connection, HttpError
from homarus.models.heads import ReplyHead, fields, number, read_head, request_head
from homarus.models.proxy import NO_PROXY, Proxies, connect_request
from homarus.models.vigil import Vigils

if TYPE_CHECKING:
    import ssl

READ_SIZE = 65536
CONNECT_SECONDS = 20.0
IDLE_SECONDS = 55.0
MAX_IDLE = 8


@functools.cache
def tls_context() -> ssl.SSLContext:
    """Return the process's one TLS context; reading the certificate store costs 15 ms and is paid at most once."""
    import ssl
    import sys

    if sys.platform in {"darwin", "win32"}:
        # There the system's certificates are in no file that OpenSSL reads.
        import truststore

        context: ssl.SSLContext = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    else:
        context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class Response:
    """A reply whose head has arrived. Close it in a `finally`; only one that was read to its end frees its connection."""

    def __init__(self, client: HttpClient, connection: Connection, head: ReplyHead) -> None:
        self.status = head.status
        self.kind = head.kind
        self._head = head.raw
        self._client = client
        self._connection: Connection | None = connection
        self._reusable = head.reusable
        # Whether all of the body was read.
        self.ended = head.status in {204, 304}
        self._chunked = head.chunked
        # Bytes left in the current chunk or in the whole body; None means until the connection closes.
        self._left: int | None = 0 if head.chunked else head.length
        self._between = self._trailing = False
        self._unpack = _unpacker(head.encoding) if head.encoding else None

    @functools.cached_property
    def headers(self) -> dict[str, str]:
        """Return all fields of the head, by their names in small letters."""
        return fields(self._head)

    def close(self) -> None:
        """Give the connection back if the reply was read to its end, and drop it otherwise."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._client.release(connection, reusable=self.ended and self._reusable)

    async def read(self, limit: int) -> bytes:
        """Return the body, cut at `limit` bytes."""
        parts, size = [], 0
        while size < limit and (chunk := await self.next()):
            parts.append(chunk)
            size += len(chunk)
        return b"".join(parts)[:limit]

    async def next(self) -> bytes:
        """Return more of the body as soon as there is some, and nothing at its end; raises `HttpError` if it ends early."""
        while (data := self.ready()) is None:
            assert self._connection is not None, "a reply that was closed has nothing more"
            try:
                await self._connection.more()
            except asyncio.IncompleteReadError as problem:
                raise HttpError("the connection was closed in the middle of the reply") from problem
        return data

    def ready(self) -> bytes | None:
        """Return what of the body is here already, nothing at its end, and None where it must be waited for."""
        if self._unpack is None:
            return self._raw()
        while True:
            # A small piece can hold a thousand times as much: what is not unpacked yet waits inside.
            packed = self._unpack.unconsumed_tail or self._raw()
            if not packed:
                return packed if packed is None else bytes(self._unpack.flush())
            try:
                data = bytes(self._unpack.decompress(packed, READ_SIZE))
            except zlib.error as problem:
                raise HttpError(f"damaged compressed body: {problem}") from problem
            if data:
                return data

    def _raw(self) -> bytes | None:
        connection = self._connection
        if self.ended or connection is None:
            return b""
        if self._chunked and not self._left and not self._next_size(connection):
            return None
        if self._left == 0:
            self.ended = True
            return b""
        data = connection.some(READ_SIZE if self._left is None else min(self._left, READ_SIZE))
        if data is None:
            return None
        if self._left is None:
            self.ended, self._reusable = not data, False
        elif not data:
            raise HttpError("the connection was closed in the middle of the reply")
        else:
            self._left -= len(data)
            self.ended = self._left == 0 and not self._chunked
        return data

    def _next_size(self, connection: Connection) -> bool:
        """Read the size of the next chunk; False where it is not there yet."""
        # The line break after a chunk is read with the next size, so that the chunk itself is not held back for it.
        if self._between:
            mark = connection.exactly(2)
            if mark is None:
                return False
            if mark != b"\r\n":
                raise HttpError("damaged chunked body")
            self._between = False
        if not self._trailing:
            line = connection.until(b"\r\n")
            if line is None:
                return False
            self._left = number(line.partition(b";")[0].decode("latin-1"), 16)
            if self._left:
                self._between = True
                return True
            self._trailing = True
        while (line := connection.until(b"\r\n")) is not None:
            if line == b"\r\n":
                return True
        return False


# How a connection is made: host, port, and the TLS context or None. A caller may pin the address here.
Connect = Callable[[str, int, "ssl.SSLContext | None"], Awaitable[Connection]]


async def _connect(host: str, port: int, context: ssl.SSLContext | None) -> Connection:
    _, connection = await asyncio.get_running_loop().create_connection(Connection, host, port, ssl=context)
    return connection


class _Way(Struct, frozen=True):
    """A request but for its body: where it goes, through what, and its head up to the length."""

    method: str
    url: str
    headers: dict[str, str]
    target: SplitResult
    proxy: str
    key: str
    head: bytes


class HttpClient:
    """Connections to model servers. One per process; it follows the running event loop."""

    def __init__(self, *, proxies: Proxies = NO_PROXY, connect: Connect | None = None) -> None:
        self._proxies = proxies
        self._connect = connect or _connect
        self.vigils = Vigils()
        self._idle: dict[str, list[Connection]] = {}
        # Where the last request went: a conversation asks the same address in the same words each time.
        self._way: _Way | None = None
        # What the last reply began with: servers on this machine often say the very same each time.
        self._head: ReplyHead | None = None

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: Sequence[bytes] = ()
    ) -> Response:
        """Send a request and return the reply when its head is there.

        Raises OSError (no connection), TimeoutError (no connection in time) and HttpError. A kept connection that the server
        had closed in the meantime is replaced once; nothing else is ever sent twice.
        """
        way = self._way
        if way is None or (way.method, way.url) != (method, url) or way.headers != (headers or {}):
            way = self._way = self._plan(method, url, dict(headers or {}))
        size = sum(map(len, body))
        length = b"content-length: %d\r\n\r\n" % size if size or method == "POST" else b"\r\n"
        while True:
            connection = self._take(way.key) or await self._open(way.key, way.target, way.proxy)
            try:
                return await self._exchange(connection, [way.head, length, *body])
            except (ConnectionError, asyncio.IncompleteReadError) as problem:
                connection.close()
                began = isinstance(problem, asyncio.IncompleteReadError) and problem.partial
                if began or not connection.used:
                    raise HttpError(f"{way.target.netloc} closed the connection without a reply") from problem
            except BaseException:
                connection.close()
                raise

    def _plan(self, method: str, url: str, headers: dict[str, str]) -> _Way:
        target = urlsplit(url)
        if target.scheme not in {"http", "https"} or not target.hostname:
            raise HttpError(f"'{url}' is no http address")
        proxy = self._proxies.find(target)
        key = f"{target.scheme}://{target.netloc}|{proxy}"
        return _Way(method, url, headers, target, proxy, key, request_head(method, target, headers, through=proxy))

    async def _exchange(self, connection: Connection, parts: list[bytes]) -> Response:
        if not connection.write(parts):
            await connection.send()
        while True:
            while (raw := connection.until(b"\r\n\r\n")) is None:
                await connection.more()
            head = self._head
            if head is None or head.raw != raw:
                head = self._head = read_head(raw)
            if head.status >= 200:
                return Response(self, connection, head)

    async def _open(self, key: str, target: SplitResult, proxy: str) -> Connection:
        host, port = target.hostname or "", target.port or (443 if target.scheme == "https" else 80)
        async with asyncio.timeout(CONNECT_SECONDS):
            if proxy:
                connection = await self._open_through(target.scheme, (host, port), urlsplit(proxy))
            else:
                context = tls_context() if target.scheme == "https" else None
                connection = await self._connect(host, port, context)
        connection.key = key
        raw = connection.transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return connection

    async def _open_through(self, scheme: str, to: tuple[str, int], proxy: SplitResult) -> Connection:
        connection = await _connect(proxy.hostname or "", proxy.port or 8080, None)
        if scheme == "https":
            try:
                await connection.send([connect_request(to, proxy)])
                while (raw := connection.until(b"\r\n\r\n")) is None:
                    await connection.more()
                if (status := read_head(raw).status) != 200:
                    raise HttpError(f"the proxy {proxy.hostname} answered {status} to CONNECT")
                await connection.secure(tls_context(), to[0])
            except asyncio.IncompleteReadError as problem:
                connection.close()
                raise HttpError(f"the proxy {proxy.hostname} closed the connection") from problem
            except BaseException:
                connection.close()
                raise
        return connection

    def _take(self, key: str) -> Connection | None:
        loop, waiting = asyncio.get_running_loop(), self._idle.get(key, [])
        while waiting:
            connection = waiting.pop()
            if connection.loop is loop and connection.usable:
                connection.used = True
                return connection
            connection.close()
        return None

    def release(self, connection: Connection, *, reusable: bool) -> None:
        """Take a connection back after a reply."""
        connection.expires = connection.loop.time() + IDLE_SECONDS
        waiting = self._idle.setdefault(connection.key, [])
        if reusable and len(waiting) < MAX_IDLE and connection.quiet:
            waiting.append(connection)
        else:
            connection.close()

    async def aclose(self) -> None:
        """Close every kept connection; call it in the loop that used them."""
        for waiting in self._idle.values():
            for connection in waiting:
                connection.close()
        self._idle.clear()
        await asyncio.sleep(0)


def _unpacker(name: str) -> Any:
    if name == "identity":
        return None
    if name in {"gzip", "x-gzip", "deflate"}:
        return zlib.decompressobj(zlib.MAX_WBITS | 32)
    raise HttpError(f"unknown content encoding '{name}'")
