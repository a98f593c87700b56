"""httpcore2 behind one function, and what its failures mean to people. Imported with the first request, not before."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Iterator
from urllib.parse import SplitResult, quote, unquote, urlsplit

import httpcore2

from homarus.core.errors import installing
from homarus.core.text import single_line
from homarus.net.errors import HttpError, NoConnection, Refused
from homarus.net.proxy import is_here
from homarus.net.sockets import Choose, Sockets, opened

# What stays as it is in an address; all else is written as bytes in hexadecimal, as browsers do.
SAFE = "%/:=&?~#+!$,;'@()*[]|"
CONNECT_SECONDS = 20.0
# Its debug lines hold headers, which are nobody's business.
logging.getLogger("httpcore2").setLevel(logging.INFO)
IDLE_SECONDS = 55.0
MAX_IDLE = 8
ALIVE = ((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),)
# What httpcore2 raises, and what slips through it of a SOCKS proxy that answers nonsense.
FAILURES: tuple[type[Exception], ...] = (
    httpcore2.NetworkError,
    httpcore2.TimeoutException,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.UnsupportedProtocol,
    AssertionError,
    OSError,
)
try:
    from socksio import ProtocolError as SocksError

    FAILURES += (SocksError,)
except ImportError:
    pass  # a SOCKS proxy is refused then, see `_proxy`


class Stale(Exception):
    """A kept connection turned out to be closed before anything of a reply came."""


def make_pool(
    proxy: str, context: ssl.SSLContext | None, choose: Choose | None, most: int
) -> httpcore2.AsyncConnectionPool:
    return httpcore2.AsyncConnectionPool(
        ssl_context=context,
        proxy=_proxy(proxy, context) if proxy else None,
        max_connections=most,
        max_keepalive_connections=max(MAX_IDLE, most // 10),
        keepalive_expiry=IDLE_SECONDS,
        network_backend=Sockets(choose),
        socket_options=ALIVE,
    )


def _proxy(text: str, context: ssl.SSLContext | None) -> httpcore2.Proxy:
    parts = urlsplit(text)
    default = {"https": 443, "http": 8080}.get(parts.scheme, 1080)
    url = httpcore2.URL(scheme=parts.scheme, host=parts.hostname or "", port=parts.port or default, target="/")
    auth = (unquote(parts.username).encode(), unquote(parts.password or "").encode()) if parts.username else None
    if parts.scheme.startswith("socks"):
        try:
            import socksio  # noqa: F401 - httpcore2 needs it, and only fails later without it
        except ImportError as problem:
            raise Refused(f"{proxy_name(text)} is a SOCKS proxy", installing("socksio")) from problem
    return httpcore2.Proxy(url, auth=auth, ssl_context=context if parts.scheme == "https" else None)


def asked(
    method: str, target: SplitResult, host: bytes, headers: list[tuple[bytes, bytes]], body: bytes
) -> httpcore2.Request:
    path = (target.path or "/") + (f"?{target.query}" if target.query else "")
    url = httpcore2.URL(
        scheme=target.scheme.encode(), host=host, port=target.port, target=quote(path, safe=SAFE).encode()
    )
    extensions = {"timeout": {"connect": CONNECT_SECONDS}, "sni_hostname": host.strip(b"[]").decode("ascii")}
    return httpcore2.Request(method, url, headers=headers, content=body, extensions=extensions)


async def exchange(pool: httpcore2.AsyncConnectionPool, request: httpcore2.Request) -> httpcore2.Response:
    mine: list[httpcore2.AsyncNetworkStream] = []
    before = opened.set(mine)
    try:
        return await pool.handle_async_request(request)
    except BaseException as problem:
        for stream in mine:  # the library leaves one open that a SOCKS proxy refused
            await stream.aclose()
        lost = isinstance(problem, httpcore2.ReadError | httpcore2.WriteError)
        if not mine and (lost or "without sending" in str(problem)):
            raise Stale from problem
        raise
    finally:
        opened.reset(before)


def is_lookup(problem: BaseException) -> bool:
    return any(isinstance(cause, socket.gaierror) for cause in _causes(problem))


def explain(problem: Exception, target: SplitResult, proxy: str) -> HttpError:
    """Return what a failure means; a `Refused` where trying again is pointless."""
    if isinstance(problem, httpcore2.ProxyError):
        return proxy_refused(proxy, str(problem))
    if proxy.startswith("socks") and not isinstance(problem, httpcore2.NetworkError | httpcore2.TimeoutException):
        return proxy_refused(proxy, "it does not answer as a SOCKS5 proxy")
    connecting = isinstance(problem, httpcore2.ConnectError | httpcore2.ConnectTimeout)
    for cause in _causes(problem) if connecting else ():
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
            return _untrusted(cause, target.netloc.rpartition("@")[2])
    if connecting and proxy:
        return Refused(f"the proxy {proxy_name(proxy)} cannot be reached: {_reason(problem)}", _PROXY_CURE)
    if is_lookup(problem):
        return Refused(f"there is no host {target.hostname}", "check the address, and whether this machine is online")
    said = str(problem)
    if isinstance(problem, httpcore2.ConnectTimeout):
        return HttpError(f"no connection to {target.netloc} within {CONNECT_SECONDS:g} s")
    if isinstance(problem, httpcore2.ConnectError):
        # On this machine that is final: who restarts a server here knows it, and who forgot to start one waits for nothing.
        if is_here(target.hostname or "") and any(
            isinstance(each, ConnectionRefusedError) for each in _causes(problem)
        ):
            where = target.netloc.rpartition("@")[2]
            return Refused(f"nothing listens on {where}", "start the server there, or correct its address")
        return NoConnection(f"no connection to {target.netloc}: {_reason(problem)}")
    if "without sending a response" in said:
        return HttpError(f"{target.netloc} closed the connection without a reply")
    if "peer closed" in said or not isinstance(problem, httpcore2.ProtocolError):
        return HttpError("the connection was closed in the middle of the reply")
    if isinstance(problem, httpcore2.LocalProtocolError):
        # Its words may hold the header that was refused, and with it the key.
        return Refused("a header holds a character that HTTP cannot carry", "check the API key")
    return HttpError(f"{target.netloc} does not answer in HTTP/1.1: {single_line(said, 100)}")


_PROXY_CURE = "check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY, or name the host in NO_PROXY"


def proxy_name(proxy: str) -> str:
    """Return a proxy as it may be shown: without its password."""
    parts = urlsplit(proxy)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def proxy_refused(proxy: str, said: str) -> HttpError:
    """Return the failure of a proxy that is there and does not do it."""
    text = f"the proxy {proxy_name(proxy)} says: {single_line(said, 100)}"
    if said[:3] in {"500", "502", "503", "504"}:
        return HttpError(text)  # the way behind it may come back
    wants_name = said.startswith("407") or "username" in said.lower() or "got" in said
    return Refused(text, "put user and password into its address (http://user:password@host:port)" if wants_name else _PROXY_CURE)  # fmt: skip


def _untrusted(problem: ssl.SSLError, where: str) -> Refused:
    if not isinstance(problem, ssl.SSLCertVerificationError):
        reason = (problem.reason or str(problem)).lower().replace("_", " ")
        return Refused(
            f"{where} does not speak TLS: {reason}", "check the address: its port, and whether it is http or https"
        )
    said = problem.verify_message.rstrip(".")
    if "expired" in said or "not yet valid" in said:
        cure = "check this machine's clock; else the server's owner must renew it"
    elif "mismatch" in said or "not valid for" in said:
        cure = "check the address: the certificate is for another name"
    else:
        cure = "if it is your own or your company's, name the file with its certificate in NODE_EXTRA_CA_CERTS"
    return Refused(f"the certificate of {where} is not trusted: {said}", cure)


def _causes(problem: BaseException) -> Iterator[BaseException]:
    """Yield a failure and what it comes from."""
    found: BaseException | None = problem
    for _ in range(10):
        if found is None:
            return
        yield found
        if isinstance(found, BaseExceptionGroup):
            for inner in found.exceptions:
                yield from _causes(inner)
        arg = found.args[0] if found.args and isinstance(found.args[0], BaseException) else None
        found = found.__cause__ or arg or found.__context__


def _reason(problem: BaseException) -> str:
    for cause in _causes(problem):
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
    return single_line(str(problem), 100) or type(problem).__name__
