"""Sessions that another process has open: what is said there is seen here, and what is said here is answered there.

The two share nothing but files: the transcript, which the other one writes, and letters, which it takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from homarus.agent.budget import add_usage
from homarus.agent.outcome import end_in
from homarus.core.cancel import STARTS_OVER
from homarus.core.errors import HomarusError, Locked
from homarus.core.events import (
    MessageEnded,
    Notice,
    RunEnded,
    RunEvent,
    RunStarted,
    ToolEnded,
    ToolStarted,
    UserAccepted,
)
from homarus.core.messages import Assistant, Inbound, StopReason, ToolResult, Usage, User
from homarus.core.routes import SessionKey
from homarus.core.text import single_line
from homarus.queue.collect import Queued
from homarus.queue.letters import COMMAND
from homarus.runtime.reply import REPLY
from homarus.sessions.entry import Compaction, Entry, MessageEntry
from homarus.sessions.log import to_entries
from homarus.sessions.places import is_held_here, owner_of
from homarus.sessions.store import SessionStore
from homarus.storage.faults import Missing
from homarus.storage.jsonl import read_lines, read_lines_reversed

if TYPE_CHECKING:
    from homarus.commands.router import IntakeResult
    from homarus.runtime.runtime import Runtime

FIRST_SECONDS, LONGEST_SECONDS = 0.05, 0.5  # how often an answer of another process is looked for
FOLLOW_SECONDS = 0.25
TAKEN_SECONDS = 3.0  # within which a process that takes letters takes one
_STATUS = {StopReason.ERROR: "error", StopReason.ABORTED: "aborted"}


class Elsewhere:
    """What this process does about sessions that others hold. `handle` takes a message in as if it was typed here."""

    def __init__(self, runtime: Runtime, handle: Callable[[SessionKey, Inbound], Awaitable[IntakeResult]]) -> None:
        self._runtime = runtime
        self._home = runtime.home
        self._handle = handle
        self._tasks: set[asyncio.Task[None]] = set()
        runtime.carry_out = self._carry_out

    def holds(self, session: SessionKey) -> bool:
        """Say whether another process has a session open, at the price of one look at its lock."""
        if self._home.sessions.get(session) is not None:
            return False
        path = self._place(session)
        while path is not None and owner_of(path) is None:
            looked_at, path = path, self._place(session)
            if path == looked_at:
                return False
            # It started over between the two looks, and its owner went on with it.
        return path is not None

    def _place(self, session: SessionKey) -> Path | None:
        info = self._home.store(session.agent_id).find(session)
        return info.place.path if info else None

    def in_this_process(self, session: SessionKey) -> bool:
        """Say whether this very process has a session open, through another agent."""
        info = self._home.store(session.agent_id).find(session)
        return self._home.sessions.get(session) is None and info is not None and is_held_here(info.place.path)

    def _takes_over(self, session: SessionKey) -> bool:
        try:
            self._runtime.lane(session)
        except Locked:
            return False
        return True

    async def answered(self, session: SessionKey, item: Queued, seconds: float | None) -> tuple[RunEvent, ...] | None:
        """Wait until a message that was left for another process is answered there; None when this process took it over."""
        from homarus.runtime.operations import reply_in_log

        clock = self._home.clock
        started, pause = clock.monotonic(), FIRST_SECONDS
        while True:
            # A letter that lies where it was put has no answer, and while its session is held nobody can take it over.
            if not self._runtime.letters.lies(item) or not self.holds(session):
                ours = self._takes_over(session)
                if (found := await asyncio.to_thread(reply_in_log, self._home, session, item.key)) is not None:
                    reply, _results = found
                    status = _STATUS.get(reply.stop_reason, "ok")
                    took = clock.monotonic() - started
                    return MessageEnded(reply), RunEnded("", status, reply.text, reply.error, seconds=took)
                if ours:
                    return None  # it was let go before anybody answered
            if seconds and clock.monotonic() - started > seconds:
                return (RunEnded("", "timeout", error="queued: the program that has the session open answers it"),)
            await asyncio.sleep(pause)
            pause = min(LONGEST_SECONDS, pause * 1.2)

    async def follow(self, session: SessionKey) -> None:
        """Tell those who listen here what is said there, and take the session as soon as it is free."""
        tail, asked = Tail(self._home.store(session.agent_id), session), set[str]()
        if tail.running and self.holds(session):
            self._runtime.emit(session, RunStarted("", str(session), "", ""))
        while self.holds(session) or not self._takes_over(session):
            self._tell(session, tail)
            self._tell_questions(session, asked)
            await asyncio.sleep(FOLLOW_SECONDS)
        # Nothing of ours has run yet, so what is still there was said before.
        self._tell(session, tail)
        if tail.running and not self._runtime.lane(session).busy:
            self._runtime.emit(session, RunEnded("", "aborted"))

    def _tell(self, session: SessionKey, tail: Tail) -> None:
        for event in tail.read():
            self._runtime.emit(session, event)

    def _tell_questions(self, session: SessionKey, told: set[str]) -> None:
        """Say once what the turn there, or a sub-agent of it, waits for; it is answered where it was asked."""
        asked = [each for each in self._home.toolkit.approvals.read().pending if each.id not in told]
        children = {kept.run.child for kept in self._runtime.children.books.look(session).open} if asked else set()
        for request in asked:
            if request.session in {str(session), *children}:
                told.add(request.id)
                text = f"? {request.summary}\n{request.reason} (answer it in the other terminal)"
                self._runtime.emit(session, Notice(text, "warning"))

    async def command(self, session: SessionKey, inbound: Inbound) -> IntakeResult | None:
        """Have a command carried out by the process that has the session open; None where that one takes no letters."""
        letters = self._runtime.letters
        facts = {**(inbound.facts or {}), COMMAND: True}
        item = self._runtime.leave_letter(session, replace(inbound, facts=facts))
        limit = self._home.clock.monotonic() + TAKEN_SECONDS
        while letters.lies(item):
            if self._home.clock.monotonic() > limit and letters.withdraw(item):
                return None
            await asyncio.sleep(FIRST_SECONDS)
        ended = False
        while (answer := letters.answer_to(item)) is None:
            if ended:
                raise HomarusError("the program that had the session open ended before it answered")
            await asyncio.sleep(FIRST_SECONDS)
            ended = not self.holds(session)
        from msgspec import json

        from homarus.commands.router import IntakeResult

        return json.decode(answer, type=IntakeResult)

    def _carry_out(self, session: SessionKey, path: Path, item: Queued) -> None:
        task = asyncio.ensure_future(self._carried_out(session, path, item))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carried_out(self, session: SessionKey, path: Path, item: Queued) -> None:
        """Do what was typed in another terminal, and tell both."""
        from homarus.commands.router import IntakeResult

        self._runtime.emit(session, Notice(f"› {single_line(item.text, 80)} (from another terminal)"))
        facts = {name: value for name, value in item.facts.items() if name != COMMAND}
        try:
            done = await self._handle(session, replace(item.inbound, facts=facts or None))
        except HomarusError as problem:
            done = IntakeResult((str(problem),))
        for reply in done.replies:
            self._runtime.emit(session, Notice(reply, REPLY))
        self._runtime.letters.answer(path, done)


class Tail:
    """What another process appends to a session's transcript, as the events that it tells."""

    def __init__(self, store: SessionStore, session: SessionKey) -> None:
        self._store = store
        self._session = session
        self._path, self._at = self._place(), 0
        if self._path is not None and self._path.exists():
            self._at = self._path.stat().st_size
        self.running = self._is_cut_off()
        self._usage = Usage()

    def _is_cut_off(self) -> bool:
        """Say whether the transcript ends in the middle of a turn: one that goes on there, as long as somebody has it open."""
        if self._path is None or not self._at:
            return False
        for line in read_lines_reversed(self._path, end=self._at, decoded=False):
            for entry in reversed(to_entries(line)):
                message = entry.message if isinstance(entry, MessageEntry) else None
                if message is not None:
                    return not isinstance(message, Assistant) or bool(message.calls)
                if end_in(entry) is not None:
                    return False
        return False

    def _place(self) -> Path | None:
        info = self._store.find(self._session)
        return info.place.path if info else None

    def read(self) -> list[RunEvent]:
        """Return what came since the last look."""
        path, events = self._place(), list[RunEvent]()
        if path != self._path:
            # How the old transcript ends may never be read here, but no turn of it goes on.
            events += [self._ended("aborted", error=STARTS_OVER)] if self.running else []
            events += [Notice(STARTS_OVER)] if self._path else []
            self._path, self._at = path, 0
        if path is None:
            return events
        try:
            for line in read_lines(path, start=self._at):
                if line.torn:
                    break  # it is being written
                self._at = line.offset + len(line.raw) + 1
                events += [event for entry in to_entries(line) for event in self._told(entry)]
        except Missing:
            self._at = 0
        return events

    def _told(self, entry: Entry) -> list[RunEvent]:
        if isinstance(entry, Compaction):
            return [Notice("🧹 compacted")]
        if (end := end_in(entry)) is not None:
            return [self._ended(end.status, error=end.error)]
        message = entry.message if isinstance(entry, MessageEntry) else None
        match message:
            case User():
                steered, self.running = self.running, True
                begun: list[RunEvent] = [] if steered else [RunStarted("", str(self._session), "", "")]
                return [*begun, UserAccepted(message, steered=steered)]
            case Assistant():
                self._usage = add_usage(self._usage, message.usage)
                told: list[RunEvent] = [MessageEnded(message)]
                told += [ToolStarted(call.id, call.name, call.arguments) for call in message.calls]
                if not message.calls:
                    status = _STATUS.get(message.stop_reason, "ok")
                    told.append(self._ended(status, message.text, message.error))
                return told
            case ToolResult():
                took = (message.details or {}).get("durationMs")
                return [ToolEnded(message, took / 1000 if isinstance(took, int) else 0.0)]
        return []

    def _ended(self, status: str, text: str = "", error: str = "") -> RunEnded:
        usage, self._usage, self.running = self._usage, Usage(), False
        return RunEnded("", status, text, error, usage)
