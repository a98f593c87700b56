"""The only HTTP client of the program: requests go out as the bytes they were given, replies come in as bytes.

The wire is httpcore2's, the transport of httpx2, which is imported with the first request (60 ms of CPU). What is decided here: which
proxy and which certificates are used, what a failure means and what cures it, and that a small body never unpacks into a large one.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit
from weakref import WeakKeyDictionary

from homarus.core.behind import durable
from homarus.core.patterns import late
from homarus.core.text import single_line
from homarus.net.errors import HttpError, Refused
from homarus.net.proxy import NO_PROXY, Proxies
from homarus.net.trust import SYSTEM, Trust

if TYPE_CHECKING:
    import httpcore2

PIECE = 65536
LOOKUP_PAUSE = 1.0
MAX_OPEN = 100
MAX_ANSWER = 1 << 30  # a batch of 50,000 vectors
# Control characters in a header would smuggle in another one.
_UNFIT = late(r"[\x00-\x08\x0a-\x1f\x7f]")
_KEY_CURE = "check the API key"
# Chooses the address that a connection to a host and port goes to, and may refuse to.
Choose = Callable[[str, int], Awaitable[str]]


class Response:
    """A reply whose head has arrived. Close it in a `finally`; only one that was read to its end frees its connection."""

    def __init__(self, reply: httpcore2.Response, explain: Callable[[Exception], HttpError]) -> None:
        self.status = reply.status
        self.headers: dict[str, str] = {}
        for raw_name, raw_value in reply.headers:
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
            self.headers[name] = f"{self.headers[name]}, {value}" if name in self.headers else value
        self.kind = self.headers.get("content-type", "").lower()
        self._reply = reply
        self._explain = explain
        self._unpack = _unpacker(self.headers.get("content-encoding", "").strip().lower())
        self._pieces = self._read()

    async def next(self) -> bytes:
        """Return more of the body as soon as there is some, and nothing at its end; raises `HttpError` if it ends early."""
        return await anext(self._pieces, b"")

    async def read(self, limit: int) -> bytes:
        parts, size = [], 0
        while size < limit and (piece := await self.next()):
            parts.append(piece)
            size += len(piece)
        return b"".join(parts)[:limit]

    async def close(self) -> None:
        """Give the connection back if the reply was read to its end, and drop it otherwise."""
        await self._pieces.aclose()
        await self._reply.aclose()

    async def _read(self) -> AsyncGenerator[bytes, None]:
        from homarus.net.transport import FAILURES

        try:
            async for piece in self._reply.aiter_stream():
                if self._unpack is None:
                    yield piece
                    continue
                # A small piece can hold a thousand times as much: what is not unpacked yet waits inside.
                while piece:
                    if unpacked := self._unpack.decompress(piece, PIECE):
                        yield unpacked
                    piece = self._unpack.unconsumed_tail
            if self._unpack is not None and (rest := self._unpack.flush()):
                yield rest
        except zlib.error as problem:
            raise HttpError(f"damaged compressed body: {problem}") from problem
        except FAILURES as problem:
            raise self._explain(problem) from problem


class HttpClient:
    """Kept connections to servers, for the running event loop. `choose` decides where a connection really goes."""

    def __init__(
        self, *, proxies: Proxies = NO_PROXY, trust: Trust = SYSTEM, choose: Choose | None = None, most: int = MAX_OPEN
    ) -> None:
        self._most = most  # connections at a time
        self._proxies = proxies
        self._trust = trust
        self._choose = choose
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str], Any]] = WeakKeyDictionary()

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: Sequence[bytes] = ()
    ) -> Response:
        """Send a request and return the reply when its head is there. Raises `HttpError`.

        A kept connection that the server had closed in the meantime is replaced, and a name that is not found is looked up
        once more; nothing else is ever sent twice.
        """
        from homarus.net import transport

        await durable()
        target = http_target(url)
        proxy = self._proxies.find(target)
        content = b"".join(body)
        host = wire_name(target.hostname or "")
        # A proxy is told the address as it stands in a URL, which for IPv6 has brackets.
        place = b"[%b]" % host if proxy and b":" in host else host
        sent = _headers(target, headers or {}, len(content) if content or method == "POST" else None)
        pool = self._pool(target, proxy)
        looked_up = False
        while True:
            try:
                reply = await transport.exchange(pool, transport.asked(method, target, place, sent, content))
                break
            except transport.Stale:
                continue  # with another kept connection, and with a new one when none is left
            except transport.FAILURES as problem:
                if looked_up or not transport.is_lookup(problem):
                    raise transport.explain(problem, target, proxy) from problem
                looked_up = True
                await asyncio.sleep(LOOKUP_PAUSE)
        if reply.status == 407 and proxy:
            await reply.aclose()
            raise transport.proxy_refused(proxy, "407 Proxy Authentication Required")
        try:
            return Response(reply, lambda problem: transport.explain(problem, target, proxy))
        except BaseException:
            await reply.aclose()
            raise

    def _pool(self, target: SplitResult, proxy: str) -> Any:
        from homarus.net import transport

        pools = self._pools.setdefault(asyncio.get_running_loop(), {})
        key = (target.scheme, proxy)
        if key not in pools:
            secure = target.scheme == "https" or proxy.startswith("https:")
            pools[key] = transport.make_pool(proxy, self._trust.context() if secure else None, self._choose, self._most)
        return pools[key]

    async def aclose(self) -> None:
        """Close every kept connection of the running event loop."""
        for pool in self._pools.pop(asyncio.get_running_loop(), {}).values():
            await pool.aclose()


def ask(
    client: HttpClient, method: str, url: str, headers: Mapping[str, str], body: bytes, *, seconds: float
) -> tuple[int, bytes]:
    """Return status and body of one exchange, for code that runs in a thread of its own. Raises `HttpError`."""

    async def exchange() -> tuple[int, bytes]:
        try:
            async with asyncio.timeout(seconds):
                response = await client.request(method, url, headers=headers, body=[body])
                try:
                    return response.status, await response.read(MAX_ANSWER)
                finally:
                    await response.close()
        except TimeoutError:
            raise HttpError(f"no answer within {seconds:g} s") from None
        finally:
            await client.aclose()

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(exchange())
    # Called from a callback of some event loop, which cannot run a second one beside it.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, exchange()).result()


def http_target(url: str) -> SplitResult:
    """Return the parts of an address; `Refused` says that it is none."""
    try:
        target = urlsplit(url)
        port = target.port
    except ValueError:
        target, port = urlsplit(""), None
    if target.scheme not in {"http", "https"} or not target.hostname or port == 0:
        raise Refused(f"'{url}' is no http address", "write it as http://host:port/path or https://host/path")
    return target


def wire_name(host: str) -> bytes:
    """Return a host as it goes to the resolver and the server: look-alike digits are digits from here on."""
    name = host.rstrip(".")
    try:
        return name.encode("ascii") if ":" in name else name.encode("idna")
    except UnicodeError as problem:
        raise Refused(f"'{single_line(name, 100)}' is no host", "check the address") from problem


def sendable(value: str) -> bool:
    """Say whether a header can carry a value, such as a key."""
    try:
        return not _UNFIT.search(value) and bool(value.encode("latin-1"))
    except UnicodeEncodeError:
        return False


def _headers(target: SplitResult, given: Mapping[str, str], length: int | None) -> list[tuple[bytes, bytes]]:
    place = target.netloc.rpartition("@")[2]
    if not place.isascii():
        place = wire_name(target.hostname or "").decode() + (f":{target.port}" if target.port else "")
    fields = {"host": place, "accept-encoding": "identity"}
    fields |= {name.lower(): value.strip() for name, value in given.items()}
    fields.pop("content-length", None)
    if length is not None:
        fields["content-length"] = str(length)
    try:
        for name, value in fields.items():
            if _UNFIT.search(name + value):
                raise Refused(f"header '{name[:40]}' holds a line break or another control character", _KEY_CURE)
        return [(name.encode("ascii"), value.encode("latin-1")) for name, value in fields.items()]
    except UnicodeEncodeError as problem:
        raise Refused("a header holds a character that HTTP cannot carry", _KEY_CURE) from problem


def _unpacker(name: str) -> Any:
    if name in {"", "identity"}:
        return None
    if name in {"gzip", "x-gzip", "deflate"}:
        return zlib.decompressobj(zlib.MAX_WBITS | 32)
    raise HttpError(f"unknown content encoding '{name[:40]}'")
