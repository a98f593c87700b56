"""A scripted home behind a real port, and a client that speaks protocol 4 to it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import itertools
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.scenarios.home import House
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from homarus.core.clock import SystemClock
from homarus.gateway import wire
from homarus.gateway.live import Given
from homarus.gateway.server import SOCKET, Gateway

TOKEN = "a-token-that-is-long-enough-for-everybody"
ADMIN = ("operator.admin",)


class Served:
    def __init__(self, house: House, gateway: Gateway, port: int) -> None:
        self.house = house
        self.gateway = gateway
        self.port = port

    @contextlib.asynccontextmanager
    async def socket(self, **headers: str) -> AsyncIterator[Wire]:
        """A socket on which nothing was said yet."""
        async with connect(
            f"ws://127.0.0.1:{self.port}/", additional_headers=headers, proxy=None, max_size=None, compression=None
        ) as raw:
            yield Wire(raw)

    @contextlib.asynccontextmanager
    async def client(self, **said: Any) -> AsyncIterator[Wire]:
        """A client that was let in."""
        async with self.socket(**said.pop("headers", {})) as client:
            answer = await client.connect(**said)
            assert answer["ok"], answer
            yield client


class Wire:
    """The client's end: numbered requests, and everything else kept in order."""

    def __init__(self, raw: ClientConnection) -> None:
        self.raw = raw
        self.events: list[dict[str, Any]] = []
        self.hello: dict[str, Any] = {}
        self._ids = itertools.count(1)

    async def read(self) -> dict[str, Any]:
        async with asyncio.timeout(120):
            frame: dict[str, Any] = json.loads(await self.raw.recv())
        if frame["type"] == "event":
            self.events.append(frame)
        return frame

    async def response(self, ident: str) -> dict[str, Any]:
        while True:
            frame = await self.read()
            if frame["type"] == "res" and frame["id"] == ident:
                return frame

    async def send(self, method: str, params: Any = None) -> str:
        ident = f"{next(self._ids)}:x"
        frame = {"type": "req", "id": ident, "method": method}
        await self.raw.send(json.dumps(frame if params is None else frame | {"params": params}))
        return ident

    async def ask(self, method: str, params: Any = None) -> dict[str, Any]:
        return await self.response(await self.send(method, params))

    async def call(self, method: str, params: Any = None) -> Any:
        answer = await self.ask(method, params)
        assert answer["ok"], answer
        return answer["payload"]

    async def event(self, name: str, **fields: Any) -> dict[str, Any]:
        """Wait for an event whose payload holds these fields, also one that came before."""
        seen = 0
        while True:
            for frame in self.events[seen:]:
                if frame["event"] == name and fields.items() <= frame["payload"].items():
                    return frame["payload"]
            seen = len(self.events)
            await self.read()

    async def closed(self) -> tuple[int, str]:
        """Wait until the server has closed the socket, and say how."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                await self.read()
        return self.raw.close_code or 0, self.raw.close_reason or ""

    async def connect(
        self,
        token: str | None = TOKEN,
        *,
        scopes: tuple[str, ...] = ("operator.read", "operator.write"),
        ident: str = "cli",
        mode: str = "cli",
        device: Key | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        challenge = (await self.event("connect.challenge")) if not self.hello else {}
        auth = more.pop("auth", {} if token is None else {"token": token})
        hello = {
            "minProtocol": 4,
            "maxProtocol": 4,
            "client": {"id": ident, "mode": mode, "version": "1", "platform": "linux"},
            "role": "operator",
            "scopes": list(scopes),
            "auth": auth,
            **more,
        }
        if device is not None:
            hello["device"] = device.proof(hello, challenge)
        answer = await self.ask("connect", hello)
        self.hello = answer.get("payload") or {}
        return answer


class Key:
    """A device: it signs challenges in either dialect."""

    def __init__(self, dialect: str = "v3") -> None:
        self._key = Ed25519PrivateKey.generate()
        self.public = self._key.public_key().public_bytes_raw()
        self.id, self.text = hashlib.sha256(self.public).hexdigest(), _text(self.public)
        self.dialect = dialect

    def proof(self, hello: dict[str, Any], challenge: dict[str, Any]) -> dict[str, Any]:
        client, auth = hello["client"], hello["auth"]
        said = [self.dialect, self.id, client["id"], client["mode"], hello["role"], ",".join(hello["scopes"])]
        said += [str(challenge["ts"]), auth.get("token") or auth.get("deviceToken") or "", challenge["nonce"]]
        said += [client["platform"], ""] if self.dialect == "v3" else []
        signature = self._key.sign("|".join(said).encode())
        facts = {"id": self.id, "publicKey": self.text, "signature": _text(signature)}
        return {**facts, "signedAt": challenge["ts"], "nonce": challenge["nonce"]}


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@contextlib.asynccontextmanager
async def served(
    house: House, *, token: str | None = TOKEN, unix: bool = False, platforms: dict[str, Any] | None = None
) -> AsyncIterator[Served]:
    """Serve a home on a free port of this machine."""
    runtime = house.agent(clock=SystemClock()).client.runtime
    gateway = Gateway(runtime, Given(token=token), platforms=platforms)
    port = socket.create_server(("127.0.0.1", 0))
    port.setblocking(False)
    own = wire.open_unix(runtime.home.config.paths.own_dir / SOCKET) if unix else None
    server = wire.server(gateway, gateway.live.settings, own)
    serving = asyncio.ensure_future(server.serve(sockets=[port]))
    await server.up.wait()
    await gateway.start()
    try:
        yield Served(house, gateway, port.getsockname()[1])
    finally:
        await gateway.stop()
        server.should_exit = True
        await serving
        await runtime.aclose()
