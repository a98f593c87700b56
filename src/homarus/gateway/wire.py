"""The port and our own Unix socket, under uvicorn: who is on the other end, and how much of it is read before it is known."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from homarus.core.errors import ConfigError
from homarus.gateway.peer import literal
from homarus.gateway.protocol import HANDSHAKE_SECONDS, MAX_BEFORE_AUTH, MAX_PAYLOAD
from homarus.gateway.settings import GatewaySettings
from homarus.storage.atomic import ensure_dir

MAX_CONNECTIONS = 4096
_MAX_SOCKET_PATH = 100  # bytes; the kernel takes a few more


class Sockets(WebSocketsSansIOProtocol):
    """A WebSocket whose frames are small until the gateway knows whose they are."""

    def handle_connect(self, event: Any) -> None:
        self.app_state = {**self.app_state, "raise_limit": self._raise_limit, "local": _is_local(self.transport)}
        super().handle_connect(event)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.loop.call_later(HANDSHAKE_SECONDS, self._give_up)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.handshake_initiated and self.conn.handshake_exc is not None:
            self.transport.abort()  # a request that cannot be read gets no answer from below, and would stay open

    def _give_up(self) -> None:
        if not self.handshake_complete:
            self.transport.abort()

    def _raise_limit(self) -> None:
        self.conn.max_message_size = MAX_PAYLOAD


class Http(H11Protocol):
    """HTTP in which a client that says nothing is not waited for for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if _is_unix(transport):
            if not _is_local(transport):
                transport.abort()
            self.app_state = {**self.app_state, "local": True}
        self._patience = self.loop.call_later(HANDSHAKE_SECONDS, self._give_up)

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._patience.cancel()  # it would keep this object, which the socket needs no more
        super().handle_websocket_upgrade(event)

    def _give_up(self) -> None:
        asked: Any = self.scope  # None until the first request
        silent = asked is None and self.transport.get_protocol() is self
        if silent and not self.transport.is_closing():
            self.transport.abort()


class Server(uvicorn.Server):
    """Serves the port, with TLS if there is any, and the Unix socket, without. Signals are the caller's business."""

    def __init__(self, config: uvicorn.Config, unix: socket.socket | None) -> None:
        super().__init__(config)
        self._unix = unix
        self.up = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._unix is not None:

            def protocol() -> asyncio.Protocol:
                return Http(self.config, self.server_state, self.lifespan.state)

            self.servers.append(await asyncio.get_running_loop().create_unix_server(protocol, sock=self._unix))
        self.up.set()


def server(app: Callable[..., Any], settings: GatewaySettings, unix: socket.socket | None) -> Server:
    tls = settings.tls
    for name in ("uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).setLevel(logging.WARNING)  # below that they log what strangers ask for
    config = uvicorn.Config(
        app,
        http=Http,
        ws=Sockets,
        ws_max_size=MAX_BEFORE_AUTH,
        ws_per_message_deflate=False,  # a compressor would cost each idle socket more than everything else
        ws_ping_interval=60,
        ws_ping_timeout=60,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # it would believe anybody on this machine; see `peer`
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=5,
        ssl_certfile=tls.cert_path if tls.enabled else None,
        ssl_keyfile=tls.key_path if tls.enabled else None,
    )
    return Server(config, unix)


def open_port(settings: GatewaySettings) -> list[socket.socket]:
    """Listen where the settings say. Raises ConfigError, also where the rest of the world would see a secret on its way."""
    hosts = _hosts(settings)
    outside = [host for host in hosts if not (literal(host) and literal(host).is_loopback)]  # type: ignore[union-attr]
    sealed = settings.tls.enabled or settings.trusted_proxies or settings.bind == "tailnet"
    if outside and not (sealed or settings.allow_plain_text):
        raise ConfigError(
            f"gateway.bind '{settings.bind}' would show the token to everybody on the way",
            cure="set gateway.tls, or gateway.trustedProxies for a proxy that does TLS, or stay on loopback",
        )
    opened = [listening(host, settings.port) for host in hosts]
    if hosts == ("127.0.0.1",):
        with contextlib.suppress(ConfigError, OSError):  # a machine without IPv6 has one loopback only
            opened.append(listening("::1", opened[0].getsockname()[1]))
    return opened


def _hosts(settings: GatewaySettings) -> Sequence[str]:
    if settings.bind == "lan":
        return ("0.0.0.0",)  # noqa: S104 - asked for by name, and only with a secret
    if settings.bind == "custom":
        if literal(settings.custom_bind_host) is None:
            raise ConfigError("gateway.customBindHost is no address", cure="write an address such as 192.168.1.5")
        return (settings.custom_bind_host,)
    if settings.bind == "tailnet":
        found = _tailnet()
        return (found,) if found else ("127.0.0.1",)
    return ("127.0.0.1",)


def _tailnet() -> str:
    """Return this machine's address in a tailnet, if it has one: asking the kernel for a route sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("100.100.100.100", 9))
            address = literal(probe.getsockname()[0])
        except OSError:
            return ""
    first = str(address).split(".")
    return str(address) if first[0] == "100" and 64 <= int(first[1]) < 128 else ""


def listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sends small frames at once instead of gathering them.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as problem:
        made.close()
        cure = "another program has it; stop that one, or choose another with --port or gateway.port"
        raise ConfigError(f"cannot listen on {host} port {port}: {problem.strerror}", cure=cure) from None
    made.listen(1024)
    made.setblocking(False)
    return made


def open_unix(path: Path) -> socket.socket | None:
    """Listen on a socket that only this user can reach; None where the path is too long for one. The caller holds the home's lock."""
    if len(os.fsencode(path)) > _MAX_SOCKET_PATH:
        return None
    ensure_dir(path.parent)
    path.unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        made.bind(str(path))
    finally:
        os.umask(before)
    made.listen(128)
    made.setblocking(False)
    return made


def _is_unix(transport: asyncio.BaseTransport) -> bool:
    found = transport.get_extra_info("socket")
    return found is not None and found.family == socket.AF_UNIX


def _is_local(transport: asyncio.BaseTransport) -> bool:
    """Say whether the other end is a process of this user on our own socket; the kernel knows where it can tell."""
    if not _is_unix(transport):
        return False
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True  # the mode of the file keeps others out
    data = transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i"))
    return struct.unpack("3i", data)[1] in {os.getuid(), 0}
