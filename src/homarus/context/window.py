"""What the model sees of one session during one turn. The one place where pruning, saving memory and compacting meet.

There is one path: measure, save memory if it is due, compact, go on. Memory is saved before every compaction, whatever
caused it, and at most once in each cycle.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from homarus.context import compact
from homarus.context.budget import Budget, estimate, least_room, measure
from homarus.context.engine import EngineCall
from homarus.context.engine_host import EngineHost
from homarus.context.pins import PIN, kept
from homarus.context.prune import CUSTOM_TYPE, NOTE_CHARS, PruneState, apply_cuts, decide, fade_images, shorten
from homarus.context.rewrite import Rewriter
from homarus.context.settings import CompactionSettings, PruningSettings
from homarus.context.summarize import Summarizer
from homarus.core.cancel import Cancel
from homarus.core.clock import Clock, epoch_ms
from homarus.core.errors import Cancelled, ConfigError, HomarusError, ModelError
from homarus.core.events import CompactionEnded, CompactionStarted, Notice, RunEvent
from homarus.core.messages import Assistant, Message, ToolResult, User
from homarus.sessions.entry import Custom, Entry, MessageEntry
from homarus.sessions.repair import APART, Rules, repair
from homarus.sessions.settings import size
from homarus.sessions.writer import SessionWriter

# What people who know OpenClaw look for.
COMPLETE = "🧹 Auto-compaction complete"
NO_SUMMARY = "The model gave no summary that would do, so what you said is kept in your own words, shortened."
MAX_FLUSH_FAILURES = 3
MIN_RESULT_CHARS = 200
# About what the question for what should be kept takes, and what the model does about it.
FLUSH_TOKENS = 300
ROOM = (
    "choose a model with a larger window ('/model'), say how large it is (contextWindow), or switch something off: "
    "fewer tools (tools.allow), no skills (skills.allowBundled: []), shorter files in the workspace"
)


class Cycle(Protocol):
    """What a session remembers of its compactions, across restarts but for `flush_failures`, which lasts while it is open."""

    # The size of the history when it last got no summary, and how often saving memory failed in this cycle.
    failed_at: int | None
    flush_failures: int

    @property
    def compactions(self) -> int: ...

    @property
    def flushed_at(self) -> int | None: ...

    def compacted(self, tokens_after: int) -> None:
        """Count one more compaction, durably."""
        ...

    def flushed(self) -> None:
        """Note that memory was saved in this cycle, durably."""
        ...


# Saves memory from what the model was shown, so that the provider still knows the beginning of it.
Flush = Callable[[str, tuple[Message, ...]], Awaitable[bool]]
# Tells those who wait for a moment (`session:compact:before`) what is known of it; returns what they want said about it.
Tell = Callable[[str, dict[str, Any]], Awaitable[list[str]]]


async def tell_nobody(_moment: str, _facts: dict[str, Any]) -> list[str]:
    return []


class WindowFacts(Struct, frozen=True, kw_only=True):
    budget: Budget
    compaction: CompactionSettings
    pruning: PruningSettings
    call: EngineCall
    rules: Rules = APART
    # System prompt and tool schemas, in tokens.
    fixed_tokens: int = 0
    heartbeat: bool = False
    # Whether memory can be saved at all: not in a workspace that cannot be written, nor without a tool to write with.
    writable: bool = True
    # Whether the user wants to see what the runtime does.
    verbose: bool = False


class Ports(Struct, frozen=True, kw_only=True):
    """What a window needs of the world: the engine, the session's counts, a summariser, and a turn that saves memory."""

    host: EngineHost
    cycle: Cycle
    summarize: Summarizer
    flush: Flush
    emit: Callable[[RunEvent], None]
    clock: Clock
    tell: Tell = tell_nobody
    # Takes what the engine wants behind the cache line of the system prompt, whenever that is something else.
    add: Callable[[str], None] = lambda _text: None
    # Returns what of the agent's rules is said again behind a summary.
    rules: Callable[[], str] = lambda: ""
    # Makes the system prompt anew after a compaction and returns its tokens, or None where it stays as it is.
    renew: Callable[[], int | None] = lambda: None


