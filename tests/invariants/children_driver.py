"""A process to be killed while its sub-agents work: a scripted parent starts many at once, and they do all sorts of things.

It is driven as `kill_driver` is: lines `HOME SEED CHILDREN` on its input, a byte on file descriptor 3 at every step.
"""

from __future__ import annotations

import asyncio
import json
import os
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.invariants.kill_driver import serve, step

from homarus.config.paths import resolve_paths
from homarus.core.cancel import Cancel
from homarus.core.errors import Cancelled, ModelError, ModelFailure
from homarus.core.events import ChildStarted, RunEvent
from homarus.core.messages import Assistant, Inbound, StopReason, Text, ToolCall, ToolResult, Trust, Usage, User
from homarus.core.routes import main_session
from homarus.models.provider import ModelRequest, Stop, StreamEvent
from homarus.models.ref import ModelRef
from homarus.models.rotation import Credential
from homarus.runtime.runtime import Runtime
from homarus.subagents.child import TASK_HEAD

WIDTH = 50
CONFIG = json.dumps(
    {
        "agents": {
            "defaults": {
                "model": {"primary": "script/one"},
                "sandbox": {"mode": "off"},
                "subagents": {"maxChildrenPerAgent": WIDTH, "maxConcurrent": WIDTH, "maxSpawnDepth": 2},
            }
        },
        "tools": {"exec": {"mode": "full"}},
        "messages": {"queue": {"debounceMs": 0}},
    }
)


def mark(home: Path) -> str:
    """Return an argument that only commands of this home have."""
    return f"9{zlib.crc32(str(home).encode())}"


class Scripted:
    """Answers from the history alone: a parent starts what it is told to, a child does what its number says."""

    def __init__(self, home: Path) -> None:
        self._mark = mark(home)

    async def stream(self, request: ModelRequest, *, cancel: Cancel) -> AsyncIterator[StreamEvent]:
        step()
        task = next((m.text for m in request.messages if isinstance(m, User) and m.text.startswith(TASK_HEAD)), "")
        try:
            with cancel.interrupting():
                await asyncio.sleep(0.001)
                parts, error = await self._child(task, request) if task else (self._parent(request), None)
        except Cancelled:
            stopped = ModelError(ModelFailure.ABORTED, "stopped")
            yield Stop(Assistant((Text("half"),), stop_reason=StopReason.ABORTED), stopped)
            return
        step()
        calls = any(isinstance(part, ToolCall) for part in parts)
        reason = StopReason.ERROR if error else StopReason.TOOL_USE if calls else StopReason.STOP
        yield Stop(Assistant(tuple(parts), api="script", provider="script", model="one", usage=Usage(9, 9),
                             stop_reason=reason), error)  # fmt: skip

    def _parent(self, request: ModelRequest) -> list[Any]:
        messages = request.messages
        start = max((i for i, m in enumerate(messages) if isinstance(m, User) and m.text.startswith("job")), default=0)
        if any(isinstance(message, Assistant) for message in messages[start:]):
            return [Text("noted")]
        seed, count = messages[start].text.split()[1].split("/")
        return [
            ToolCall(f"s{seed}x{n}x{os.getpid()}", "sessions_spawn",
                     {"task": f"{seed}/{n}", "label": f"n{n}", "cleanup": "keep" if n == 7 else "delete",
                      **({"runTimeoutSeconds": 1} if n == 9 else {})})
            for n in range(int(count))
        ]  # fmt: skip

    async def _child(self, task: str, request: ModelRequest) -> tuple[list[Any], ModelError | None]:
        name = task.split("\n\n")[-1]
        number = int(name.split("/")[1].split("-")[0])
        results = [message for message in request.messages if isinstance(message, ToolResult)]
        if "-" not in name and not results:
            if number % 10 == 3:
                spawn = ToolCall(f"g{name}x{os.getpid()}", "sessions_spawn", {"task": f"{name}-below"})
                return [spawn, ToolCall(f"y{name}x{os.getpid()}", "sessions_yield", {})], None
            if number % 10 == 5:
                arguments = {"command": f"sleep {self._mark}", "background": True}
                return [ToolCall(f"e{name}x{os.getpid()}", "exec", arguments)], None
        if number == 9:
            await asyncio.sleep(3600)
        if number % 10 == 1:
            return [Text("")], ModelError(ModelFailure.FORMAT, "this one fails")
        return [Text(f"result of {name}")], None


def open_runtime(home: Path) -> Runtime:
    """Open the home with the scripted model."""
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "TZ": "UTC"}
    runtime = Runtime.open(resolve_paths(env), env)

    def scripted(_ref: ModelRef, _credential: Credential) -> Scripted:
        return Scripted(home)

    runtime.home.models.registry.register("script", scripted)  # type: ignore[arg-type]
    return runtime


async def drive(home: Path, seed: int, children: int) -> None:
    """Take up what is left, then have children started; note each one that was."""
    runtime = open_runtime(home)
    key = main_session("main")
    started = os.open(home / "started", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def heard(event: RunEvent) -> None:
        step()
        if isinstance(event, ChildStarted):
            at_work = len(runtime.children.books.look(key).open)
            os.write(started, f"{event.run_id} {at_work}\n".encode())

    runtime.listen(key, heard)
    runtime.recover()
    if children:
        inbound = Inbound(id=f"job-{seed}", channel="test", text=f"job {seed}/{children}", trust=Trust.OWNER)
        assert runtime.submit(key, inbound) is not None
    while runtime.children.books.count(key) or not runtime.lane(key).idle_now:
        await asyncio.sleep(0.002)
    await runtime.children.gone(10)
    await runtime.aclose()


if __name__ == "__main__":
    serve(drive)
