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
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from homarus.agent.budget import Meter, Spent
from homarus.agent.home import Home
from homarus.agent.open_session import OpenSession
from homarus.agent.outcome import Outcome
from homarus.agent.turn import Bounds
from homarus.core.clock import epoch_ms
from homarus.core.errors import HomarusError, ToolError
from homarus.core.events import ChildEnded, ChildStarted, RunEvent
from homarus.core.messages import Inbound
from homarus.core.routes import SessionKey
from homarus.delivery.sanitize import shape
from homarus.queue.collect import Queued
from homarus.queue.lane import SessionLane
from homarus.queue.modes import Overrides
from homarus.queue.settings import Mode
from homarus.subagents.book import ChildBook, ChildBooks, ChildRecord
from homarus.subagents.child import CHANNEL, ChildEnd, ChildRun, SubagentSettings, child_rules, task_text, word_for
from homarus.tools.exec_settings import ExecRequest
from homarus.tools.tool import Taint, ToolContext

if TYPE_CHECKING:
    from homarus.subagents.archive import ChildArchive
    from homarus.subagents.plan import Planner, SpawnPlan
    from homarus.subagents.report import Reports

_log = logging.getLogger(__name__)


class Host(Protocol):
    """What the running program does for children: it has their home, and the lanes in which their turns wait."""

    @property
    def home(self) -> Home: ...

    def submit(self, key: SessionKey, inbound: Inbound, *, overrides: Overrides | None = None) -> Queued | None:
        """Accept a message into a session's lane; None when it was refused. It is durable when this returns."""

    def lane(self, key: SessionKey) -> SessionLane:
        """Return a session's lane, opening it if need be."""

    def open_lane(self, key: SessionKey) -> SessionLane | None:
        """Return a session's lane if it is open."""

    def drop_lane(self, key: SessionKey) -> None:
        """Let go of the lane of a session that goes away; not while something waits in it."""

    def emit(self, key: SessionKey, event: RunEvent) -> None:
        """Tell the listeners of a session."""


