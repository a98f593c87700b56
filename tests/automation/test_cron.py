"""Jobs in a whole home with a scripted model: each due time once, told when it fails, never with more rights than its maker."""

import itertools
import json
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.automation.helpers import (
    House,
    automation_of,
    event_job,
    in_,
    now_ms,
    pass_time,
    settle,
    stored_jobs,
    turn_job,
)
from tests.scenarios.script import Line

from homarus.automation.jobs import Job
from homarus.automation.runs import CLAIMED, FINISHED
from homarus.core.clock import ManualClock
from homarus.core.errors import ConfigError, ModelError, ModelFailure, Unknown
from homarus.core.routes import main_session

MAIN = main_session("main")


async def test_a_job_runs_at_its_times_in_a_session_of_each_run(tmp_path: Path) -> None:
    home = House(tmp_path, "nothing new")
    async with home.agent() as agent:
        automation = automation_of(agent)
        job = automation.add(turn_job())
        assert automation.tick() == now_ms(home) + 3_600_000
        await pass_time(home, automation, 3 * 3600)
        rows = automation.runs(job["id"])
    assert [row["status"] for row in rows] == ["ok"] * 3
    assert len({row["sessionKey"] for row in rows}) == 3
    assert home.model.prompts[0] == f"[cron:{job['id']} mail] look at the mail"
    assert len(home.model.requests) == 3
    assert rows[0]["usage"]["calls"] == 1
    state = stored_jobs(home)[0]["state"]
    assert state["lastStatus"] == "ok"
    assert "runningAtMs" not in state
    assert state["nextRunAtMs"] == now_ms(home) + 3_600_000


async def test_its_answer_reaches_the_main_session_of_a_home_without_channels(tmp_path: Path) -> None:
    home = House(tmp_path, "two letters from Anna", "read them")
    async with home.agent() as agent:
        automation = automation_of(agent)
        automation.add(turn_job())
        await pass_time(home, automation, 3600)
        await agent.ask("and?")
    (carrier,) = [m.context for m in home.model.requests[1].messages if getattr(m, "context", "")]
    assert "two letters from Anna" in carrier
    assert automation.runs()[0]["deliveryStatus"] == "delivered"
    assert not automation.events.waiting(MAIN)


async def test_silence_is_not_delivered(tmp_path: Path) -> None:
    home = House(tmp_path, "NO_REPLY", "**HEARTBEAT_OK**")
    async with home.agent() as agent:
        automation = automation_of(agent)
        automation.add(turn_job())
        await pass_time(home, automation, 7200)
        assert not automation.events.waiting(MAIN)
        assert [row["deliveryStatus"] for row in automation.runs()] == ["not-requested"] * 2


async def test_a_machine_that_slept_for_a_day_runs_once_and_says_what_was_missed(tmp_path: Path) -> None:
    home = House(tmp_path)
    async with home.agent() as agent:
        automation = automation_of(agent)
        automation.add(turn_job())
        automation.tick()
        home.clock.advance(86_400)
        for _ in range(5):
            automation.tick()
            await settle(automation)
        rows = automation.runs()
    assert len(rows) == 1
    assert rows[0]["missed"] == 23
    context = home.model.requests[0].messages[0].context
    assert "comes late" in context
    assert "23 later times were missed" in context


async def test_missed_times_can_be_left_out_and_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home = House(tmp_path, config={"cron": {"skipMissedJobs": True}})
    async with home.agent() as agent:
        automation = automation_of(agent)
        automation.add(turn_job())
        automation.tick()
        home.clock.advance(7300)
        automation.tick()
        await settle(automation)
        rows = automation.runs()
    assert [row["status"] for row in rows] == ["skipped"]
    assert "missed" in rows[0]["error"]
    assert "did not run" in caplog.text
    assert not home.model.requests


async def test_a_clock_that_is_set_back_repeats_nothing(tmp_path: Path) -> None:
    home = House(tmp_path)
    async with home.agent() as agent:
        automation = automation_of(agent)
        automation.add(turn_job(schedule={"kind": "cron", "expr": "30 12 * * *", "tz": "UTC"}))
        await pass_time(home, automation, 3600)
        assert len(automation.runs()) == 1
        home.clock.set(datetime(2026, 5, 1, 12, 10, tzinfo=UTC))
        await pass_time(home, automation, 3600)
        assert len(automation.runs()) == 1
        home.clock.set(datetime(2026, 4, 29, 12, 0, tzinfo=UTC))  # two days back: those days still come
        await pass_time(home, automation, 3600)
        assert len(automation.runs()) == 2
        await pass_time(home, automation, 3 * 86_400, step=600)
    assert len(automation.runs()) == 4  # 29 and 30 April, 1 May once, 2 May


