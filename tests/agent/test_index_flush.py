"""The indexes of sessions a moment after a turn: written once for all turns that ended meanwhile, and at the end."""

from __future__ import annotations

import asyncio
from typing import cast

from homarus.agent.open_session import IndexFlusher
from homarus.core.errors import StorageError
from homarus.sessions.index import SessionIndex

SECONDS = 0.05


class Index:
    def __init__(self) -> None:
        self.written = 0
        self.broken = False

    def flush(self) -> None:
        if self.broken:
            raise StorageError("the disk is full")
        self.written += 1


async def until(index: Index, written: int) -> None:
    async with asyncio.timeout(60):
        while index.written < written:
            await asyncio.sleep(0.01)


def noted(rows: IndexFlusher, index: Index) -> None:
    rows.soon(cast("SessionIndex", index))


async def test_many_turns_are_one_write():
    rows, one, other = IndexFlusher(SECONDS), Index(), Index()
    for _ in range(5):
        noted(rows, one)
        noted(rows, other)
    assert one.written == other.written == 0
    await until(other, 1)
    assert one.written == other.written == 1
    noted(rows, one)
    await until(one, 2)
    assert (one.written, other.written) == (2, 1)


async def test_closing_writes_at_once_and_only_once():
    rows, index = IndexFlusher(SECONDS), Index()
    noted(rows, index)
    rows.close()
    rows.close()
    await asyncio.sleep(SECONDS + 0.1)
    assert index.written == 1


async def test_one_that_cannot_be_written_keeps_no_other_from_it(caplog):
    rows, full, fine = IndexFlusher(SECONDS), Index(), Index()
    full.broken = True
    noted(rows, full)
    noted(rows, fine)
    rows.close()
    assert fine.written == 1
    assert "the disk is full" in caplog.text


def test_another_event_loop_has_its_own_timer():
    rows, index = IndexFlusher(SECONDS), Index()

    async def turn() -> None:
        noted(rows, index)

    asyncio.run(turn())  # this loop ends before the timer does

    async def later() -> None:
        noted(rows, index)
        await until(index, 1)

    asyncio.run(later())
    assert index.written == 1
