"""The commands that are running or have just ended, by agent. Nothing here outlives the session that started it.

Output is kept within bounds while it arrives: the newest part of all of it, and the newest part of what nobody has read.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from homarus.core.clock import Clock, Ids
from homarus.core.errors import ToolError
from homarus.core.text import single_line
from homarus.sandbox.claims import Claim, Claims, Kind
from homarus.sandbox.folders import roots
from homarus.sandbox.spec import Backend
from homarus.sandbox.usage import is_too_much, taken
from homarus.tools.tool import ToolContext

if TYPE_CHECKING:
    from homarus.sandbox import process
    from homarus.tools.command import Plan

MAX_OUTPUT, MAX_PENDING = 200_000, 30_000
# A command that prints more than this is ended: it prints for nobody.
MAX_PRINTED = 1 << 30
DISK_SECONDS = 0.5  # between two looks at the disk
MAX_RUNNING, MAX_RECORDS = 32, 50


class ProcessSettings(Struct, frozen=True, rename="camel"):
    """`tools.exec`: how long a command may take, and what is remembered of it."""

    timeout_seconds: int = 1_800
    background_ms: int = 10_000
    cleanup_ms: int = 1_800_000
    notify_on_exit: bool = True
    notify_on_exit_empty_success: bool = False


class Ended(Struct, frozen=True):
    """A background command came to its end; whoever runs the session tells the model."""

    agent_id: str
    session: str
    id: str
    ok: bool
    text: str


Notify = Callable[[Ended], None]


class Tail:
    """The newest bytes of a stream, and how many were dropped before them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self.dropped = 0

    def add(self, block: bytes) -> None:
        self._data += block
        if (over := len(self._data) - self._limit) > 0:
            del self._data[:over]
            self.dropped += over

    def text(self) -> str:
        text = self._data.decode("utf-8", "replace").replace("\r\n", "\n")
        return f"[… {self.dropped:,} earlier bytes were dropped …]\n{text}" if self.dropped else text

    def drain(self) -> str:
        text = self.text()
        self._data.clear()
        self.dropped = 0
        return text


def _free(path: str) -> int:
    try:
        found = os.statvfs(path)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


class Running:
    """One command, from its start until it is forgotten."""

    def __init__(self, ident: str, plan: Plan, context: ToolContext, child: process.Child) -> None:
        self.id = ident
        self.plan = plan
        self.agent_id = context.agent_id
        self.session = str(context.session)
        self.quiet = context.session.is_subagent
        self.child = child
        self.held = Claim()
        self.since_ns = 0  # what its files are newer than
        self.started = context.clock.monotonic()
        self.ended_at: float | None = None
        self.exit: process.Exit | None = None
        self.stopped = ""
        self.background = False
        self.output = Tail(MAX_OUTPUT)
        self.pending = Tail(MAX_PENDING)
        self.printed = 0
        self.fresh = asyncio.Event()
        self.done = asyncio.Event()
        self.work: asyncio.Task[None] | None = None

    @property
    def status(self) -> str:
        if self.exit is None:
            return "running"
        return "killed" if self.stopped else "completed" if self.exit.ok else "failed"

    @property
    def ending(self) -> str:
        if self.stopped:
            return f"(Command ended: {self.stopped})"
        if self.exit is None or self.exit.ok:
            return ""
        return (
            f"(Command exited with code {self.exit.code})"
            if self.exit.code is not None
            else f"(Command was ended by signal {self.exit.signal})"
        )


