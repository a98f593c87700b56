"""The frames of protocol 4: requests, responses, events, errors, and why a socket is closed. Pure."""

from __future__ import annotations

import traceback
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from homarus.core.errors import HomarusError
from homarus.core.text import single_line

PROTOCOL, PROBE_PROTOCOL = 4, 3
MAX_PAYLOAD, MAX_BUFFERED = 25 * 1024 * 1024, 50 * 1024 * 1024
MAX_BEFORE_AUTH = 64 * 1024
# Above this much unsent, what a client can fetch again is dropped instead of sent.
SLOW_BYTES = 1024 * 1024
HANDSHAKE_SECONDS = 15.0
TICK_SECONDS = 30.0
_MAX_ID, _MAX_METHOD, _MAX_TRACE = 256, 128, 128
_MAX_REASON = 123  # bytes that a close frame holds


class Code(StrEnum):
    NOT_PAIRED = "NOT_PAIRED"
    INVALID_REQUEST = "INVALID_REQUEST"
    FORBIDDEN = "FORBIDDEN"
    APPROVAL_NOT_FOUND = "APPROVAL_NOT_FOUND"
    UNAVAILABLE = "UNAVAILABLE"


class Close(IntEnum):
    NORMAL = 1000
    PROTOCOL = 1002
    POLICY = 1008
    TOO_BIG = 1009
    RESTART = 1012


class Refused(HomarusError):
    """The client acts: what it asked for is not done. Becomes an error frame; during the handshake the socket closes with `close`."""

    def __init__(
        self,
        message: str,
        code: Code = Code.INVALID_REQUEST,
        *,
        details: dict[str, Any] | None = None,
        retry_ms: int | None = None,
        close: Close = Close.POLICY,
    ) -> None:
        super().__init__(single_line(message, 500))
        self.code = code
        self.details = details
        self.retry_ms = retry_ms
        self.close = close

    def body(self) -> dict[str, Any]:
        """Return the error as a frame has it."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.details:
            error["details"] = self.details
        if self.retry_ms is not None:
            error |= {"retryable": True, "retryAfterMs": self.retry_ms}
        return error


class Request(Struct, frozen=True):
    type: Literal["req"]
    id: str
    method: str
    params: msgspec.Raw = msgspec.Raw(b"{}")
    traceparent: str = ""


_requests = msgspec.json.Decoder(Request)


def read_request(data: bytes | str) -> Request:
    """Read a frame of a client. Raises Refused, which names nothing of what it held."""
    try:
        request = _requests.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise Refused(f"invalid request frame: {problem}") from None
    if not 0 < len(request.id) <= _MAX_ID or not 0 < len(request.method) <= _MAX_METHOD:
        raise Refused("invalid request frame: id or method is empty or too long")
    if len(request.traceparent) > _MAX_TRACE:
        raise Refused("invalid request frame: traceparent is too long")
    return request


def response(request_id: str, payload: Any) -> bytes:
    return msgspec.json.encode({"type": "res", "id": request_id, "ok": True, "payload": payload})


def failure(request_id: str, refused: Refused) -> bytes:
    return msgspec.json.encode({"type": "res", "id": request_id, "ok": False, "error": refused.body()})


def event_head(name: str, payload: Any) -> bytes:
    """Return an event without its end, encoded once for all who get it; see `event_frame`."""
    return msgspec.json.encode({"type": "event", "event": name, "payload": payload})[:-1]


def event_frame(head: bytes, seq: int | None = None, version: dict[str, int] | None = None) -> bytes:
    """Return the frame for one connection, which numbers what it receives."""
    tail = b"" if seq is None else b',"seq":%d' % seq
    if version:
        tail += b',"stateVersion":' + msgspec.json.encode(version)
    return head + tail + b"}"


def close_reason(text: str) -> str:
    return single_line(text).encode()[:_MAX_REASON].decode(errors="ignore")


def read_params(method: str, raw: msgspec.Raw, into: type[Any]) -> Any:
    """Read the parameters of a method. Objects are closed: a key that is neither read nor known to mean nothing is an error."""
    data = bytes(raw)
    try:
        if passed := getattr(into, "PASSED", None):
            found = msgspec.json.decode(data or b"{}")
            known = (
                {key: value for key, value in found.items() if key not in passed} if isinstance(found, dict) else found
            )
            return msgspec.convert({} if known is None else known, into)
        return msgspec.json.decode(b"{}" if data in (b"null", b"") else data, type=into)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise Refused(f"invalid {method} params: {_as_known(str(problem))}") from None


def _as_known(problem: str) -> str:
    """Return a decoder's words in those that clients know."""
    words = problem.partition("`")
    if problem.startswith("Object missing required field"):
        return f"must have required property '{words[2].partition('`')[0]}'"
    if problem.startswith("Object contains unknown field"):
        return f"at root: unexpected property '{words[2].partition('`')[0]}'"
    return problem


def where(problem: BaseException) -> str:
    """Return what went wrong and where, on one line: a traceback would carry a stranger's text into the log."""
    frames = traceback.extract_tb(problem.__traceback__)
    places = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames[-4:]))
    return f"{single_line(repr(problem), 200)} at {places}"
