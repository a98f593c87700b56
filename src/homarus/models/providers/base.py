"""One streamed HTTP call, from request to `Stop`: the part that both wire shapes share.

Everything that can go wrong on the way ends in the one `Stop`; only the task's own cancellation passes through.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct

from homarus.core.cancel import Cancel
from homarus.core.clock import Clock, epoch_ms
from homarus.core.errors import Cancelled, ModelError, ModelFailure
from homarus.core.messages import Assistant, Message, Part, StopReason, ToolCall, Usage
from homarus.models.info import Endpoint, ModelInfo
from homarus.models.provider import ModelRequest, Stop, StreamEvent
from homarus.models.providers.reading import Fault
from homarus.models.wire import Fragments
from homarus.net.client import HttpClient, Response
from homarus.net.errors import HttpError, NoConnection, Refused
from homarus.net.sse import SseError, SseEvent, SseParser

MAX_BODY = 32 * 1024 * 1024
# How long the tail of a finished stream may take before its connection is given up instead of kept.
DRAIN_SECONDS = 0.2
F = TypeVar("F")


class Rejected(Exception):
    """The server answered with a status other than 200."""

    def __init__(self, response: Response, body: bytes) -> None:
        super().__init__(str(response.status))
        self.response = response
        self.body = body


class Reply(Struct, frozen=True):
    """What a decoder made of a stream that ended well."""

    parts: tuple[Part, ...]
    stop_reason: StopReason
    usage: Usage


class Decoder(Protocol):
    """Turns wire events into deltas and, in the end, into the parts of a message. Knows no network."""

    finished: bool

    def feed(self, event: SseEvent) -> Iterable[StreamEvent]:
        """Take one event; raises `Fault` when it reports a failure or makes no sense."""
        ...

    def feed_whole(self, body: bytes) -> Iterable[StreamEvent]:
        """Take a reply that came in one piece, from a server that does not stream."""
        ...

    def reply(self) -> Reply:
        """Return the complete reply; raises `Fault` when the stream was cut or a call is broken."""
        ...

    def so_far(self) -> tuple[tuple[Part, ...], Usage]:
        """Return what arrived until now, without tool calls."""
        ...


class Call(Struct, frozen=True):
    """One request, ready to be sent."""

    endpoint: Endpoint
    model: str
    url: str
    headers: dict[str, str]
    body: list[bytes]
    idle: float


async def run(
    call: Call, decoder: Decoder, *, http: HttpClient, clock: Clock, cancel: Cancel
) -> AsyncIterator[StreamEvent]:
    """Send a call and yield its events; the last one is the only `Stop`."""
    response: Response | None = None
    error: ModelError | None = None
    reply: Reply | None = None
    try:
        async with watchdog(cancel, call.idle):
            response = await http.request("POST", call.url, headers=call.headers, body=call.body)
        if response.status != 200:
            async with watchdog(cancel, call.idle):
                raise Rejected(response, await response.read(MAX_BODY))
        if "html" in response.kind:
            raise Fault(f"{call.url} is a web page, not a model", kind=ModelFailure.MODEL_NOT_FOUND)
        async with aclosing(_events(response, call.idle, decoder, cancel)) as events:
            async for event in events:
                yield event
        reply = decoder.reply()
    except Cancelled as problem:
        error = ModelError(ModelFailure.ABORTED, problem.message or "stopped")
    except (Fault, Rejected, TimeoutError, HttpError, SseError) as problem:
        error = _broken(call, problem, clock)
    finally:
        if response is not None:
            await response.close()
    yield _stop(call, decoder, reply, error, clock)


class HttpProvider(ABC, Generic[F]):
    """One model at one endpoint. A protocol says where and how it is asked, and who reads the answer."""

    def __init__(self, endpoint: Endpoint, info: ModelInfo, *, http: HttpClient, clock: Clock) -> None:
        self.endpoint = endpoint
        self.info = info
        self._http = http
        self._clock = clock
        self._fragments = Fragments(self.encode, self.size_of)

    @abstractmethod
    def url(self) -> str: ...

    @abstractmethod
    def headers(self) -> dict[str, str]: ...

    @abstractmethod
    def encode(self, message: Message) -> F: ...

    @abstractmethod
    def size_of(self, fragment: F) -> int: ...

    @abstractmethod
    def body(self, request: ModelRequest, fragments: list[F]) -> list[bytes]: ...

    @abstractmethod
    def decoder(self, request: ModelRequest) -> Decoder: ...

    def call(self, request: ModelRequest) -> Call:
        return Call(
            endpoint=self.endpoint,
            model=request.model,
            url=self.url(),
            headers=self.headers() | dict(self.endpoint.headers),
            body=self.body(request, self._fragments.of(request)),
            idle=request.idle_timeout or self.endpoint.idle_timeout,
        )

    def stream(self, request: ModelRequest, *, cancel: Cancel) -> AsyncIterator[StreamEvent]:
        return run(self.call(request), self.decoder(request), http=self._http, clock=self._clock, cancel=cancel)


@asynccontextmanager
async def watchdog(cancel: Cancel, seconds: float) -> AsyncIterator[None]:
    """Break a wait that lasts too long (`TimeoutError`) or that somebody stops (`Cancelled`).

    It stands around each single wait for the server, and must never span the `yield` of a generator: the caller's own awaits
    would be hit.
    """
    with cancel.interrupting():
        async with asyncio.timeout(seconds):
            yield


async def _events(
    response: Response, idle: float, decoder: Decoder, cancel: Cancel
) -> AsyncGenerator[StreamEvent, None]:
    """Yield what a reply says, streamed or in one piece; what it is shows in its first bytes, whatever its label says."""
    parser, held = SseParser(), b""
    whole: bool | None = None
    while not decoder.finished:
        async with watchdog(cancel, idle):
            chunk = await response.next()
        if whole is not False:
            held += chunk
            if whole is None and held.strip():
                whole = held.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in {b"{", b"["}
            if whole is not False and len(held) > MAX_BODY:
                raise Fault(f"a reply of more than {MAX_BODY} bytes", kind=ModelFailure.SERVER)
            if whole is not False and chunk:
                continue
            if whole:
                for delta in _in_one_piece(held, decoder):
                    yield delta
                return
            chunk, held = held, b""
        for event in parser.feed(chunk) if chunk else parser.close():
            for delta in decoder.feed(event):
                yield delta
        if not chunk:
            return
    try:
        # The end of a finished stream is read, so that its connection can serve the next turn.
        async with watchdog(cancel, DRAIN_SECONDS):
            while await response.next():
                pass
    except (Cancelled, TimeoutError, HttpError):
        # The reply is complete; only the connection is lost.
        return


def _in_one_piece(body: bytes, decoder: Decoder) -> Iterator[StreamEvent]:
    """Read a reply that is JSON: one object, or the events of a stream as a list or one to a line."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        events = [line.strip() for line in body.splitlines() if line.strip()]
    else:
        events = [msgspec.json.encode(item) for item in value] if isinstance(value, list) and value else []
    if len(events) < 2 and not body.lstrip().startswith(b"["):
        yield from decoder.feed_whole(body)
        return
    for event in events:
        yield from decoder.feed(SseEvent("", event))


