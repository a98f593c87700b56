"""The cancel token: announced once, heard everywhere, told apart from a task's own cancellation."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from homarus.core.cancel import Cancel
from homarus.core.errors import Cancelled


def test_the_first_reason_stays():
    token = Cancel()
    assert not token.cancelled and token.reason == ""
    token.check()
    assert token.cancel("user said stop") is True
    assert token.cancel("again") is False
    assert token.cancelled and token.reason == "user said stop"
    with pytest.raises(Cancelled, match="user said stop"):
        token.check()


def test_children_stop_with_the_parent_and_alone():
    parent = Cancel()
    first, second = parent.child(), parent.child()
    first.cancel("only me")
    assert not parent.cancelled and not second.cancelled
    parent.cancel("all")
    assert first.reason == "only me" and second.reason == "all"
    assert parent.child().reason == "all"


def test_a_dropped_child_is_freed():
    parent = Cancel()
    for _ in range(100):
        parent.child()
    gc.collect()
    assert len(parent._children) == 0


def test_callbacks_run_once_and_one_failure_does_not_stop_the_others(caplog):
    token, heard = Cancel(), []

    def broken() -> None:
        raise ValueError("boom")

    token.on_cancel(broken)
    token.on_cancel(lambda: heard.append("a"))
    remove = token.on_cancel(lambda: heard.append("never"))
    remove()
    token.cancel()
    token.cancel()
    token.on_cancel(lambda: heard.append("late"))
    assert heard == ["a", "late"]
    assert "boom" in caplog.text


async def test_wait_hears_another_thread():
    token = Cancel()
    thread = threading.Timer(0.01, token.cancel, ["from a thread"])
    thread.start()
    assert await asyncio.wait_for(token.wait(), 60) == "from a thread"
    assert await token.wait() == "from a thread"
    thread.join()


async def test_an_interruption_breaks_an_await():
    token = Cancel()
    asyncio.get_running_loop().call_later(0.01, token.cancel, "enough")
    with pytest.raises(Cancelled, match="enough"), token.interrupting():
        await asyncio.sleep(30)
    await asyncio.sleep(0)
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0
    with pytest.raises(Cancelled), token.interrupting():
        raise AssertionError("not entered when already cancelled")


async def test_an_interruption_leaves_the_tasks_own_cancellation_alone():
    token, seen = Cancel(), []

    async def work() -> None:
        try:
            with token.interrupting():
                await asyncio.sleep(30)
        except asyncio.CancelledError:
            seen.append("task")
            raise

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["task"] and not token.cancelled and not token._callbacks


async def test_both_at_once_end_as_the_tasks_own_cancellation():
    token = Cancel()

    async def work() -> None:
        with token.interrupting():
            await asyncio.sleep(30)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    token.cancel("stop")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_trip_after_the_body_ended_hits_nobody():
    token = Cancel()
    with token.interrupting():
        await asyncio.sleep(0)
        token.cancel("just now")
    await asyncio.sleep(0.01)


def test_cancelling_after_the_loop_closed_is_harmless():
    token = Cancel()

    async def listen() -> None:
        token.on_cancel(lambda: None)
        with token.interrupting():
            task = asyncio.ensure_future(token.wait())
            await asyncio.sleep(0)
            task.cancel()

    asyncio.run(listen())
    token.cancel("late")
