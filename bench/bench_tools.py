"""What one tool call costs in CPU, through `execute` as a turn runs it, against the bare work it does."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.measure import Ctx, Row
from homarus.core.cancel import Cancel
from homarus.core.clock import ManualClock, SystemClock, SystemIds
from homarus.core.messages import ToolCall, Trust
from homarus.core.routes import Route, main_session
from homarus.sandbox.process import available
from homarus.sandbox.spec import Backend, SandboxSpec
from homarus.tools.approval import Approvals
from homarus.tools.execute import Toolbox, execute
from homarus.tools.gate import ExecSettings, Granted, PolicyGate
from homarus.tools.processes import ProcessManager
from homarus.tools.registry import ToolServices, ToolSettings, build_tools
from homarus.tools.tool import Taint, ToolContext

CALLS = 20
# Milliseconds of CPU for one call.
READ, SHELL, SANDBOXED = 1.0, 4.0, 20.0


def run(ctx: Ctx) -> list[Row]:
    """Measure a turn of twenty calls of each kind, the best of several."""
    folder = ctx.folder("tools")
    workspace = folder / "ws"
    workspace.mkdir()
    (workspace / "f.txt").write_text("a line of text\n" * 200)
    rows = [_row("file read", _best(ctx, folder, Backend.OFF, "read", {"path": "f.txt"}), READ)]
    bare = _spent(
        lambda: [
            subprocess.run(["/bin/sh", "-c", "echo hi"], stdout=subprocess.DEVNULL, check=True) for _ in range(CALLS)
        ]
    )
    shell = _best(ctx, folder, Backend.OFF, "exec", {"command": "echo hi"})
    rows.append(_row(f"shell call, no sandbox (bare: {bare / CALLS * 1000:.1f} ms)", shell, SHELL))
    for backend in (Backend.BWRAP, Backend.LANDLOCK):
        if available(backend):
            taken = _best(ctx, folder, backend, "exec", {"command": "echo hi"})
            rows.append(_row(f"shell call in {backend.value}", taken, SANDBOXED))
    return rows


def _row(item: str, seconds: float, limit: float) -> Row:
    value = seconds * 1000
    return Row(item, value, "ms CPU", f"{limit:g} ms", value / limit, 1.0)


def _best(ctx: Ctx, folder: Path, backend: Backend, name: str, arguments: dict[str, Any]) -> float:
    granted = Granted()
    manager = ProcessManager(SystemClock(), SystemIds())
    book = Approvals(folder / "approvals.json", SystemClock(), SystemIds())
    gate = PolicyGate(book, granted, os.environ, settings=lambda _: ExecSettings(mode="full"))
    tools = build_tools(ToolServices(processes=manager, grants=granted, env=os.environ), ToolSettings())
    box = Toolbox({tool.name: tool for tool in tools}, gate)
    context = _context(folder, backend)

    async def turn() -> None:
        for number in range(CALLS):
            result = await execute(ToolCall(f"c{number}", name, arguments), box, context)
            assert not result.is_error, result.text

    async def all_turns() -> float:
        await turn()
        best = min([await _measured(turn) for _ in range(max(3, ctx.runs // 3))])
        await manager.aclose()
        return best

    return asyncio.run(all_turns()) / CALLS


def _context(folder: Path, backend: Backend) -> ToolContext:
    workspace, key = folder / "ws", main_session("main")
    return ToolContext(
        agent_id="main",
        session=key,
        session_id="s",
        run_id="r",
        route=Route("main", key, "terminal"),
        trust=Trust.OWNER,
        workspace=workspace,
        cwd=workspace,
        sandbox=SandboxSpec(backend, str(workspace)),
        env={},
        overflow_dir=folder / "overflow",
        clock=ManualClock(datetime(2026, 1, 1, tzinfo=UTC)),
        ids=SystemIds(),
        cancel=Cancel(),
        taint=Taint(),
    )


def _cpu() -> float:
    """Return the CPU seconds of this process and of all children that have ended."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def _spent(work: Callable[[], object]) -> float:
    before = _cpu()
    work()
    return _cpu() - before


async def _measured(work: Callable[[], Awaitable[None]]) -> float:
    before = _cpu()
    await work()
    return _cpu() - before
