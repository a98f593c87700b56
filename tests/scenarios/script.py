"""A scripted model and small tools: scenarios say what the model answers, and look at what was stored and told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct
from tests.tools.context import context

from homarus.agent.batch import Batch
from homarus.agent.budget import Meter, Spent
from homarus.agent.loop import Loop, LoopSettings, Run
from homarus.agent.outcome import Outcome
from homarus.core.cancel import Cancel
from homarus.core.clock import CountingIds, ManualClock
from homarus.core.errors import Cancelled, ModelError, ModelFailure
from homarus.core.events import ModelCalled, Notice, RunEvent, TextDelta
from homarus.core.mailbox import Mailbox
from homarus.core.messages import (
    Assistant,
    Image,
    Message,
    Part,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    Trust,
    Usage,
    User,
)
from homarus.core.tools import Risk, ToolSpec
from homarus.models.provider import Stop, StreamEvent
from homarus.sessions.writer import SessionWriter
from homarus.tools.execute import Toolbox
from homarus.tools.loopguard import LoopGuard
from homarus.tools.loopguard import LoopSettings as GuardSettings
from homarus.tools.tool import Tool, ToolContext, ToolOutput, said

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
USAGE = Usage(input=100, output=10)


class Line(Struct, frozen=True):
    """One answer of the script."""

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    error: ModelError | None = None
    hang: bool = False


class Waiting(Struct, frozen=True):
    """A message that waits to steer."""

    text: str
    key: str = ""
    images: tuple[Image, ...] = ()
    trust: Trust = Trust.OWNER
    facts: dict[str, Any] = {}
    kept: bool = False


class Script:
    """Plays its lines one after another and keeps what it was asked."""

    def __init__(self, *lines: Line | str) -> None:
        self.lines = [Line(line) if isinstance(line, str) else line for line in lines]
        self.asked: list[tuple[Message, ...]] = []
        self.with_tools: list[bool] = []
        self.before: Callable[[int], Awaitable[None]] | None = None

    async def stream(
        self, messages: tuple[Message, ...], *, tools: bool, cancel: Cancel
    ) -> AsyncIterator[StreamEvent | ModelCalled | Notice]:
        number = len(self.asked)
        self.asked.append(messages)
        self.with_tools.append(tools)
        if self.before is not None:
            await self.before(number)
        yield ModelCalled("script/model")
        line = self.lines[number] if number < len(self.lines) else Line("(the script is over)")
        if line.text:
            yield TextDelta(line.text)
        if line.hang:
            try:
                with cancel.interrupting():
                    await asyncio.sleep(3600)
            except Cancelled:
                error = ModelError(ModelFailure.ABORTED, "stopped")
                yield Stop(Assistant((Text(line.text),), stop_reason=StopReason.ABORTED), error)
                return
        parts: list[Part] = [Text(line.text)] if line.text else []
        parts += [ToolCall(f"c{number}.{place}", name, arguments) for place, (name, arguments) in enumerate(line.calls)]
        reason = StopReason.ERROR if line.error else StopReason.TOOL_USE if line.calls else StopReason.STOP
        error_text = str(line.error) if line.error else ""
        yield Stop(Assistant(tuple(parts), usage=USAGE, stop_reason=reason, error=error_text), line.error)


class Whole:
    """A window without limits: the session's history as it is."""

    def __init__(self, session: SessionWriter) -> None:
        self.session = session
        self.overflows = 0
        self.can_shrink = True

    async def assemble(self, cancel: Cancel) -> tuple[Message, ...]:
        cancel.check()
        return self.session.history()

    async def overflowed(self, error: ModelError, cancel: Cancel) -> bool:
        self.overflows += 1
        return self.can_shrink


class Stage:
    """Everything around one scripted turn, with real files and a real session."""

    def __init__(self, folder: Path, *tools: Tool) -> None:
        self.folder = folder
        self.clock = ManualClock(NOW)
        self.session = SessionWriter(folder / "s.jsonl", "s1", clock=self.clock, ids=CountingIds())
        self.events: list[RunEvent] = []
        self.mailbox: Mailbox[Any] = Mailbox()
        self.cancel = Cancel()
        self.settled: list[str] = []
        self.tools = {tool.name: tool for tool in tools}
        self.context: ToolContext = context(folder, cancel=self.cancel, clock=self.clock)
        self.window = Whole(self.session)
        self.guard = LoopGuard(GuardSettings())

    async def turn(self, script: Script, text: str = "hello", **settings: Any) -> Outcome:
        boundary = settings.pop("boundary", "tool")
        meter = Meter(today=settings.pop("spent_today", Spent), budgets=settings.pop("budgets", None))
        self.session.append_message(User((Text(text),)))
        box = Toolbox(self.tools, self._allow)
        batch = Batch(
            self.session,
            box,
            self.context,
            guard=self.guard,
            emit=self.events.append,
            clock=self.clock,
            boundary=boundary,
        )
        run = Run(
            session=self.session,
            settings=LoopSettings(**settings),
            model=script,
            window=self.window,
            batch=batch,
            mailbox=self.mailbox,
            emit=self.events.append,
            clock=self.clock,
            cancel=self.cancel,
            settle=self.settled.append,
            meter=meter,
        )
        return await Loop(run).run()

    @staticmethod
    async def _allow(_tool: Tool, _arguments: dict[str, Any], _context: ToolContext) -> None:
        return None

    @property
    def story(self) -> list[str]:
        """What is stored, one short line each."""
        return [tell(message) for message in self.session.history()]


def tell(message: Message) -> str:
    match message:
        case User():
            return f"user: {message.text}"
        case Assistant():
            calls = ",".join(call.name for call in message.calls)
            return f"model: {message.text}" + (f" [{calls}]" if calls else "")
        case ToolResult():
            return f"{message.tool_name}{'!' if message.is_error else ''}: {message.text}"


def tool(
    name: str, run: Callable[[ToolContext, dict[str, Any]], Awaitable[ToolOutput]] | None = None, **more: Any
) -> Tool:
    async def echo(_context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        return said(f"{name} {arguments.get('x', '')}".strip())

    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    spec = ToolSpec(name, name, schema)
    return Tool(spec=spec, risk=more.pop("risk", Risk.READ), run=run or echo, group="test", **more)


def calls(*names: str, text: str = "") -> Line:
    return Line(text, tuple((name, {"x": str(number)}) for number, name in enumerate(names)))


def kinds(events: Sequence[RunEvent]) -> list[str]:
    return [type(event).__name__ for event in events]
