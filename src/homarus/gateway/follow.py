"""Watch a session until the turn that answers one message has ended, and those that its sub-agents' reports start.

Watching changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from homarus.core.events import RunEnded, RunEvent, RunStarted, ToolEnded, UserAccepted
from homarus.gateway.feed import EventFeed
from homarus.queue.lane import SessionLane

YIELD = "sessions_yield"


async def follow(lane: SessionLane, key: str, events: EventFeed) -> AsyncIterator[RunEvent]:
    """Yield a session's events until the turn that took this message has ended; the last one is a `RunEnded`."""
    idle = asyncio.ensure_future(lane.idle())
    idle.add_done_callback(events.wake)
    mine = False
    try:
        while True:
            while not events:
                if idle.done():
                    # A message that `stop` forgot before its turn began has no turn that could end.
                    yield RunEnded("", "aborted", error="stopped before it began")
                    return
                await events.change()
            event = events.take()
            # The end of an earlier turn is not the end of this one.
            mine = mine or (isinstance(event, UserAccepted) and event.message.idempotency_key == key)
            yield event
            if isinstance(event, RunEnded) and (mine or not any(item.key == key for item in lane.waiting)):
                return
    finally:
        idle.cancel()


async def follow_family(
    lane: SessionLane, key: str, events: EventFeed, owed: Callable[[], int], *, everyone: bool
) -> AsyncIterator[RunEvent]:
    """Do the same, and go on while sub-agents work that the turn waits for; with `everyone`, that any turn started.

    `owed` says how many have not reported. The last event is a `RunEnded` here, too.
    """
    waits, settled, last = False, True, RunEnded("", "ok")
    async for event in follow(lane, key, events):
        waits, last = _waits(event, waits), event if isinstance(event, RunEnded) else last
        yield event
    # In the middle of a turn, or before one that a report has started, nobody leaves.
    while not settled or lane.reports or ((everyone or waits) and (owed() or lane.busy or events)):
        more = await _next(lane, events, owed)
        if more is None:
            break
        waits, settled = _waits(more, waits), isinstance(more, RunEnded)
        last = more if isinstance(more, RunEnded) else last
        yield more
    if not settled:
        yield RunEnded(last.run_id, "aborted", last.text, "stopped while its sub-agents were at work")


def _waits(event: RunEvent, before: bool) -> bool:
    """Say whether the newest turn ended in order to wait for its sub-agents."""
    if isinstance(event, RunStarted):
        return False
    return before or (isinstance(event, ToolEnded) and event.result.tool_name == YIELD and not event.result.is_error)


async def _next(lane: SessionLane, events: EventFeed, owed: Callable[[], int]) -> RunEvent | None:
    """Return the next event, or None when there will be none: nobody is at work, and nothing waits."""
    while not events:
        if owed() and not lane.busy:
            # The end of a sub-agent is an event of its parent, so one will come.
            await events.change()
            continue
        idle = asyncio.ensure_future(lane.idle())
        idle.add_done_callback(events.wake)
        try:
            await events.change()
        finally:
            idle.cancel()
        if not events and not lane.busy and not owed():
            return None
    return events.take()
