"""A whole home with a scripted model: real files, a real queue, and an agent that says what the script says."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.scenarios.script import Line

from homarus import Agent
from homarus.core.cancel import Cancel
from homarus.core.clock import Clock, ManualClock
from homarus.core.errors import Cancelled, ModelError, ModelFailure
from homarus.core.events import TextDelta
from homarus.core.messages import Assistant, Message, Part, StopReason, Text, ToolCall, Usage, User
from homarus.models.provider import ModelRequest, Stop, StreamEvent

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Model:
    """Plays its lines, keeps every request, and can be held before it answers."""

    def __init__(self, *lines: Line | str) -> None:
        self.lines = [Line(line) if isinstance(line, str) else line for line in lines]
        self.requests: list[ModelRequest] = []
        self.gate: asyncio.Event | None = None
        self.entered = asyncio.Event()
        self.active = 0
        self.usage = Usage(input=100, output=10)

    def hold(self) -> asyncio.Event:
        """Make the next answers wait until the returned event is set."""
        self.gate = asyncio.Event()
        self.entered.clear()
        return self.gate

    @property
    def prompts(self) -> list[str]:
        """Return the newest user text of each request."""
        return [last_user(request.messages) for request in self.requests]

    async def stream(self, request: ModelRequest, *, cancel: Cancel) -> AsyncIterator[StreamEvent]:
        number = len(self.requests)
        self.requests.append(request)
        line = self.lines[number] if number < len(self.lines) else Line(f"answer {number + 1}")
        self.active += 1
        self.entered.set()
        try:
            with cancel.interrupting():
                if self.gate is not None:
                    await self.gate.wait()
                if line.hang:
                    await asyncio.sleep(3600)
        except Cancelled:
            error = ModelError(ModelFailure.ABORTED, "stopped")
            yield Stop(Assistant((Text("half"),), stop_reason=StopReason.ABORTED), error)
            return
        finally:
            self.active -= 1
        if line.text:
            yield TextDelta(line.text)
        parts: list[Part] = [Text(line.text)] if line.text else []
        parts += [ToolCall(f"c{number}.{place}", name, arguments) for place, (name, arguments) in enumerate(line.calls)]
        reason = StopReason.ERROR if line.error else StopReason.TOOL_USE if line.calls else StopReason.STOP
        yield Stop(Assistant(tuple(parts), usage=self.usage, stop_reason=reason, provider="script"), line.error)


def last_user(messages: tuple[Message, ...]) -> str:
    return next((message.text for message in reversed(messages) if isinstance(message, User)), "")


class House:
    """One home. `agent()` opens it; the script answers as `script/model`."""

    def __init__(self, folder: Path, *lines: Line | str, config: dict[str, Any] | None = None) -> None:
        self.folder = folder
        self.state = folder / ".openclaw"
        self.model = Model(*lines)
        self.clock = ManualClock(NOW)
        self.env = {"HOME": str(folder), "PATH": os.environ["PATH"], "TZ": "UTC"}
        self.state.mkdir(exist_ok=True)
        document = merge({"agents": {"defaults": {"model": "script/model"}}}, config or {})
        (self.state / "openclaw.json").write_text(json.dumps(document))

    def agent(self, session: str = "main", *, clock: Clock | None = None) -> Agent:
        agent = Agent.open(env=self.env, session=session, clock=clock or self.clock)
        agent.client.runtime.home.models.registry.register("script", lambda _ref, _credential: self.model)
        return agent

    def row(self, key: str = "agent:main:main") -> dict[str, Any]:
        index = json.loads((self.state / "agents/main/sessions/sessions.json").read_text())
        found: dict[str, Any] = index[key]
        return found

    def transcript(self, key: str = "agent:main:main") -> list[dict[str, Any]]:
        path = Path(self.row(key)["sessionFile"])
        return [json.loads(line) for line in path.read_text().splitlines()]

    @property
    def workspace(self) -> Path:
        return self.state / "workspace"

    def skill(self, name: str, body: str = "Do it well.", **header: str) -> None:
        folder = self.workspace / "skills" / name
        folder.mkdir(parents=True)
        fields = {"name": name, "description": f"about {name}", **header}
        lines = "\n".join(f"{key}: {value}" for key, value in fields.items())
        (folder / "SKILL.md").write_text(f"---\n{lines}\n---\n{body}\n")


def merge(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    merged = dict(one)
    for key, value in other.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


async def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    """Let the loop run until something holds; the limit is for a test that hangs."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.001)
