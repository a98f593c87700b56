"""The client contract over the socket or the port of a running gateway. `methods/home.py` is the other end.

A connection that is lost is made again with the next call, and whoever listened listens on; a message is never sent twice.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec
from msgspec import Struct, to_builtins
from msgspec.structs import replace
from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.exceptions import InvalidHandshake, WebSocketException

from homarus import __version__
from homarus.commands.router import IntakeResult
from homarus.config.paths import Paths, resolve_paths
from homarus.config.view import Config
from homarus.core.errors import ConfigError, HomarusError
from homarus.core.events import RunEnded, RunEvent, RunStarted, UserAccepted
from homarus.core.messages import Message
from homarus.core.routes import SessionKey
from homarus.gateway.protocol import MAX_PAYLOAD, PROTOCOL
from homarus.gateway.scopes import ADMIN, APPROVALS, READ, WRITE
from homarus.gateway.settings import GatewaySettings
from homarus.runtime.client import RunOptions, SessionStatus, Vocabulary
from homarus.sessions.row import SessionEntry
from homarus.sessions.search import Hit
from homarus.sessions.store import SessionInfo
from homarus.storage.atomic import ensure_dir, write_atomic
from homarus.tools.tool import Tool

SOCKET = "gateway.sock"
SECONDS = 20.0  # how long a gateway may take to greet
_SCOPES = (READ, WRITE, APPROVALS, ADMIN)
T = TypeVar("T")
Listener = Callable[[RunEvent], None]


class Unreachable(HomarusError):
    """Nobody answers there: the caller does without, or the operator starts the gateway."""


class Address(Struct, frozen=True):
    """Where a gateway is, and the secret that it takes. Its own socket needs none."""

    url: str
    token: str = ""
    # Where this machine's own key lies: other machines are known by theirs.
    key: Path | None = None

    @property
    def shown(self) -> str:
        return self.url.partition("?")[0]


def address_of(url: str = "", *, token: str = "", env: Mapping[str, str] | None = None) -> Address:
    """Return where to connect: `ws://`, `wss://`, `http(s)://`, `unix:PATH`, or nothing for this home's own socket.

    Raises ConfigError where a secret would cross a network for everybody to read.
    """
    variables = dict(os.environ if env is None else env)
    paths = resolve_paths(variables)
    if not url:
        return Address(f"unix:{paths.own_dir / SOCKET}")
    if url.startswith("unix:"):
        return Address(url)
    parts = urlsplit(url)
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    if scheme not in {"ws", "wss"} or not parts.hostname:
        raise ConfigError(f"'{url[:80]}' is no address of a gateway", cure="write ws://127.0.0.1:18789 or wss://host")
    if scheme == "ws" and parts.hostname not in {"127.0.0.1", "::1", "localhost"}:
        raise ConfigError(
            f"{parts.hostname} is another machine, and ws:// would show the token on the way",
            cure="use wss://, or a tunnel: ssh -L 18789:127.0.0.1:18789 HOST",
        )
    secret = token or variables.get("OPENCLAW_GATEWAY_TOKEN", "") or variables.get("OPENCLAW_GATEWAY_PASSWORD", "")
    place = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    where = f"{place}:{parts.port}" if parts.port else place
    return Address(f"{scheme}://{where}{parts.path or '/'}", secret, paths.own_dir / "device-key")


async def connected(address: Address) -> RemoteClient:
    """Return a client that was let in. Raises Unreachable where nobody answers."""
    client = RemoteClient(address)
    await client.connect()
    return client


async def running(paths: Paths) -> RemoteClient | None:
    """Return the client of the gateway that owns a home; None where there is none."""
    if not (paths.own_dir / SOCKET).exists():
        return None
    try:
        return await connected(Address(f"unix:{paths.own_dir / SOCKET}"))
    except Unreachable:  # what a killed gateway left
        return None


async def elsewhere(config: Config, env: Mapping[str, str]) -> RemoteClient:
    """Return the client of the gateway on another machine that `gateway.remote` names. Raises ConfigError or Unreachable."""
    settings = config.block("gateway", GatewaySettings).remote
    if not settings.url:
        raise ConfigError("gateway.mode is 'remote' and gateway.remote.url is not set", cure="set it, or mode 'local'")
    token = await asyncio.to_thread(config.resolve, settings.token) if settings.token else ""
    return await connected(address_of(settings.url, token=token, env=env))


class _Link:
    """One connection: numbered requests and their answers; everything else is handed on."""

    def __init__(self, raw: ClientConnection, heard: Callable[[str, Any], None]) -> None:
        self._raw = raw
        self._heard = heard
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._count = 0
        self.hello: dict[str, Any] = {}
        self.lost = ""
        self._reader: asyncio.Task[None] | None = None

    async def greet(self, address: Address) -> None:
        challenge = msgspec.json.decode(await self._raw.recv())["payload"]
        self._reader = asyncio.ensure_future(self._read())
        self.hello = await self.request("connect", _hello(address, challenge))

    async def request(self, method: str, params: Any) -> Any:
        if self.lost:
            raise Unreachable(self.lost)
        self._count += 1
        ident = str(self._count)
        answer = self._waiting[ident] = asyncio.get_running_loop().create_future()
        frame = {"type": "req", "id": ident, "method": method, "params": params}
        try:
            await self._raw.send(msgspec.json.encode(frame), text=True)
            return await answer
        except (WebSocketException, OSError) as problem:
            raise Unreachable(f"the gateway went away: {problem}") from None
        finally:
            self._waiting.pop(ident, None)

    async def _read(self) -> None:
        reason = "the gateway went away"
        try:
            async for data in self._raw:
                self._take(msgspec.json.decode(data))
        except (WebSocketException, OSError, ValueError):
            pass
        finally:
            self.lost = f"{reason} ({self._raw.close_reason})" if self._raw.close_reason else reason
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(Unreachable(self.lost, cure="see 'homarus gateway status', then ask again"))

    def _take(self, frame: dict[str, Any]) -> None:
        if frame["type"] == "event":
            self._heard(frame["event"], frame.get("payload"))
            return
        answer = self._waiting.get(frame["id"])
        if answer is None or answer.done():
            return
        if frame["ok"]:
            answer.set_result(frame.get("payload"))
        else:
            error = frame["error"]
            answer.set_exception(
                HomarusError(error["message"], cure=(error.get("details") or {}).get("remediationHint", ""))
            )

    async def close(self) -> None:
        await self._raw.close()
        if self._reader is not None:
            await asyncio.wait({self._reader})


class RemoteClient:
    """Fills `runtime.client.Client` for a home that a gateway serves. Used from one event loop."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._link: _Link | None = None
        self._connecting = asyncio.Lock()
        self._streams: dict[str, Listener] = {}
        # What is asked for again after a connection was lost: method and session, by stream.
        self._kept: dict[str, tuple[str, SessionKey]] = {}
        self._open: dict[SessionKey, int] = {}
        self._running: set[SessionKey] = set()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def connect(self) -> dict[str, Any]:
        """Connect if need be, and return how the gateway greeted."""
        async with self._connecting:
            if self._link is None or self._link.lost:
                self._link = await self._dial()
                self._running.clear()
                for stream, (method, session) in self._kept.items():
                    await self._link.request(method, {"session": str(session), "stream": stream})
            return self._link.hello

    async def _dial(self) -> _Link:
        where: dict[str, Any] = {"max_size": MAX_PAYLOAD, "compression": None, "open_timeout": SECONDS}
        try:
            if self._address.url.startswith("unix:"):
                raw = await unix_connect(self._address.url.removeprefix("unix:"), "ws://localhost/", **where)
            else:
                raw = await connect(self._address.url, proxy=None, **where)
        except (OSError, InvalidHandshake, TimeoutError) as problem:
            raise Unreachable(
                f"no gateway answers at {self._address.shown}: {problem}", cure="start it: homarus gateway run"
            ) from None
        link = _Link(raw, self._heard)
        try:
            async with asyncio.timeout(SECONDS):
                await link.greet(self._address)
        except (TimeoutError, WebSocketException, ValueError, KeyError) as problem:
            await link.close()
            raise Unreachable(f"what answers at {self._address.shown} is no gateway: {problem!r}") from None
        except HomarusError:
            await link.close()
            raise
        return link

    async def request(self, method: str, **params: Any) -> Any:
        """Call any method of the gateway."""
        await self.connect()
        assert self._link is not None
        return await self._link.request(method, params)

    async def _value(self, wanted: type[T] | Any, method: str, **params: Any) -> T:
        found = await self.request(method, **params)
        return msgspec.convert(found["value"], wanted, dec_hook=_plain)

    def _heard(self, name: str, payload: Any) -> None:
        if name != "home.event":
            return
        listener = self._streams.get(payload["stream"])
        if listener is not None:
            listener(msgspec.convert(payload["event"], RunEvent))

    def _note(self, session: SessionKey, event: RunEvent) -> None:
        if isinstance(event, RunStarted):
            self._running.add(session)
        elif isinstance(event, RunEnded):
            self._running.discard(session)

    def _later(self, method: str, **params: Any) -> None:
        async def call() -> None:
            try:
                await self.request(method, **params)
            except HomarusError:
                pass  # whoever waits for what comes of it hears of the lost connection there

        task = asyncio.ensure_future(call())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # The contract.

    def resolve(self, agent: str, session: str) -> SessionKey:
        snapshot = self._link.hello["snapshot"] if self._link else {}
        defaults = snapshot.get("sessionDefaults", {})
        known = [row["agentId"] for row in snapshot.get("health", {}).get("agents", ())]
        if agent and agent not in known:
            raise ConfigError(f"no agent '{agent}' lives there", cure=f"there are {', '.join(known)}")
        name, main = agent or defaults.get("defaultAgentId", "main"), defaults.get("mainKey", "main")
        return SessionKey.parse(session, default_agent=name, main_key=main)

    async def run(self, session: SessionKey, text: str, options: RunOptions) -> AsyncIterator[RunEvent]:
        stream, events = uuid4().hex, asyncio.Queue[RunEvent | None]()

        def take(event: RunEvent) -> None:
            self._note(session, event)
            events.put_nowait(event)

        self._streams[stream] = take
        self._open[session] = self._open.get(session, 0) + 1
        asked = asyncio.ensure_future(
            self.request("home.run", session=str(session), text=text, stream=stream, options=_sent(options))
        )
        asked.add_done_callback(lambda _done: events.put_nowait(None))
        taken = False
        try:
            while (event := await events.get()) is not None:
                taken = taken or isinstance(event, UserAccepted)
                yield event
            await asked
        except Unreachable as lost:
            if not taken:
                raise
            cure = f"it has the message and answers it when it is back: 'homarus sessions show {session}'"
            raise Unreachable(lost.message, cure=cure) from None
        finally:
            asked.cancel()
            self._streams.pop(stream, None)
            self._open[session] -= 1

    async def send(self, session: SessionKey, text: str, options: RunOptions) -> IntakeResult:
        return await self._value(IntakeResult, "home.send", session=str(session), text=text, options=_sent(options))

    def steer(self, session: SessionKey, text: str) -> bool:
        if session not in self._running:
            return False
        self._later("home.steer", session=str(session), text=text)
        return True

    def abort(self, session: SessionKey, reason: str) -> bool:
        self._later("home.abort", session=str(session), reason=reason)
        return session in self._running or bool(self._open.get(session))

    async def abort_turn_of(self, session: SessionKey, message: str, reason: str) -> bool:
        """End the running turn if it answers the message with this id; False when it does not, and then nothing was done."""
        return await self._value(bool, "home.abort", session=str(session), reason=reason, message=message)

    def listen(self, session: SessionKey, listener: Listener) -> Callable[[], None]:
        def heard(event: RunEvent) -> None:
            self._note(session, event)
            listener(event)

        return self._keep("home.listen", session, heard)

    def attend(self, session: SessionKey) -> Callable[[], None]:
        return self._keep("home.attend", session, lambda _event: None)

    def _keep(self, method: str, session: SessionKey, listener: Listener) -> Callable[[], None]:
        stream = uuid4().hex
        self._streams[stream], self._kept[stream] = listener, (method, session)
        self._later(method, session=str(session), stream=stream)

        def leave() -> None:
            if self._kept.pop(stream, None) is not None:
                self._streams.pop(stream, None)
                self._later("home.leave", session=str(session), stream=stream)

        return leave

    async def follow(self, session: SessionKey) -> None:
        """Return at once: whatever happens in a session of the gateway is told to those who listen."""

    def is_elsewhere(self, session: SessionKey) -> bool:
        return False

    async def answer(self, approval_id: str, decision: str) -> str:
        return await self._value(str, "home.answer", approval=approval_id, decision=decision)

    async def row(self, session: SessionKey) -> SessionEntry:
        return await self._value(SessionEntry, "home.row", session=str(session))

    async def status(self, session: SessionKey) -> SessionStatus:
        return await self._value(SessionStatus, "home.status", session=str(session))

    async def history(self, session: SessionKey, limit: int) -> Sequence[Message]:
        return await self._value(tuple[Message, ...], "home.history", session=str(session), limit=limit)

    async def sessions(self, agent: str) -> Sequence[SessionInfo]:
        return await self._value(tuple[SessionInfo, ...], "home.sessions", agent=agent)

    async def patch(self, session: SessionKey, **fields: Any) -> None:
        await self.request("home.patch", session=str(session), fields=fields)

    async def search(self, text: str, limit: int) -> Sequence[Hit]:
        return await self._value(tuple[Hit, ...], "home.search", text=text, limit=limit)

    async def vocabulary(self, session: SessionKey) -> Vocabulary:
        return await self._value(Vocabulary, "home.vocabulary", session=str(session))

    def add_tool(self, tool: Tool) -> None:
        raise HomarusError(
            f"a gateway runs elsewhere and cannot call '{tool.name}' of this program",
            cure="open the home in this program (Agent.open), or send functions to its OpenAI endpoint",
        )

    async def aclose(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)
        if self._link is not None:
            await self._link.close()