class RunningChild:
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

    def __init__(self, host: Host) -> None:
        self._host = host
        self._home = host.home
        self.books = ChildBooks(host.home.config.paths.own_dir / "children")
        self._at_work: dict[SessionKey, RunningChild] = {}
        self._held: dict[SessionKey, AbstractContextManager[OpenSession]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._closing = False

    # What is known.

    def waiting(self, context: ToolContext) -> int:
        """Return how many of the caller's children have not reported yet."""
        lane = self._host.open_lane(context.session)
        return self.books.count(context.session) + (lane.reports if lane is not None else 0)

    # Most sessions never have children: what looks after them is loaded with the first one.

    @cached_property
    def _reports(self) -> Reports:
        from homarus.subagents.report import Reports

        return Reports(self._host, self.books, self._do)

    @cached_property
    def _archive(self) -> ChildArchive:
        from homarus.subagents.archive import ChildArchive

        return ChildArchive(self._host, self.books, lambda work: self._do(work, self._ending), self._quiet_down)

    @cached_property
    def planner(self) -> Planner:
        from homarus.subagents.plan import Planner

        return Planner(self._home)

    @property
    def places(self) -> int:
        """Return how many children may be at work at once, in all sessions."""
        return max(1, self._home.config.default_agent.block("subagents", SubagentSettings).max_concurrent)

    def is_left(self, key: SessionKey) -> bool:
        """Say whether a session is a child of a process that is gone."""
        return key.is_subagent and key not in self._at_work

    def bounds(self, key: SessionKey) -> Bounds | None:
        """Return what bounds the turns of a session that is a child; None for any other."""
        child = self._child(key)
        if child is None:
            return None
        run = child.run
        return Bounds(
            trust=run.trust,
            taint=child.taint,
            workspace=Path(run.workspace),
            cwd=Path(run.cwd),
            sandbox=run.sandbox,
            depth=run.depth,
            max_depth=run.max_depth,
            lineage=run.lineage,
            root=SessionKey.parse(run.root),
            tools=run.tools,
            env=run.env,
            wish=ExecRequest(security=run.security, ask=run.ask),
            own_folder=run.own_folder,
            rules=child_rules(run),
            above=child.meter,
        )

    def _child(self, key: SessionKey) -> RunningChild | None:
        """Return a child; one of an earlier process is found in its parent's book."""
        if not key.is_subagent or key in self._at_work:
            return self._at_work.get(key)
        info = self._home.store(key.agent_id).find(key)
        above = info.entry.spawned_by if info else None
        runs = self.books.look(SessionKey.parse(above)) if above else ()
        kept = next((one for one in reversed(list(runs)) if one.run.child == str(key)), None)
        if kept is None:
            return None
        return RunningChild(kept.run, (*kept.run.taint, *(kept.end.taint if kept.end else ())))

    # Starting.

    async def spawn(self, context: ToolContext, order: dict[str, Any]) -> dict[str, Any]:
        """Start a child and return at once."""
        model = await self.planner.model(context, order)
        context.cancel.check()
        book = self.books.own(context.session)
        plan = self.planner.plan(context, order, model, len(book.open))
        self._archive.sweep(plan.key.agent_id)
        engine = self._home.engine(context.agent_id)
        if not engine.has("prepare_subagent_spawn"):
            return self._start(context, book, plan)
        rollback = await engine.prepare_spawn(self.planner.notice(plan))
        try:
            # Others may have been started meanwhile.
            self.planner.within_limits(context, plan.run.lineage, len(book.open))
            return self._start(context, book, plan)
        except BaseException:
            await rollback()
            raise

    def _start(self, context: ToolContext, book: ChildBook, plan: SpawnPlan) -> dict[str, Any]:
        run = plan.run
        book.begin(run)
        child = self._begin(context, run)
        try:
            self._hold(context.session)
            note = self._fork(context, plan) if plan.fork else ""
            self._make_session(plan)
            self._order(child, run.run_id, task_text(plan.task, note), first=True)
            note = " ".join(part for part in (note, plan.note) if part)
        except BaseException as problem:
            self._over(child, self._end(child, "error", f"it could not be started: {problem}", quiet=True))
            if isinstance(problem, HomarusError):
                raise ToolError(f"the sub-agent could not be started: {problem.message}", cure=problem.cure) from None
            raise
        self._host.emit(child.parent, ChildStarted(run.run_id, run.child, run.name, plan.model))
        said = {"status": "accepted", "runId": run.run_id, "childSessionKey": run.child}
        return {**said, "note": note} if note else said

    def _begin(self, context: ToolContext, run: ChildRun) -> RunningChild:
        child = RunningChild(run, run.taint)
        child.meter = self._home.meters.get(context.session)
        self._at_work[child.key] = child
        self._home.toolkit.approvers.works_for(run.child, run.root)
        return child

    def _fork(self, context: ToolContext, plan: SpawnPlan) -> str:
        from homarus.subagents.fork import fork_for

        return fork_for(self._home, context, plan.key)

    def _make_session(self, plan: SpawnPlan) -> None:
        provider, _, model = plan.model.partition("/")
        with self._home.opened(plan.key) as live:
            live.update(
                spawned_by=plan.run.parent,
                parent_session_key=plan.run.parent,
                spawn_depth=plan.run.depth,
                label=plan.run.label or None,
                status="running",
                provider_override=provider,
                model_override=model,
                model_override_source="auto",
                thinking_level=plan.thinking or None,
            )

    def _order(self, child: RunningChild, ident: str, text: str, *, first: bool = False) -> bool:
        run = child.run
        facts: dict[str, Any] = {"provenance": {"kind": "inter_session", "sourceSessionKey": run.parent}}
        if first:
            facts["runId"] = run.run_id
        if run.seconds is not None:
            facts["seconds"] = run.seconds
        now = epoch_ms(self._home.clock.now())
        inbound = Inbound(
            id=ident, channel=CHANNEL, text=text, sender=run.parent, trust=run.trust, timestamp=now, facts=facts
        )
        return self._host.submit(child.key, inbound, overrides=Overrides(mode=Mode.STEER)) is not None

    def steer(self, context: ToolContext, kept: ChildRecord, message: str) -> dict[str, Any]:
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
        self._order(child, self._home.ids.uuid(), message)
        return {"status": "accepted", "runId": kept.run.run_id}

    def _again(self, context: ToolContext, before: ChildRun, message: str) -> dict[str, Any]:
        book = self.books.own(context.session)
        plan = self.planner.again(context, before, message, len(book.open))
        book.begin(plan)
        self._hold(context.session)
        child = self._begin(context, plan)
        self._order(child, plan.run_id, task_text(message), first=True)
        return {"status": "accepted", "runId": plan.run_id, "childSessionKey": plan.child}

    async def manage(self, context: ToolContext, action: str, target: str, message: str) -> dict[str, Any]:
        from homarus.subagents.manage import manage  # what shows transcripts is loaded with the first look

        return await manage(self, self._home, context, action, target, message)

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

    async def _finish(self, child: RunningChild, status: Any, error: str) -> None:
        self.stop(child.key, "the sub-agent that asked for it ended")
        await self._home.toolkit.end_commands(child.key)
        # What ends while everything closes is told by the next start: the child's log has its answer.
        if child.key in self._at_work and not self._closing:
            self._over(child, self._end(child, status, error))

    def _over(self, child: RunningChild, end: ChildEnd) -> None:
        """Write an end down and tell the parent; nothing waits in between."""
        if child.timer is not None:
            child.timer.cancel()
        self._at_work.pop(child.key, None)
        self._home.toolkit.approvers.ended(child.run.child)
        book = self.books.own(child.parent)
        if not book.end(end):
            return
        if not end.quiet:
            self._reports.tell(child.run, end)
        self._host.emit(child.parent, ChildEnded(end.run_id, child.run.child, child.run.name, end.status))
        self._archive.put_away(child.run, end)
        if not book.open:
            self._release(child.parent)

    def _end(self, child: RunningChild, status: Any, error: str, *, quiet: bool = False) -> ChildEnd:
        info = self._home.store(child.key.agent_id).find(child.key)
        return ChildEnd(
            run_id=child.run.run_id,
            status=status,
            text=child.text,
            error=error,
            ended_ms=epoch_ms(self._home.clock.now()),
            usage=child.spent.usage,
            taint=child.taint.sources,
            session_id=info.entry.session_id if info else "",
            transcript=str(info.place.path) if info else "",
            quiet=quiet,
        )

    async def _watch(self, child: RunningChild, seconds: float) -> None:
        await self._home.clock.sleep(seconds)
        child.timer, child.out_of_time = None, True
        self.stop(child.key, "the sub-agent that asked for it ran out of time")
        lane = self._host.open_lane(child.key)
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

    def _end_now(self, child: RunningChild, reason: str, *, quiet: bool) -> None:
        """Write the end down first: what the turn says that is being stopped does not count any more."""
        self._over(child, self._end(child, "error", f"stopped: {reason}", quiet=quiet))
        lane = self._host.open_lane(child.key)
        if lane is not None:
            lane.stop(reason)
        self._do(self._quiet_down(child.key), self._ending)

    async def gone(self, limit: float) -> None:
        """Wait until what was stopped has ended, but no longer than a moment."""
        if self._ending:
            await asyncio.wait(set(self._ending), timeout=limit)

    async def _quiet_down(self, key: SessionKey) -> None:
        lane = self._host.open_lane(key)
        if lane is not None:
            await lane.idle()
        await self._home.toolkit.end_commands(key)

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

    def take_up(self, key: SessionKey, lane: SessionLane, live: OpenSession) -> None:
        """Settle what an earlier process left of a session's children."""
        if self.books.owns(key) or not self.books.exists(key):
            return
        from homarus.subagents.recover import take_up
        from homarus.subagents.report import report_key

        alone, book = self.is_left(key), self.books.own(key)
        for kept in take_up(self.books, key, self._home, self._archive.put_away, quiet=alone):
            if alone or live.writer.holds(report_key(kept.run.run_id)):
                book.told(kept.run.run_id)
            elif kept.end is not None:
                self._reports.tell(kept.run, kept.end, lane)
        self._archive.resume(book)

    # Small things.

    def _hold(self, key: SessionKey) -> None:
        """Keep a parent's session open while its children work, so that no other process can take it over."""
        if key not in self._held:
            self._held[key] = opened = self._home.opened(key)
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
