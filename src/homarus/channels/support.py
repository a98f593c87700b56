"""What adapters share: their settings as a type, secrets that lie in files, TLS, growing pauses, a small durable note, and a port
for webhooks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import mimetypes
import os
import random
import socket
import ssl
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from homarus.channels.channel import Host, Identity
from homarus.core.clock import Clock, chance
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure, HomarusError
from homarus.core.redact import redacted
from homarus.core.text import single_line
from homarus.net.client import HttpClient
from homarus.net.errors import HttpError, Refused
from homarus.net.proxy import proxies_from
from homarus.net.trust import Trust
from homarus.storage.atomic import ensure_dir, write_atomic

MAX_SECRET = 65536


class Block(msgspec.Struct, frozen=True, rename="camel"):
    """What an adapter reads of its account's block. It holds passwords, so it never shows itself."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


Settings = TypeVar("Settings", bound=Block)
Held = TypeVar("Held", bound=Struct)


def settings_of(host: Host, channel: str, kind: type[Settings]) -> Settings:
    """Return an account's block as a type; raises a fatal `ChannelError` that names the key and never its value."""
    try:
        # Values of the environment are text, also where a number is meant.
        return msgspec.convert(dict(host.settings), kind, strict=False)
    except msgspec.ValidationError as problem:
        raise ChannelError(
            f"channels.{channel} ({host.account}): {problem}", fatal=True, cure="correct the key in openclaw.json"
        ) from None


def secret(value: str, file: str, key: str) -> str:
    """Return a secret that stands in a setting or, where that is empty, in the file that `<key>File` names."""
    if value or not file:
        return value
    problem = "is no ordinary file"
    try:
        path = Path(file).expanduser()
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                return os.read(fd, MAX_SECRET).decode().strip()
        finally:
            os.close(fd)
    except OSError as failure:
        problem = failure.strerror or "cannot be read"
    except UnicodeDecodeError:
        problem = "holds no text"
    raise ChannelError(f"{key}File: {file} {problem}", fatal=True, cure=f"correct {key}File, or set {key}")


def tls_context(ca_file: str = "", cert_file: str = "", key_file: str = "") -> ssl.SSLContext:
    """Return a TLS context of one's own: the system's certificates or those of a file, and a certificate to show."""
    try:
        context = Trust(ca_file, "caFile").fresh_context()
        if cert_file:
            context.load_cert_chain(Path(cert_file).expanduser(), key_file or None)
    except HttpError as problem:
        raise ChannelError(str(problem), fatal=True, cure="correct caFile") from None
    except (OSError, ssl.SSLError) as problem:
        raise ChannelError(
            f"certFile: {cert_file} cannot be used: {reason(problem)}",
            fatal=True,
            cure="name a PEM file with the certificate and its key",
        ) from None
    return context


def reason(problem: BaseException) -> str:
    """Return why a connection failed, in one line that says nothing twice."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {problem.verify_message}"
    if isinstance(problem, TimeoutError):
        return "no answer in time"
    if isinstance(problem, OSError) and problem.strerror:
        return single_line(problem.strerror)
    return single_line(str(problem)) or type(problem).__name__


def refused(what: str, cure: str = "") -> DeliveryError:
    return DeliveryError(DeliveryFailure.REFUSED, what, cure=cure)


def is_named(text: str, nick: str) -> bool:
    """Say whether a text holds a nick as a word of its own; both are folded. Signs that nicks may hold belong to the word."""
    letters = "[]\\`_^{|}-"
    at = text.find(nick)
    while at >= 0:
        around = text[at - 1 : at] + text[at + len(nick) : at + len(nick) + 1]
        if not any(letter.isalnum() or letter in letters for letter in around):
            return True
        at = text.find(nick, at + 1)
    return False


async def keep_connected(
    session: Callable[[], Awaitable[None]],
    host: Host,
    clock: Clock,
    *,
    first: float = 1.0,
    most: float = 300.0,
    steady: float = 60.0,
    spread: Callable[[], float] = chance,
) -> None:
    """Call `session` for ever; one call is one connection. Pauses double, and begin anew after one that held.

    A fatal `ChannelError` ends it; what else fails, a full disk too, is told and tried again.
    """
    pause = first
    while True:
        began = clock.monotonic()
        try:
            await session()
            host.troubled("the server closed the connection")
        except HomarusError as problem:
            if isinstance(problem, ChannelError) and problem.fatal:
                raise
            host.troubled(problem.message, cure=problem.cure)
        except (OSError, EOFError, TimeoutError) as problem:
            host.troubled(reason(problem))
        if clock.monotonic() - began >= steady:
            pause = first
        await clock.sleep(pause * (0.75 + spread() / 2))
        pause = min(most, pause * 2)


async def side_by_side(*work: Coroutine[Any, Any, None]) -> None:
    """Run until one of them ends, as it ends; the others are cancelled, and none is left behind."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


