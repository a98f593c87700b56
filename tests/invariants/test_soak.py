"""A process that works for long does not grow: memory, open files and everything it keeps stay bounded."""

from __future__ import annotations

import asyncio
import gc
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from homarus.config.paths import resolve_paths
from homarus.core.cancel import Cancel
from homarus.core.messages import Assistant, Inbound, StopReason, Text, ToolCall, ToolResult, Trust, Usage
from homarus.core.routes import SessionKey, SessionKind, named_session
from homarus.models.provider import ModelRequest, Stop, StreamEvent
from homarus.runtime.runtime import Runtime


class Chatty:
    """Reads a file now and then, and otherwise answers at once."""

    async def stream(self, request: ModelRequest, *, cancel: Cancel) -> AsyncIterator[StreamEvent]:
        await asyncio.sleep(0)
        usage, newest = Usage(input=20 * len(request.messages), output=9), request.messages[-1]
        if not isinstance(newest, ToolResult) and len(request.messages) % 3 == 0:
            call = ToolCall(f"c{len(request.messages)}", "read", {"path": "AGENTS.md"})
            yield Stop(Assistant((call,), usage=usage, stop_reason=StopReason.TOOL_USE, provider="s", model="m"))
        else:
            yield Stop(Assistant((Text("An answer. " * 20),), usage=usage, provider="s", model="m"))


class Soak:
    """Many sessions in one runtime, with steering and stops at random."""

    def __init__(self, folder: Path, sessions: int) -> None:
        (folder / ".openclaw").mkdir()
        (folder / ".openclaw" / "openclaw.json").write_text('{"agents": {"defaults": {"model": "s/m"}}}')
        env = {"HOME": str(folder), "PATH": os.environ["PATH"], "TZ": "UTC"}
        self.runtime = Runtime.open(resolve_paths(env), env)
        self.runtime.home.models.registry.register("s", lambda _ref, _key: Chatty())
        self.keys: list[SessionKey] = [
            named_session("main", SessionKind.EXPLICIT, f"talk-{number}") for number in range(sessions)
        ]
        self.dice = random.Random(sessions)
        self.count = 0

    async def turns(self, number: int) -> None:
        for _ in range(number):
            key = self.dice.choice(self.keys)
            for _ in range(1 + (self.dice.random() < 0.2)):
                self.count += 1
                text = f"message {self.count}"
                self.runtime.submit(key, Inbound(id=text, channel="t", text=text, trust=Trust.OWNER))
                await asyncio.sleep(0)
            if self.dice.random() < 0.1:
                self.runtime.lane(key).stop()
            await self.runtime.lane(key).idle()

    @staticmethod
    def memory() -> int:
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def soak(folder: Path, sessions: int, turns: int) -> tuple[int, int, int]:
    """Return how much memory the second half of the turns added, and the most open files in both halves."""
    world = Soak(folder, sessions)
    await world.turns(turns // 2)
    half, before = world.memory(), files()
    await world.turns(turns // 2)
    grown, after = world.memory() - half, files()
    await world.runtime.aclose()
    return grown, before, after


async def test_many_sessions_hold_few_files(tmp_path: Path) -> None:
    before = files()
    _, half, end = await soak(tmp_path, 100, 240)
    assert max(half, end) < before + 200
    assert end <= half + 20


@pytest.mark.deep
async def test_two_thousand_turns_over_fifty_sessions(tmp_path: Path) -> None:
    grown, half, end = await soak(tmp_path, 50, 2_000)
    assert end <= half + 10
    assert grown < 40_000_000
