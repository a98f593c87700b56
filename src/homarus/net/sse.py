"""Server-sent events from bytes, incrementally: however the bytes are cut into chunks, the same events come out."""

from __future__ import annotations

from msgspec import Struct

MAX_EVENT_BYTES = 32 * 1024 * 1024


class SseEvent(Struct, frozen=True, gc=False):
    """One event; `data` holds the lines of its data fields, joined."""

    event: str
    data: bytes


class SseError(ValueError):
    """The stream cannot be an event stream: one event is larger than anything a model sends."""


class SseParser:
    """Feed chunks, take complete events; `close` gives what a server left unterminated at the end."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._data: list[bytes] = []
        self._event = ""
        # A trailing CR may be the first half of CRLF, so it waits for the next chunk.
        self._held = b""
        self._started = False

    def feed(self, chunk: bytes) -> list[SseEvent]:
        chunk = self._held + chunk
        self._held = b""
        if chunk.endswith(b"\r"):
            self._held, chunk = b"\r", chunk[:-1]
        if not chunk:
            return []
        chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in chunk:
            self._parts.append(chunk)
            self._size += len(chunk)
            self._check()
            return []
        lines = (b"".join(self._parts) + chunk).split(b"\n")
        tail = lines.pop()
        self._parts = [tail] if tail else []
        self._size = len(tail) + sum(map(len, self._data))
        return self._lines(lines)

    def close(self) -> list[SseEvent]:
        """Return the last event if the server ended without the blank line that should follow it."""
        rest = b"".join(self._parts)
        self._parts, self._held = [], b""
        return self._lines([rest, b""])

    def _check(self) -> None:
        if self._size > MAX_EVENT_BYTES:
            raise SseError(f"an event of more than {MAX_EVENT_BYTES} bytes")

    def _lines(self, lines: list[bytes]) -> list[SseEvent]:
        if not self._started and lines:
            self._started = True
            lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
        events = []
        for line in lines:
            if not line:
                if self._data:
                    events.append(SseEvent(self._event, b"\n".join(self._data)))
                self._data, self._event = [], ""
                continue
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
                self._size += len(value)
                self._check()
            elif name == b"event":
                self._event = value.removeprefix(b" ").decode("utf-8", "replace")
            # Comments (keep-alives), `id` and `retry` mean nothing here: a model stream is never resumed by id.
        return events
