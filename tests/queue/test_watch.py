"""A turn that stands still is noticed and ended; one that moves, or whose tool works, is not."""

from __future__ import annotations

import asyncio
import logging

import pytest

from homarus.core.cancel import Cancel
from homarus.core.events import Notice, ToolEnded, ToolStarted
from homarus.core.messages import ToolResult
from homarus.queue.watch import WARN_SECONDS, Watch, abort_after, watched


def test_two_minutes_and_then_three_times_that_but_not_within_five() -> None:
    assert WARN_SECONDS == 120
    assert [abort_after(seconds) for seconds in (10, 100, 120, 300)] == [300, 300, 360, 900]


async def test_a_turn_that_stands_still_is_named_and_then_ended(caplog: pytest.LogCaptureFixture) -> None:
    cancel = Cancel()
    with caplog.at_level(logging.WARNING), Watch("agent:main:main", cancel, warn=0.01, abort=0.05):
        assert "nothing happened" in await asyncio.wait_for(cancel.wait(), 60)
    assert "agent:main:main" in caplog.text


async def test_every_event_is_a_move() -> None:
    cancel = Cancel()
    with Watch("s", cancel, warn=0.05, abort=0.2) as watch:
        emit = watched(watch, lambda _event: None)
        for _ in range(30):
            emit(Notice("still here"))
            await asyncio.sleep(0.01)
    assert not cancel.cancelled


async def test_a_tool_that_works_is_not_ended(caplog: pytest.LogCaptureFixture) -> None:
    cancel, seen = Cancel(), list[object]()
    with caplog.at_level(logging.WARNING), Watch("s", cancel, warn=0.01, abort=0.02) as watch:
        emit = watched(watch, seen.append)
        emit(ToolStarted("c", "exec", {}))
        await asyncio.sleep(0.1)
        assert not cancel.cancelled
        assert "a tool works" in caplog.text
        emit(ToolEnded(ToolResult("c", "exec", ()), 0.1))
        await asyncio.wait_for(cancel.wait(), 60)
    assert len(seen) == 2


async def test_nothing_is_left_behind_by_a_turn_that_ended() -> None:
    cancel = Cancel()
    with Watch("s", cancel, warn=0.01, abort=0.01):
        pass
    await asyncio.sleep(0.05)
    assert not cancel.cancelled
