"""A tool context for tests: real files in a temp folder, a manual clock, everything else harmless."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from homarus.core.cancel import Cancel
from homarus.core.clock import CountingIds, ManualClock
from homarus.core.messages import Trust
from homarus.core.routes import Route, main_session
from homarus.sandbox.spec import Backend, SandboxSpec
from homarus.tools.tool import Taint, ToolContext


def context(folder: Path, **changes: Any) -> ToolContext:
    workspace = folder / "ws"
    workspace.mkdir(exist_ok=True)
    key = main_session("main")
    facts: dict[str, Any] = {
        "agent_id": "main",
        "session": key,
        "session_id": "s1",
        "run_id": "r1",
        "route": Route("main", key, "terminal"),
        "trust": Trust.OWNER,
        "workspace": workspace,
        "cwd": workspace,
        "sandbox": SandboxSpec(Backend.OFF, str(workspace)),
        "env": {},
        "overflow_dir": folder / "overflow",
        "clock": ManualClock(datetime(2026, 5, 1, 12, tzinfo=UTC)),
        "ids": CountingIds(),
        "cancel": Cancel(),
        "taint": Taint(),
    }
    return ToolContext(**{**facts, **changes})