@pytest.mark.parametrize(("day", "count"), [(datetime(2026, 3, 28, 12), 3), (datetime(2026, 10, 24, 12), 3)])
async def test_the_change_of_the_clocks_neither_skips_nor_doubles(tmp_path: Path, day: datetime, count: int) -> None:
    home = House(tmp_path)
    home.clock.set(day.replace(tzinfo=ZoneInfo("Europe/Berlin")))
    async with home.agent() as agent:
        automation = automation_of(agent)
        automation.add(turn_job(schedule={"kind": "cron", "expr": "30 2 * * *", "tz": "Europe/Berlin"}))
        await pass_time(home, automation, 3 * 86_400, step=600)
        assert len(automation.runs()) == count


async def test_one_shots_go_after_success_and_stay_after_failure(tmp_path: Path) -> None:
    home = House(tmp_path, "done", Line(error=ModelError(ModelFailure.AUTH_PERMANENT, "the key is wrong")))
    async with home.agent() as agent:
        automation = automation_of(agent)
        first = automation.add(turn_job(schedule={"kind": "at", "at": in_(home, 600)}))
        second = automation.add(turn_job(schedule={"kind": "at", "at": in_(home, 1200)}))
        kept = automation.add(turn_job(schedule={"kind": "at", "at": in_(home, 1800)}, deleteAfterRun=False))
        await pass_time(home, automation, 3600)
        assert [job["id"] for job in stored_jobs(home)] == [second["id"], kept["id"]]
        assert [job["enabled"] for job in stored_jobs(home)] == [False, False]
        assert automation.runs(first["id"])[0]["status"] == "ok"  # its runs can still be looked at
        told = [item.text for item in automation.events.waiting(MAIN)]
    assert any("failed" in text and "the key is wrong" in text for text in told)


async def test_errors_put_the_next_run_off_and_are_told_once_an_hour(tmp_path: Path) -> None:
    failure = Line(error=ModelError(ModelFailure.AUTH_PERMANENT, "the key is wrong"))
    home = House(tmp_path, *[failure] * 20)
    async with home.agent() as agent:
        automation = automation_of(agent)
        job = automation.add(turn_job(schedule={"kind": "every", "everyMs": 60_000}))
        await pass_time(home, automation, 3600)
        rows = automation.runs(job["id"], 50)
        state = stored_jobs(home)[0]["state"]
        told = [item.text for item in automation.events.waiting(MAIN) if "failed" in item.text]
    gaps = [a["runAtMs"] - b["runAtMs"] for a, b in itertools.pairwise(rows)][::-1]
    assert len(rows) < 8
    assert gaps == sorted(gaps)
    assert state["consecutiveErrors"] == len(rows)
    assert len(told) == 1


async def test_a_reminder_for_the_main_session_is_heard_at_once_and_once(tmp_path: Path) -> None:
    home = House(tmp_path, "hello", "Time to call the dentist!")
    async with home.agent() as agent:
        await agent.ask("hi")
        automation = automation_of(agent)
        automation.add(event_job(schedule={"kind": "at", "at": in_(home, 300)}))
        await pass_time(home, automation, 600)
        assert "call the dentist" in home.model.requests[1].messages[-1].context
        assert "System Events" in home.model.requests[1].messages[-1].context
        assert len(home.model.requests) == 2
        assert not stored_jobs(home)
        assert not automation.events.waiting(MAIN)
        await agent.ask("what?")
        assert "call the dentist" not in home.model.requests[2].messages[-1].context
    assert home.row()["lastInteractionAt"] <= now_ms(home)


async def test_an_event_for_the_next_turn_costs_no_call_of_its_own(tmp_path: Path) -> None:
    home = House(tmp_path)
    async with home.agent() as agent:
        automation = automation_of(agent)
        automation.add(event_job(schedule={"kind": "at", "at": in_(home, 300)}, wakeMode="next-heartbeat"))
        await pass_time(home, automation, 600)
        assert not home.model.requests
        await agent.ask("hi")
        assert "call the dentist" in home.model.requests[0].messages[-1].context


async def test_two_runs_of_one_job_never_overlap_and_what_came_meanwhile_is_made_up_for_once(tmp_path: Path) -> None:
    home = House(tmp_path)
    gate = home.model.hold()
    async with home.agent() as agent:
        automation = automation_of(agent)
        job = automation.add(turn_job(schedule={"kind": "every", "everyMs": 60_000}))
        home.clock.advance(60)
        automation.tick()
        await home.model.entered.wait()
        for _ in range(10):
            home.clock.advance(60)
            automation.tick()
        assert home.model.active == 1
        with pytest.raises(Exception, match="runs already"):
            automation.run(job["id"])
        gate.set()
        await settle(automation)
        automation.tick()
        await settle(automation)
        assert len(automation.runs(limit=100)) in {1, 2}
        assert len(home.model.requests) <= 2


