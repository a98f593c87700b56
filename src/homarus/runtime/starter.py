"""The `Starter` of automation: turns that nobody typed, run in the lanes of this home, and words brought to people."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from homarus.agent.home import Home
from homarus.automation.scheduler import Chore
from homarus.automation.starter import Ran
from homarus.core.errors import Locked
from homarus.core.events import ModelCalled, Notice, RunEnded, RunEvent, RunStarted, ToolEnded, UserAccepted
from homarus.core.messages import Inbound, Outbound, StopReason, ToolResult, Usage
from homarus.core.routes import AT_HOME, SessionKey
from homarus.core.text import single_line
from homarus.queue.collect import Queued, message_key
from homarus.queue.modes import Overrides
from homarus.queue.settings import Mode
from homarus.runtime.events import EventFeed, Following
from homarus.runtime.local import LocalClient
from homarus.runtime.operations import reply_in_log
from homarus.sessions.entry import MessageEntry
from homarus.sessions.row import SessionEntry

if TYPE_CHECKING:
    from homarus.runtime.runtime import Runtime

CUT_OFF = "interrupted: the program ended while it was at work"
FRESH_BYTES = 1 << 20  # a conversation that always begins anew begins in a new file now and then


class Post(Protocol):
    """Sends to people. Filled by whoever connects channels; it must send an `Outbound.id` once."""

    def has(self, channel: str) -> bool:
        """Say whether the configuration has a channel, switched on or not."""
        ...

    def reaches(self, channel: str, account: str, to: str) -> str:
        """Return why nobody can be reached there, or nothing."""
        ...

    def has_taken(self, ident: str) -> bool:
        """Say whether an `Outbound.id` was sent or will be, in this process or an earlier one."""
        ...

    async def send(self, message: Outbound) -> str:
        """Bring a message on its way, durably; return why that was not possible, or nothing."""
        ...


class TurnStarter:
    """Fills `automation.starter.Starter`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._home = runtime.home

    @property
    def post(self) -> Post | None:
        """Return what reaches people in chats; None in a process that serves no channel."""
        return self._runtime.outlet

    def start(self, key: SessionKey, inbound: Inbound, *, fresh: bool = False) -> Awaitable[Ran]:
        runtime = self._runtime
        try:
            lane = runtime.lane(key)
        except Locked as held:
            if not held.ours:
                raise
            return self._elsewhere(key, runtime.leave_letter(key, inbound))
        message = message_key(inbound)
        if fresh and not lane.knows(message):
            self._begin_anew(key)
        events = EventFeed(partial(runtime.answering, key))
        unlisten = runtime.listen(key, events.put)
        try:
            item = runtime.submit(key, inbound, overrides=Overrides(mode=Mode.FOLLOWUP))
        except BaseException:
            unlisten()
            raise
        if item is None and not lane.owes(message):
            unlisten()
            return self._in_log(key, message, refused=not lane.knows(message))
        following = Following(lane, message, events, partial(runtime.owed, key), everyone=False)
        return self._followed(key, message, following, unlisten)

    async def _followed(self, key: SessionKey, message: str, following: Following, unlisten: Any) -> Ran:
        watch = _Watch(message)
        try:
            async for event in following:
                watch.note(event)
        finally:
            unlisten()
        if watch.mine:
            return watch.ran()
        # A turn that a crash cut off and that went on here is told from its log; so is one that nobody can resume.
        found, ended = await self._in_log(key, message), watch.ended
        return replace(found if found.ok or ended.status != "ok" else watch.ran(), usage=ended.usage)

    async def _in_log(self, key: SessionKey, message: str, *, refused: bool = False) -> Ran:
        """Return how a turn ended that another process, or this one some time ago, has run."""
        if refused:
            return Ran(status="error", error="the session takes no message now")
        found = reply_in_log(self._home, key, message)
        info = self._home.store(key.agent_id).find(key)
        session_id = info.entry.session_id if info else ""
        if found is None or found[0].stop_reason is StopReason.ABORTED:
            return Ran(status="error", error=CUT_OFF, session_id=session_id)
        reply, results = found
        return Ran(
            status="error" if reply.stop_reason is StopReason.ERROR else "ok",
            text=reply.text,
            error=reply.error,
            session_id=session_id,
            sent=any(map(_sent, results)),
            acted=bool(results),
        )

    async def _elsewhere(self, key: SessionKey, item: Queued) -> Ran:
        """Wait for a program that has the session open to answer what was left for it."""
        client = LocalClient(self._runtime)
        answered = await client.elsewhere.answered(key, item, (item.facts or {}).get("seconds"))
        if answered is None:  # it was let go before anybody answered, and this process has it now
            return await self.start(key, item.inbound)
        ended = answered[-1]
        assert isinstance(ended, RunEnded)
        return Ran(status=ended.status, text=ended.text, error=ended.error, seconds=ended.seconds)

    def _begin_anew(self, key: SessionKey) -> None:
        with self._home.opened(key) as live:
            if live.is_new:
                return
            grown = live.writer.size > FRESH_BYTES
            if not grown:
                live.writer.append("reset", {"reason": "heartbeat"}, durable=False)
        if grown:
            self._home.sessions.forget(key)
            self._home.store(key.agent_id).delete(key)

    def busy(self, key: SessionKey) -> bool:
        lane = self._runtime.open_lane(key)
        return lane is not None and not lane.idle_now

    # People.

    def reaches(self, session: SessionKey, target: dict[str, Any]) -> str:
        channel, account, to, _ = self._where(session, target)
        if channel in AT_HOME or self._stays(target, channel):
            return ""
        return self.post.reaches(channel, account, to) if self.post is not None else _unserved(channel)

    async def deliver(
        self, session: SessionKey, target: dict[str, Any], text: str, ident: str, *, said: SessionKey | None = None
    ) -> str:
        channel, account, to, thread = self._where(session, target)
        if channel in AT_HOME or self._stays(target, channel):
            if said != session:
                self._runtime.automation.events.add(session, text, ident=ident)
                self._runtime.emit(session, Notice(text, "automation"))
            return ""
        if self.post is None:
            return _unserved(channel)
        return await self.post.send(Outbound(ident, channel, to, text, account, thread))

    def delivered(self, ident: str) -> bool:
        return self.post is not None and self.post.has_taken(ident)

    def _stays(self, target: dict[str, Any], channel: str) -> bool:
        """Say whether words stay in their session: where the last chat was on a channel that this home does not have."""
        last = target.get("channel") in {None, "", "last", "owner"}
        return last and (self.post is None or not self.post.has(channel))

    def _where(self, session: SessionKey, target: dict[str, Any]) -> tuple[str, str, str, str]:
        """Return channel, account, person and thread; `last` is where the session was talked in last.

        `owner` is the same, but never a chat that others read.
        """
        channel = str(target.get("channel") or "last")
        to, account = str(target.get("to") or ""), str(target.get("accountId") or "")
        thread = str(target.get("threadId") or "")
        if channel in {"last", "owner"}:
            info = self._home.store(session.agent_id).find(session)
            row = info.entry if info else SessionEntry()
            if channel == "owner" and row.chat_type not in {None, "", "direct"}:
                row = SessionEntry()
            channel, account = row.last_channel or "", account or row.last_account_id or ""
            if not to:
                to, thread = row.last_to or "", thread or str(row.last_thread_id or "")
        return channel, account or "default", to, thread

    # Sessions.

    async def take_back(self, key: SessionKey, inbound: Inbound) -> None:
        message = message_key(inbound)
        async with self._runtime.exclusively(key):
            with suppress(Locked), self._home.opened(key) as live:  # in a chat that has it open it stays in view
                branch = live.writer.branch
                at = next((i for i, e in enumerate(branch) if isinstance(e, MessageEntry) and message in e.keys), 0)
                said = [entry for entry in branch[at:] if isinstance(entry, MessageEntry)]
                above = branch[at].parent_id if at else None
                # Only the poll and its answer: what somebody said since, or what tools did, stays in view.
                if above and [entry.role for entry in said] == ["user", "assistant"]:
                    live.go_back(above)

    async def release(self, key: SessionKey) -> None:
        lane = self._runtime.open_lane(key)
        if lane is not None:
            await lane.idle()
        self._runtime.drop_lane(key)
        self._home.sessions.forget(key)


