"""Everything that happens without anybody typing, behind one door: jobs, heartbeats, events, web hooks, BOOT.md.

`Automation` can be asked and changed in any process. Only one that stays calls `start`, and of those only one per home runs
anything. Between two due times it does nothing but look at the clock and at its file once a minute: a machine that slept,
or whose clock was set, is noticed by then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from homarus.agent.home import Home
from homarus.automation.cron import CronRunner
from homarus.automation.door import Door
from homarus.automation.events import SystemEvents
from homarus.automation.heartbeat import Heartbeats, beating
from homarus.automation.jobs import Job, Json, new_job, patched
from homarus.automation.orders import HookOrders
from homarus.automation.runs import RunLog, all_finished, sweep
from homarus.automation.schedule import read_schedule
from homarus.automation.settings import ChoreSettings, HeartbeatSettings
from homarus.automation.starter import Ran, Starter
from homarus.automation.webhooks import HookOrder
from homarus.core.clock import epoch_ms
from homarus.core.errors import ConfigError, Denied, HomarusError, Locked, ToolError
from homarus.core.messages import Inbound, Trust
from homarus.core.routes import SessionKind, main_session, named_session
from homarus.core.text import single_line
from homarus.prompt.gather import find_zone
from homarus.storage.atomic import ensure_dir
from homarus.storage.locks import OwnerLock, holder
from homarus.tools.tool import ToolContext

_log = logging.getLogger(__name__)
LONGEST_WAIT = 60.0
TIDY_MS = 86_400_000
STALE_MS = 7_200_000  # a run that another process began longer ago is not at work any more
_LOCAL = frozenset({"", "terminal", "cron", "heartbeat"})
Listener = Callable[[str, Json], None]


class Chore(Protocol):
    """Goes through an agent's notes, to reflect or to dream; returns one line about it."""

    def __call__(self, agent_id: str, /) -> Awaitable[str]: ...


