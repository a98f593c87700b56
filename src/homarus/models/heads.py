"""The heads of HTTP/1.1 messages: a request's as bytes, a reply's as fields. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import SplitResult

from msgspec import Struct

from homarus.core.patterns import late
from homarus.models.connection import HttpError

# The fields that say how a body is to be read. A reply has twenty others that nobody looks at unless it failed.
_FRAMING = late(
    r"\r\n(connection|content-encoding|content-length|content-type|transfer-encoding)[ \t]*:([^\r\n]*)", re.IGNORECASE
)


def request_head(method: str, target: SplitResult, headers: Mapping[str, str], *, through: str) -> bytes:
    """Return the head of a request up to its length; `through` is the proxy that it goes to, if any."""
    path = (target.path or "/") + (f"?{target.query}" if target.query else "")
    fields = {"host": target.netloc.rpartition("@")[2], "accept-encoding": "identity"}
    fields |= {name.lower(): value for name, value in headers.items()}
    fields.pop("content-length", None)
    origin = f"{target.scheme}://{fields['host']}" if through and target.scheme == "http" else ""
    lines = [f"{name}: {value}" for name, value in fields.items()]
    for line in lines:
        if "\r" in line or "\n" in line or "\0" in line:
            raise HttpError(f"header '{line.partition(':')[0][:40]}' holds a line break")
    try:
        return "\r\n".join([f"{method} {origin}{path} HTTP/1.1", *lines, ""]).encode("latin-1")
    except UnicodeEncodeError as problem:
        raise HttpError("a header holds a character that HTTP cannot carry (check the API key)") from problem


class ReplyHead(Struct, frozen=True, gc=False):
    """What the head of a reply says about its body."""

    raw: bytes
    status: int
    kind: str
    encoding: str
    chunked: bool
    # None means until the connection closes.
    length: int | None
    reusable: bool


def read_head(raw: bytes) -> ReplyHead:
    """Return what the head of a reply says; raises `HttpError` where it is none."""
    code = raw[9:12]
    if raw[:7] != b"HTTP/1." or not code.isdigit():
        raise HttpError(f"not an HTTP/1.1 reply: '{raw.decode('latin-1').splitlines()[0][:60]}'")
    found = _collected(_FRAMING.findall(raw.decode("latin-1")))
    length = found.get("content-length")
    return ReplyHead(
        raw,
        int(code),
        found.get("content-type", ""),
        found.get("content-encoding", "").lower(),
        "chunked" in found.get("transfer-encoding", "").lower(),
        None if length is None else number(length, 10),
        found.get("connection", "").lower() != "close",
    )


def number(text: str, base: int) -> int:
    """Return a length of a body or of a piece of it."""
    try:
        value = int(text.strip(), base)
    except ValueError as problem:
        raise HttpError(f"a body length that is no number: '{text[:40]}'") from problem
    if value < 0:
        raise HttpError("a negative body length")
    return value


def fields(head: bytes) -> dict[str, str]:
    """Return all fields of a reply; one that comes twice has both values, with a comma between."""
    lines = head.decode("latin-1").split("\r\n")[1:]
    return _collected([(name, value) for name, colon, value in (line.partition(":") for line in lines) if colon])


def _collected(pairs: list[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in pairs:
        name, value = name.strip().lower(), value.strip()
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found
