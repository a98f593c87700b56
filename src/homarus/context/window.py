"""What the model sees of one session during one turn. The one place where pruning, saving memory and compacting meet.

There is one path: measure, save memory if it is due, compact, go on. Memory is saved before every compaction, whatever
caused it, and at most once in each cycle.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from homarus.context.budget import Budget, measure
from homarus.context.compact import Compacted, Occasion, compact
from homarus.context.engine import EngineCall, EngineHost
from homarus.context.flush import FlushFacts, due
from homarus.context.media import fade_images
from homarus.context.prune import CUSTOM_TYPE, PruneState, decide, project
from homarus.context.settings import CompactionSettings, PruningSettings, parse_bytes
from homarus.context.summarize import Summarizer
from homarus.core.cancel import Cancel
from homarus.core.clock import Clock, epoch_ms
from homarus.core.errors import ModelError
from homarus.core.events import CompactionEnded, CompactionStarted, Notice, RunEvent
from homarus.core.messages import Message, Text, ToolResult
from homarus.sessions.entry import Custom
from homarus.sessions.repair import STRICT, Rules
from homarus.sessions.writer import SessionWriter


class Cycle(Protocol):
    """The counts that a session entry keeps across restarts."""

    @property
    def compactions(self) -> int:
        """Return how often this session was compacted."""
        ...

    @property
    def flushed_at(self) -> int | None:
        """Return the count of compactions at the last time memory was saved."""
        ...

    def compacted(self, tokens_after: int) -> None:
        """Count one more compaction, durably."""
        ...

    def flushed(self) -> None:
        """Note that memory was saved in this cycle, durably."""
        ...


Flush = Callable[[str], Awaitable[bool]]


class WindowFacts(Struct, frozen=True, kw_only=True):
    """What a window is made for."""

    budget: Budget
    compaction: CompactionSettings
    pruning: PruningSettings
    call: EngineCall
    rules: Rules = STRICT
    # System prompt and tool schemas, in tokens.
    fixed_tokens: int = 0
    heartbeat: bool = False
    writable: bool = True


class Ports(Struct, frozen=True, kw_only=True):
    """What a window needs of the world: the engine, the session's counts, a summariser, and a turn that saves memory."""

    host: EngineHost
    cycle: Cycle
    summarize: Summarizer
    flush: Flush
    emit: Callable[[RunEvent], None]
    clock: Clock


