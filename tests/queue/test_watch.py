"""A turn that stands still is noticed and ended; one that moves, or whose tool works, is not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from operator import itemgetter
from types import SimpleNamespace
from typing import Any

import pytest

from homarus.core.cancel import Cancel
from homarus.core.events import Notice, ToolEnded, ToolStarted
from homarus.core.messages import ToolResult
from homarus.queue.watch import WARN_SECONDS, Watch, abort_after, watched


def test_two_minutes_and_then_three_times_that_but_not_within_five() -> None:
    assert WARN_SECONDS == 120
    assert [abort_after(seconds) for seconds in (10, 100, 120, 300)] == [300, 300, 360, 900]


class Time:
    """Time that passes when it is told to, and calls whoever asked for it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waiting: list[tuple[float, Callable[[], object]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], object], /) -> Any:
        entry = (self.now + delay, callback)
        self.waiting.append(entry)
        return SimpleNamespace(cancel=lambda: entry in self.waiting and self.waiting.remove(entry))

    def passes(self, seconds: float) -> None:
        end = self.now + seconds
        while due := sorted((each for each in self.waiting if each[0] <= end), key=itemgetter(0)):
            self.waiting.remove(due[0])
            self.now = max(self.now, due[0][0])
            due[0][1]()
        self.now = end


def test_a_turn_that_stands_still_is_named_and_then_ended(caplog: pytest.LogCaptureFixture) -> None:
    cancel, time = Cancel(), Time()
    with caplog.at_level(logging.WARNING), Watch("agent:main:main", cancel, timers=time):
        time.passes(119)
        assert not caplog.text
        time.passes(2)
        assert "agent:main:main has not moved for 120 s: nothing happens" in caplog.text
        time.passes(238)
        assert not cancel.cancelled
        time.passes(2)
    assert "nothing happened for 360 seconds" in cancel.reason


def test_every_event_is_a_move(caplog: pytest.LogCaptureFixture) -> None:
    cancel, time = Cancel(), Time()
    with caplog.at_level(logging.WARNING), Watch("s", cancel, timers=time) as watch:
        emit = watched(watch, lambda _event: None)
        for _ in range(30):
            emit(Notice("still here"))
            time.passes(100)
    assert not cancel.cancelled
    assert not caplog.text


def test_a_tool_that_works_is_not_ended(caplog: pytest.LogCaptureFixture) -> None:
    cancel, seen, time = Cancel(), list[object](), Time()
    with caplog.at_level(logging.WARNING), Watch("s", cancel, timers=time) as watch:
        emit = watched(watch, seen.append)
        emit(ToolStarted("c", "exec", {}))
        time.passes(3600)
        assert not cancel.cancelled
        assert "a tool works" in caplog.text
        emit(ToolEnded(ToolResult("c", "exec", ()), 0.1))
        time.passes(800)
        assert cancel.cancelled
    assert len(seen) == 2


def test_nothing_is_left_behind_by_a_turn_that_ended() -> None:
    time = Time()
    with Watch("s", Cancel(), timers=time):
        assert len(time.waiting) == 1
    assert not time.waiting


async def test_unless_told_otherwise_it_is_the_loop_that_counts() -> None:
    cancel = Cancel()
    with Watch("s", cancel, warn=0.01, abort=0.02):
        assert "nothing happened" in await asyncio.wait_for(cancel.wait(), 120)