MAX_BODY = 4 << 20
MAX_ANSWER = 200 << 20


class Pauses:
    """How long to wait before the next try: doubling, with a little chance, until something worked."""

    def __init__(self, first: float = 1.0, most: float = 60.0, chance: Callable[[], float] = random.random) -> None:
        self._first, self._most, self._chance = first, most, chance
        self._next = first

    def reset(self) -> None:
        self._next = self._first

    async def wait(self, least: float = 0.0) -> None:
        pause, self._next = self._next, min(self._most, self._next * 2)
        await asyncio.sleep(max(least, pause * (0.9 + 0.2 * self._chance())))


# The note of an account that has to be linked by scanning a code with a phone: `qr`, `qrDataUrl` and `terminal`.
SCAN = "scan.json"


class Note:
    """A small JSON file in the account's folder. One that cannot be read is as good as none."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / name

    def read(self) -> dict[str, Any]:
        try:
            held = msgspec.json.decode(self._path.read_bytes())
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return {}
        return held if isinstance(held, dict) else {}

    def write(self, held: Mapping[str, Any] | Struct) -> None:
        ensure_dir(self._path.parent)
        write_atomic(self._path, msgspec.json.encode(held))

    def load(self, kind: type[Held]) -> Held | None:
        """Return what it holds as a type; None where it holds something else."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=kind)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None


class Call(Struct, frozen=True):
    """One request of a platform to our port."""

    method: str
    headers: Mapping[str, str]
    query: str
    body: bytes


# Returns the status and the body of the answer; raising answers 500, so that the platform asks again.
Answer = Callable[[Call], Awaitable[tuple[int, bytes]]]


def bound(settings: Mapping[str, Any], usual: int) -> socket.socket:
    """Return the port on which a platform calls us; 0 is any that is free. Raises `ChannelError` where it cannot be had."""
    host, port = str(settings.get("webhookHost") or "127.0.0.1"), settings.get("webhookPort")
    port = usual if port is None else int(port)
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, OverflowError) as problem:
        cure = "another program has the port, or the address is not this machine's: see webhookHost and webhookPort"
        raise ChannelError(f"cannot listen on {host}:{port}: {reason(problem)}", cure=cure) from problem


async def be_called(
    host: Host, usual: int, path: str, answer: Answer, *, told: Callable[[int], None] = lambda _port: None
) -> None:
    """Let a platform call a path until cancelled: at a port of our own, or at the door of a machine that many homes share."""
    if host.calls is None:
        port = bound(host.settings, usual)
        told(int(port.getsockname()[1]))
        await listen(port, path, answer)
        return
    if path in host.calls:
        cure = "give one of the two a webhookPath of its own"
        raise ChannelError(f"another account is called at {path} already", fatal=True, cure=cure)
    host.calls[path] = answer
    try:
        await asyncio.Event().wait()
    finally:
        host.calls.pop(path, None)


async def listen(port: socket.socket, path: str, answer: Answer) -> None:
    """Serve one path (and `/healthz`) until cancelled, and close the port."""
    import uvicorn

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # signals are the program's

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answer_call(scope, receive, send, path, answer)

    server = Server(
        uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
            limit_concurrency=64,
        )
    )
    serving = asyncio.ensure_future(server.serve(sockets=[port]))
    try:
        await asyncio.shield(serving)
    finally:
        server.should_exit = True
        await serving
        port.close()


async def answer_call(scope: Any, receive: Any, send: Any, path: str, answer: Answer) -> None:
    """Answer one request of a platform, as an ASGI application does."""
    status, body = await _handled(scope, receive, path, answer)
    kind = b"application/json" if body[:1] in (b"{", b"[") else b"text/plain"
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
    await send({"type": "http.response.body", "body": body})


