"""What one turn costs in a warm process, at the beginning of a session and far into it. The model answers at once."""

from __future__ import annotations

import asyncio
import json
import re
import resource
import statistics
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from bench.measure import Ctx, Row
from bench.mock_model import serving
from homarus.config.paths import resolve_paths
from homarus.context.summarize import HEADINGS
from homarus.core.cancel import Cancel
from homarus.core.messages import Assistant, Text, Usage
from homarus.core.routes import main_session
from homarus.models.provider import ModelRequest, Stop, StreamEvent
from homarus.runtime.library import Agent
from homarus.runtime.local import LocalClient
from homarus.runtime.runtime import Runtime

AT = (10, 300, 1_000)
SAMPLE = 20
EARLY_MS, LATE_MS = 3.0, 6.0
ONE_SHOT_S = 0.25
# Small, so that a long session is compacted several times.
WINDOW = 64_000


class Instant:
    """A model in this process that has its answer ready."""

    def __init__(self) -> None:
        self.summaries = 0

    async def stream(self, request: ModelRequest, *, cancel: Cancel) -> AsyncIterator[StreamEvent]:
        text = "All is well, and noted for later."
        if not request.session_id:  # a question beside the conversation: old history shall be condensed
            self.summaries += 1
            text = _summary(request.messages[-1].text)
        usage = Usage(input=200 + 12 * len(request.messages), output=12)
        yield Stop(Assistant((Text(text),), provider="instant", model="m", usage=usage))


def _summary(asked: str) -> str:
    """Return a summary that says what it must."""
    names = re.search(r"These must appear exactly: (.*)", asked)
    wishes = re.findall(r"<request>\n(.*)", asked)
    said = {"Pending user asks": wishes[-1] if wishes else "none", "Exact identifiers": names[1] if names else "none"}
    return "\n\n".join(f"## {heading}\n{said.get(heading, 'none')}" for heading in HEADINGS)


def home(folder: Path, provider: dict[str, Any] | None, *, compacted: bool = False) -> dict[str, str]:
    (folder / ".openclaw").mkdir(parents=True)
    # Never compacted, so that what is held grows until it fills the model's window: the hardest case for memory.
    compaction = {"enabled": compacted, "memoryFlush": {"enabled": False}}
    config: dict[str, Any] = {"agents": {"defaults": {"model": {"primary": "instant/m"}, "compaction": compaction}}}
    if provider:
        config["models"] = {"providers": {"instant": provider}}
    (folder / ".openclaw" / "openclaw.json").write_text(json.dumps(config))
    return {"HOME": str(folder), "PATH": "/usr/bin:/bin", "TZ": "UTC"}


def open_agent(env: dict[str, str], *, model: Instant | None = None) -> Agent:
    runtime = Runtime.open(resolve_paths(env), env)
    if model is not None:
        runtime.home.models.registry.register("instant", lambda _ref, _key: model)
    return Agent(LocalClient(runtime), main_session("main"))


async def _turns(agent: Agent, at: tuple[int, ...]) -> tuple[dict[int, float], dict[int, float]]:
    """Talk, and return the median CPU of a turn and the memory in use, by the number of turns before it."""
    cpu: dict[int, float] = {}
    memory: dict[int, float] = {}
    done = 0
    for turns in at:
        while done < turns:
            await agent.ask(f"This is message {done} of a long talk about nothing in particular.")
            done += 1
        taken = []
        for _ in range(SAMPLE):
            begin = time.thread_time()
            await agent.ask(f"This is message {done} of a long talk about nothing in particular.")
            taken.append(time.thread_time() - begin)
            done += 1
        cpu[turns] = statistics.median(taken)
        memory[turns] = _resident()
    await agent.aclose()
    return cpu, memory


async def _compacted(agent: Agent, model: Instant, turns: int) -> tuple[float, float]:
    """Talk, and return the memory in use at turn 1,000, before the first compaction, and the most of it afterwards."""
    early = most = 0.0
    for number in range(turns):
        await agent.ask(f"This is message {number} of a long talk about nothing in particular.")
        if number == AT[-1]:
            early = _resident()
        elif number % 50 == 0:
            most = max(most, _resident())
    await agent.aclose()
    if model.summaries < 3:
        raise SystemExit(f"bench: {model.summaries} compactions in {turns} turns are too few to compare")
    return early, most


def _resident() -> float:
    """Return the memory in use now, in megabytes; where the system does not tell, the most that was ever in use."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def run(ctx: Ctx) -> list[Row]:
    """Measure turns with a model in this process and with one behind HTTP, and a long session's memory."""
    folder = ctx.folder("turns")
    at = (*AT, 10_000) if ctx.runs >= 15 else AT
    inside, memory = asyncio.run(_turns(open_agent(home(folder / "inside", None), model=Instant()), at))
    rows = [_row(f"a warm turn at turn {n:,}, CPU", inside[n], EARLY_MS if n == 10 else LATE_MS) for n in inside]
    last = at[-1]
    rows.append(
        Row(f"a warm turn at turn {last:,}", inside[last] * 1e3, "ms", "at turn 300", inside[last] / inside[300], 1.5)
    )
    # Never compacted it may grow until the model's window is full, and no further; compacted it must not grow.
    item = f"memory at turn {last:,}, never compacted"
    rows.append(Row(item, memory[last], "MB", "at turn 300", memory[last] / memory[300], 2.0))
    if last > AT[-1]:
        model, window = Instant(), {"models": [{"id": "m", "contextWindow": WINDOW}]}
        agent = open_agent(home(folder / "compacted", window, compacted=True), model=model)
        early, most = asyncio.run(_compacted(agent, model, last))
        rows.append(Row(f"most memory in {last:,} compacted turns", most, "MB", "at turn 1,000", most / early, 1.25))
    with serving() as port:
        provider = {
            "baseUrl": f"http://127.0.0.1:{port}/v1",
            "api": "openai-completions",
            "apiKey": "k",
            "models": [{"id": "m"}],
        }
        over, _ = asyncio.run(_turns(open_agent(home(folder / "http", provider)), AT))
        rows.append(_one_shot(ctx, home(folder / "once", provider)))
    return rows + [
        _row(f"the same over HTTP at turn {n:,}, CPU", over[n], EARLY_MS if n == 10 else LATE_MS) for n in over
    ]


def _one_shot(ctx: Ctx, env: dict[str, str]) -> Row:
    """Measure `homarus agent -m`, from its start to its end, with everything it starts itself."""
    variables = [f"{name}={value}" for name, value in env.items()]
    ours = ["env", *variables, *ctx.homarus(), "agent", "-m", "How is it going?"]
    spent = ctx.programs({"ours": ours})["ours"]
    return Row("one-shot `homarus agent`, CPU", spent.cpu, "s", f"{ONE_SHOT_S:g} s", spent.cpu / ONE_SHOT_S, 1.0)


def _row(item: str, seconds: float, limit: float) -> Row:
    return Row(item, seconds * 1e3, "ms", f"{limit:g} ms", seconds * 1e3 / limit, 1.0)
