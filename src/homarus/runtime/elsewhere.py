"""Sessions that another process has open: what is said there is seen here, and what is said here is answered there.

The two share nothing but files: the transcript, which the other one writes, and letters, which it takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from homarus.agent.budget import add_usage
from homarus.agent.outcome import end_in
from homarus.core.cancel import STARTS_OVER, TAKEN_BACK
from homarus.core.clock import epoch_ms
from homarus.core.errors import HomarusError, Locked
from homarus.core.events import (
    MessageEnded,
    Notice,
    RunEnded,
    RunEvent,
    RunStarted,
    ToolEnded,
    ToolProgress,
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
from homarus.sessions.places import is_held_here, owner_of, work_at
from homarus.sessions.store import SessionStore
from homarus.storage.faults import Missing
from homarus.storage.jsonl import read_lines, read_lines_reversed
from homarus.storage.locks import is_suspended

if TYPE_CHECKING:
    from homarus.commands.router import IntakeResult
    from homarus.runtime.runtime import Runtime

FIRST_SECONDS, LONGEST_SECONDS = 0.05, 0.5  # how often an answer of another process is looked for
FOLLOW_SECONDS = 0.25
TAKEN_SECONDS = 3.0  # within which a process that takes letters takes one
ANSWERED_SECONDS = 3.0  # how long a program that ends waits for what others asked of it
# Among the facts of a command that nobody typed: the key of the message that its sender takes back, and whether it ends its turn, too.
TAKE_BACK = "takeBack"
_STATUS = {StopReason.ERROR: "error", StopReason.ABORTED: "aborted"}


# How a message stands that was left for another process: somebody waits for its answer, or has asked it back; it was forgotten
# there, its own turn was told to end, or it stays; or nothing more is to come of it.
WAITING, ASKED, FORGOTTEN, STOPPING, LEFT, OVER = "waiting", "asked", "forgotten", "stopping", "left", "over"


class Awaited(Struct):
    """A message that was left for another process, as whoever left it sees it."""

    session: SessionKey
    item: Queued
    state: str = WAITING
    word: Queued | None = None  # that asks it back, and since when
    since: float = 0.0


class Elsewhere:
    """What this process does about sessions that others hold. `handle` takes a message in as if it was typed here."""

    def __init__(self, runtime: Runtime, handle: Callable[[SessionKey, Inbound], Awaitable[IntakeResult]]) -> None:
        self._runtime = runtime
        self._home = runtime.home
        self._handle = handle
        self._tasks: set[asyncio.Task[None]] = set()
        self._awaited: dict[str, Awaited] = {}
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

    def stuck(self, session: SessionKey) -> str:
        """Return why nothing is answered where another process has a session open, in words; nothing where it can answer."""
        pid = self._owner(session)
        if pid is None or not is_suspended(pid):
            return ""
        cure = f"`fg` in its terminal, or `kill -CONT {pid}`, lets it go on"
        return f"the program that has this session open (process {pid}) is suspended, so nothing is answered ({cure})"

    def refuse(self, session: SessionKey) -> None:
        """Raise `Locked`, in words that say what to do, where another process has a session open and does not answer."""
        pid = self._owner(session)
        if pid is None:
            return
        who, ends = "the program that has this session open", "wait until it ends, or end it"
        if pid <= 0:
            raise Locked(f"{who} does not answer, so nothing was done", cure=ends)
        if is_suspended(pid):
            cure = f"`fg` in its terminal, or `kill -CONT {pid}`, lets it go on; then say it again"
            raise Locked(f"{who} (process {pid}) is suspended, so nothing was done", pid=pid, cure=cure)
        raise Locked(f"{who} (process {pid}) does not answer, so nothing was done", pid=pid, cure=ends)

    def _owner(self, session: SessionKey) -> int | None:
        path = self._place(session)
        return owner_of(path) if path is not None and self._home.sessions.get(session) is None else None

    def _takes_over(self, session: SessionKey) -> bool:
        try:
            self._runtime.lane(session)
        except Locked:
            return False
        return True

    async def answered(self, session: SessionKey, item: Queued, seconds: float | None) -> tuple[RunEvent, ...] | None:
        """Wait until a message that was left for another process is answered there; None when this process took it over."""
        waiting = self._until_answered(Awaited(session, item), seconds)
        return tuple([event async for event in waiting if not isinstance(event, Notice)]) or None

    async def asked(self, session: SessionKey, item: Queued, seconds: float | None) -> AsyncGenerator[RunEvent, None]:
        """Wait like `answered` for somebody who can change their mind: `take_back` ends it, and so does leaving it early.

        There is no `RunEnded` when this process took the message over.
        """
        awaited = self._awaited[item.key] = Awaited(session, item)
        try:
            async for event in self._until_answered(awaited, seconds):
                if isinstance(event, RunEnded):
                    awaited.state = OVER
                yield event
            awaited.state = OVER
        finally:
            del self._awaited[item.key]
            self.give_up(awaited)

    async def _until_answered(self, awaited: Awaited, seconds: float | None) -> AsyncIterator[RunEvent]:
        from homarus.runtime.operations import reply_in_log

        session, item, clock = awaited.session, awaited.item, self._home.clock
        started, pause, stuck = clock.monotonic(), FIRST_SECONDS, ""
        while True:
            for event in (ended := self._taken_back(awaited)):
                yield event
            if ended:
                return
            # A letter that lies where it was put has no answer, and while its session is held nobody can take it over.
            if not self._runtime.letters.lies(item) or not self.holds(session):
                ours = self._takes_over(session)
                if (found := await asyncio.to_thread(reply_in_log, self._home, session, item.key)) is not None:
                    reply, _results = found
                    status = _STATUS.get(reply.stop_reason, "ok")
                    took = clock.monotonic() - started
                    yield MessageEnded(reply)
                    yield RunEnded("", status, reply.text, reply.error, seconds=took)
                    return
                if ours:
                    return  # it was let go before anybody answered
            if seconds and clock.monotonic() - started > seconds:
                yield RunEnded("", "timeout", error="queued: the program that has the session open answers it")
                return
            before, stuck = stuck, self.stuck(session)
            if stuck and not before:
                yield Notice(stuck, "warning")
            await asyncio.sleep(pause)
            pause = min(LONGEST_SECONDS, pause * 1.2)

    def take_back(self, session: SessionKey) -> bool:
        """Take back what this process left in a session and waits for; False where there is nothing. How it went is an event."""
        mine = [each for each in self._awaited.values() if each.session == session and each.state == WAITING]
        for each in mine:
            if self._runtime.letters.withdraw(each.item):
                each.state = FORGOTTEN
            else:  # only the process that has taken it can tell whether a turn has begun with it
                each.word, each.since = self._ask_back(each, running=True), self._home.clock.monotonic()
                each.state = ASKED
        return bool(mine)

    def give_up(self, awaited: Awaited) -> None:
        """Nobody waits any more for a message that was left elsewhere: it is forgotten there unless a turn has begun with it."""
        if awaited.state == WAITING and not self._runtime.letters.withdraw(awaited.item):
            self._ask_back(awaited, running=False)

    def _ask_back(self, awaited: Awaited, *, running: bool) -> Queued:
        item, moment = awaited.item, epoch_ms(self._home.clock.now())
        facts = {COMMAND: True, TAKE_BACK: [item.key, running]}
        word = Inbound(id=self._home.ids.uuid(), channel=item.inbound.channel, text="", timestamp=moment, facts=facts)
        return self._runtime.leave_letter(awaited.session, word)

    def _taken_back(self, awaited: Awaited) -> tuple[RunEvent, ...]:
        """Return how a message ends that was asked back; nothing where it was not, or where its own turn tells that."""
        letters, word = self._runtime.letters, awaited.word
        if awaited.state == ASKED and word is not None:
            if (answer := letters.answer_to(word)) is not None:
                awaited.state = next(iter(_result(answer).replies), LEFT)
            elif self._home.clock.monotonic() - awaited.since > TAKEN_SECONDS and letters.withdraw(word):
                awaited.state = LEFT
        if awaited.state == FORGOTTEN:
            return (RunEnded("", "aborted", error=TAKEN_BACK),)
        if awaited.state != LEFT:
            return ()
        pid = self._owner(awaited.session)
        who = f"process {pid}" if pid and pid > 0 else "another program"
        left = Notice(f"it could not be taken back: the message stays queued in {who} and is answered there", "warning")
        return left, RunEnded("", "aborted", error="the message stays queued there")

    async def follow(self, session: SessionKey) -> None:
        """Tell those who listen here what is said there, and take the session as soon as it is free."""
        tail, asked = Tail(self._home.store(session.agent_id), session), set[str]()
        if tail.running and self.holds(session):
            self._runtime.emit(session, RunStarted("", str(session), "", ""))
        busy, stuck = False, ""
        while self.holds(session) or not self._takes_over(session):
            stuck = self._tell_stuck(session, stuck)
            busy = self._tell_work(session, busy and not tail.running, tail)
            self._tell(session, tail)
            self._tell_questions(session, asked)
            await asyncio.sleep(FOLLOW_SECONDS)
        # Nothing of ours has run yet, so what is still there was said before.
        self._tell(session, tail)
        if (tail.running or busy) and not self._runtime.lane(session).busy:
            self._runtime.emit(session, RunEnded("", "aborted"))

    def _tell(self, session: SessionKey, tail: Tail) -> None:
        for event in tail.read():
            self._runtime.emit(session, event)

    def _tell_work(self, session: SessionKey, told: bool, tail: Tail) -> bool:
        """Say when something else than a turn begins there, such as a compaction, and when it is over."""
        path = self._place(session)
        doing = work_at(path) if path is not None and not tail.running else ""
        if doing and not told:
            self._runtime.emit(session, RunStarted("", str(session), "", ""))
            self._runtime.emit(session, ToolProgress("", doing))
        elif told and not doing:
            self._runtime.emit(session, RunEnded("", "ok"))
        return bool(doing)

    def _tell_stuck(self, session: SessionKey, before: str) -> str:
        """Say when the program there is suspended, and when it goes on."""
        stuck = self.stuck(session)
        if stuck != before and (stuck or self.holds(session)):
            self._runtime.emit(session, Notice(stuck, "warning") if stuck else Notice("the other program goes on"))
        return stuck

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
        """Have a command carried out by the process that has the session open; None where that one does not answer."""
        letters = self._runtime.letters
        if self.stuck(session):
            return None
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
        return _result(answer)

    async def finish(self) -> None:
        """Let those who asked for something have their answer before this program ends, and take no more of that kind."""
        self._runtime.carry_out = None
        for seconds in (ANSWERED_SECONDS, None):
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=seconds)
            for task in self._tasks:
                task.cancel()

    def _carry_out(self, session: SessionKey, path: Path, item: Queued) -> None:
        task = asyncio.ensure_future(self._carried_out(session, path, item))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carried_out(self, session: SessionKey, path: Path, item: Queued) -> None:
        """Do what was typed in another terminal, and tell both."""
        from homarus.commands.router import IntakeResult

        if asked_back := item.facts.get(TAKE_BACK):
            key, running = asked_back
            lane = self._runtime.open_lane(session)
            came = lane.take_back(key, running=running) if lane is not None else ""
            self._runtime.letters.answer(path, IntakeResult((came,) if came else ()))
            return
        self._runtime.emit(session, Notice(f"› {single_line(item.text, 80)} (from another terminal)"))
        facts = {name: value for name, value in item.facts.items() if name != COMMAND}
        try:
            done = await self._handle(session, replace(item.inbound, facts=facts or None))
        except HomarusError as problem:
            done = IntakeResult((str(problem),))
        for reply in done.replies:
            self._runtime.emit(session, Notice(reply, REPLY))
        self._runtime.letters.answer(path, done)


def _result(answer: bytes) -> IntakeResult:
    from msgspec import json

    from homarus.commands.router import IntakeResult

    return json.decode(answer, type=IntakeResult)


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