def _sent(options: RunOptions) -> Any:
    return to_builtins(replace(options, message_id=options.message_id or str(uuid4())))


def _plain(wanted: type[Any], value: Any) -> Any:
    if wanted is Path:
        return Path(value)
    raise NotImplementedError


def _hello(address: Address, challenge: dict[str, Any]) -> dict[str, Any]:
    client = {"id": "cli", "mode": "cli", "version": __version__, "platform": sys.platform}
    found: dict[str, Any] = {"minProtocol": PROTOCOL, "maxProtocol": PROTOCOL, "client": client}
    found |= {"role": "operator", "scopes": list(_SCOPES), "auth": {"token": address.token} if address.token else {}}
    if address.key is not None:
        found["device"] = _proof(address, client, challenge)
    return found


def _proof(address: Address, client: dict[str, str], challenge: dict[str, Any]) -> dict[str, Any]:
    """Sign the gateway's challenge with this machine's key, which is made when it is first needed."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    assert address.key is not None
    try:
        seed = address.key.read_bytes()
    except FileNotFoundError:
        seed = os.urandom(32)
        ensure_dir(address.key.parent)
        write_atomic(address.key, seed)
    if len(seed) != 32:
        raise ConfigError(f"{address.key} is damaged", cure="delete it; the gateway's owner then approves a new key")
    key = Ed25519PrivateKey.from_private_bytes(seed)
    public = key.public_key().public_bytes_raw()
    ident, moment = hashlib.sha256(public).hexdigest(), challenge["ts"]
    said = ["v3", ident, client["id"], client["mode"], "operator", ",".join(_SCOPES), str(moment), address.token]
    said += [challenge["nonce"], client["platform"], ""]
    facts = {"id": ident, "publicKey": _base64(public), "signature": _base64(key.sign("|".join(said).encode()))}
    return {**facts, "signedAt": moment, "nonce": challenge["nonce"]}


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
