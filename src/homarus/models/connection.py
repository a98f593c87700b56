"""One connection to a server, as bytes: what arrived and is not taken yet, and who waits for more. Knows no HTTP.

Why not asyncio's streams: what is there already is taken without a wait, and a wait is what a model call costs most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import ssl

MAX_LINE = 64 * 1024
MAX_HELD = 2 * MAX_LINE


class HttpError(Exception):
    """The other side does not speak HTTP/1.1 as agreed, or stopped in the middle of a reply."""


class Connection(asyncio.Protocol):
    """Both ends of one connection, and the event loop it belongs to. Taking returns None for "not there yet"."""

    def __init__(self) -> None:
        self.key = ""
        self.expires = 0.0
        self.used = False
        self.loop = asyncio.get_running_loop()
        # What arrived, and up to where it is taken; both are empty where all of it is.
        self._data = b""
        self._at = 0
        self._ended = self._held = self._full = False
        self._error: Exception | None = None
        self._reader: asyncio.Future[None] | None = None
        self._sender: asyncio.Future[None] | None = None

    # What the event loop tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Keep what came; a server that sends faster than anybody reads has to wait."""
        if self._data:
            self._data, self._at = self._data[self._at :] + data, 0
        else:
            self._data = data
        if not self._held and len(self._data) > MAX_HELD:
            self._held = True
            self.transport.pause_reading()
        reader = self._reader
        if reader is not None and not reader.done():
            reader.set_result(None)

    def eof_received(self) -> None:
        """Note that no more will come."""
        self._ended = True
        _wake(self._reader)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is gone."""
        self._ended, self._error = True, exc or self._error
        _wake(self._reader)
        _wake(self._sender)

    def pause_writing(self) -> None:
        """Note that the other side takes no more for now."""
        self._full = True

    def resume_writing(self) -> None:
        """Note that the other side takes more."""
        self._full = False
        _wake(self._sender)

    # What a client does

    @property
    def quiet(self) -> bool:
        """Say whether it is open and all that came is taken; bytes that nobody asked for make it unusable."""
        return not (self._ended or self._data or self.transport.is_closing())

    @property
    def usable(self) -> bool:
        """Say whether another request may go out on it now."""
        return self.quiet and self.loop.time() < self.expires

    def write(self, parts: Sequence[bytes]) -> bool:
        """Send all of it; False where the other side takes no more for now and `send` has to wait for it."""
        self.transport.writelines(parts)
        return not self._full

    async def send(self, parts: Sequence[bytes] = ()) -> None:
        """Send all of it; returns when it is sent or on its way."""
        if parts:
            self.write(parts)
        while self._full and not self._ended:
            self._sender = self.loop.create_future()
            await self._sender

    def until(self, end: bytes) -> bytes | None:
        """Take what stands before the next `end`, with it."""
        place = self._data.find(end, self._at)
        if place >= 0:
            return self._take(place + len(end) - self._at)
        if len(self._data) - self._at > MAX_LINE:
            raise HttpError("the head of the reply is too long")
        return None

    def exactly(self, count: int) -> bytes | None:
        """Take so many bytes and no fewer."""
        return self._take(count) if len(self._data) - self._at >= count else None

    def some(self, most: int) -> bytes | None:
        """Take what is there; nothing at the end of the connection."""
        if self._data:
            return self._take(most)
        if self._error is not None:
            raise self._error
        return b"" if self._ended else None

    def more(self) -> asyncio.Future[None]:
        """Return what to await until more has come; raises `IncompleteReadError` where nothing will."""
        if self._error is not None:
            raise self._error
        if self._ended:
            raise asyncio.IncompleteReadError(self._data[self._at :], None)
        if self._held:
            self._held = False
            self.transport.resume_reading()
        self._reader = reader = self.loop.create_future()
        return reader

    async def secure(self, context: ssl.SSLContext, host: str) -> None:
        """Go on with TLS, as behind a proxy that has made a tunnel."""
        found = await self.loop.start_tls(self.transport, self, context, server_hostname=host)
        assert found is not None, "the tunnel was closed"
        self.transport = found

    def close(self) -> None:
        """Drop it without waiting for the other side."""
        if not self.loop.is_closed():
            self.transport.abort()

    def _take(self, count: int) -> bytes:
        data, start = self._data, self._at
        end = start + count
        if end < len(data):
            self._at = end
            return data[start:end]
        self._data, self._at = b"", 0
        return data[start:] if start else data


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