def chores(home: Home) -> dict[str, Chore]:
    """Return what goes through an agent's notes, as `homarus memory reflect` and `homarus memory dream` do."""

    async def reflect_on(agent_id: str) -> str:
        from homarus.memory.bank.reflect import reflect

        report = await asyncio.to_thread(reflect, home.memory(agent_id))
        stale = f"; {len(report.outdated)} lines of MEMORY.md hold no more" if report.outdated else ""
        return f"{sum(page.changed for page in report.pages)} of {len(report.pages)} pages written{stale}"

    async def dream_of(agent_id: str) -> str:
        from homarus.memory.bank.dream import Gates, dream

        gates = home.config.block("memory.dreaming", Gates)
        night = await asyncio.to_thread(dream, home.memory(agent_id), gates)
        return f"{len(night.promoted)} lines taken over into MEMORY.md"

    return {"memory.reflect": reflect_on, "memory.dreaming": dream_of}


def _sent(result: ToolResult) -> bool:
    """Say whether a call wrote to somebody."""
    return result.tool_name == "message" and not result.is_error


def _unserved(channel: str) -> str:
    return f"no channel '{single_line(channel, 40)}' is served here"


class _Watch:
    """What the events of a turn tell of it."""

    def __init__(self, message: str) -> None:
        self._message = message
        self.mine = False
        self.ended = RunEnded("", "aborted")
        self._usage = Usage()
        self._told: dict[str, Any] = {"calls": 0}

    def note(self, event: RunEvent) -> None:
        told = self._told
        match event:
            case RunStarted():
                told["session_id"], told["model"] = event.session_id, event.model
            case UserAccepted():
                own = event.message.idempotency_key == self._message
                self.mine = self.mine or own
                told["joined"] = told.get("joined", False) or (self.mine and not own)
            case ModelCalled():
                told["calls"] += 1
            case ToolEnded():
                told["acted"] = True
                told["sent"] = told.get("sent", False) or _sent(event.result)
            case RunEnded():
                self.ended = event
            case _:
                pass

    def ran(self) -> Ran:
        ended = self.ended
        return Ran(
            status=ended.status,
            text=ended.text,
            error=ended.error,
            usage=ended.usage,
            seconds=ended.seconds,
            **self._told,
        )
