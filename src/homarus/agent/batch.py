"""Run the calls of one assistant message: together where that is safe, and with one stored result for each, in order.

A steering message is looked for just before calls are launched. Calls that have not begun then are skipped, each with
a result that says so; a call that runs is never recalled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from homarus.agent.resume import note_early
from homarus.core.behind import durable
from homarus.core.clock import Clock, epoch_ms
from homarus.core.events import ToolEnded, ToolStarted
from homarus.core.messages import Assistant, Message, Text, ToolCall, ToolResult, sources
from homarus.sessions.writer import SessionWriter
from homarus.tools.execute import STOPPED, Toolbox, execute
from homarus.tools.loopguard import FINE, Level, LoopGuard, Verdict
from homarus.tools.result import StepRoom
from homarus.tools.tool import Tool, ToolContext

if TYPE_CHECKING:
    from homarus.agent.ports import Emit, Steer


SKIPPED = "Skipped due to queued user message."
MAX_PARALLEL = 8
# What only read can read again, so a power cut (never a kill) may take the results of this time: they share one sync.
SHARED_SYNC_SECONDS = 0.1


class BatchEnd(Struct, frozen=True):
    """What a batch means for its turn: a tool that ended it, or a reason why it must not go on."""

    ended_by: str = ""
    stuck: str = ""
    # What the tool that ended the turn wants to have said where the model said nothing.
    text: str = ""


GOES_ON = BatchEnd()


class _Step(Struct, frozen=True):
    """One call, the tool that it means (if there is one), and what the guard thinks of it."""

    call: ToolCall
    tool: Tool | None
    verdict: Verdict


class Batch:
    """Runs batches for one turn."""

    def __init__(
        self,
        session: SessionWriter,
        box: Toolbox,
        context: ToolContext,
        *,
        guard: LoopGuard,
        emit: Emit,
        clock: Clock,
        boundary: Literal["tool", "model"] = "tool",
        persist: Callable[[ToolResult], Awaitable[ToolResult]] | None = None,
        write: Callable[[Message], Awaitable[Message]] | None = None,
    ) -> None:
        self._session = session
        self._box = box
        self._context = context
        self._guard = guard
        self._emit = emit
        self._clock = clock
        self._boundary = boundary
        # Makes a result what it shall be in the log, before it is in there.
        self._persist, self._write = persist, write
        self._warned = 0
        self._room = StepRoom(context.window_tokens, 1)
        self._synced = float("-inf")
        # The newest result, if it is a failure.
        self.failed: ToolResult | None = None

    async def run(self, message: Assistant, *, waiting: Callable[[], bool]) -> BatchEnd:
        """Run all calls of a message. Every call has one durable result when this returns."""
        steps = [self._step(call) for call in message.calls]
        for step in steps:
            if step.verdict is not FINE and step.verdict.level is Level.CRITICAL:
                return self._blocked(steps, step.verdict)
        stuck, ended_by, text = "", "", ""
        self._room = StepRoom(self._context.window_tokens, len(steps))
        for group in _groups(steps):
            await durable()
            if self._context.cancel.cancelled:
                self._refuse(group, STOPPED)
                continue
            if self._boundary == "tool" and waiting():
                self._refuse(group, SKIPPED)
                continue
            for step, running in self._launch(group):
                result = await running
                stuck = self._keep(step, result) or stuck
                if step.tool is not None and step.tool.ends_turn and not result.is_error:
                    ended_by, text = step.tool.name, str((result.details or {}).get("acknowledgment") or "")
        return BatchEnd(ended_by, stuck, text) if stuck or ended_by else GOES_ON

    def _step(self, call: ToolCall) -> _Step:
        tool = self._box.find(call.name)
        return _Step(call, tool, self._guard.check(call, known=tool is not None))

    def may_run_again(self, calls: Sequence[ToolCall]) -> bool:
        """Say whether there are calls and all of them only read."""
        for call in calls:
            tool = self._box.find(call.name)
            if tool is None or not tool.replay_safe:
                return False
        return bool(calls)

    def heard(self, item: Steer) -> None:
        """Note that somebody joined the turn: with words that are not the owner's, it is no longer the owner's alone."""
        for source in sources(item.trust, item.facts):
            self._context.taint.add(source)

    def _launch(self, group: Sequence[_Step]) -> list[tuple[_Step, Awaitable[ToolResult]]]:
        """Start a group together. Results are taken in the order of the calls, each as soon as it is there.

        One that is there earlier is durable at once all the same: a crash must not lose what a tool has done.
        """
        for step in group:
            self._emit(ToolStarted(step.call.id, step.call.name, step.call.arguments))
        if len(group) == 1:
            return [(group[0], self._timed(group[0].call))]
        tasks: list[asyncio.Task[ToolResult]] = []
        for step in group:
            tasks.append(asyncio.ensure_future(self._noted(step.call, tuple(tasks))))
        return list(zip(group, tasks, strict=True))

    async def _noted(self, call: ToolCall, before: Sequence[asyncio.Task[ToolResult]]) -> ToolResult:
        result = await self._timed(call)
        if not all(task.done() for task in before):
            note_early(self._session, result)
        return result

    async def _timed(self, call: ToolCall) -> ToolResult:
        started = self._clock.monotonic()
        result = await execute(call, self._box, self._context)
        details = {**(result.details or {}), "durationMs": round((self._clock.monotonic() - started) * 1000)}
        result = replace(result, details=details)
        result = await self._persist(result) if self._persist is not None else result
        return cast("ToolResult", await self._write(result)) if self._write is not None else result

    def _keep(self, step: _Step, result: ToolResult) -> str:
        stuck = self._guard.note(step.call, result, known=step.tool is not None)
        if step.verdict is not FINE and step.verdict.level is Level.WARNING:
            result = replace(result, parts=(*result.parts, Text(f"\n\n{step.verdict.text}")))
        again = step.tool is not None and step.tool.replay_safe
        self._store(self._room.fit(result, self._context.overflow_dir), again=again)
        return stuck

    def _blocked(self, steps: Sequence[_Step], verdict: Verdict) -> BatchEnd:
        """Run none of the calls. The first time the model may answer once more; the second time the run ends."""
        self._refuse(steps, verdict.text)
        self._warned += 1
        return BatchEnd(stuck=f"the run went in circles ({verdict.detector})" if self._warned > 1 else "")

    def _refuse(self, steps: Sequence[_Step], text: str) -> None:
        """Give calls that do not run their result, with the events that a run would have had."""
        for call in [step.call for step in steps]:
            self._emit(ToolStarted(call.id, call.name, call.arguments))
            now = epoch_ms(self._clock.now())
            self._store(
                ToolResult(call.id, call.name, (Text(text),), now, is_error=True, details={"status": "skipped"})
            )

    def _store(self, result: ToolResult, *, again: bool = False) -> None:
        now = self._clock.monotonic()
        durable = not again or now - self._synced >= SHARED_SYNC_SECONDS
        if durable:
            self._synced = now
        self._session.append_message(result, durable=durable)
        self.failed = result if result.is_error else None
        milliseconds = (result.details or {}).get("durationMs", 0)
        self._emit(ToolEnded(result, milliseconds / 1000))


def _groups(steps: Sequence[_Step]) -> list[list[_Step]]:
    """Split the calls into what runs together. What has an effect runs alone, in its place: a person who says "wait" is
    heard before the next effect."""
    groups: list[list[_Step]] = []
    open_group = False
    for step in steps:
        alone = step.tool is not None and (step.tool.sequential or not step.tool.replay_safe)
        if alone or not open_group or len(groups[-1]) >= MAX_PARALLEL:
            groups.append([step])
        else:
            groups[-1].append(step)
        open_group = not alone
    return groups
