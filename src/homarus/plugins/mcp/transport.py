"""How a server is reached: a program of its own, in a sandbox or not, or an address over HTTP.

A program is started as commands are: in its own session, with a clean environment, and with everything that it starts
it ends when the connection does. Its first output stream is the protocol; the last words of the second are kept for errors.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from homarus.core.errors import ConfigError, ToolError
from homarus.core.text import printable, single_line
from homarus.plugins.mcp.settings import ServerSettings
from homarus.sandbox.process import Child, Order, start
from homarus.sandbox.spec import SandboxSpec

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

MAX_LINE = 16 << 20  # what one message of a server may have, in bytes
LAST_WORDS = 20  # lines of its error stream
LEAVE_SECONDS = 2.0  # how long a server may take to end by itself once its input is closed
_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "NVM_DIR", "SYSTEMROOT")


class Place(Struct, frozen=True):
    """What a server is started with: its settings with every secret in its place, where it runs, and as whom it signs in."""

    name: str
    settings: ServerSettings
    env: dict[str, str]
    headers: dict[str, str]
    sandbox: SandboxSpec
    cwd: str
    auth: Any = None


class ServerState:
    """What is heard of a server beside its messages: the newest lines of its error stream, and that it is gone."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=LAST_WORDS)
        self.gone = asyncio.Event()

    def add(self, data: bytes) -> None:
        self._lines.extend(printable(line)[:500] for line in data.decode("utf-8", "replace").splitlines() if line)

    @property
    def last_words(self) -> str:
        return single_line(" | ".join(self._lines)[-1_000:], 1_000)


def passed_on(env: Mapping[str, str]) -> dict[str, str]:
    """Return the few variables of ours that a program on the host gets: where things are, and no keys."""
    return {name: env[name] for name in _PASSED_ON if name in env}


def streams(place: Place, state: ServerState) -> AbstractAsyncContextManager[TransportStreams]:
    """Return the two streams that the client of the protocol works on; leaving the context ends the server."""
    kind = place.settings.kind
    if kind == "stdio":
        return _program(place, state)
    if kind:
        return _address(place, state)
    raise ConfigError(
        f"mcp.servers.{place.name} has neither a command nor a url", cure=f"give it one: homarus mcp set {place.name} …"
    )


@asynccontextmanager
async def _program(place: Place, state: ServerState) -> AsyncIterator[TransportStreams]:
    errors, theirs = os.pipe()
    os.set_blocking(errors, False)
    settings = place.settings
    order = Order(
        (settings.command, *settings.args),
        place.cwd,
        place.env,
        # Its own, so that ending it never ends the server that takes its place.
        f"mcp-{place.name}-{os.urandom(4).hex()}",
        stdin=True,
        stderr=theirs,
    )
    try:
        try:
            child = await start(place.sandbox, order)
        finally:
            os.close(theirs)
        loop = asyncio.get_running_loop()
        loop.add_reader(errors, _listen, loop, errors, state)
        try:
            async with _spoken(child, state) as pair:
                yield pair
        finally:
            loop.remove_reader(errors)
    finally:
        with suppress(OSError):
            state.add(os.read(errors, 65536))
        os.close(errors)


def _listen(loop: asyncio.AbstractEventLoop, errors: int, state: ServerState) -> None:
    try:
        data = os.read(errors, 65536)
    except BlockingIOError:
        return
    except OSError:
        data = b""
    if data:
        state.add(data)
    else:
        loop.remove_reader(errors)


@asynccontextmanager
async def _spoken(child: Child, state: ServerState) -> AsyncIterator[TransportStreams]:
    """Carry messages to and from a program, one a line."""
    import anyio
    from mcp.shared.message import SessionMessage

    to_client, heard = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, said = anyio.create_memory_object_stream[SessionMessage](0)

    async def listen() -> None:
        try:
            async with to_client:
                async for line in lines(child.output()):
                    if (message := _parsed(line, state)) is not None:
                        await to_client.send(message)
        except ToolError as flood:
            state.add(str(flood).encode())
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        state.gone.set()
        async for _ in child.output():  # a server that nobody hears any more must still be able to finish its sentence
            pass

    async def speak() -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, ToolError):
            async for message in said:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await child.write(text.encode("utf-8", "replace") + b"\n")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        tasks.start_soon(speak)
        try:
            yield heard, to_server
        finally:
            with anyio.CancelScope(shield=True):
                await _end(child)
            for stream in (heard, to_client, to_server, said):
                stream.close()
            tasks.cancel_scope.cancel()


async def _end(child: Child) -> None:
    """Close its input, give it a moment, and end it with all that it started."""
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                await child.write(b"", eof=True)
                await child.wait()
        await child.kill()
    finally:
        child.close()


async def lines(blocks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield whole lines of what comes in blocks; one without an end is an error, not a reason to run out of memory."""
    rest = bytearray()
    async for block in blocks:
        rest += block
        if b"\n" in block:
            *whole, last = bytes(rest).split(b"\n")
            rest = bytearray(last)
            for line in whole:
                if len(line) <= MAX_LINE:
                    yield line
        if len(rest) > MAX_LINE:
            raise ToolError(f"the server sent a message of more than {MAX_LINE >> 20} MB", cure="ask it for less")


def _parsed(line: bytes, state: ServerState) -> Any:
    """Return a message of the protocol. What is none goes to the last words: programs like to greet on the wrong stream."""
    import mcp_types
    from mcp.shared.message import SessionMessage

    if not line.strip():
        return None
    try:
        return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        state.add(line[:500])
        return None


@asynccontextmanager
async def _address(place: Place, state: ServerState) -> AsyncIterator[TransportStreams]:
    import httpx2
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client

    settings = place.settings

    async def note(response: httpx2.Response) -> None:
        if response.status_code >= 400:
            state.add(f"the address answered {response.status_code} {response.reason_phrase}".encode())

    options: dict[str, Any] = {"verify": _verified(settings), "event_hooks": {"response": [note]}}
    waits = httpx2.Timeout(settings.connect_seconds, read=max(300.0, settings.request_seconds))

    def client(
        headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(headers=headers, timeout=timeout or waits, auth=auth, **options)

    if settings.kind == "sse":
        async with sse_client(
            settings.url, place.headers, settings.connect_seconds, httpx_client_factory=client, auth=place.auth
        ) as pair:
            yield pair
        return
    async with (
        client(place.headers, auth=place.auth) as http,
        streamable_http_client(settings.url, http_client=http, max_sse_event_size=MAX_LINE) as pair,
    ):
        yield pair


def _verified(settings: ServerSettings) -> Any:
    """Return what a server's certificate is checked with: the system's authorities, unless the owner says otherwise."""
    import ssl

    if settings.ssl_verify and not settings.client_cert:
        return True
    context = ssl.create_default_context()
    if not settings.ssl_verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if settings.client_cert:
        context.load_cert_chain(settings.client_cert, settings.client_key or None)
    return context
