"""A feed loses no event, wakes its reader for other reasons too, and survives a reader that leaves."""

from __future__ import annotations

import asyncio

from homarus.core.events import Notice
from homarus.runtime.events import EventFeed


async def test_events_come_in_order_and_none_is_lost() -> None:
    feed, seen = EventFeed(), list[str]()

    async def read() -> None:
        while len(seen) < 100:
            while not feed:
                await feed.change()
            event = feed.take()
            assert isinstance(event, Notice)
            seen.append(event.text)

    reader = asyncio.ensure_future(read())
    for number in range(100):
        feed.put(Notice(str(number), "test"))
        if number % 3 == 0:
            await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await reader
    assert seen == [str(number) for number in range(100)]


async def test_a_wake_up_without_an_event() -> None:
    feed = EventFeed()
    feed.wake()  # nobody waits: nothing to remember
    waiting = asyncio.ensure_future(feed.change())
    await asyncio.sleep(0)
    assert not waiting.done()
    feed.wake()
    async with asyncio.timeout(60):
        await waiting
    assert not feed


async def test_a_reader_that_was_cancelled_does_not_stop_the_writers() -> None:
    feed = EventFeed()
    waiting = asyncio.ensure_future(feed.change())
    await asyncio.sleep(0)
    waiting.cancel()
    feed.put(Notice("after", "test"))
    await asyncio.gather(waiting, return_exceptions=True)
    assert len(feed) == 1
