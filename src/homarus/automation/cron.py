"""Jobs at work: every due time is claimed on disk, run once, delivered, and written down with how it ended.

A run's id is its due time, and its message carries that id into the durable inbox of its session. So whatever a crash cuts
off is taken up as the same run, and neither skipped nor done twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from homarus.agent.budget import Spent, exceeded
from homarus.agent.home import Home
from homarus.automation.events import SystemEvents
from homarus.automation.jobs import ORIGIN, Job, JobBook, Json
from homarus.automation.runs import CLAIMED, FINISHED, MAX_SUMMARY, RunLog
from homarus.automation.schedule import whole
from homarus.automation.settings import CronSettings
from homarus.automation.starter import Ran
from homarus.core.clock import epoch_ms
from homarus.core.errors import HomarusError
from homarus.core.messages import Cost, Inbound, Usage
from homarus.core.routes import SessionKey, main_session
from homarus.core.text import single_line
from homarus.delivery.sanitize import shape

if TYPE_CHECKING:
    from homarus.automation.starter import Starter

_log = logging.getLogger(__name__)
CHANNEL = "cron"
BACKOFF_MS = (30_000, 60_000, 300_000, 900_000, 3_600_000)
LATE_MS = 120_000  # what comes later than that was missed: the timer itself may be a minute late
WakeTurn = Callable[[SessionKey, str], Any]


class CronRunner:
    """The jobs of one home in the one process that runs them. `wake_turn` lets a session hear its events at once."""

    def __init__(
        self,
        home: Home,
        starter: Starter,
        events: SystemEvents,
        wake_turn: WakeTurn,
        changed: Callable[[str, Json], None],
    ) -> None:
        self._home = home
        self._starter = starter
        self._events = events
        self._wake_turn = wake_turn
        self._changed = changed
        folder = home.config.paths.state_dir / "cron"
        self.book = JobBook(folder, home.clock, home.zone)
        self.runs_folder = folder / "runs"
        self.running: dict[str, asyncio.Task[None]] = {}
        self._places: tuple[int, asyncio.Semaphore] | None = None
        self._said: set[str] = set()

    @property
    def settings(self) -> CronSettings:
        return self._home.config.block("cron", CronSettings)

    def log(self, job_id: str) -> RunLog:
        return RunLog(self.runs_folder, job_id, self.settings.run_log)

    def take_up(self) -> int:
        """Go on with the runs that an earlier process began; return how many."""
        found = 0
        for job in self.book.jobs() if self.settings.enabled else ():
            log = self.log(job.id)
            claims = log.open_runs()
            for claim in claims:
                found += 1
                self._spawn(job.id, partial(self._run, job, claim))
            last = log.last() if not claims and job.state.get("runningAtMs") else None
            if last is not None:
                self._spawn(job.id, partial(self._conclude, job.id, last))
        return found

    def tick(self) -> int | None:
        """Begin what is due and return when the next job is; None when none is."""
        if self.book.problem and self.book.problem not in self._said:
            self._said.add(self.book.problem)
            _log.error("%s", self.book.problem)
        if not self.settings.enabled:
            return None
        now = self.book.now_ms()
        found = [due for job in self.book.jobs() if (due := self._look_at(job, now)) is not None]
        return min(found, default=None)

    def _look_at(self, job: Job, now: int) -> int | None:
        """Begin a job if it is due; otherwise return when it will be."""
        if not job.enabled or job.id in self.running:
            return None
        if problem := job.problem:
            if f"{job.id}:{problem}" not in self._said:
                self._said.add(f"{job.id}:{problem}")
                _log.error("job %s (%s) cannot run: %s", job.id, job.name, problem)
            return None
        due = self._due(job, now)
        if due is None or due > now:
            return due
        known = self.log(job.id).known()
        while str(due) in known:  # the clock went back, or a crash came between two writes
            following = self._put_next(job, job.schedule.after(max(due, known[str(due)])))
            if following is None or following > now:
                return following
            due = following
        run_id, missed = str(due), job.schedule.missed(due, now)
        claim = {"dueAtMs": due, "missed": missed or None, "trigger": "schedule"}
        if self.settings.skip_missed_jobs and now - due > LATE_MS and not job.one_shot:
            self._skip(job, run_id, claim, "missed: nothing ran at that time, and cron.skipMissedJobs is set")
            return self._put_next(job, job.schedule.after(now))
        self.begin(job, run_id, now=now, **claim)
        return None

    def _due(self, job: Job, now: int) -> int | None:
        """Return a job's next time. One that does not follow from its schedule (any more) is corrected."""
        known, natural = job.next_ms, job.schedule.after(now)
        if known is None:
            ran = job.state.get("lastRunAtMs")
            return self._put_next(job, natural if not job.one_shot else None if ran else job.schedule.at_ms)
        errors = job.errors
        latest = max(natural or 0, now + BACKOFF_MS[-1]) if errors else natural
        if known > now and not job.one_shot and latest is not None and known > latest:
            return self._put_next(job, natural)  # the clock was set back, or the schedule was edited
        if known > now and not errors and natural is not None and known < natural:
            return self._put_next(job, natural)
        return known

    def _put_next(self, job: Job, due: int | None) -> int | None:
        if due != job.next_ms:
            self.book.change(job.id, lambda found: found.with_state(nextRunAtMs=due))
        return due

    def begin(self, job: Job, run_id: str, *, now: int | None = None, **claim: Any) -> None:
        """Claim a run, durably, and start it. The next one follows the moment at which this was found due, `now`."""
        now = self.book.now_ms() if now is None else now
        row = {"ts": now, "jobId": job.id, "action": CLAIMED, "runId": run_id, "runAtMs": now, **claim}
        self.log(job.id).note(row)
        manual = claim.get("trigger") == "manual"

        def running(found: Job) -> Json:
            due = found.next_ms if manual else found.schedule.after(now)
            return found.with_state(runningAtMs=now, nextRunAtMs=due)

        self.book.change(job.id, running)
        self._spawn(job.id, partial(self._run, job, row))

    def _spawn(self, job_id: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        before = self.running.get(job_id)

        async def work() -> None:
            if before is not None:
                await asyncio.wait({before})  # two runs of one job never overlap
            await run()

        task = asyncio.get_running_loop().create_task(work())
        self.running[job_id] = task
        task.add_done_callback(lambda done: self._ended(job_id, done))

    def _ended(self, job_id: str, task: asyncio.Task[None]) -> None:
        if self.running.get(job_id) is task:
            del self.running[job_id]
        if not task.cancelled() and (problem := task.exception()):
            _log.error(
                "job %s: its run could not be finished and is taken up at the next start", job_id, exc_info=problem
            )
        self._changed("cron", {"action": "settled", "jobId": job_id})

    async def _run(self, job: Job, claim: Json) -> None:
        most = self.settings.max_concurrent_runs
        if self._places is None or self._places[0] != most:
            self._places = (most, asyncio.Semaphore(most))
        async with self._places[1]:
            self._changed("cron", {"action": "started", "jobId": job.id, "runId": claim["runId"]})
            if over := self._over_budget(job):
                self._skip(job, claim["runId"], claim, f"budget: {over}")
                return
            key, ran = await self._execute(job, claim)
            row = self._row(job, claim, ran, key)
            row |= await self._delivered(job, claim, ran)
        self.log(job.id).note(row)
        await self._conclude(job.id, row)
        if job.target == "isolated":
            await self._starter.release(key)
        self._changed("cron", row)

    async def _execute(self, job: Job, claim: Json) -> tuple[SessionKey, Ran]:
        run_id = str(claim["runId"])
        try:
            self._home.config.agent_named(job.agent_id)
            key = job.session(run_id, self._home.store(job.agent_id).main_key)
            if job.kind == "systemEvent":
                return key, await self._event(job, key, run_id)
            return key, await self._starter.start(key, self._inbound(job, claim))
        except HomarusError as problem:
            return main_session(job.agent_id), Ran(status="error", error=str(problem))

    async def _event(self, job: Job, key: SessionKey, run_id: str) -> Ran:
        """Tell a session; with `wakeMode: now` at once. Its words are in the transcript then, and are told from there."""
        ident = f"cron:{job.id}:{run_id}"
        self._events.add(key, job.text, ident=ident, trust=job.trust, taint=job.taint)
        ran: Ran | None = await self._wake_turn(key, ident) if job.wakes_now else None
        return ran or Ran(status="ok", text=job.text)

    def _inbound(self, job: Job, claim: Json) -> Inbound:
        payload = job.payload
        facts: Json = {
            "why": "schedule",
            "model": payload.get("model"),
            "thinking": payload.get("thinking"),
            "seconds": job.seconds,
            "tools": list(job.tools) if job.tools is not None else None,
            "light": payload.get("lightContext") is True or None,
            "taint": list(job.taint) or None,
            "provenance": {"kind": "cron", "jobId": job.id, "runId": str(claim["runId"])},
            "notes": self._lateness(job, claim),
        }
        return Inbound(
            id=f"{job.id}:{claim['runId']}",
            channel=CHANNEL,
            text=f"[cron:{job.id} {job.name}] {job.text}",
            sender=CHANNEL,
            trust=job.trust,
            timestamp=int(claim["runAtMs"]),
            facts={key: value for key, value in facts.items() if value is not None},
        )

    def _lateness(self, job: Job, claim: Json) -> list[tuple[str, str]] | None:
        due, missed = claim.get("dueAtMs"), claim.get("missed")
        if not isinstance(due, int) or (not missed and claim["runAtMs"] - due <= LATE_MS):
            return None
        when = datetime.fromtimestamp(due / 1000, self._home.zone(job.agent_id))
        more = f" {missed} later times were missed, too, and are made up for with this run." if missed else ""
        return [("Schedule", f"This run was due at {when:%Y-%m-%d %H:%M %Z} and comes late.{more}")]

    async def _delivered(self, job: Job, claim: Json, ran: Ran) -> Json:
        """Bring the answer where the job says, and return what became of it."""
        delivery, ident = job.delivery, f"cron:{job.id}:{claim['runId']}"
        if self._starter.delivered(ident):
            # A crash came between this and the note of it. What people saw counts, whatever became of the rest since.
            return {"status": "ok", "error": None, "delivered": True, "deliveryStatus": "delivered"}
        if not ran.ok:
            return {}
        text = shape(ran.text, heartbeat=True).text
        if job.kind == "systemEvent" or delivery["mode"] == "none" or ran.sent or not text:
            return {"deliveryStatus": "not-requested"}
        if delivery["mode"] == "webhook":
            problem = await self._posted(job, claim, text)
        else:
            session = main_session(job.agent_id, self._home.store(job.agent_id).main_key)
            problem = await self._starter.deliver(session, {"channel": "last", **delivery}, text, ident)
        if not problem:
            return {"delivered": True, "deliveryStatus": "delivered"}
        failed = {"delivered": False, "deliveryStatus": "not-delivered", "deliveryError": problem}
        return (
            failed
            if delivery.get("bestEffort")
            else {**failed, "status": "error", "error": f"not delivered: {problem}"}
        )

    async def _posted(self, job: Job, claim: Json, text: str) -> str:
        from homarus.automation.post import post

        body = {"jobId": job.id, "name": job.name, "runId": claim["runId"], "status": "ok", "summary": text}
        token = self._home.config.resolve(self.settings.webhook_token) if self.settings.webhook_token else ""
        # What the owner typed may lie in their own network; a job that a turn made has an origin.
        return await post(job.webhook, body, str(token or ""), own=ORIGIN not in job.raw)

    def _row(self, job: Job, claim: Json, ran: Ran, key: SessionKey) -> Json:
        now, status = self.book.now_ms(), "ok" if ran.ok else "error"
        usage = {
            "input_tokens": ran.usage.input,
            "output_tokens": ran.usage.output,
            "cache_read_tokens": ran.usage.cache_read,
            "cache_write_tokens": ran.usage.cache_write,
            "total_tokens": ran.usage.total,
            "calls": ran.calls,
            "costUsd": round(ran.usage.cost.total, 6),
        }
        return {
            "ts": now,
            "jobId": job.id,
            "action": FINISHED,
            "status": status,
            "error": single_line(ran.error or ran.status, 500) if not ran.ok else None,
            "summary": ran.text[:MAX_SUMMARY] or None,
            "sessionId": ran.session_id or None,
            "sessionKey": str(key),
            "model": ran.model or None,
            "usage": usage if ran.calls else None,
            "durationMs": now - int(claim["runAtMs"]),
            **{name: claim.get(name) for name in ("runId", "runAtMs", "dueAtMs", "missed", "trigger")},
        }

    def _skip(self, job: Job, run_id: str, claim: Json, why: str) -> None:
        """Write down that a due time passes without a run."""
        now = self.book.now_ms()
        given = {name: claim.get(name) for name in ("dueAtMs", "missed", "trigger")}
        row = {"ts": now, "jobId": job.id, "action": FINISHED, "status": "skipped", "error": why, "runId": run_id}
        self.log(job.id).note({**row, "runAtMs": claim.get("runAtMs") or now, "durationMs": 0, **given})
        self.book.change(job.id, lambda found: concluded(found, {**row, "runAtMs": now, **given}, now))
        _log.warning("job %s (%s) did not run: %s", job.id, job.name, why)
        self._changed("cron", row)

    async def _conclude(self, job_id: str, row: Json) -> None:
        """Tell of a failure, and write down that the job runs no more. Cut off before that, the next start does both."""
        job, now = self.book.get(job_id), self.book.now_ms()
        after = concluded(job, row, now) if job is not None else None
        if after is not None and row["status"] == "error":
            await self._alert(Job(after), row)
        self.book.change(job_id, lambda found: concluded(found, row, now))

    async def _alert(self, job: Job, row: Json) -> None:
        """Tell the owner of a failure: of the first in a row, and then now and then."""
        alert, now = self.settings.alert, self.book.now_ms()
        errors, last = max(1, job.errors), whole(job.state.get("lastFailureAlertAtMs")) or 0
        if not alert.enabled:
            return
        if errors < alert.after or (errors > alert.after and 0 <= now - last < alert.cooldown_ms):
            return
        times = f" ({errors} times in a row)" if errors > 1 else ""
        then = "It is switched off now." if not job.enabled else "It will be tried again."
        text = f"The job '{job.name}' failed{times}: {row.get('error')}. {then} See: homarus cron runs {job.id}"
        session = main_session(job.agent_id, self._home.store(job.agent_id).main_key)
        ident = f"cron-alert:{job.id}:{row['runId']}"
        if problem := await self._starter.deliver(session, {"channel": "last"}, text, ident):
            _log.warning("%s (%s)", text, problem)
            self._events.add(session, text, ident=ident)
        self.book.change(job.id, lambda found: found.with_state(lastFailureAlertAtMs=now))

    def _over_budget(self, job: Job) -> str:
        limits = self.settings.budget
        if limits == type(limits)():
            return ""
        zone = self._home.zone(job.agent_id)
        start = self._home.clock.now().astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
        spent = Spent()
        for row in self.log(job.id).finished(1_000):
            if int(row.get("ts") or 0) < epoch_ms(start):
                break
            spent = spent.plus(_spent(row))
        over = exceeded(spent, limits, whose="this job's daily")
        return over.text if over else ""

    async def aclose(self) -> None:
        """Stop waiting. A run that has not ended stays claimed, and the next start takes it up."""
        tasks = list(self.running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def concluded(job: Job, row: Json, now: int) -> Json | None:
    """Return a job after a run: its state, the pause after an error, and what becomes of one that runs once. None: it goes."""
    status, manual = row["status"], row.get("trigger") == "manual"
    errors = 0 if status == "ok" else job.errors + (status == "error")
    try:
        natural, one_shot = job.schedule.after(now), job.one_shot
    except HomarusError:  # it was edited meanwhile
        natural, one_shot = None, False
    # What came due meanwhile is still due. A claim that a crash followed at once has not moved the time on: past all that the
    # run makes up for.
    due = job.next_ms
    if not manual and (due is None or due == row.get("dueAtMs")):
        due = job.schedule.after(max(due, whole(row.get("runAtMs")) or 0)) if due and natural else natural
    if errors and due is not None and not manual:
        due = max(due, now + BACKOFF_MS[min(errors, len(BACKOFF_MS)) - 1])
    raw = job.with_state(
        runningAtMs=None,
        lastRunAtMs=row.get("runAtMs"),
        lastStatus=status,
        lastRunStatus=status,
        lastError=row.get("error"),
        lastDurationMs=row.get("durationMs"),
        lastDeliveryStatus=row.get("deliveryStatus"),
        consecutiveErrors=errors,
        nextRunAtMs=due if job.enabled else None,
    )
    if not one_shot or manual or str(job.schedule.at_ms) != str(row.get("runId")):
        return raw
    if status == "ok" and job.raw.get("deleteAfterRun") is not False:
        return None
    return {**raw, "enabled": False}


def _spent(row: Json) -> Spent:
    usage = row.get("usage")
    found = usage if isinstance(usage, dict) else {}
    tokens = found.get("total_tokens")
    try:
        cost = float(found.get("costUsd") or 0)
    except (TypeError, ValueError):
        cost = 0.0
    calls = found.get("calls")
    return Spent(
        calls if isinstance(calls, int) else 0,
        Usage(input=tokens if isinstance(tokens, int) else 0, cost=Cost(input=cost)),
    )