class SessionWindow:
    def __init__(self, session: SessionWriter, facts: WindowFacts, ports: Ports) -> None:
        self._session = session
        self._facts = facts
        self._ports = ports
        self._gave_up = False
        self._rejected = False  # the last summary that a model gave
        self._called = False
        self._addition = ""
        self._may_overflow = False
        # Transcripts of this many bytes are compacted, and have memory saved from them; zero means none.
        self._heavy = size(facts.compaction.max_active_transcript_bytes) or 0
        self._forced = size(facts.compaction.memory_flush.force_flush_transcript_bytes) or 0
        self._boundary: Entry | None = None
        self._since = 0
        # The summary of a compaction within this turn.
        self._summary = ""
        session.carry = self._carry
        session.widen(facts.budget.window)
        self._pruned = _stored_state(session)
        asked = (
            entry for entry in reversed(session.branch) if isinstance(entry, MessageEntry) and entry.role == "user"
        )
        self._began = next((entry.id for entry in asked), "")

    def _carry(self, gone: Sequence[Entry]) -> Iterable[tuple[str, dict[str, Any]]]:
        """Return what to note when history leaves the window without a compaction: the owner's standing instructions."""
        held = kept(self._session.notes, compact.messages_of(gone))
        return [("custom", {"customType": PIN, "data": {"text": text}}) for text in held]

    async def assemble(self, cancel: Cancel) -> tuple[Message, ...]:
        """Return what the next call sees; a history that is too long is compacted first, and none is sent that does not fit."""
        self._check_prompt()
        messages = await self._view()
        skipped = self._called and not self._facts.compaction.mid_turn_precheck.enabled
        self._called = True
        if skipped or (self._ports.host.info.owns_compaction and not self._may_overflow):
            return messages
        if not self._gave_up:
            written, flush_at = self._session.size, self._facts.budget.flush_at
            forced, heavy = 0 < self._forced <= written, 0 < self._heavy <= written
            line = 0 if forced or heavy else flush_at  # far below it nothing is due, and nobody needs to know the size
            tokens = self._measure(messages, line)
            if self._may_overflow:
                tokens = max(tokens, self._measure(self._session.history(self._facts.rules), line))
            if tokens < line:
                return messages
            if tokens >= flush_at or forced:
                await self._save_memory(messages, tokens, compacting=False, cancel=cancel)
            if self._facts.compaction.enabled and (heavy or tokens > self._facts.budget.compact_above):
                messages = await self._lighten(tokens, cancel)
        return await self._fitting(messages, cancel)

    async def _lighten(self, tokens: int, cancel: Cancel) -> tuple[Message, ...]:
        """Compact a history that has grown over its line, unless that failed a moment ago."""
        if not self._hopeless(tokens):
            occasion, before = self._occasion("threshold"), self._ports.cycle.failed_at
            shrunk = await self._shrink(occasion, tokens, cancel)
            if not shrunk and self._rejected and before is not None and not cancel.cancelled:
                # Half of what is kept for the answer is used up, and no better summary is to be had.
                await self._compact(replace(occasion, last_resort=True), tokens, cancel)
        return await self._view()

    async def _fitting(self, messages: tuple[Message, ...], cancel: Cancel) -> tuple[Message, ...]:
        """Return a history that leaves room for the answer, made shorter if it must be.

        Some servers refuse what is too long; others cut off its beginning, the rules first, and say nothing.
        """
        budget = self._facts.budget
        if (tokens := self._measure(messages, budget.full_at)) <= budget.full_at:
            return messages
        if await self._make_room(tokens, cancel, summarise=not self._gave_up):
            messages = await self._view()
        while (tokens := self._measure(messages, budget.full_at)) > budget.full_at:
            if self._prune(self._squeezed(messages)):
                messages = await self._view()
            elif tokens > budget.most:
                raise HomarusError(
                    f"what is asked now does not fit the model's window: it is about {tokens:,} tokens, of which the prompt"
                    f" and the tools take {self._facts.fixed_tokens:,}, and the window has {budget.window:,}, of which"
                    f" {budget.window - budget.most:,} are for the answer",
                    cure=f"send less at once, start over ('/new'), or {ROOM}",
                )
            else:
                break
        return messages

    def _squeezed(self, messages: tuple[Message, ...]) -> PruneState:
        """Return the state in which the results of tools share what all the rest leaves of the window, if that is enough to say anything."""
        results = [estimate(message) for message in messages if isinstance(message, ToolResult)]
        rest = self._facts.fixed_tokens + sum(map(estimate, messages)) - sum(results)
        share = (self._facts.budget.full_at - rest) * 4 // max(1, len(results)) - NOTE_CHARS
        keep = min(share, (self._pruned.head + self._pruned.tail) * 3 // 4)
        if not results or keep < MIN_RESULT_CHARS:
            return self._pruned
        return shorten(messages, self._pruned, now=epoch_ms(self._ports.clock.now()), keep=keep)

    def _check_prompt(self) -> None:
        """Raise if there is no room for a conversation beside the prompt: nothing that is done to the history helps then."""
        fixed, window = self._facts.fixed_tokens, self._facts.budget.window
        needed = least_room(window)
        if fixed + needed > window:
            why = f": a conversation with tools needs {needed:,} more than the prompt" if needed > 1 else ""
            raise ConfigError(
                f"the prompt and the tools take about {fixed:,} tokens, and the model's window has {window:,}{why}",
                cure=ROOM,
            )

    async def accepted(self) -> None:
        """Tell the engine what this turn added, once it came to a good end: no other turn advances an engine."""
        if self._ports.host.is_default:
            return
        branch = self._session.branch
        start = next((place for place, entry in enumerate(branch) if entry.id == self._began), 0)
        added, history = tuple(compact.messages_of(branch[start:])), self._session.history(self._facts.rules)
        call = replace(
            self._facts.call,
            messages=history,
            before=max(0, len(history) - len(added)),
            summary=self._summary,
            key=f"{self._facts.call.session_id}:{self._began}",
        )
        await self._ports.host.accept(added, call, lambda: Rewriter(self._session))

    async def overflowed(self, error: ModelError, cancel: Cancel) -> bool:
        """Make the history shorter after the provider refused it: compact, else shorten results, else keep what people said.

        False means that what is asked now does not fit by itself.
        """
        return await self._make_room(self._measure(self._session.history(self._facts.rules)), cancel)

    async def _make_room(self, tokens: int, cancel: Cancel, *, summarise: bool = True) -> bool:
        occasion = self._occasion("overflow")
        occasion = replace(occasion, keep_tokens=occasion.room // 4)
        # A model that gave no summary that would do a moment ago gives none now either.
        if summarise and not self._rejected and await self._shrink(occasion, tokens, cancel):
            return True
        if await self._shorten():
            return True
        if cancel.cancelled or not (await self._compact(replace(occasion, last_resort=True), tokens, cancel)).ok:
            return False
        await self._shorten()  # a compaction begins anew with what is shortened, and this one has to make room
        return True

    async def _shorten(self) -> bool:
        return self._prune(shorten(await self._view(), self._pruned, now=epoch_ms(self._ports.clock.now())))

    async def compact_now(self, focus: str, cancel: Cancel) -> compact.Compacted:
        """Compact because a person asked for it: where the model gives no summary that would do, what people said is kept."""
        tokens = self._measure(self._session.history(self._facts.rules))
        occasion = self._occasion("manual", focus=focus)
        done = await self._compact(occasion, tokens, cancel)
        if not done.rejected or cancel.cancelled:
            return done
        done = await self._compact(replace(occasion, last_resort=True), tokens, cancel)
        return replace(done, said=(*done.said, NO_SUMMARY)) if done.ok else done

    def _occasion(self, reason: str, *, focus: str = "") -> compact.Occasion:
        budget = self._facts.budget
        return compact.Occasion(
            reason=reason,
            window=budget.window,
            reserve=budget.reserve,
            focus=focus,
            fixed=self._facts.fixed_tokens,
            number=self._ports.cycle.compactions + 1,
            rules=self._ports.rules(),
        )

    def _hopeless(self, tokens: int) -> bool:
        """Say whether it failed a moment ago: the next try waits until there is more to summarise."""
        failed_at = self._ports.cycle.failed_at
        return failed_at is not None and tokens < failed_at + self._facts.budget.reserve // 2

    def _measure(self, messages: tuple[Message, ...], line: int = 0) -> int:
        # What was counted before the last boundary counted a history that is no longer sent.
        boundary = self._session.boundary
        if boundary is not self._boundary:
            self._boundary, self._since = boundary, boundary.time if boundary else 0
        # The same goes for what was counted before results were shortened.
        since = max(self._since, self._pruned.touched_at)
        return measure(messages, fixed=self._facts.fixed_tokens, since=since, line=line)

    async def _view(self) -> tuple[Message, ...]:
        messages = self._session.history(self._facts.rules)
        if self._session.has_images:
            messages = fade_images(messages)
        if not self._ports.host.is_default or self._addition or self._may_overflow:
            messages = await self._engine_view(messages)
        if self._facts.pruning.mode == "cache-ttl":
            now, window = epoch_ms(self._ports.clock.now()), self._facts.budget.window
            self._prune(decide(messages, self._pruned, self._facts.pruning, window=window, now=now))
        return apply_cuts(messages, self._pruned) if self._pruned.cuts else messages

    async def _engine_view(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return what an engine makes of the history, and put where it belongs what it wants said besides."""
        assembled = await self._ports.host.assemble(replace(self._facts.call, messages=messages))
        self._may_overflow = assembled.authority == "preassembly_may_overflow"
        if assembled.addition != self._addition:
            self._addition = assembled.addition
            self._ports.add(assembled.addition)
        # What an engine made of the history must still be one: a result without its call ends a session.
        changed = assembled.messages is not messages
        return repair(assembled.messages, self._facts.rules) if changed else messages

    def _prune(self, state: PruneState) -> bool:
        """Remember what is shortened from now on, durably, and return whether that is news."""
        if state is self._pruned:
            return False
        self._pruned = state
        self._session.append("custom", {"customType": CUSTOM_TYPE, "data": state.to_data()})
        return True

    def _flush_due(self, tokens: int, *, compacting: bool) -> str:
        """Return why memory should be saved now, or nothing. The counts make it happen once in each cycle, across restarts."""
        facts, cycle = self._facts, self._ports.cycle
        if not facts.compaction.memory_flush.enabled or facts.heartbeat or not facts.writable:
            return ""
        if cycle.flushed_at == cycle.compactions or cycle.flush_failures >= MAX_FLUSH_FAILURES:
            return ""
        if not any(isinstance(message, Assistant) for message in self._session.history()):
            return ""  # nothing has been said yet that could be lost
        if compacting:
            return "compaction"
        if tokens >= facts.budget.flush_at:
            return "tokens"
        return "bytes" if 0 < self._forced <= self._session.size else ""

    async def _save_memory(self, shown: tuple[Message, ...], tokens: int, *, compacting: bool, cancel: Cancel) -> None:
        reason = self._flush_due(tokens, compacting=compacting)
        if not reason or cancel.cancelled:
            return
        if not (shown := self._for_saving(shown)):
            return
        try:
            saved = await self._ports.flush(reason, shown)
        except ConfigError as problem:
            self._ports.emit(Notice(f"memory was not saved: {problem}", "warning"))
            saved = False
        if saved:
            self._ports.cycle.flushed()
        else:
            self._ports.cycle.flush_failures += 1

    def _for_saving(self, shown: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return what memory is saved from, so that the request for it fits as well: else with long results cut short, else
        the newest of it, from a message of a person on."""
        room = self._facts.budget.full_at - FLUSH_TOKENS
        if self._measure(shown, room) <= room:
            return shown
        shown = apply_cuts(shown, shorten(shown, PruneState(), now=0, keep=MIN_RESULT_CHARS))
        room -= self._facts.fixed_tokens
        starts = [place for place, message in enumerate(shown) if isinstance(message, User)]
        return next((shown[place:] for place in starts if sum(map(estimate, shown[place:])) <= room), ())

    async def _shrink(self, occasion: compact.Occasion, tokens: int, cancel: Cancel) -> bool:
        done = await self._compact(occasion, tokens, cancel)
        self._rejected = done.rejected
        if done.ok or done.nothing_to_do:
            return done.ok
        # Told once until it works again: the next try would most likely fail in the same way.
        first, self._ports.cycle.failed_at = self._ports.cycle.failed_at is None, tokens
        self._gave_up = True
        if first:
            text = f"The history could not be compacted ({done.reason}). '/compact' tries again, '/new' starts over."
            self._ports.emit(Notice(text, "warning"))
        return False

    async def _compact(self, occasion: compact.Occasion, tokens: int, cancel: Cancel) -> compact.Compacted:
        # Before anything is paid for: saving memory, and the hooks, are for a compaction that takes place.
        cut = compact.plan_for(self._session, self._facts.compaction, occasion)
        if isinstance(cut, str) and self._ports.host.is_default:
            return compact.Compacted(False, cut, tokens, tokens, nothing_to_do=True)
        await self._save_memory(await self._view(), tokens, compacting=True, cancel=cancel)
        cancel.check()
        known = {"reason": occasion.reason, "tokensBefore": tokens, "messageCount": len(self._session.history())}
        with cancel.interrupting():
            said = await self._tell("session:compact:before", known)
        self._ports.emit(CompactionStarted(occasion.reason))
        engine = await self._engine_compaction(occasion, tokens, cancel)
        if engine is not None:
            done = engine
        else:
            settings, ask = self._facts.compaction, self._ports.summarize
            done = await compact.compact(self._session, settings, occasion, ask, cut)
        if done.ok:
            self._ports.cycle.compacted(done.tokens_after)
            # Whoever had no summary is asked for one again when there is more to summarise, and nobody is told twice.
            self._ports.cycle.failed_at = done.tokens_after if occasion.last_resort else None
            self._ports.cycle.flush_failures = 0
            self._pruned = PruneState()
            self._summary = done.summary
            fixed = self._ports.renew()
            if fixed is not None:
                self._facts = replace(self._facts, fixed_tokens=fixed)
        self._ports.emit(CompactionEnded(done.ok, done.reason, done.tokens_before, done.tokens_after))
        told = self._facts.verbose or self._facts.compaction.notify_user
        if done.ok and told and occasion.reason != "manual":
            self._ports.emit(Notice(COMPLETE, "reply"))
        known |= {"ok": done.ok, "tokensBefore": done.tokens_before or tokens, "tokensAfter": done.tokens_after}
        known |= {"summaryLength": len(done.summary), "problem": "" if done.ok else done.reason}
        # Not interrupted: what has been compacted is compacted, and those who wait for that are told.
        said += await self._tell("session:compact:after", known)
        return replace(done, said=tuple(said))

    async def _tell(self, moment: str, facts: dict[str, Any]) -> list[str]:
        """Tell the hooks; what they want said is said in the chat."""
        said = await self._ports.tell(moment, facts)
        for text in said:
            self._ports.emit(Notice(text, "reply"))
        return said

    async def _engine_compaction(
        self, occasion: compact.Occasion, tokens: int, cancel: Cancel
    ) -> compact.Compacted | None:
        """Let an engine compact in its own way; None when it leaves that to us."""
        if self._ports.host.is_default:
            return None
        forced = occasion.reason != "threshold"
        call = replace(
            self._facts.call,
            force=forced,
            tokens=tokens,
            instructions=occasion.focus,
            target="budget" if forced else "threshold",
        )
        try:
            with cancel.interrupting():
                done = await self._ports.host.compact(call)
        except Cancelled as stop:
            return compact.Compacted(False, stop.message, tokens)
        if self._ports.host.quarantined or done.delegated:
            return None
        made = done.ok and done.compacted and bool(done.summary)
        if made and not compact.adopt(self._session, done.summary, done.first_kept, tokens, number=occasion.number):
            return compact.Compacted(False, f"the engine keeps from {done.first_kept!r} on, which is not here", tokens)
        return compact.Compacted(done.ok and done.compacted, done.reason, tokens, summary=done.summary)


def _stored_state(session: SessionWriter) -> PruneState:
    for entry in reversed(session.notes):
        if isinstance(entry, Custom) and entry.custom_type == CUSTOM_TYPE:
            return PruneState.from_data(entry.data.get("data"))
        if entry.type in {"compaction", "reset"}:
            break
    return PruneState()