async def test_run_by_hand_changes_no_schedule(tmp_path: Path) -> None:
    home = House(tmp_path)
    async with home.agent() as agent:
        automation = automation_of(agent)
        job = automation.add(turn_job(enabled=False))
        run_id = automation.run(job["id"][:8])
        row = await automation.finished(job["id"])
        assert row is not None
        assert row["runId"] == run_id
        assert row["trigger"] == "manual"
        assert not stored_jobs(home)[0]["enabled"]
        assert automation.run(job["id"], force=False) == ""


async def test_a_budget_per_job_and_day(tmp_path: Path) -> None:
    home = House(tmp_path, config={"cron": {"budget": {"calls": 2}}})
    async with home.agent() as agent:
        automation = automation_of(agent)
        automation.add(turn_job())
        await pass_time(home, automation, 4 * 3600)
        assert [row["status"] for row in automation.runs()] == ["skipped", "skipped", "ok", "ok"]
        assert len(home.model.requests) == 2
        await pass_time(home, automation, 86_400, step=1800)
        assert len(home.model.requests) == 4


async def test_a_job_that_nobody_can_hear_is_refused_when_it_is_made(tmp_path: Path) -> None:
    home = House(tmp_path)
    async with home.agent() as agent:
        automation = automation_of(agent)
        with pytest.raises(ConfigError, match="no channel 'telegram'"):
            automation.add(turn_job(delivery={"mode": "announce", "channel": "telegram", "to": "1"}))
        with pytest.raises(ConfigError, match="no agent 'nobody'"):
            automation.add(turn_job(agentId="nobody"))
        with pytest.raises(ConfigError, match="past"):
            automation.add(turn_job(schedule={"kind": "at", "at": "2020-01-01T00:00:00Z"}))
        with pytest.raises(ConfigError, match="isolated"):
            automation.add(event_job(sessionTarget="isolated"))
        with pytest.raises(Unknown, match="no job 'x'"):
            automation.remove("x")
    assert not (home.state / "cron").exists()


async def test_another_programs_file_is_read_and_written_unchanged(tmp_path: Path) -> None:
    home = House(tmp_path)
    (home.state / "cron").mkdir()
    path = home.state / "cron" / "jobs.json"
    foreign = {
        "version": 1,
        "futureTop": {"a": 1},
        "jobs": [
            {"id": "a", "name": "old", "enabled": True, "createdAtMs": 1, "updatedAtMs": 1, "futureKey": [1, "ä"],
             "schedule": {"kind": "every", "everyMs": 3_600_000, "futureSchedule": True},
             "sessionTarget": "isolated", "wakeMode": "now", "isolation": {"postToMainPrefix": "Cron"},
             "payload": {"kind": "agentTurn", "message": "hi", "deliver": False, "bestEffortDeliver": True},
             "state": {"nextRunAtMs": now_ms(home) + 1000, "futureState": {"x": None}}},
            {"id": "broken", "name": "?", "schedule": {"kind": "lunar"}, "payload": {"kind": "script"}},
            "not a job",
        ],
    }  # fmt: skip
    path.write_text(json.dumps(foreign, indent=2, ensure_ascii=False))
    before = path.read_bytes()
    async with home.agent() as agent:
        automation = automation_of(agent)
        assert [job["id"] for job in automation.jobs()] == ["a", "broken"]
        assert "lunar" in automation.jobs()[1]["problem"]
        assert path.read_bytes() == before  # looking changes nothing
        await pass_time(home, automation, 60)
    after = json.loads(path.read_text())
    state = after["jobs"][0].pop("state")
    assert state["lastStatus"] == "ok"
    assert state["futureState"] == {"x": None}
    foreign["jobs"][0].pop("state")
    assert after == foreign
    assert automation.runs("a")[0]["deliveryStatus"] == "not-requested"


async def test_a_damaged_file_runs_nothing_and_is_moved_aside_by_the_next_change(tmp_path: Path) -> None:
    home = House(tmp_path)
    (home.state / "cron").mkdir()
    path = home.state / "cron" / "jobs.json"
    path.write_text('{"version": 1, "jobs": [{"id": "a"')
    async with home.agent() as agent:
        automation = automation_of(agent)
        automation.tick()
        assert "damaged" in automation.status()["problem"]
        assert path.read_text().endswith('"a"')
        automation.add(turn_job())
    (aside,) = path.parent.glob("jobs.json.corrupt.*")
    assert aside.read_text().endswith('"a"')
    assert len(stored_jobs(home)) == 1


