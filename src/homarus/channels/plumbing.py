"""What several platforms need beside their own protocol: growing pauses, a small durable note, and a port for webhooks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import mimetypes
import os
import random
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from homarus.core.errors import ChannelError
from homarus.net.proxy import proxies_from
from homarus.storage.atomic import ensure_dir, write_atomic

MAX_BODY = 4 << 20


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


class Note:
    """A small JSON file in the account's folder. One that cannot be read is as good as none."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / name

    def read(self) -> dict[str, Any]:
        try:
            held = msgspec.json.decode(self._path.read_bytes())
        except (OSError, msgspec.DecodeError):
            return {}
        return held if isinstance(held, dict) else {}

    def write(self, held: Mapping[str, Any]) -> None:
        ensure_dir(self._path.parent)
        write_atomic(self._path, msgspec.json.encode(held))


class Call(Struct, frozen=True):
    """One request of a platform to our port."""

    method: str
    headers: Mapping[str, str]
    query: str
    body: bytes


# Returns the status and the body of the answer; raising answers 500, so that the platform asks again.
Answer = Callable[[Call], Awaitable[tuple[int, bytes]]]


async def listen(host: str, port: int, path: str, answer: Answer) -> None:
    """Serve one path (and `/healthz`) until cancelled. Raises `ChannelError` where the port cannot be had."""
    import uvicorn

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # signals are the program's

    async def app(scope: Any, receive: Any, send: Any) -> None:
        status, body = await _handled(scope, receive, path, answer)
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": body})

    try:
        port_socket = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as problem:
        cure = "another program has the port, or the address is not this machine's: see webhookHost and webhookPort"
        raise ChannelError(f"cannot listen on {host}:{port}: {problem.strerror}", cure=cure) from problem
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
    serving = asyncio.ensure_future(server.serve(sockets=[port_socket]))
    try:
        await asyncio.shield(serving)
    finally:
        server.should_exit = True
        await serving
        port_socket.close()


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
