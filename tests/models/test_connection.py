"""A connection as bytes: taken without a wait where they are there, held back where nobody reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from homarus.models.connection import MAX_HELD, MAX_LINE, Connection, HttpError

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def connected(talk: Talk) -> AsyncIterator[Connection]:
    writers = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with suppress(ConnectionError):
            await talk(reader, writer)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
    connection.expires = connection.loop.time() + 60
    try:
        yield connection
    finally:
        connection.close()
        server.close()
        for writer in writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


def says(*pieces: bytes, then_close: bool = True) -> Talk:
    async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if then_close:
            writer.close()

    return talk


async def test_what_is_not_there_yet_is_none_and_more_waits_for_it():
    async with connected(says(b"one\r\ntw")) as connection:
        assert connection.until(b"\r\n") is None
        await connection.more()
        assert connection.until(b"\r\n") == b"one\r\n"
        assert connection.until(b"\r\n") is None
        assert connection.exactly(3) is None
        assert connection.exactly(2) == b"tw"


async def test_the_end_is_said_and_what_was_left_over():
    async with connected(says(b"half")) as connection:
        with pytest.raises(asyncio.IncompleteReadError) as ended:
            while connection.until(b"\r\n") is None:
                await connection.more()
        assert ended.value.partial == b"half"
        assert connection.some(10) == b"half"
        assert connection.some(10) == b""
        assert not connection.usable


async def test_a_line_without_an_end_is_refused():
    async with connected(says(b"x" * (MAX_LINE + 1))) as connection:
        with pytest.raises(HttpError, match="too long"):
            while connection.until(b"\r\n") is None:
                await connection.more()


async def test_bytes_that_nobody_asked_for_make_it_unusable():
    async with connected(says(b"", then_close=False)) as connection:
        assert connection.usable
        connection.data_received(b"HTTP/1.1 200 OK\r\n\r\n")
        assert not connection.usable


async def test_a_server_that_sends_faster_than_anybody_reads_waits():
    size = 40 * MAX_HELD
    async with connected(says(b"x" * size)) as connection:
        await asyncio.sleep(0.1)
        held = found = len(connection.some(size) or b"")
        assert held < size // 4
        while piece := connection.some(1 << 16) or await _waited(connection):
            found += len(piece)
        assert found == size


async def _waited(connection: Connection) -> bytes:
    try:
        await connection.more()
    except asyncio.IncompleteReadError:
        return b""
    return connection.some(1 << 16) or b""


async def test_a_reader_that_is_slow_makes_the_sender_wait():
    heard = bytearray()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.05)
        while piece := await reader.read(1 << 16):
            heard.extend(piece)
            if len(heard) == 8 << 20:
                writer.write(b"all")
                await writer.drain()
                writer.close()
                return

    async with connected(slow) as connection:
        await connection.send([b"y" * (4 << 20), b"z" * (4 << 20)])
        await connection.more()
        assert connection.some(10) == b"all"
    assert bytes(heard) == b"y" * (4 << 20) + b"z" * (4 << 20)
