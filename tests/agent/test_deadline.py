"""The time of a run: it ends the run, it stands still while a person is asked, and none means none."""

from __future__ import annotations

import asyncio

from homarus.agent.budget import retry_limit
from homarus.agent.deadline import Deadline
from homarus.core.cancel import Cancel
from homarus.core.clock import SystemClock


async def test_the_token_trips_when_the_time_is_over() -> None:
    cancel = Cancel()
    with Deadline(0.01, cancel, SystemClock()) as limit:
        assert "0.01 seconds" in await asyncio.wait_for(cancel.wait(), 60)
    assert limit.expired


async def test_a_run_that_ended_in_time_is_left_alone() -> None:
    cancel = Cancel()
    with Deadline(0.01, cancel, SystemClock()) as limit:
        pass
    await asyncio.sleep(0.03)
    assert not cancel.cancelled
    assert not limit.expired


async def test_no_seconds_mean_no_end() -> None:
    cancel = Cancel()
    limit = Deadline(0, cancel, SystemClock())
    with limit, limit.paused():
        await asyncio.sleep(0.01)
    assert limit.moment is None
    assert not cancel.cancelled


async def test_time_stands_still_while_people_are_asked() -> None:
    cancel = Cancel()
    limit = Deadline(0.05, cancel, SystemClock())
    with limit:
        with limit.paused():
            with limit.paused():
                await asyncio.sleep(0.1)
            await asyncio.sleep(0.1)
            assert not cancel.cancelled, "one of two questions is still open"
        await asyncio.wait_for(cancel.wait(), 60)
    assert limit.expired


def test_how_many_failed_attempts_a_run_may_make() -> None:
    assert [retry_limit(profiles) for profiles in (0, 1, 2, 10, 17, 99)] == [32, 32, 40, 104, 160, 160]
