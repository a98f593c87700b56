"""One streamed HTTP call, from request to `Stop`: the part that both wire shapes share.

Everything that can go wrong on the way ends in the one `Stop`; only the task's own cancellation passes through.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from homarus.core.cancel import Cancel
from homarus.core.clock import Clock, epoch_ms
from homarus.core.errors import Cancelled, ModelError, ModelFailure
from homarus.core.messages import Assistant, Part, StopReason, ToolCall, Usage
from homarus.models.info import Endpoint
from homarus.models.provider import Stop, StreamEvent
from homarus.net.client import HttpClient, Response
from homarus.net.errors import HttpError, Refused
from homarus.net.sse import SseError, SseEvent, SseParser

MAX_BODY = 32 * 1024 * 1024
# How long the tail of a finished stream may take before its connection is given up instead of kept.
DRAIN_SECONDS = 0.2
_decode = msgspec.json.Decoder().decode


class Fault(Exception):
    """A failure that the server reported inside the stream, before it is classified."""

    def __init__(self, text: str, status: int | None = None, kind: ModelFailure | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.status = status
        self.kind = kind


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
        async for event in _events(response, call.idle, decoder, cancel):
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


@asynccontextmanager
async def watchdog(cancel: Cancel, seconds: float) -> AsyncIterator[None]:
    """Break a wait that lasts too long (`TimeoutError`) or that somebody stops (`Cancelled`).

    It stands around each single wait for the server, and must never span the `yield` of a generator: the caller's own awaits
    would be hit.
    """
    with cancel.interrupting():
        async with asyncio.timeout(seconds):
            yield


async def _events(response: Response, idle: float, decoder: Decoder, cancel: Cancel) -> AsyncIterator[StreamEvent]:
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
    """Read a reply that is JSON: one object, or (as some servers stream) one to a line."""
    lines = [line for line in body.splitlines() if line.strip()]
    try:
        _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        if len(lines) > 1:
            for line in lines:
                yield from decoder.feed(SseEvent("", line.strip()))
            return
    yield from decoder.feed_whole(body)


def where(call: Call) -> str:
    """Return provider and model as they stand in messages to people."""
    return f"{call.endpoint.provider}/{call.model}"


def _broken(call: Call, problem: Exception, clock: Clock) -> ModelError:
    from homarus.config.redact import redact_text
    from homarus.models.errors import CURES, body_text, failure

    if isinstance(problem, Rejected):
        text, response = body_text(problem.body), problem.response
        if 300 <= response.status < 400:
            text = f"{call.url} sends us to {response.headers.get('location', 'another address')}; check baseUrl"
            kind = ModelFailure.MODEL_NOT_FOUND
            return ModelError(kind, f"{where(call)}: {text}", status=response.status, cure=CURES[kind])
        return failure(response.status, text, where=where(call), headers=response.headers, now=clock.now())
    if isinstance(problem, Fault):
        if problem.kind is None:
            return failure(problem.status, problem.text, where=where(call), now=clock.now())
        return ModelError(problem.kind, f"{where(call)}: {problem.text}", cure=CURES.get(problem.kind, ""))
    if isinstance(problem, Refused):
        text = f"{where(call)}: {redact_text(str(problem))}"
        return ModelError(ModelFailure.UNREACHABLE, text, cure=problem.cure)
    if isinstance(problem, TimeoutError) and not problem.args:
        said = f"no data for {call.idle:g} s"
    else:
        said = str(problem) or type(problem).__name__
    kind = ModelFailure.TIMEOUT
    return ModelError(kind, f"{where(call)} at {redact_text(call.endpoint.base_url)}: {said}", cure=CURES[kind])


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


# Why a reply ended, by the words of the many servers that speak one of the two protocols.
_ENDED = frozenset(
    {"stop", "end", "end_turn", "eos", "eos_token", "stop_sequence", "stop_token", "tool_calls", "tool_call", "tool_use",
     "function_call", "complete", "completed", "finished", "done", "pause_turn", "stop_str", "null", "none"}
)  # fmt: skip
_CUT = frozenset({"length", "max_tokens", "max_output_tokens", "max_length", "model_length", "token_limit"})
_FAILED: tuple[tuple[str, ModelFailure, str], ...] = (
    (r"context", ModelFailure.CONTEXT_OVERFLOW, "prompt is too long: the context window is full"),
    (r"filter|safety|sensitive|refus|prohibit|block|guardrail|moderat|policy|recitation|spii|violat",
     ModelFailure.REFUSAL, "the provider or the model declined to answer"),
    (r"resource|overload|capacity|busy", ModelFailure.OVERLOADED, "the server lacks the resources to answer"),
    (r"network|abort|time|disconnect|cancel|interrupt", ModelFailure.TIMEOUT, "the server broke the reply off"),
    (r"malformed|invalid|unexpected|repetition", ModelFailure.UNKNOWN, "the model wrote something unreadable"),
    (r"error|fail", ModelFailure.SERVER, "the server failed in the middle of the reply"),
)  # fmt: skip


def was_cut(reason: str, *, empty: bool) -> bool:
    """Say whether a reply ended because it hit its limit; raises `Fault` where its end is a failure.

    A word that nobody knows ends a reply well if there is one.
    """
    word = reason.strip().lower()
    if word in _ENDED or word in _CUT:
        return word in _CUT
    for pattern, kind, said in _FAILED:
        if re.search(pattern, word):
            raise Fault(f"{said} (finish reason: {word})", kind=kind)
    if empty and word:
        raise Fault(f"no reply (finish reason: {word})", kind=ModelFailure.UNKNOWN)
    return False


def reported(value: dict[str, Any]) -> Fault | None:
    """Return the failure that an object tells of, in one of the shapes that servers have for it under status 200."""
    base = value.get("base_resp")
    bare = not value.keys() & {"choices", "content", "usage", "delta", "message_id"}
    if (
        value.get("error")
        or value.get("errors")
        or "error" in (value.get("object"), value.get("type"))
        or (isinstance(base, dict) and base.get("status_code"))
        or value.get("success") is False
        or (bare and value.keys() & {"detail", "message", "msg", "status_msg", "error_msg"} and "type" not in value)
    ):
        return no_reply(value)
    return None


def no_reply(value: dict[str, Any]) -> Fault:
    """Return the failure of a body that is no reply, in its own words."""
    from homarus.models.errors import error_text

    inner = value.get("error")
    codes = [(inner if isinstance(inner, dict) else {}).get("code"), value.get("code"), value.get("status")]
    status = next((code for code in codes if isinstance(code, int) and 400 <= code < 600), None)
    return Fault(error_text(value), status=status)


def json_object(data: bytes) -> dict[str, Any]:
    """Return what an event holds, `null` as an empty object; raises `Fault` for one that is no JSON object."""
    try:
        value = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise Fault(f"an event that is no JSON: {problem}", kind=ModelFailure.SERVER) from problem
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Fault("an event that is no object", kind=ModelFailure.SERVER)
    return value