async def _handled(scope: Any, receive: Any, path: str, answer: Answer) -> tuple[int, bytes]:
    if scope["path"] == "/healthz":
        return 200, b"ok"
    if scope["path"] != path:
        return 404, b""
    body = b""
    while True:
        event = await receive()
        if event["type"] != "http.request":
            return 400, b""
        body += event.get("body", b"")
        if len(body) > MAX_BODY:
            return 413, b""
        if not event.get("more_body"):
            break
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    query = scope["query_string"].decode("latin-1")
    try:
        return await answer(Call(scope["method"], headers, query, body))
    except Exception:  # whatever it was, the platform must deliver this again
        logging.getLogger(__name__).warning("a webhook could not be taken in", exc_info=True)
        return 500, b""


def mime_of(name: str) -> str:
    """Return the type that a file's name promises."""
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def proxy_for(url: str, settings: Mapping[str, Any]) -> str | None:
    """Return the proxy of an account: its own setting, or what the usual variables say. None for none."""
    return str(settings.get("proxy") or "") or proxies_from(os.environ).find(urlsplit(url)) or None


def noted(host: Host, me: Identity, what: str, cure: str = "") -> None:
    """Tell what went wrong beside a connection that is there: what goes out still does."""
    host.troubled(what, cure=cure)
    if me.id:
        host.connected(me)


def not_kept(host: Host, me: Identity, problem: Exception) -> None:
    """Tell that a message could not be taken in, and why."""
    what = problem.message if isinstance(problem, HomarusError) else str(problem)
    noted(host, me, f"a message could not be kept: {what}", getattr(problem, "cure", "") or "is the disk full?")


class LastWords:
    """What a program of ours said last on its error output, for telling why it ended."""

    def __init__(self, stream: asyncio.StreamReader | None) -> None:
        self._held = b""
        self._reading = asyncio.ensure_future(self._read(stream)) if stream is not None else None

    async def _read(self, stream: asyncio.StreamReader) -> None:
        while data := await stream.read(4096):
            self._held = (self._held + data)[-2000:]

    async def end(self) -> str:
        """Return its last line, once it has ended."""
        if self._reading is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._reading, 1)
        lines = [line for line in self._held.decode("utf-8", "replace").splitlines() if line.strip()]
        return single_line(redacted(lines[-1]), 200) if lines else ""


async def exchange(
    http: HttpClient,
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    seconds: float = 60.0,
) -> tuple[int, Mapping[str, str], bytes]:
    """Return status, headers and body of one request. Raises `HttpError`."""
    try:
        async with asyncio.timeout(seconds):
            response = await http.request(method, url, headers=headers, body=[body] if body else ())
            try:
                return response.status, response.headers, await response.read(MAX_ANSWER)
            finally:
                await response.close()
    except TimeoutError:
        raise HttpError(f"no answer within {seconds:g} s") from None


async def download(
    url: str,
    name: str,
    *,
    headers: Mapping[str, str] | None = None,
    cure: str = "",
    page: bool = True,
    http: HttpClient | None = None,
) -> AsyncIterator[bytes]:
    """Yield a file behind an address that was found to be the platform's. Without `page`, a web page in its place is refused:
    that is what those are shown who must sign in. `http` goes another way than the machine's own, and is closed at the end."""
    http = http or HttpClient()
    try:
        response = await http.request("GET", url, headers=headers)
        try:
            if response.status != 200 or (not page and response.kind.startswith("text/html")):
                raise refused(f"{name}: the file cannot be had (HTTP {response.status})", cure)
            while chunk := await response.next():
                yield chunk
        finally:
            await response.close()
    except HttpError as problem:
        raise DeliveryError(DeliveryFailure.TRANSIENT, f"{name}: {problem}") from None
    finally:
        await http.aclose()


def never_left(problem: HttpError) -> bool:
    """Say whether a request surely did not reach its server, because there was no connection."""
    import httpcore2

    return isinstance(problem, Refused) or isinstance(
        problem.__cause__, httpcore2.ConnectError | httpcore2.ConnectTimeout
    )
