"""The watchdog of a request: it breaks the wait it stands around, for one of two reasons, and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from homarus.core.cancel import Cancel
from homarus.core.errors import Cancelled
from homarus.models.vigil import Vigil, Vigils


async def test_a_wait_that_lasts_too_long_is_broken():
    vigil = Vigil(Cancel(), 0.01)
    with pytest.raises(TimeoutError), vigil:
        await asyncio.sleep(5)
    vigil.close()


async def test_each_wait_has_its_own_time():
    vigil = Vigil(Cancel(), 0.05)
    for _ in range(4):
        with vigil:
            await asyncio.sleep(0.02)
    vigil.close()


async def test_what_happens_between_waits_is_not_a_wait():
    vigil = Vigil(Cancel(), 0.01)
    with vigil:
        await asyncio.sleep(0)
    await asyncio.sleep(0.03)
    with pytest.raises(TimeoutError), vigil:
        await asyncio.sleep(5)
    vigil.close()


async def test_a_shorter_time_counts_at_once():
    vigil = Vigil(Cancel(), 60)
    with vigil:
        await asyncio.sleep(0)
    vigil.idle = 0.01
    with pytest.raises(TimeoutError), vigil:
        await asyncio.sleep(5)
    vigil.close()


async def test_a_stop_breaks_the_wait_with_its_reason():
    cancel = Cancel()
    vigil = Vigil(cancel, 60)
    asyncio.get_running_loop().call_later(0.01, cancel.cancel, "enough")
    with pytest.raises(Cancelled, match="enough"), vigil:
        await asyncio.sleep(5)
    with pytest.raises(Cancelled, match="enough"), vigil:
        pytest.fail("nobody waits after a stop: the next one does not even begin")
    vigil.close()


async def test_a_stop_between_waits_hits_nobody_else():
    cancel = Cancel()
    vigil = Vigil(cancel, 60)
    with vigil:
        await asyncio.sleep(0)
    cancel.cancel("later")
    await asyncio.sleep(0.01)  # the caller's own wait
    vigil.close()


async def test_the_task_s_own_cancellation_passes_through():
    vigil = Vigil(Cancel(), 60)

    async def waits() -> None:
        with vigil:
            await asyncio.sleep(5)

    task = asyncio.ensure_future(waits())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    vigil.close()


async def test_nothing_is_left_behind():
    cancel = Cancel()
    vigil = Vigil(cancel, 0.01)
    with vigil:
        await asyncio.sleep(0)
    vigil.close()
    vigil.close()
    cancel.cancel()
    await asyncio.sleep(0.03)  # neither the timer nor the token reaches this task any more


async def test_a_vigil_serves_one_request_after_the_other_with_the_timer_it_has():
    vigils = Vigils()
    first = vigils.begin(Cancel(), 60)
    with first:
        await asyncio.sleep(0)
    vigils.end(first)
    second = vigils.begin(Cancel(), 0.01)
    assert second is first
    with pytest.raises(TimeoutError), second:
        await asyncio.sleep(5)
    vigils.end(second)
    third = vigils.begin(Cancel(), 60)
    with third:
        await asyncio.sleep(0.03)  # the short time was the second request's
    vigils.end(third)


async def test_what_stops_a_request_that_is_over_does_not_stop_the_next():
    vigils, stopped = Vigils(), Cancel()
    first = vigils.begin(stopped, 60)
    with first:
        await asyncio.sleep(0)
    stopped.cancel("too late")  # told to the loop, which has not turned yet
    vigils.end(first)
    second = vigils.begin(Cancel(), 60)
    assert second is first
    with second:
        await asyncio.sleep(0.01)
    vigils.end(second)


async def test_two_requests_at_once_have_two_vigils():
    vigils, stopped = Vigils(), Cancel()
    first, second = vigils.begin(stopped, 60), vigils.begin(Cancel(), 60)

    async def waits() -> str:
        with second:
            await asyncio.sleep(0.02)
        return "undisturbed"

    other = asyncio.ensure_future(waits())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(stopped.cancel, "enough")
    with pytest.raises(Cancelled, match="enough"), first:
        await asyncio.sleep(5)
    assert await other == "undisturbed"


def test_vigils_of_another_event_loop_are_left_alone():
    vigils = Vigils()

    async def once() -> object:
        vigil = vigils.begin(Cancel(), 0.01)
        with pytest.raises(TimeoutError), vigil:
            await asyncio.sleep(5)
        vigils.end(vigil)
        return vigil

    assert asyncio.run(once()) is not asyncio.run(once())
