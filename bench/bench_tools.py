"""What a tool call costs in CPU in a turn of twenty, through the library: the model's answer, the call, the durable result.

The model runs in a process of its own and is not counted; commands that a call starts are. The turns follow each other in
one session, and what is shown is the CPU of the whole turn, divided by its calls. Beside it stands the least that can do
the same: a loop of twenty lines, a bare command.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import resource
import statistics
import subprocess
from pathlib import Path
from typing import Any

from bench.measure import Ctx, Row
from bench.mock_model import serving
from homarus.config.paths import resolve_paths
from homarus.core.events import ToolEnded
from homarus.runtime.library import Agent
from homarus.runtime.local import LocalClient
from homarus.runtime.runtime import Runtime
from homarus.sandbox.process import available
from homarus.sandbox.spec import Backend

CALLS = 20
# Milliseconds of CPU for one call.
READ, SHELL, SANDBOXED = 1.0, 4.0, 20.0


def run(ctx: Ctx) -> list[Row]:
    """Measure turns of twenty calls of each kind, the median of several; the bare command stands beside them."""
    bare = statistics.median(_bare() for _ in range(max(3, ctx.runs // 3)))
    with serving() as port:
        off = {"sandbox": {"mode": "off"}}, {"exec": {"mode": "full"}}
        read = _turns(ctx, port, "read", "tools", *off)
        rows = [_row(f"file read (bare: {_loop(ctx, port) * 1000:.2f} ms)", read, READ)]
        shell = _turns(ctx, port, "shell", "exec", *off)
        rows.append(_row(f"shell call, no sandbox (bare: {bare * 1000:.1f} ms)", shell, SHELL))
        for backend in (Backend.BWRAP, Backend.LANDLOCK):
            if available(backend):
                held = {"sandbox": {"backend": backend.value}}, {}
                taken = _turns(ctx, port, backend.value, "exec", *held)
                rows.append(_row(f"shell call in {backend.value}", taken, SANDBOXED))
    return rows


def _row(item: str, seconds: float, limit: float) -> Row:
    value = seconds * 1000
    return Row(f"{item}, of {CALLS} in a turn", value, "ms CPU", f"{limit:g} ms", value / limit, 1.0)


def _turns(ctx: Ctx, port: int, name: str, marker: str, defaults: dict[str, Any], tools: dict[str, Any]) -> float:
    home = ctx.folder(f"tools-{name}")
    state = home / ".openclaw"
    workspace = state / "workspace"
    workspace.mkdir(parents=True)
    (workspace / "NOTES.md").write_text("".join(f"line {number} of the notes\n" for number in range(200)))
    url = f"http://127.0.0.1:{port}/v1"
    provider = {"baseUrl": url, "api": "openai-completions", "apiKey": "k", "models": [{"id": "m"}]}
    document = {
        "agents": {"defaults": {"model": {"primary": "mock/m"}, **defaults}},
        "models": {"providers": {"mock": provider}},
        "tools": tools,
    }
    (state / "openclaw.json").write_text(json.dumps(document))
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "TZ": "UTC"}
    return asyncio.run(_measured(env, marker, max(3, ctx.runs // 3)))


async def _measured(env: dict[str, str], marker: str, runs: int) -> float:
    runtime = Runtime.open(resolve_paths(env), env)
    taken = []
    agent = Agent(LocalClient(runtime), runtime.home.store("main").key("bench"))
    for number in range(runs + 1):
        before = _cpu()
        calls = [
            event async for event in agent.run(f"[[{marker}:{CALLS}]] Go through it.") if isinstance(event, ToolEnded)
        ]
        if number:  # the first turn warms up
            taken.append(_cpu() - before)
        if len(calls) != CALLS or any(call.result.is_error for call in calls):
            raise SystemExit(f"bench: the turn did not make its {CALLS} calls")
    await runtime.aclose()
    return statistics.median(taken) / CALLS


def _cpu() -> float:
    """Return the CPU seconds of this process, of all children that have ended, and of the launcher that waits."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime + _launcher()


def _launcher() -> float:
    """Return what the launcher of Landlock has used: it lives on, so the kernel does not add it to what has ended."""
    taken = 0.0
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        if b"landlock_run" in Path(f"/proc/{pid}/cmdline").read_bytes():
            taken += int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    return taken


def _loop(ctx: Ctx, port: int) -> float:
    """Return what a call costs in a loop that does the least: ask, read the file, keep both lines durably."""
    folder = ctx.folder("tools-bare")
    notes, log = folder / "NOTES.md", os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    notes.write_text("".join(f"line {number} of the notes\n" for number in range(200)))
    taken = []
    for number in range(ctx.runs):
        server = http.client.HTTPConnection("127.0.0.1", port)
        messages: list[dict[str, Any]] = [{"role": "user", "content": f"[[tools:{CALLS}]] Go through it."}]
        before = _cpu()
        for _ in range(CALLS):
            body = json.dumps({"model": "m", "stream": True, "tools": [{}], "messages": messages})
            server.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
            events = server.getresponse().read().split(b"\n\n")
            call = json.loads(events[0].removeprefix(b"data: "))["choices"][0]["delta"]["tool_calls"][0]
            wanted = json.loads(call["function"]["arguments"])
            lines = notes.read_text().splitlines()[wanted["offset"] - 1 :][: wanted["limit"]]
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": "\n".join(lines)})
            for message in messages[-2:]:
                os.write(log, json.dumps(message).encode() + b"\n")
            os.fdatasync(log)
        if number:
            taken.append(_cpu() - before)
        server.close()
    os.close(log)
    return statistics.median(taken) / CALLS


def _bare() -> float:
    before = _cpu()
    for _ in range(CALLS):
        subprocess.run(["/bin/sh", "-c", "true"], stdout=subprocess.DEVNULL, check=True, env=dict(os.environ))
    return (_cpu() - before) / CALLS