async def test_a_claim_that_a_crash_left_is_the_same_run(tmp_path: Path) -> None:
    home = House(tmp_path)
    async with home.agent() as agent:
        automation = automation_of(agent)
        job = Job(automation.add(turn_job()))
        due = job.next_ms
        home.clock.advance(3600)
        row = {"ts": due, "jobId": job.id, "action": CLAIMED, "runId": str(due), "runAtMs": due, "dueAtMs": due}
        automation.cron.log(job.id).note(row)  # the process ended before jobs.json was written
    async with home.agent() as agent:
        automation = automation_of(agent)
        assert automation.cron.take_up() == 1
        automation.tick()
        await settle(automation)
        assert [row["runId"] for row in automation.runs(job.id)] == [str(due)]
        assert len(home.model.requests) == 1
        assert automation.cron.take_up() == 0


async def test_a_claim_that_a_crash_left_makes_up_for_what_was_missed_once(tmp_path: Path) -> None:
    home = House(tmp_path)
    async with home.agent() as agent:
        automation = automation_of(agent)
        job = Job(automation.add(turn_job()))
        due = job.next_ms
        assert due is not None
        home.clock.advance(4 * 3600 + 60)
        row = {"ts": now_ms(home), "jobId": job.id, "action": CLAIMED, "runId": str(due), "runAtMs": now_ms(home)}
        automation.cron.log(job.id).note(row | {"dueAtMs": due, "missed": 3})  # and here the process ended
    async with home.agent() as agent:
        automation = automation_of(agent)
        assert automation.cron.take_up() == 1
        await settle(automation)
        assert automation.tick() == due + 4 * 3_600_000
        await settle(automation)
        assert len(home.model.requests) == 1


@pytest.mark.parametrize("status", ["ok", "skipped"])
async def test_what_a_run_made_up_for_is_not_due_again_when_a_crash_kept_its_end_from_the_job(
    tmp_path: Path, status: str
) -> None:
    home = House(tmp_path)
    async with home.agent() as agent:
        automation = automation_of(agent)
        job = Job(automation.add(turn_job()))
        due = job.next_ms
        assert due is not None
        home.clock.advance(4 * 3600 + 60)
        row = {"ts": now_ms(home), "jobId": job.id, "runId": str(due), "runAtMs": now_ms(home), "dueAtMs": due}
        automation.cron.log(job.id).note({**row, "missed": 3, "action": FINISHED, "status": status})
    async with home.agent() as agent:
        automation = automation_of(agent)
        assert automation.cron.take_up() == 0
        assert automation.tick() == due + 4 * 3_600_000
        await settle(automation)
        assert home.model.requests == []


async def test_time_that_passes_while_a_run_is_begun_skips_none(tmp_path: Path) -> None:
    class Restless(ManualClock):
        """Time goes on with every look at it."""

        def now(self) -> datetime:
            self.advance(0.3)
            return super().now()

    home = House(tmp_path)
    async with home.agent(clock=Restless(home.clock.now())) as agent:
        automation = automation_of(agent)
        job = automation.add(turn_job(schedule={"kind": "every", "everyMs": 1_000}))
        for _ in range(20):
            automation.tick()
            await settle(automation)
        rows = automation.runs(job["id"], limit=100)[::-1]
    assert len(rows) > 5
    for row, after in itertools.pairwise(rows):
        assert after["dueAtMs"] == row["dueAtMs"] + 1_000 * (1 + row.get("missed", 0))


async def test_an_answer_that_was_given_before_a_crash_is_not_asked_for_again(tmp_path: Path) -> None:
    home = House(tmp_path, "the answer")
    async with home.agent() as agent:
        automation = automation_of(agent)
        job = Job(automation.add(turn_job()))
        home.clock.advance(3600)
        claim = {"ts": 1, "jobId": job.id, "action": CLAIMED, "runId": "7", "runAtMs": now_ms(home)}
        automation.cron.log(job.id).note(claim)
        _, ran = await automation.cron._execute(job, claim)
        assert ran.text == "the answer"
    async with home.agent() as agent:
        automation = automation_of(agent)
        automation.cron.take_up()
        await settle(automation)
        (row,) = automation.runs(job.id)
    assert row["status"] == "ok"
    assert row["summary"] == "the answer"
    assert len(home.model.requests) == 1


async def test_the_sessions_of_runs_are_let_go_and_put_away_after_a_day(tmp_path: Path) -> None:
    home = House(tmp_path)
    async with home.agent() as agent:
        automation = automation_of(agent)
        automation.add(turn_job())
        await pass_time(home, automation, 3 * 86_400, step=3600)
        runs = [info for info in agent.client.runtime.home.store("main").list() if info.key.is_cron]
        assert len(runs) <= 49
        assert not list((home.state / "homarus" / "inbox").glob("*cron*"))


async def test_jobs_of_one_home_run_in_one_process_only(tmp_path: Path) -> None:
    home = House(tmp_path)
    async with home.agent() as first, home.agent("other") as second:
        assert automation_of(first)._take_lock()
        assert not automation_of(second)._take_lock()
        assert automation_of(second).runs_anywhere
        assert automation_of(second).status()["running"]