class SessionWindow:
    """The window of one turn. `addition` is what the engine wants behind the cache line of the system prompt."""

    def __init__(self, session: SessionWriter, facts: WindowFacts, ports: Ports) -> None:
        self._session = session
        self._facts = facts
        self._ports = ports
        self._pruned = _stored_state(session)
        self._failures = 0
        self._gave_up = False
        self._shortened = False
        self.addition = ""

    async def assemble(self, cancel: Cancel) -> tuple[Message, ...]:
        """Return what the next call sees; a history that is too long is compacted first."""
        messages = await self._view()
        if self._ports.host.engine.info.owns_compaction or self._gave_up:
            return messages
        tokens = self._measure(messages)
        if await self._save_memory(tokens, compacting=False, cancel=cancel):
            messages = await self._view()
        limit = self._facts.budget.compact_above
        heavy = parse_bytes(self._facts.compaction.max_active_transcript_bytes)
        if self._facts.compaction.enabled and (tokens > limit or (heavy and self._session.size >= heavy)):
            await self._shrink("threshold", tokens, cancel)
            messages = await self._view()
        return messages

    async def overflowed(self, error: ModelError, cancel: Cancel) -> bool:
        """Make the history shorter after the provider refused it: compact, and if that fails shorten results once."""
        tokens = self._measure(self._session.history(self._facts.rules))
        if await self._shrink("overflow", tokens, cancel, keep=self._facts.budget.compact_above // 4):
            return True
        if self._shortened:
            return False
        self._shortened = True
        return any(_short(message) is not message for message in self._session.history(self._facts.rules))

    async def compact_now(self, focus: str, cancel: Cancel) -> Compacted:
        """Compact because a person asked for it."""
        tokens = self._measure(self._session.history(self._facts.rules))
        return await self._compact(Occasion("manual", 0, 0, focus), tokens, cancel)

    def _measure(self, messages: tuple[Message, ...]) -> int:
        # What was counted before the last boundary counted a history that is no longer sent.
        boundary = self._session.view.boundary
        return measure(messages, fixed=self._facts.fixed_tokens, since=boundary.time if boundary else 0)

    async def _view(self) -> tuple[Message, ...]:
        messages = fade_images(self._session.history(self._facts.rules))
        assembled = await self._ports.host.assemble(replace(self._facts.call, messages=messages))
        self.addition = assembled.addition
        now = epoch_ms(self._ports.clock.now())
        state = decide(assembled.messages, self._pruned, self._facts.pruning, window=self._facts.budget.window, now=now)
        if state is not self._pruned:
            self._pruned = state
            self._session.append("custom", {"customType": CUSTOM_TYPE, "data": state.to_data()})
        shown = project(assembled.messages, state)
        return tuple(map(_short, shown)) if self._shortened else shown

    async def _save_memory(self, tokens: int, *, compacting: bool, cancel: Cancel) -> bool:
        facts = FlushFacts(
            tokens=tokens,
            transcript_bytes=self._session.size,
            compactions=self._ports.cycle.compactions,
            flushed_at_compaction=self._ports.cycle.flushed_at,
            failures=self._failures,
            heartbeat=self._facts.heartbeat,
            writable=self._facts.writable,
            compacting=compacting,
        )
        reason = due(facts, self._facts.budget, self._facts.compaction.memory_flush)
        if not reason or cancel.cancelled:
            return False
        if await self._ports.flush(reason):
            self._ports.cycle.flushed()
        else:
            self._failures += 1
        return True

    async def _shrink(self, reason: str, tokens: int, cancel: Cancel, *, keep: int | None = None) -> bool:
        done = await self._compact(Occasion(reason, 0, 0, keep_tokens=keep), tokens, cancel)
        if not done.ok and not self._gave_up:
            # Told once in a turn: the next call would fail in the same way.
            self._gave_up = True
            self._ports.emit(
                Notice(
                    f"The history could not be compacted ({done.reason}). '/compact' tries again, '/new' starts over.",
                    "warning",
                )
            )
        return done.ok

    async def _compact(self, occasion: Occasion, tokens: int, cancel: Cancel) -> Compacted:
        await self._save_memory(tokens, compacting=True, cancel=cancel)
        cancel.check()
        self._ports.emit(CompactionStarted(occasion.reason))
        budget = self._facts.budget
        engine = await self._engine_compaction(occasion, tokens)
        if engine is not None:
            done = engine
        else:
            filled = replace(occasion, window=budget.window, reserve=budget.reserve)
            done = await compact(self._session, self._facts.compaction, filled, self._ports.summarize)
        if done.ok:
            self._ports.cycle.compacted(done.tokens_after)
            self._pruned = PruneState()
        self._ports.emit(CompactionEnded(done.ok, done.reason, done.tokens_before, done.tokens_after))
        return done

    async def _engine_compaction(self, occasion: Occasion, tokens: int) -> Compacted | None:
        """Let an engine compact in its own way; None when it leaves that to us."""
        if self._ports.host.engine.info.id == "legacy":
            return None
        call = replace(
            self._facts.call, force=occasion.reason != "threshold", tokens=tokens, instructions=occasion.focus
        )
        done = await self._ports.host.compact(call)
        if self._ports.host.quarantined:
            return None
        if done.ok and done.compacted and done.summary:
            self._session.compact(done.summary, done.first_kept, tokens)
        return Compacted(done.ok and done.compacted, done.reason, tokens, summary=done.summary)


def _short(message: Message) -> Message:
    if not isinstance(message, ToolResult) or len(message.text) <= 4_000:
        return message
    text = message.text
    return replace(
        message, parts=(Text(f"{text[:1_500]}\n...\n{text[-1_500:]}\n\n[Shortened to fit: {len(text):,} characters.]"),)
    )


def _stored_state(session: SessionWriter) -> PruneState:
    for entry in reversed(session.branch):
        if isinstance(entry, Custom) and entry.custom_type == CUSTOM_TYPE:
            return PruneState.from_data(entry.data.get("data"))
        if entry.type in {"compaction", "reset"}:
            break
    return PruneState()