def _broken(call: Call, problem: Exception, clock: Clock) -> ModelError:
    from homarus.models.errors import CURES, body_text, failure, hidden

    place, secrets = f"{call.endpoint.provider}/{call.model}", call.endpoint.secrets
    if isinstance(problem, Rejected):
        response = problem.response
        if 300 <= response.status < 400:
            text = f"{call.url} sends us to {response.headers.get('location', 'another address')}; check baseUrl"
            kind = ModelFailure.MODEL_NOT_FOUND
            return ModelError(kind, f"{place}: {hidden(text, secrets)}", status=response.status, cure=CURES[kind])
        text = hidden(body_text(problem.body), secrets)
        return failure(response.status, text, where=place, headers=response.headers, now=clock.now())
    if isinstance(problem, Fault):
        text = hidden(problem.text, secrets)
        if problem.kind is None:
            return failure(problem.status, text, where=place, now=clock.now())
        return ModelError(problem.kind, f"{place}: {text}", cure=CURES.get(problem.kind, ""))
    said = hidden(str(problem), secrets) or type(problem).__name__
    if isinstance(problem, Refused):
        return ModelError(ModelFailure.UNREACHABLE, f"{place}: {said}", cure=problem.cure)
    if isinstance(problem, TimeoutError) and not problem.args:
        said = f"no data for {call.idle:g} s"
    kind = ModelFailure.NO_CONNECTION if isinstance(problem, NoConnection) else ModelFailure.TIMEOUT
    return ModelError(kind, f"{place} at {hidden(call.endpoint.base_url, secrets)}: {said}", cure=CURES[kind])


def _stop(call: Call, decoder: Decoder, reply: Reply | None, error: ModelError | None, clock: Clock) -> Stop:
    if reply is not None and error is None:
        parts, usage, reason = reply.parts, reply.usage, reply.stop_reason
    else:
        parts, usage = decoder.so_far()
        aborted = error is not None and error.kind is ModelFailure.ABORTED
        reason = StopReason.ABORTED if aborted else StopReason.ERROR
    message = Assistant(
        parts=parts,
        timestamp=epoch_ms(clock.now()),
        api=call.endpoint.api,
        provider=call.endpoint.provider,
        model=call.model,
        usage=usage,
        stop_reason=reason,
        error=error.message if error else "",
    )
    return Stop(message, error)


def stop_reason(parts: Sequence[Part], cut: bool) -> StopReason:
    """Return why a complete reply ended; calls that stand in it are complete, also when the text was cut."""
    for part in parts:
        if type(part) is ToolCall:
            return StopReason.TOOL_USE
    return StopReason.LENGTH if cut else StopReason.STOP
