"""Watch a session until the turn that answers one message has ended. Watching changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from homarus.core.events import RunEnded, RunEvent, UserAccepted
from homarus.queue.lane import SessionLane


async def follow(lane: SessionLane, key: str, events: asyncio.Queue[RunEvent]) -> AsyncIterator[RunEvent]:
    """Yield a session's events until the turn that took this message has ended; the last one is a `RunEnded`."""
    idle = asyncio.ensure_future(lane.idle())
    mine = False
    try:
        while True:
            if events.empty():
                # A message that `stop` forgot before its turn began has no turn that could end.
                getter = asyncio.ensure_future(events.get())
                await asyncio.wait({getter, idle}, return_when=asyncio.FIRST_COMPLETED)
                if not getter.done():
                    getter.cancel()
                    yield RunEnded("", "aborted", error="stopped before it began")
                    return
                event = getter.result()
            else:
                event = events.get_nowait()
            # The end of an earlier turn is not the end of this one.
            mine = mine or (isinstance(event, UserAccepted) and event.message.idempotency_key == key)
            yield event
            if isinstance(event, RunEnded) and (mine or not any(item.key == key for item in lane.waiting)):
                return
    finally:
        idle.cancel()
