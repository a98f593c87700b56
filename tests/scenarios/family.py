"""A home whose scripted model plays a parent and its children: what it says depends on whom it is asked for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from tests.scenarios.home import House, last_user
from tests.scenarios.script import Line

from homarus import Agent
from homarus.core.cancel import Cancel
from homarus.core.clock import SystemClock
from homarus.core.errors import Cancelled, ModelError, ModelFailure
from homarus.core.messages import Assistant, Message, Part, StopReason, Text, ToolCall, ToolResult, Usage, User
from homarus.models.provider import ModelRequest, Stop, StreamEvent
from homarus.subagents.child import RESULT_HEAD, TASK_HEAD

Rule = Callable[["Scene"], Line | str]


class Scene:
    """One request, as a rule looks at it."""

    def __init__(self, request: ModelRequest) -> None:
        self.request = request
        self.messages = request.messages

    @property
    def task(self) -> str:
        """The task, where a child is asked; nothing for a parent."""
        for message in self.messages:
            if isinstance(message, User) and message.text.startswith(TASK_HEAD):
                return message.text.split("\n\n")[-1]
        return ""

    @property
    def newest(self) -> Message:
        return self.messages[-1]

    @property
    def last_user(self) -> str:
        return last_user(self.messages)

    @property
    def reports(self) -> list[str]:
        """The reports that the asked one has seen, oldest first."""
        found = []
        for message in self.messages:
            if isinstance(message, User):
                found += [part for part in message.text.split("\n") if part.startswith(RESULT_HEAD)]
        return found

    @property
    def results(self) -> list[ToolResult]:
        return [message for message in self.messages if isinstance(message, ToolResult)]

    @property
    def tools(self) -> list[str]:
        return [spec.name for spec in self.request.tools]


class Cast:
    """A model that asks a rule; `hold` keeps those waiting whose task it names."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.requests: list[ModelRequest] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.active = 0
        self.most = 0

    def hold(self, task: str) -> asyncio.Event:
        return self.gates.setdefault(task, asyncio.Event())

    def asked(self, task: str) -> list[Scene]:
        return [scene for scene in map(Scene, self.requests) if scene.task == task]

    async def stream(self, request: ModelRequest, *, cancel: Cancel) -> AsyncIterator[StreamEvent]:
        number = len(self.requests)
        self.requests.append(request)
        scene = Scene(request)
        if scene.task:
            self.active += 1
            self.most = max(self.most, self.active)
        try:
            with cancel.interrupting():
                if gate := self.gates.get(scene.task):
                    await gate.wait()
                said = self.rule(scene)
                line = Line(said) if isinstance(said, str) else said
                if line.hang:
                    await asyncio.sleep(3600)
                await asyncio.sleep(0)
        except Cancelled:
            error = ModelError(ModelFailure.ABORTED, "stopped")
            yield Stop(Assistant((Text("half"),), stop_reason=StopReason.ABORTED), error)
            return
        finally:
            if scene.task:
                self.active -= 1
        parts: list[Part] = [Text(line.text)] if line.text else []
        parts += [ToolCall(f"c{number}.{place}", name, arguments) for place, (name, arguments) in enumerate(line.calls)]
        reason = StopReason.ERROR if line.error else StopReason.TOOL_USE if line.calls else StopReason.STOP
        yield Stop(Assistant(tuple(parts), usage=Usage(100, 10), stop_reason=reason, provider="script"), line.error)


class Family(House):
    """A home with such a model. The clock is the real one: children run while their parents wait."""

    def __init__(self, folder: Path, rule: Rule, config: dict[str, Any] | None = None) -> None:
        super().__init__(folder, config=config)
        self.cast = Cast(rule)

    def open(self, session: str = "main") -> Agent:
        agent = Agent.open(env=self.env, session=session, clock=SystemClock())
        agent.client.runtime.home.models.registry.register("script", lambda _ref, _credential: self.cast)
        return agent

    def users(self, key: str = "agent:main:main") -> list[str]:
        """Return what was said to a session, as its transcript has it."""
        found = []
        for line in self.transcript(key):
            message = line.get("message", {})
            if message.get("role") == "user":
                found.append("".join(part.get("text", "") for part in message["content"]))
        return found

    def rows(self, agent: str = "main") -> dict[str, Any]:
        path = self.state / f"agents/{agent}/sessions/sessions.json"
        found: dict[str, Any] = json.loads(path.read_text())
        return found


def spawn(task: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "sessions_spawn", {"task": task, **more}


WAIT: tuple[str, dict[str, Any]] = ("sessions_yield", {})
