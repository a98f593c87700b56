"""A provider that does not watch the token: its stream ends in time, with what it had said."""

import asyncio
import time

import pytest
from tests.models.test_client import START

from homarus.core.cancel import Cancel
from homarus.core.clock import ManualClock
from homarus.core.errors import ModelFailure
from homarus.core.events import TextDelta
from homarus.core.messages import Assistant, StopReason, Text, User
from homarus.core.prompt import SystemPrompt
from homarus.models.auth import AuthStore
from homarus.models.catalog import Catalog
from homarus.models.client import ModelClient
from homarus.models.held import AHEAD, Overdue, held
from homarus.models.provider import ModelRequest, Stop
from homarus.models.ref import ModelRef
from homarus.models.registry import Registry
from homarus.models.select import Chain
from homarus.net.client import HttpClient

LATE = 0.5  # far beyond the 100 ms of the contract, far below what a provider here would take


async def sleeps():
    yield TextDelta("half a ")
    yield TextDelta("word")
    await asyncio.sleep(60)


async def catches_everything():
    yield TextDelta("half a word")
    for _ in range(6):
        try:
            await asyncio.sleep(10)
        except BaseException:  # noqa: BLE001 - that is what it is about
            continue


async def cleans_up_for_long():
    yield TextDelta("half a word")
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(60)


async def never_stops_talking():
    while True:
        yield TextDelta("")
        await asyncio.sleep(0)


async def asked(tmp_path, provider):
    """Return the end of a request that is stopped after its first event, and how long that end took."""
    registry = Registry(Catalog(), http=HttpClient(), clock=ManualClock(START))
    registry.register("own", lambda _ref, _credential: provider)
    client = ModelClient(registry, AuthStore(tmp_path, clock=ManualClock(START)), clock=ManualClock(START))
    request, cancel = ModelRequest("", SystemPrompt(""), (User((Text("hi"),)),)), Cancel()
    stopped, events = 0.0, []
    async for event in client.stream(request, Chain((ModelRef("own", "m"),), "config"), cancel=cancel):
        events.append(event)
        if isinstance(event, TextDelta) and not cancel.cancelled:
            stopped = time.monotonic()
            cancel.cancel("enough")
    assert [isinstance(event, Stop) for event in events].count(True) == 1
    return events[-1], time.monotonic() - stopped


class Own:
    def __init__(self, source):
        self.source = source

    def stream(self, request, *, cancel):
        return self.source()


@pytest.mark.parametrize("source", [sleeps, catches_everything, cleans_up_for_long, never_stops_talking])
async def test_a_stop_ends_the_stream_whatever_the_provider_does(tmp_path, source):
    stop, took = await asyncio.wait_for(asked(tmp_path, Own(source)), 5)
    assert took < LATE
    assert stop.error is not None
    assert (stop.error.kind, stop.error.message) == (ModelFailure.ABORTED, "enough")
    assert stop.message.stop_reason is StopReason.ABORTED
    assert stop.message.text == ("" if source is never_stops_talking else "half a word")


async def test_one_that_is_broken_off_and_then_says_how_it_ended_is_believed(tmp_path):
    async def late():
        yield TextDelta("half")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            yield Stop(Assistant((Text("half, they said"),), stop_reason=StopReason.ABORTED))

    stop, took = await asyncio.wait_for(asked(tmp_path, Own(late)), 5)
    assert took < LATE
    assert stop.message.text == "half, they said"


async def test_a_token_that_trips_before_the_first_event_ends_it_too():
    async def silent():
        await asyncio.sleep(60)
        yield TextDelta("never")

    cancel = Cancel()
    cancel.cancel()
    with pytest.raises(Overdue):
        await asyncio.wait_for(anext(held(silent(), cancel)), 5)


async def test_nothing_is_read_far_ahead_of_whoever_listens():
    given = 0

    async def endless():
        nonlocal given
        while True:
            given += 1
            yield TextDelta("x")

    events = held(endless(), Cancel())
    await anext(events)
    await asyncio.sleep(0)
    assert given <= AHEAD
    for _ in range(AHEAD * 3):
        await anext(events)
    await events.aclose()


async def test_what_it_raises_is_raised_where_it_is_read():
    async def broken():
        yield TextDelta("x")
        raise ValueError("kaboom")

    events = held(broken(), Cancel())
    assert await anext(events) == TextDelta("x")
    with pytest.raises(ValueError, match="kaboom"):
        await anext(events)


async def test_whoever_walks_away_closes_it():
    closed = asyncio.Event()

    async def endless():
        try:
            while True:
                yield TextDelta("x")
                await asyncio.sleep(0)
        finally:
            closed.set()

    events = held(endless(), Cancel())
    await anext(events)
    await events.aclose()
    assert closed.is_set()
