"""The children of a home at work: started, ended, told of, stopped, and taken up after a crash.

A child is a session with a lane of its own. What it came to is a message in its parent's inbox, exactly once: the order is
on disk before the child begins, the end is on disk before the parent is told, and the message's key is the run's own.
Nobody is left behind: with a parent its children end, and with a child its commands.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from homarus.agent.budget import Meter, Spent
from homarus.subagents.book import ChildBook, ChildBooks, Kept
from homarus.agent.open_session import Live
from homarus.agent.outcome import Outcome
from homarus.subagents.child import CHANNEL, ChildEnd, ChildRun, SubagentSettings, task_text, word_for
from homarus.core.clock import Clock, epoch_ms
from homarus.core.errors import HomarusError, ToolError
from homarus.core.events import ChildEnded, ChildStarted
from homarus.core.messages import Inbound
from homarus.core.routes import SessionKey
from homarus.delivery.sanitize import shape
from homarus.queue.inbox import inbox_path
from homarus.queue.lane import SessionLane
from homarus.queue.modes import Overrides
from homarus.queue.settings import Mode
from homarus.sessions.store import SessionStore
from homarus.tools.tool import Taint, ToolContext

if TYPE_CHECKING:
    from homarus.runtime.runtime import Runtime
    from homarus.subagents.archive import Attic
    from homarus.subagents.report import Reports
    from homarus.subagents.plan import Planner, Wish

_log = logging.getLogger(__name__)


class AtWork:
    """A child of this process: its order, and what has happened to it so far. Its taint holds for all of its turns."""

    def __init__(self, run: ChildRun, taint: tuple[str, ...]) -> None:
        self.run = run
        self.key = SessionKey.parse(run.child)
        self.parent = run.parent_key
        self.taint = Taint(taint)
        self.spent = Spent()
        self.meter: Meter | None = None  # of the turn that started it
        self.text = ""
        self.out_of_time = False
        self.timer: asyncio.Task[None] | None = None


class Children:
    """The `Spawner` of a home. The process that owns a parent's session runs its children, and nobody else does."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.books = ChildBooks(runtime.config.paths.own_dir / "children", inbox_path)
        self._at_work: dict[SessionKey, AtWork] = {}
        # What counts the calls of each session's newest turn, for as long as somebody holds it.
        self.meters: WeakValueDictionary[SessionKey, Meter] = WeakValueDictionary()
        self._held: dict[SessionKey, AbstractContextManager[Live]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._closing = False

    # What is known.

    @property
    def clock(self) -> Clock:
        """Return the clock."""
        return self._runtime.clock

    def store(self, agent_id: str) -> SessionStore:
        """Return an agent's sessions."""
        return self._runtime.store(agent_id)

    def waiting(self, context: ToolContext) -> int:
        """Return how many of the caller's children have not reported yet."""
        lane = self._runtime.lanes.get(context.session)
        return self.books.count(context.session) + (lane.reports if lane is not None else 0)

    # Most sessions never have children: what looks after them is loaded with the first one.

    @cached_property
    def _reports(self) -> Reports:
        from homarus.subagents.report import Reports

        return Reports(self._runtime, self.books, self._do)

    @cached_property
    def _attic(self) -> Attic:
        from homarus.subagents.archive import Attic

        return Attic(self._runtime, self.books, lambda work: self._do(work, self._ending), self._quiet_down)

    @cached_property
    def planner(self) -> Planner:
        """Return what says what becomes of an order."""
        from homarus.subagents.plan import Planner

        return Planner(self._runtime, self._runtime.models)

    @property
    def places(self) -> int:
        """Return how many children may be at work at once, in all sessions."""
        return max(1, self._runtime.config.default_agent.block("subagents", SubagentSettings).max_concurrent)

    def is_left(self, key: SessionKey) -> bool:
        """Say whether a session is a child of a process that is gone."""
        return key.is_subagent and key not in self._at_work

    def bounds(self, key: SessionKey) -> AtWork | None:
        """Return what bounds a session that is a child; one of an earlier process is found in its parent's book."""
        if not key.is_subagent or key in self._at_work:
            return self._at_work.get(key)
        info = self._runtime.store(key.agent_id).find(key)
        above = info.entry.spawned_by if info else None
        runs = self.books.look(SessionKey.parse(above)) if above else ()
        kept = next((one for one in reversed(list(runs)) if one.run.child == str(key)), None)
        if kept is None:
            return None
        return AtWork(kept.run, (*kept.run.taint, *(kept.end.taint if kept.end else ())))

    def root_of(self, session: str) -> str:
        """Return the session that a child works for; any other session works for itself."""
        child = next((one for one in self._at_work.values() if one.run.child == session), None)
        return child.run.root if child else session

    # Starting.

    async def spawn(self, context: ToolContext, order: dict[str, Any]) -> dict[str, Any]:
        """Start a child and return at once."""
        model = await self.planner.model(context, order)
        context.cancel.check()
        book = self.books.own(context.session)
        wish = self.planner.plan(context, order, model, len(book.open))
        self._attic.sweep(wish.key.agent_id)
        engine = self._runtime.engine(context.agent_id)
        if not engine.has("prepare_subagent_spawn"):
            return self._start(context, book, wish)
        rollback = await engine.prepare_spawn(self.planner.notice(wish))
        try:
            # Others may have been started meanwhile.
            self.planner.within_limits(context, wish.run.lineage, len(book.open))
            return self._start(context, book, wish)
        except BaseException:
            await rollback()
            raise

    def _start(self, context: ToolContext, book: ChildBook, wish: Wish) -> dict[str, Any]:
        run = wish.run
        book.begin(run)
        child = self._at_work[wish.key] = AtWork(run, run.taint)
        child.meter = self.meters.get(context.session)
        try:
            self._hold(context.session)
            note = self._fork(context, wish) if wish.fork else ""
            self._make_session(wish)
            self._order(child, run.run_id, task_text(wish.task, note), first=True)
            note = " ".join(part for part in (note, wish.note) if part)
        except BaseException as problem:
            self._over(child, self._end(child, "error", f"it could not be started: {problem}", quiet=True))
            if isinstance(problem, HomarusError):
                raise ToolError(f"the sub-agent could not be started: {problem.message}", cure=problem.cure) from None
            raise
        self._runtime.emitter(child.parent)(ChildStarted(run.run_id, run.child, run.name, wish.model))
        said = {"status": "accepted", "runId": run.run_id, "childSessionKey": run.child}
        return {**said, "note": note} if note else said

    def _fork(self, context: ToolContext, wish: Wish) -> str:
        from homarus.subagents.fork import fork_for

        return fork_for(self._runtime, context, wish.key)

    def _make_session(self, wish: Wish) -> None:
        provider, _, model = wish.model.partition("/")
        with self._runtime.opened(wish.key) as live:
            live.update(
                spawned_by=wish.run.parent,
                parent_session_key=wish.run.parent,
                spawn_depth=wish.run.depth,
                label=wish.run.label or None,
                status="running",
                provider_override=provider,
                model_override=model,
                model_override_source="auto",
                thinking_level=wish.thinking or None,
            )

    def _order(self, child: AtWork, ident: str, text: str, *, first: bool = False) -> bool:
        run = child.run
        facts: dict[str, Any] = {"provenance": {"kind": "inter_session", "sourceSessionKey": run.parent}}
        if first:
            facts["runId"] = run.run_id
        if run.seconds is not None:
            facts["seconds"] = run.seconds
        now = epoch_ms(self._runtime.clock.now())
        inbound = Inbound(
            id=ident, channel=CHANNEL, text=text, sender=run.parent, trust=run.trust, timestamp=now, facts=facts
        )
        return self._runtime.submit(child.key, inbound, overrides=Overrides(mode=Mode.STEER)) is not None

    def steer(self, context: ToolContext, kept: Kept, message: str) -> dict[str, Any]:
        """Say something to a child at work; one that was started to stay gets a new task that way."""
        if not message.strip():
            raise ToolError("there is nothing to say", cure="give message")
        child = self._at_work.get(SessionKey.parse(kept.run.child))
        if child is None:
            if not kept.run.lasting or kept.run.parent != str(context.session):
                raise ToolError(f"{kept.run.name} is not at work ({kept.status})", cure="start a new sub-agent")
            return self._again(context, kept.run, message)
        for source in context.taint.sources:
            child.taint.add(source)
        self._order(child, self._runtime.ids.uuid(), message)
        return {"status": "accepted", "runId": kept.run.run_id}

    def _again(self, context: ToolContext, before: ChildRun, message: str) -> dict[str, Any]:
        book = self.books.own(context.session)
        wish = self.planner.again(context, before, message, len(book.open))
        book.begin(wish)
        self._hold(context.session)
        child = self._at_work[SessionKey.parse(wish.child)] = AtWork(wish, wish.taint)
        child.meter = self.meters.get(context.session)
        self._order(child, wish.run_id, task_text(message), first=True)
        return {"status": "accepted", "runId": wish.run_id, "childSessionKey": wish.child}

    async def manage(self, context: ToolContext, action: str, target: str, message: str) -> dict[str, Any]:
        """List, cancel or look at the caller's own children."""
        from homarus.subagents.manage import manage  # what shows transcripts is loaded with the first look

        return await manage(self, context, action, target, message)

    # Ending.

    def began(self, key: SessionKey) -> None:
        """Note that a turn of a session begins: a child's time runs from its first one, not from its order."""
        child = self._at_work.get(key)
        if child is not None and child.timer is None and child.run.seconds:
            child.timer = self._do(self._watch(child, child.run.seconds))

    async def ended(self, key: SessionKey, outcome: Outcome, *, more: bool) -> None:
        """Note that a turn of a session ended; with that a child is done, unless `more` waits or its own children work."""
        child = self._at_work.get(key)
        if child is None:
            return
        child.spent = child.spent.plus(outcome.spent)
        child.text = shape(outcome.text).text or child.text
        if self._closing or more or (outcome.ok and not child.out_of_time and self.books.count(key)):
            return
        if child.out_of_time:
            await self._finish(child, "timeout", f"it took longer than {child.run.seconds:g} seconds")
        else:
            await self._finish(child, word_for(outcome.status), outcome.error)

    async def _finish(self, child: AtWork, status: Any, error: str) -> None:
        self.stop(child.key, "the sub-agent that asked for it ended")
        await self._runtime.toolkit.end_commands(child.key)
        # What ends while everything closes is told by the next start: the child's log has its answer.
        if child.key in self._at_work and not self._closing:
            self._over(child, self._end(child, status, error))

    def _over(self, child: AtWork, end: ChildEnd) -> None:
        """Write an end down and tell the parent; nothing waits in between."""
        if child.timer is not None:
            child.timer.cancel()
        self._at_work.pop(child.key, None)
        book = self.books.own(child.parent)
        if not book.end(end):
            return
        if not end.quiet:
            self._reports.tell(child.run, end)
        self._runtime.emitter(child.parent)(ChildEnded(end.run_id, child.run.child, child.run.name, end.status))
        self._attic.put_away(child.run, end)
        if not book.open:
            self._release(child.parent)

    def _end(self, child: AtWork, status: Any, error: str, *, quiet: bool = False) -> ChildEnd:
        info = self._runtime.store(child.key.agent_id).find(child.key)
        return ChildEnd(
            run_id=child.run.run_id,
            status=status,
            text=child.text,
            error=error,
            ended_ms=epoch_ms(self._runtime.clock.now()),
            usage=child.spent.usage,
            taint=child.taint.sources,
            session_id=info.entry.session_id if info else "",
            transcript=str(info.place.path) if info else "",
            quiet=quiet,
        )

    async def _watch(self, child: AtWork, seconds: float) -> None:
        await self._runtime.clock.sleep(seconds)
        child.timer, child.out_of_time = None, True
        self.stop(child.key, "the sub-agent that asked for it ran out of time")
        lane = self._runtime.lanes.get(child.key)
        if lane is None or not lane.busy:
            await self._finish(child, "timeout", f"it took longer than {seconds:g} seconds")
        else:
            lane.stop("its time is over")

    # Stopping.

    def stop(self, key: SessionKey, reason: str) -> list[SessionKey]:
        """Stop all children of a session, and theirs. They report nothing: whoever stopped them knows."""
        stopped: list[SessionKey] = []
        for child in [one for one in self._at_work.values() if one.parent == key]:
            stopped += [child.key, *self.stop(child.key, reason)]
            self._end_now(child, reason, quiet=True)
        return stopped

    def cancel(self, run_id: str, reason: str, *, quiet: bool = True) -> bool:
        """Stop one child and everything below it; False when it is not at work. Who is not told of it gets a report."""
        child = next((one for one in self._at_work.values() if one.run.run_id == run_id), None)
        if child is None:
            return False
        self.stop(child.key, reason)
        self._end_now(child, reason, quiet=quiet)
        return True

    def _end_now(self, child: AtWork, reason: str, *, quiet: bool) -> None:
        """Write the end down first: what the turn says that is being stopped does not count any more."""
        self._over(child, self._end(child, "error", f"stopped: {reason}", quiet=quiet))
        lane = self._runtime.lanes.get(child.key)
        if lane is not None:
            lane.stop(reason)
        self._do(self._quiet_down(child.key), self._ending)

    async def gone(self, limit: float) -> None:
        """Wait until what was stopped has ended, but no longer than a moment."""
        if self._ending:
            await asyncio.wait(set(self._ending), timeout=limit)

    async def _quiet_down(self, key: SessionKey) -> None:
        lane = self._runtime.lanes.get(key)
        if lane is not None:
            await lane.idle()
        await self._runtime.toolkit.end_commands(key)

    async def aclose(self) -> None:
        """Let go. Children that are at work are cut off, and the next start says so."""
        self._closing = True
        for child in self._at_work.values():
            if child.timer is not None:
                child.timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._ending, return_exceptions=True)
        self.books.close()
        for key in list(self._held):
            self._release(key)

    def take_up(self, key: SessionKey, lane: SessionLane, live: Live) -> None:
        """Settle what an earlier process left of a session's children."""
        if self.books.owns(key) or not self.books.exists(key):
            return
        from homarus.subagents.recover import World, take_up

        world = World(
            now=epoch_ms(self._runtime.clock.now()),
            alone=self.is_left(key),
            stored=live.writer.holds,
            store=self._runtime.store,
            tell=lambda run, end: self._reports.tell(run, end, lane),
            put_away=self._attic.put_away,
        )
        take_up(self.books, key, world)
        self._attic.resume(self.books.own(key))

    # Small things.

    def _hold(self, key: SessionKey) -> None:
        """Keep a parent's session open while its children work, so that no other process can take it over."""
        if key not in self._held:
            self._held[key] = opened = self._runtime.opened(key)
            opened.__enter__()

    def _release(self, key: SessionKey) -> None:
        opened = self._held.pop(key, None)
        if opened is not None:
            opened.__exit__(None, None, None)

    def _do(self, work: Coroutine[Any, Any, None], among: set[asyncio.Task[None]] | None = None) -> asyncio.Task[None]:
        group = self._tasks if among is None else among
        task = asyncio.get_running_loop().create_task(work)
        group.add(task)
        task.add_done_callback(group.discard)
        return task