class ProcessManager:
    """Starts, finds and ends commands. One for the whole program; it must be closed in the loop that used it."""

    def __init__(
        self,
        clock: Clock,
        ids: Ids,
        *,
        settings: Callable[[str], ProcessSettings] = lambda _agent_id: ProcessSettings(),
        notify: Notify | None = None,
        before: Callable[[], None] = lambda: None,
        claims: Claims | None = None,
        free: Callable[[str], int] = _free,
    ) -> None:
        self._clock = clock
        self._ids = ids
        self.settings = settings
        self._notify = notify
        self._before = before  # called before a command starts
        self._claims = claims or Claims()
        self._free_bytes = free
        self._all: dict[str, Running] = {}
        # A command that ended within its call is no longer listed, but its task is held until it is through.
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(
        self, plan: Plan, context: ToolContext, held: Claim, *, tty: bool, stdin: bool, seconds: float
    ) -> Running:
        """Start a command; it is ended after `seconds` (zero: never), and with its session in any case.

        `held` is what keeps others from changing what was approved, until a host command has ended.
        """
        from homarus.sandbox import process

        self._forget()
        if sum(item.exit is None for item in self.listed(context.agent_id)) >= MAX_RUNNING:
            raise ToolError(f"{MAX_RUNNING} commands are running already", cure="end some with process kill")
        ident = self._ids.short()
        while ident in self._all:
            ident = self._ids.uuid()[:8]
        order = process.Order(plan.argv, plan.cwd, plan.env, f"{ident}-{self._ids.uuid()[:8]}", tty=tty, stdin=stdin)
        self._before()
        since = time.time_ns()
        if not plan.on_host:
            kind: Kind = "alone" if plan.apart else "shared"
            held = self._claims.take(kind, [path for path, writable in roots(plan.spec) if writable], plan.command)
        try:
            item = Running(ident, plan, context, await process.start(plan.spec, order))
        except BaseException:
            held.release()
            raise
        item.held, item.since_ns = held, since
        self._all[ident] = item
        item.work = asyncio.create_task(self._look_after(item, seconds))
        self._tasks.add(item.work)
        item.work.add_done_callback(self._tasks.discard)
        return item

    async def _look_after(self, item: Running, seconds: float) -> None:
        watching = asyncio.create_task(self._watch_disk(item))
        try:
            async with asyncio.timeout(seconds or None):
                async for block in item.child.output():
                    item.output.add(block)
                    item.pending.add(block)
                    item.printed += len(block)
                    item.fresh.set()
                    if item.printed > MAX_PRINTED:
                        item.stopped = item.stopped or f"it printed more than {MAX_PRINTED >> 20} MB"
                        break
                else:
                    item.exit = await item.child.wait()
        except TimeoutError:
            item.stopped = item.stopped or f"it took longer than {seconds:g} seconds"
        finally:
            if item.exit is None:
                item.stopped = item.stopped or "its session ended"
                await item.child.kill()
                item.exit = await item.child.wait()
            watching.cancel()
            item.child.close()
            item.held.release()
            item.ended_at = self._clock.monotonic()
            item.fresh.set()
            item.done.set()
        self._tell(item)

    async def _watch_disk(self, item: Running) -> None:
        """End a sandboxed command that fills a disk: one that it may write to, or the one with its private folder.

        Half of what is free stays free, whatever the limit. Others may fill the same disk: only when much is gone is it worth
        looking who took it, and what others took is not looked at again.
        """
        spec, limit, since = item.plan.spec, item.plan.spec.limits.disk_bytes, item.since_ns
        if not spec.enforced or not limit:
            return
        places = [path for path, writable in roots(spec) if writable] + [item.child.private] * bool(item.child.private)
        before = {path: self._free_bytes(path) for path in places}
        at_ease = dict(before)  # what would be free had only this command taken something
        while True:
            await asyncio.sleep(DISK_SECONDS)
            for path, free in before.items():
                now, most = self._free_bytes(path), min(limit, free // 2)
                if at_ease[path] - now <= most and now >= free // 4:
                    continue
                began = self._clock.monotonic()
                # Nobody here sees into a container.
                own = None
                if spec.backend is not Backend.DOCKER:
                    own = await asyncio.to_thread(taken, places, item.child.pid, since, most)
                own = free - now if own is None else own
                if is_too_much(free, now, most, own):
                    reason = f"it used more disk space than it may ({limit >> 20} MB, or half)"
                    item.stopped = item.stopped or (reason if own > most else "the disk is nearly full")
                    await item.child.kill()
                    return
                at_ease[path] = now + own
                await asyncio.sleep(
                    10 * (self._clock.monotonic() - began)
                )  # a large folder is not looked through all the time

    def tell(self, notify: Notify) -> None:
        """Name who is told when a background command ends."""
        self._notify = notify

    def _tell(self, item: Running) -> None:
        settings = self.settings(item.agent_id)
        wanted = item.background and not item.quiet and settings.notify_on_exit
        if not wanted or self._notify is None or item.exit is None:
            return
        tail = single_line(item.pending.text()[-400:], 400)
        if item.exit.ok and not tail and not settings.notify_on_exit_empty_success:
            return
        word = "completed" if item.exit.ok else "failed"
        code = item.exit.code if item.exit.code is not None else f"signal {item.exit.signal}"
        text = f"Exec {word} ({item.id}, code {code}) :: {tail}"
        self._notify(Ended(item.agent_id, item.session, item.id, item.exit.ok, text))

    def listed(self, agent_id: str) -> list[Running]:
        return [item for item in self._all.values() if item.agent_id == agent_id]

    def find(self, agent_id: str, ident: str) -> Running:
        """Return one command of an agent; another agent's does not exist for it."""
        self._forget()
        item = self._all.get(ident)
        if item is None or item.agent_id != agent_id:
            known = ", ".join(other.id for other in self.listed(agent_id)[-10:]) or "none"
            raise ToolError(f"there is no command '{single_line(ident, 40)}'", cure=f"use one of: {known}")
        return item

    def plan_of(self, agent_id: str, ident: str) -> Plan | None:
        item = self._all.get(ident)
        return item.plan if item is not None and item.agent_id == agent_id else None

    async def kill(self, item: Running, reason: str) -> None:
        if item.exit is None:
            item.stopped = item.stopped or reason
            await item.child.kill()
            await item.done.wait()

    def drop(self, item: Running) -> None:
        self._all.pop(item.id, None)

    def busy(self, session: str) -> bool:
        return any(item.session == session and item.exit is None for item in self._all.values())

    async def close_session(self, session: str) -> None:
        await self._close([item for item in self._all.values() if item.session == session])

    async def aclose(self) -> None:
        await self._close(list(self._all.values()))
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _close(self, items: list[Running]) -> None:
        for item in items:
            item.background = False
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*(self.kill(item, "its session ended") for item in items))
        for item in items:
            self.drop(item)

    def _forget(self) -> None:
        now = self._clock.monotonic()
        ended = [item for item in self._all.values() if item.ended_at is not None]
        for at, item in enumerate(reversed(ended)):
            keep = min(max(self.settings(item.agent_id).cleanup_ms / 1000, 60), 10_800)
            if at >= MAX_RECORDS or now - (item.ended_at or 0) > keep:
                self.drop(item)
