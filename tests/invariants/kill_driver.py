"""A process to be killed: it talks to a scripted model through the whole runtime, with tools that leave a trace.

`python kill_driver.py` waits for lines `HOME SEED JOBS` on its input, forks a child for each (the imports are done by
then), and says how the child ended. The child writes one byte to file descriptor 3 at every step that it takes.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

from homarus.config.paths import resolve_paths
from homarus.core.cancel import Cancel
from homarus.core.events import TextDelta
from homarus.core.messages import Assistant, Inbound, StopReason, Text, ToolCall, Trust, Usage, User
from homarus.core.routes import main_session
from homarus.core.tools import Risk, ToolSpec
from homarus.models.provider import ModelRequest, Stop, StreamEvent
from homarus.models.ref import ModelRef
from homarus.models.rotation import Credential
from homarus.queue.modes import Overrides
from homarus.queue.settings import Mode
from homarus.runtime.runtime import Runtime
from homarus.tools.tool import Tool, ToolContext, ToolOutput, said

CONFIG = '{"agents": {"defaults": {"model": {"primary": "script/one"}}}, "messages": {"queue": {"debounceMs": 0}}}'
ROUNDS = 3
STEPS = 3  # the descriptor on which progress is told


def step() -> None:
    os.write(STEPS, b".")


class Scripted:
    """Answers from the history alone: three rounds of calls for each job, then words."""

    async def stream(self, request: ModelRequest, *, cancel: Cancel) -> AsyncIterator[StreamEvent]:
        step()
        messages = request.messages
        start = max((i for i, m in enumerate(messages) if isinstance(m, User) and m.text.startswith("job")), default=0)
        job = messages[start].text.split("\n")[0]
        turn = sum(isinstance(message, Assistant) for message in messages[start:])
        await asyncio.sleep(0.001)
        yield TextDelta("Working")
        step()
        parts: list[Any] = [Text(f"Working on {job}, step {turn}.")]
        if turn < ROUNDS:
            names = (("mark", "mark", "peek"), ("alone", "mark"), ("peek", "alone", "mark"))[turn % 3]
            parts += [
                ToolCall(f"c{len(messages)}x{place}x{os.getpid()}", name, {"job": f"{job}/{turn}/{place}"})
                for place, name in enumerate(names)
            ]
        reason = StopReason.TOOL_USE if len(parts) > 1 else StopReason.STOP
        yield Stop(Assistant(tuple(parts), api="script", provider="script", model="one", usage=Usage(9, 9),
                             stop_reason=reason))  # fmt: skip


def tools(ledger: Path) -> dict[str, Tool]:
    async def write(context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        step()
        await asyncio.sleep(random.random() * 0.002)
        descriptor = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, f"{context.call_id}\t{arguments['job']}\n".encode())
        os.close(descriptor)
        step()
        await asyncio.sleep(random.random() * 0.002)
        return said(f"did {arguments['job']}")

    async def peek(_context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        step()
        return said(f"saw {arguments['job']}")

    def tool(name: str, run: Any, risk: Risk, **more: Any) -> Tool:
        schema = {"type": "object", "properties": {"job": {"type": "string"}}}
        return Tool(spec=ToolSpec(name, name, schema), risk=risk, run=run, group="test", **more)

    made = (tool("mark", write, Risk.WRITE), tool("alone", write, Risk.WRITE, sequential=True),
            tool("peek", peek, Risk.READ))  # fmt: skip
    return {one.name: one for one in made}


def open_runtime(home: Path) -> Runtime:
    """Open the home with the scripted model and the tools."""
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "TZ": "UTC"}
    runtime = Runtime.open(resolve_paths(env), env)

    def scripted(_ref: ModelRef, _credential: Credential) -> Scripted:
        return Scripted()

    runtime.home.models.registry.register("script", scripted)  # type: ignore[arg-type]
    runtime.home.toolkit.add(*tools(home / "ledger").values())
    return runtime


async def drive(home: Path, seed: int, jobs: int) -> None:
    """Take up what is left, then hand in jobs, some of them while others run; note each one that was accepted."""
    dice = random.Random(seed)
    runtime = open_runtime(home)
    key = main_session("main")
    accepted = os.open(home / "accepted", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    runtime.listen(key, lambda _event: step())
    runtime.lanes.recover()

    def hand_in(text: str, mode: Mode | None) -> None:
        inbound = Inbound(id=f"{seed}-{text.replace(' ', '-')}", channel="test", text=text, trust=Trust.OWNER)
        step()
        item = runtime.submit(key, inbound, overrides=Overrides(mode=mode))
        if item is not None:
            os.write(accepted, f"{item.key}\n".encode())
        step()

    for number in range(jobs):
        hand_in(f"job {seed}.{number}", dice.choice([None, Mode.FOLLOWUP, Mode.COLLECT]))
        for extra in range(dice.randint(0, 2)):
            await asyncio.sleep(dice.random() * 0.02)
            hand_in(f"by the way {seed}.{number}.{extra}", dice.choice([Mode.STEER, Mode.STEER, Mode.COLLECT]))
        if dice.random() < 0.5:
            await runtime.lane(key).idle()
    await runtime.lane(key).idle()
    await runtime.aclose()


def tell(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def serve(work: Callable[[Path, int, int], Coroutine[Any, Any, None]]) -> None:
    """Serve until the input ends."""
    for line in sys.stdin:
        home, seed, jobs = line.split()
        child = os.fork()
        if child == 0:
            random.seed(int(seed))
            asyncio.run(work(Path(home), int(seed), int(jobs)))
            os._exit(0)
        tell(child)
        _, status = os.waitpid(child, 0)
        os.write(STEPS, b"!")
        tell(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    serve(drive)
