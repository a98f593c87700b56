"""Lines from a keyboard or a pipe, awaited in the event loop: whoever stops waiting leaves nothing behind that reads on."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class Lines:
    """The lines of a stream that nobody else reads.

    A thread that waits in `readline` cannot be stopped: it holds up a program that wants to end, and takes the next line
    from whoever reads after it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._left = b""

    async def next(self) -> str:
        """Return the next line, with what ends it; nothing when there are no more."""
        while b"\n" not in self._left:
            try:
                number = self._stream.fileno()
                await _readable(number)
            except OSError:  # a file, which keeps nobody waiting, or a stream without a descriptor
                return await asyncio.to_thread(self._stream.readline)
            if not (more := _piece(number)):
                break
            self._left += more
        line, end, self._left = self._left.partition(b"\n")
        return (line + end).decode(self._stream.encoding, "replace")

    @contextmanager
    def anew(self) -> Iterator[None]:
        """Read only what is typed from now on at a terminal; what was typed before is read after this."""
        early, self._left = self._left + self._typed(), b""
        try:
            yield
        finally:
            self._left = early + self._left

    def _typed(self) -> bytes:
        found = b""
        while self._stream.isatty() and select.select([self._stream], [], [], 0)[0]:
            if not (more := _piece(self._stream.fileno())):
                break
            found += more
        return found


async def _readable(number: int) -> None:
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(number, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(number)


def _piece(number: int) -> bytes:
    try:
        return os.read(number, 65536)
    except OSError:  # the terminal is gone
        return b""