class Automation:
    """The jobs, heartbeats and events of one home."""

    def __init__(self, home: Home, starter: Starter, chores: Mapping[str, Chore] | None = None) -> None:
        """`chores` are named by the block of the configuration that says when (`memory.reflect`, `memory.dreaming`)."""
        self._home = home
        self._starter = starter
        self._chores = dict(chores or {})
        own = home.config.paths.own_dir
        self.events = SystemEvents(own / "events", home.clock, home.ids)
        self.heartbeats = Heartbeats(home, starter, self.events, self._tell)
        self.cron = CronRunner(home, starter, self.events, self.heartbeats.event_turn, self._tell)
        self.orders = HookOrders(own, home, starter, self.events, self._do)
        self._poked = asyncio.Event()
        self._lock_path = own / "automation.lock"
        self._lock: OwnerLock | None = None
        self._door = Door(own / "automation.sock", self._poked.set)
        self._listeners: list[Listener] = []
        self._loop: asyncio.Task[None] | None = None
        self._work: set[asyncio.Task[Any]] = set()
        # Not before the program has been up for a while: it has better things to do then.
        self._tidied = epoch_ms(home.clock.now()) - TIDY_MS + 600_000
        self._chores_next: dict[str, int | None] = {}
        self.wakeups = 0  # how often the timer looked around
        self.next_ms: int | None = None  # when it looks again because something is due; None while nothing will be

    # Life.

    def start(self) -> None:
        """Begin to run what is due, in a process that stays. A second process of the same home waits until this one ends."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while not self._take_lock():
            await self._wait(LONGEST_WAIT)
        self._door.open()
        self.take_up()
        while True:
            self._poked.clear()
            try:
                due = self.tick()
            except (HomarusError, OSError) as problem:  # a full disk, a file that cannot be read: later it may be well
                _log.error("automation waits: %s", problem)
                due = None
            self.next_ms = due
            now = epoch_ms(self._home.clock.now())
            left = LONGEST_WAIT if due is None else max(0.0, min(LONGEST_WAIT, (due - now) / 1000))
            await self._wait(left)

    def take_up(self) -> None:
        """Go on with what an earlier process began."""
        self.cron.take_up()
        self.orders.take_up()

    def look_again(self) -> None:
        """Go by changed settings at once, not only when something is due by the old ones."""
        self._poked.set()

    def tick(self) -> int | None:
        """Begin what is due now and return when something is next, in milliseconds; None when nothing is."""
        self.wakeups += 1
        times = [self.cron.tick(), self.heartbeats.tick(), *map(self._chore, self._chores)]
        self._tidy()
        return min((due for due in times if due is not None), default=None)

    async def _wait(self, seconds: float) -> None:
        """Wait for a while, or until somebody changes something."""
        asleep = asyncio.ensure_future(self._home.clock.sleep(seconds))
        poked = asyncio.ensure_future(self._poked.wait())
        try:
            await asyncio.wait({asleep, poked}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            asleep.cancel()
            poked.cancel()

    def _take_lock(self) -> bool:
        ensure_dir(self._lock_path.parent)
        try:
            self._lock = OwnerLock.acquire(self._lock_path, purpose="automation", now=self._home.clock.now())
        except Locked as held:
            _log.warning("jobs and heartbeats of this home run in another process: %s", held)
            return False
        return True

    @property
    def at_work(self) -> bool:
        """Say whether a run of this process has not ended."""
        return bool(self._work or self.cron.running)

    @property
    def runs_here(self) -> bool:
        return self._lock is not None

    @property
    def runs_anywhere(self) -> bool:
        """Say whether some process runs what is due."""
        return self.runs_here or holder(self._lock_path) is not None

    async def aclose(self) -> None:
        """Stop. What was begun and has not ended is taken up by the next start."""
        tasks = [*self._work, *([self._loop] if self._loop else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._loop = None
        await self.cron.aclose()
        await self.heartbeats.aclose()
        self._door.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tell a listener of jobs (`cron`) and heartbeats (`heartbeat`); returns what takes it off again."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def _tell(self, kind: str, what: Json) -> None:
        for listener in list(self._listeners):
            listener(kind, what)
        self._changed()

    def _changed(self) -> None:
        self._poked.set()
        if not self.runs_here:
            self._door.knock()

    # Jobs.

    def jobs(self, *, disabled: bool = True) -> list[Json]:
        """Return the jobs as they stand in the file, the next one first; `problem` says why one cannot run."""
        found = [job for job in self.cron.book.jobs() if disabled or job.enabled]
        found.sort(key=lambda job: (job.next_ms is None, job.next_ms or 0))
        return [{**job.raw, **({"problem": job.problem} if job.problem else {})} for job in found]

    def job(self, word: str) -> Json:
        return self.cron.book.find(word).raw

    def add(self, given: Json, *, origin: Json | None = None) -> Json:
        """Make a job. Raises ConfigError that names what is wrong; a target that cannot be reached is wrong, too."""
        agent = self._home.config.agent_named(str(given.get("agentId") or ""))
        raw = new_job(
            {**given, "agentId": agent.id},
            self._home.ids.uuid(),
            epoch_ms(self._home.clock.now()),
            host=self._home.zone(agent.id),
            origin=origin,
        )
        self._check_target(Job(raw))
        self.cron.book.add(raw)
        self._tell("cron", {"action": "added", "jobId": raw["id"]})
        return raw

    def update(self, word: str, patch: Json, *, origin: Json | None = None) -> Json:
        """Change some keys of a job; None takes a key away."""
        found = self.cron.book.find(word)

        def change(job: Job) -> Json:
            raw = patched(job, patch, epoch_ms(self._home.clock.now()), origin=origin)
            self._home.config.agent_named(Job(raw).agent_id)
            self._check_target(Job(raw))
            return raw

        done = self.cron.book.change(found.id, change)
        self._tell("cron", {"action": "updated", "jobId": found.id})
        return done or found.raw

    def _check_target(self, job: Job) -> None:
        delivery = job.delivery
        if delivery["mode"] == "announce" and job.kind == "agentTurn" and not delivery.get("bestEffort"):
            session = main_session(job.agent_id, self._home.store(job.agent_id).main_key)
            if problem := self._starter.reaches(session, {"channel": "last", **delivery}):
                raise ConfigError(
                    f"delivery cannot work: {problem}", cure="choose another channel, or delivery.mode none"
                )

    def remove(self, word: str) -> Json:
        """Remove a job. A run of it that is at work comes to its end."""
        job = self.cron.book.find(word)
        self.cron.book.change(job.id, lambda _job: None)
        self._tell("cron", {"action": "removed", "jobId": job.id})
        return job.raw

    def run(self, word: str, *, force: bool = True) -> str:
        """Run a job now, beside its schedule; return the run's id, empty when it is not due and `force` is not set."""
        job = self.cron.book.find(word)
        job.check()
        if not force and not (job.enabled and (job.next_ms or 0) <= epoch_ms(self._home.clock.now())):
            return ""
        begun = job.state.get("runningAtMs")
        recent = isinstance(begun, int) and 0 <= epoch_ms(self._home.clock.now()) - begun < STALE_MS
        if job.id in self.cron.running or (recent and self.runs_anywhere and not self.runs_here):
            raise ToolError(f"the job '{job.name}' runs already", cure="wait until it has ended")
        run_id = f"manual-{self._home.ids.uuid()}"
        self.cron.begin(job, run_id, trigger="manual")
        return run_id

    async def finished(self, word: str) -> Json | None:
        """Wait until a job does not run and return how its newest run ended."""
        job = self.cron.book.find(word)
        while (task := self.cron.running.get(job.id)) is not None:
            await asyncio.wait({task})
        return self.cron.log(job.id).last()

    def runs(self, word: str = "", limit: int = 20) -> list[Json]:
        """Return the newest runs, of one job or of all, newest first."""
        if not word:
            return all_finished(self.cron.runs_folder, limit)
        known = [job.id for job in self.cron.book.jobs() if job.id == word]
        log = RunLog(self.cron.runs_folder, word)
        if not known and not log.path.exists():
            log = RunLog(self.cron.runs_folder, self.cron.book.find(word).id)
        return log.finished(limit)

    def status(self) -> Json:
        """Return how automation stands: jobs, the next wake-up, heartbeats and what they cost today."""
        jobs = self.cron.book.jobs()
        due = [job.next_ms for job in jobs if job.enabled and job.next_ms is not None and not job.problem]
        beats = {
            agent_id: {
                "everyMs": round(settings.seconds * 1000),
                "nextAtMs": self.heartbeats.pulse(agent_id).next_ms or None,
                "stopped": self.heartbeats.pulse(agent_id).stopped or None,
                "last": self.heartbeats.pulse(agent_id).told(),
                "spentToday": msgspec.to_builtins(self.heartbeats.pulse(agent_id).spent),
            }
            for agent_id, settings in beating(self._home.config).items()
        }
        return {
            "enabled": self.cron.settings.enabled,
            "storage": str(self.cron.book.path),
            "problem": self.cron.book.problem or None,
            "running": self.runs_anywhere,
            "jobs": len(jobs),
            "nextWakeAtMs": min(due, default=None),
            "heartbeats": {"enabled": self.heartbeats.pulses.enabled, "agents": beats},
        }

    # Events and wake-ups.

    def wake(
        self,
        text: str,
        *,
        now: bool = True,
        agent_id: str = "",
        session: str = "",
        ident: str = "",
        trust: Trust = Trust.OWNER,
        taint: Sequence[str] = (),
    ) -> bool:
        """Tell a session something: at once by a turn of its own, or with the next turn. False when it is known already."""
        store = self._home.store(self._home.config.agent_named(agent_id).id)
        key = store.key(session)
        added = self.events.add(key, text, ident=f"told:{ident}" if ident else "", trust=trust, taint=taint, wake=now)
        if now and added:
            self.heartbeats.wake(key)
        self._changed()
        return added

    def set_heartbeats(self, on: bool) -> None:
        self.heartbeats.enable(on)
        self._changed()

    async def beat(self, agent_id: str = "") -> Json:
        """Poll an agent now, whatever the hour, and return how that ended."""
        agent = self._home.config.agent_named(agent_id)
        await self.heartbeats.beat(agent.id, agent.block("heartbeat", HeartbeatSettings))
        return self.last_heartbeat(agent.id)

    def last_heartbeat(self, agent_id: str = "") -> Json:
        found = self.heartbeats.pulse(agent_id or self._home.config.default_agent.id)
        return found.told() if found.last_ms else {}

    # Web hooks, BOOT.md, and the nightly look at the notes.

    def hook(self, order: HookOrder) -> str:
        """Accept what a web hook asks for, durably; return the id of its run. The order was checked by `webhooks`."""
        if order.action == "wake":
            self.wake(order.text, now=order.now, agent_id=order.agent_id, trust=order.trust, taint=order.taint)
            return order.ident
        self.orders.accept(order)
        return order.ident

    async def boot(self) -> None:
        """Tell hooks that the program has started; `boot-md` then runs each workspace's BOOT.md, if it is switched on."""
        agents = [
            {"agentId": agent.id, "workspaceDir": str(self._home.workspace(agent.id))}
            for agent in self._home.config.agents
        ]
        facts = {"agents": agents, "run_turn": self._boot_turn}
        await self._home.tell("gateway:startup", main_session(self._home.config.default_agent.id), facts)

    async def _boot_turn(self, *, agent_id: str, workspace: Path, prompt: str) -> Ran:
        run_id = self._home.ids.uuid()
        key = named_session(agent_id, SessionKind.BOOT, run_id)
        inbound = Inbound(
            id=run_id,
            channel="boot",
            text=prompt,
            trust=Trust.OWNER,
            timestamp=epoch_ms(self._home.clock.now()),
            facts={"why": "schedule", "provenance": {"kind": "boot"}},
        )
        ran = await self._starter.start(key, inbound)
        await self._starter.release(key)
        if not ran.ok:
            _log.warning("BOOT.md of %s (%s): %s", agent_id, workspace, ran.error or ran.status)
        return ran

    def _chore(self, name: str) -> int | None:
        """Go through the notes when it is time; return when that is next. Without a time it never is."""
        settings = self._home.config.block(name, ChoreSettings)
        if not settings.schedule.strip():
            return None
        zone = find_zone(settings.timezone) or self._home.zone(self._home.config.default_agent.id)
        try:
            schedule = read_schedule({"kind": "cron", "expr": settings.schedule, "staggerMs": 0}, host=zone)
        except ConfigError as problem:
            _log.error("%s.schedule: %s", name, problem)
            return None
        now = epoch_ms(self._home.clock.now())
        due = self._chores_next.get(name)
        if due is not None and due <= now:
            self._do(self._for_all(name))
        if due is None or due <= now or due > (schedule.after(now) or due):
            self._chores_next[name] = schedule.after(now)
        return self._chores_next[name]

    async def _for_all(self, name: str) -> None:
        """Do a chore once for each workspace."""
        seen: set[Path] = set()
        for agent in self._home.config.agents:
            workspace = self._home.workspace(agent.id).resolve()
            if workspace in seen:
                continue
            seen.add(workspace)
            try:
                _log.info("%s of %s: %s", name, agent.id, await self._chores[name](agent.id))
            except HomarusError as problem:
                text = f"Going through the notes failed: {single_line(str(problem), 300)}"
                _log.warning("%s: %s", agent.id, text)
                self.events.add(main_session(agent.id, self._home.store(agent.id).main_key), text)

    # Small things.

    def _tidy(self) -> None:
        """Once a day put away old sessions of runs, and the logs of jobs that are long gone."""
        now = epoch_ms(self._home.clock.now())
        if 0 <= now - self._tidied < TIDY_MS:
            return
        self._tidied = now
        sweep(self.cron.runs_folder, [job.id for job in self.cron.book.jobs()], now / 1000)
        from homarus.sessions.maintenance import tidy
        from homarus.sessions.settings import SessionSettings

        config = self._home.config
        if config.block("session", SessionSettings).maintenance.mode != "enforce":
            return
        for agent in config.agents:
            for problem in tidy(config, self._home.store(agent.id), enforce=True)["failed"]:
                _log.warning("%s", problem)

    def _do(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    # The `cron` tool.

    async def act(self, context: ToolContext, action: str, job_id: str, job: Json) -> Json:
        """Do what a turn asks for. What it makes has no more rights than it has, and after untrusted words waits for a person."""
        if action == "status":
            return self.status()
        if action == "list":
            return {"jobs": [raw for raw in self.jobs() if Job(raw).agent_id == context.agent_id]}
        others = {
            job.get("agentId") or context.agent_id,
            Job(self.job(job_id)).agent_id if job_id else context.agent_id,
        }
        if others != {context.agent_id}:
            raise Denied("jobs of another agent are that agent's, or a person's", cure="a person can: homarus cron")
        if action == "runs":
            return {"entries": [row for row in self.runs(job_id) if job_id or self._is_of(context.agent_id, row)]}
        if action == "wake":
            return {"ok": self.wake(str(job.get("text") or ""), agent_id=context.agent_id, taint=context.taint.sources)}
        if context.restricted and action == "run":
            raise ToolError("jobs are not run after untrusted text was read", cure="the owner can: homarus cron run")
        if action == "run":
            return {"ok": True, "enqueued": True, "runId": self.run(job_id)}
        if action == "remove":
            return {"ok": True, "removed": self.remove(job_id)["id"]}
        return self._made(context, action, job_id, job)

    def _is_of(self, agent_id: str, row: Json) -> bool:
        return str(row.get("sessionKey") or "").startswith(f"agent:{agent_id}:")

    def _made(self, context: ToolContext, action: str, job_id: str, job: Json) -> Json:
        origin: Json = {"trust": context.trust.value, "taint": list(context.taint.sources)}
        if context.route.channel not in _LOCAL:
            origin["tools"] = list(context.tools)
        job = dict(job)
        if context.restricted:
            job["enabled"] = False
        if job.get("sessionTarget") == "current":
            job["sessionTarget"] = f"session:{context.session}"
        if action == "add":
            done = self.add({"agentId": context.agent_id, **job}, origin=origin)
        else:
            done = self.update(job_id, job, origin=origin)
        notes = []
        if context.restricted:
            notes.append(
                f"it is off, because this turn read untrusted text; the owner can: homarus cron enable {done['id']}"
            )
        if not self.runs_anywhere:
            notes.append("no gateway runs now; jobs run while one does")
        return {**done, **({"note": "; ".join(notes)} if notes else {})}
