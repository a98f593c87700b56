"""A process to be killed: it runs jobs by a clock that goes with every step, each with a tool that leaves a trace.

The clock stands in a file, so that time goes on from one process to the next. Between two of them it may jump.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.invariants.kill_driver import serve, step

from homarus.config.paths import resolve_paths
from homarus.core.cancel import Cancel
from homarus.core.clock import ManualClock
from homarus.core.events import TextDelta
from homarus.core.messages import Assistant, StopReason, Text, ToolCall, ToolResult, Usage
from homarus.core.tools import Risk, ToolSpec
from homarus.models.provider import ModelRequest, Stop, StreamEvent
from homarus.runtime.runtime import Runtime
from homarus.tools.tool import Tool, ToolContext, ToolOutput, said

START = datetime(2026, 3, 28, 12, tzinfo=UTC)
MINUTES = 12  # that pass in one process
CONFIG = """{"agents": {"defaults": {"model": {"primary": "script/one"}, "userTimezone": "Europe/Berlin"}},
             "messages": {"queue": {"debounceMs": 0}}}"""


class Scripted:
    """Marks what it was asked for, and answers."""

    async def stream(self, request: ModelRequest, *, cancel: Cancel) -> AsyncIterator[StreamEvent]:
        step()
        await asyncio.sleep(0.001)
        messages = request.messages
        done = any(isinstance(message, ToolResult) for message in messages)
        yield TextDelta("Yes")
        step()
        parts: list[Any] = [Text("Yes.")]
        if not done:
            parts.append(ToolCall(f"c{len(messages)}x{os.getpid()}", "mark", {}))
        reason = StopReason.STOP if done else StopReason.TOOL_USE
        yield Stop(
            Assistant(tuple(parts), api="script", provider="script", model="one", usage=Usage(9, 9), stop_reason=reason)
        )


def open_runtime(home: Path) -> Runtime:
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "TZ": "UTC"}
    saved = home / "clock"
    now = datetime.fromisoformat(saved.read_text()) if saved.exists() else START
    runtime = Runtime.open(resolve_paths(env), env, clock=ManualClock(now))
    runtime.home.models.registry.register("script", lambda _ref, _credential: Scripted())  # type: ignore[arg-type,return-value]

    async def mark(context: ToolContext, _arguments: dict[str, Any]) -> ToolOutput:
        step()
        out = os.open(home / "ledger", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(out, f"{context.session}\n".encode())
        os.close(out)
        step()
        return said("marked")

    schema = {"type": "object", "properties": {}}
    runtime.home.toolkit.add(Tool(spec=ToolSpec("mark", "mark", schema), risk=Risk.WRITE, run=mark, group="test"))
    return runtime


async def drive(home: Path, seed: int, minutes: int) -> None:
    dice = random.Random(seed)
    runtime = open_runtime(home)
    clock = runtime.home.clock
    assert isinstance(clock, ManualClock)
    runtime.recover()
    automation = runtime.automation
    if not automation.jobs():
        automation.add({"name": "often", "schedule": {"kind": "every", "everyMs": 120_000},
                        "payload": {"message": "often"}, "delivery": {"mode": "none"}})  # fmt: skip
        automation.add({"name": "cron", "schedule": {"kind": "cron", "expr": "*/3 * * * *", "staggerMs": 0},
                        "payload": {"message": "cron"}, "delivery": {"mode": "announce"}})  # fmt: skip
        automation.add({"name": "remind", "schedule": {"kind": "every", "everyMs": 240_000},
                        "payload": {"kind": "systemEvent", "text": "a reminder"}})  # fmt: skip
    step()
    automation._take_lock()
    automation.cron.take_up()
    for _ in range(minutes):
        step()
        automation.tick()
        if dice.random() < 0.7:
            while automation.cron.running:
                await asyncio.sleep(0.0005)
        clock.advance(60)
        saved = home / "clock.new"
        saved.write_text(clock.now().isoformat())
        saved.replace(home / "clock")
    while automation.cron.running:
        await asyncio.sleep(0.0005)
    await runtime.aclose()


if __name__ == "__main__":
    serve(drive)
