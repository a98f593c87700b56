"""Run the calls of one assistant message: together where that is safe, and with one stored result for each, in order.

A steering message is looked for just before calls are launched. Calls that have not begun then are skipped, each with
a result that says so; a call that runs is never recalled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from homarus.agent.resume import note_early
from homarus.core.clock import Clock, epoch_ms
from homarus.core.events import ToolEnded, ToolStarted
from homarus.core.messages import Assistant, Text, ToolCall, ToolResult, sources
from homarus.sessions.writer import SessionWriter
from homarus.tools.execute import STOPPED, Toolbox, execute
from homarus.tools.loopguard import Level, LoopGuard, Verdict
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
    ) -> None:
        self._session = session
        self._box = box
        self._context = context
        self._guard = guard
        self._emit = emit
        self._clock = clock
        self._boundary = boundary
        self._warned = 0
        self._room = StepRoom(context.window_tokens, 1)
        self._synced = float("-inf")
        # The newest result, if it is a failure.
        self.failed: ToolResult | None = None

    async def run(self, message: Assistant, *, waiting: Callable[[], bool]) -> BatchEnd:
        """Run all calls of a message. Every call has one durable result when this returns."""
        calls = message.calls
        verdicts = [self._guard.check(call, known=self._box.find(call.name) is not None) for call in calls]
        critical = next((verdict for verdict in verdicts if verdict.level is Level.CRITICAL), None)
        if critical is not None:
            return self._blocked(calls, critical)
        stuck, ended_by, text = "", "", ""
        self._room = StepRoom(self._context.window_tokens, len(calls))
        for group in self._groups(calls):
            if self._context.cancel.cancelled:
                self._refuse(group, STOPPED)
                continue
            if self._boundary == "tool" and waiting():
                self._refuse(group, SKIPPED)
                continue
            for call, running in self._launch(group):
                result = await running
                verdict = verdicts[calls.index(call)]
                stuck = self._keep(call, result, verdict) or stuck
                tool = self._box.find(call.name)
                if tool is not None and tool.ends_turn and not result.is_error:
                    ended_by, text = tool.name, str((result.details or {}).get("acknowledgment") or "")
        return BatchEnd(ended_by, stuck, text)

    def may_run_again(self, calls: Sequence[ToolCall]) -> bool:
        """Say whether there are calls and all of them only read."""
        tools = [self._box.find(call.name) for call in calls]
        return bool(tools) and all(tool is not None and tool.replay_safe for tool in tools)

    def heard(self, item: Steer) -> None:
        """Note that somebody joined the turn: with words that are not the owner's, it is no longer the owner's alone."""
        for source in sources(item.trust, item.facts):
            self._context.taint.add(source)

    def _groups(self, calls: Sequence[ToolCall]) -> list[list[ToolCall]]:
        """Split the calls into what runs together: a sequential tool runs alone, in its place."""
        groups: list[list[ToolCall]] = []
        for call in calls:
            tool = self._box.find(call.name)
            alone = tool is not None and tool.sequential
            if alone or not groups or _is_alone(groups[-1], self._box.find) or len(groups[-1]) >= MAX_PARALLEL:
                groups.append([call])
            else:
                groups[-1].append(call)
        return groups

    def _launch(self, group: Sequence[ToolCall]) -> list[tuple[ToolCall, Awaitable[ToolResult]]]:
        """Start a group together. Results are taken in the order of the calls, each as soon as it is there.

        One that is there earlier is durable at once all the same: a crash must not lose what a tool has done.
        """
        for call in group:
            self._emit(ToolStarted(call.id, call.name, call.arguments))
        if len(group) == 1:
            return [(group[0], self._timed(group[0]))]
        tasks: list[asyncio.Task[ToolResult]] = []
        for call in group:
            tasks.append(asyncio.ensure_future(self._noted(call, tuple(tasks))))
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
        return replace(result, details=details)

    def _keep(self, call: ToolCall, result: ToolResult, verdict: Verdict) -> str:
        tool = self._box.find(call.name)
        stuck = self._guard.note(call, result, known=tool is not None)
        if verdict.level is Level.WARNING:
            result = replace(result, parts=(*result.parts, Text(f"\n\n{verdict.text}")))
        self._store(self._room.fit(result, self._context.overflow_dir), again=tool is not None and tool.replay_safe)
        return stuck

    def _blocked(self, calls: Sequence[ToolCall], verdict: Verdict) -> BatchEnd:
        """Run none of the calls. The first time the model may answer once more; the second time the run ends."""
        self._refuse(calls, verdict.text)
        self._warned += 1
        return BatchEnd(stuck=f"the run went in circles ({verdict.detector})" if self._warned > 1 else "")

    def _refuse(self, calls: Sequence[ToolCall], text: str) -> None:
        """Give calls that do not run their result, with the events that a run would have had."""
        for call in calls:
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


def _is_alone(group: Sequence[ToolCall], find: Callable[[str], Tool | None]) -> bool:
    tool = find(group[0].name)
    return tool is not None and tool.sequential
