"""What stands around jobs and polls: events of commands, web addresses, BOOT.md, the notes, and the logs of runs."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import pytest
from tests.automation.helpers import House, automation_of, event_job, pass_time, settle, turn_job

from homarus.automation.post import post
from homarus.automation.runs import CLAIMED, FINISHED, RunLog, sweep
from homarus.automation.scheduler import Automation
from homarus.automation.settings import RunLogSettings
from homarus.core.routes import main_session
from homarus.tools.processes import Ended

MAIN = main_session("main")


class Web:
    """A server on this machine that keeps what it is told."""

    def __init__(self, status: int = 200) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.heads: list[str] = []
        self._status = status

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/done"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(
            int(line.split(":")[1]) for line in head.lower().split("\r\n") if line.startswith("content-length")
        )
        self.bodies.append(json.loads(await reader.readexactly(length)))
        self.heads.append(head)
        writer.write(f"HTTP/1.1 {self._status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()


async def test_an_answer_is_posted_where_the_owner_says(tmp_path: Path) -> None:
    home = House(tmp_path, "the report", config={"cron": {"webhookToken": "s3cret"}})
    async with Web() as web, home.agent() as agent:
        automation = automation_of(agent)
        job = automation.add(turn_job(delivery={"mode": "webhook", "to": web.url}))
        await pass_time(home, automation, 3660)
        assert automation.runs(job["id"])[0]["deliveryStatus"] == "delivered"
    assert web.bodies == [
        {"jobId": job["id"], "name": "mail", "runId": web.bodies[0]["runId"], "status": "ok", "summary": "the report"}
    ]
    assert "authorization: bearer s3cret" in web.heads[0].lower()


async def test_an_address_that_a_model_wrote_leads_to_no_machine_at_home() -> None:
    async with Web() as web:
        for url in (
            web.url,
            "http://localhost/x",
            "http://127.0.0.1/x",
            "http://[::1]/",
            "http://10.0.0.1/",
            "file:///etc",
        ):
            assert await post(url, {}, "", own=False), url
        assert not web.bodies
        assert await post(web.url, {}, "", own=True) == ""
    assert len(web.bodies) == 1
    async with Web(500) as broken:
        assert "500" in await post(broken.url, {}, "", own=True)
    assert await post("http://127.0.0.1:9/", {}, "", own=True)


async def test_the_end_of_a_background_command_is_told_once(tmp_path: Path) -> None:
    home = House(tmp_path)
    async with home.agent() as agent:
        runtime, automation = agent.client.runtime, automation_of(agent)
        ended = Ended("main", "agent:main:main", "c1", True, "Exec completed (c1, code 0) :: done")
        runtime._command_ended(ended)
        assert not automation.events.waiting(MAIN)  # nobody stays to be told
        runtime.stays = True
        runtime._command_ended(ended)
        runtime._command_ended(ended)
        runtime._command_ended(Ended("main", "agent:main:subagent:x", "c2", True, "of a child"))
        assert [item.text for item in automation.events.waiting(MAIN)] == [ended.text]
        await pass_time(home, automation, 3, step=1)
        assert "code 0" in home.model.requests[0].messages[-1].context
        assert not automation.events.waiting(MAIN)


async def test_boot_md_runs_once_in_a_session_that_is_thrown_away(tmp_path: Path) -> None:
    home = House(tmp_path, config={"hooks": {"internal": {"enabled": True, "entries": {"boot-md": {"enabled": True}}}}})
    home.workspace.mkdir()
    (home.workspace / "BOOT.md").write_text("Look whether the lamp is on.")
    async with home.agent() as agent:
        await automation_of(agent).boot()
        assert len(home.model.requests) == 1
        assert "Look whether the lamp is on." in home.model.prompts[0]
        assert not automation_of(agent).events.waiting(MAIN)


async def test_the_notes_are_gone_through_at_their_time_once_per_workspace(tmp_path: Path) -> None:
    entries = {"main": {"default": True}, "twin": {"workspace": str(tmp_path / ".openclaw" / "workspace")}}
    config = {"memory": {"reflect": {"schedule": "0 3 * * *", "timezone": "UTC"}}, "agents": {"entries": entries}}
    home, seen = House(tmp_path, config=config), []

    async def reflect(agent_id: str) -> str:
        seen.append(agent_id)
        return "fine"

    async with home.agent() as agent:
        runtime = agent.client.runtime
        automation = Automation(runtime.home, runtime.automation._starter, {"memory.reflect": reflect})
        await pass_time(home, automation, 2 * 86_400, step=600)
        await settle(automation)
    assert seen == ["main", "main"]


async def test_reflecting_is_what_the_command_does(tmp_path: Path) -> None:
    home = House(tmp_path, config={"memory": {"reflect": {"schedule": "0 3 * * *"}}})
    (home.workspace / "memory").mkdir(parents=True)
    (home.workspace / "memory" / "2026-05-01.md").write_text("## Retain\n\n- W @Anna: lives in Graz\n")
    async with home.agent() as agent:
        automation = automation_of(agent)
        await pass_time(home, automation, 86_400, step=3600)
        await settle(automation)
    assert not home.model.requests
    assert list((home.workspace / "bank" / "entities").glob("*.md"))


def test_a_log_of_runs_stays_bounded_and_keeps_what_is_open(tmp_path: Path) -> None:
    log = RunLog(tmp_path, "j", RunLogSettings(max_bytes=10_000, keep_lines=100))
    log.note({"ts": 0, "jobId": "j", "action": CLAIMED, "runId": "open", "runAtMs": 0})
    for number in range(500):
        log.note({"ts": number, "jobId": "j", "action": CLAIMED, "runId": str(number), "runAtMs": 0})
        log.note(
            {"ts": number, "jobId": "j", "action": FINISHED, "runId": str(number), "summary": "x" * 200, "status": "ok"}
        )
    assert log.path.stat().st_size < 20_000
    assert [row["runId"] for row in log.open_runs()] == ["open"]
    assert log.finished(3)[0]["runId"] == "499"


@pytest.mark.parametrize("ident", ["../../evil", "a/b", "", "x" * 500, "..", "é\n"])
def test_no_id_of_a_job_leads_out_of_the_folder(tmp_path: Path, ident: str) -> None:
    assert RunLog(tmp_path / "runs", ident).path.parent == tmp_path / "runs"
    RunLog(tmp_path / "runs", ident).note({"action": FINISHED, "runId": "1"})


def test_logs_of_jobs_that_are_gone_go_after_a_month(tmp_path: Path) -> None:
    for ident in ("there", "gone"):
        RunLog(tmp_path, ident).note({"action": FINISHED, "runId": "1"})
    now = datetime.now(UTC).timestamp()
    sweep(tmp_path, ["there"], now)
    assert len(list(tmp_path.iterdir())) == 2
    sweep(tmp_path, ["there"], now + 31 * 86_400)
    assert [path.stem for path in tmp_path.iterdir()] == ["there"]


async def test_a_reminder_for_a_session_that_a_chat_has_open_is_told_there(tmp_path: Path) -> None:
    home = House(tmp_path, "hello", "Tea!")
    async with home.agent() as chat, home.agent("jobs") as service:
        chat.client.attend(chat.key)
        await chat.ask("hi")
        automation = automation_of(service)
        job = automation.add(event_job("tea is ready"))
        automation.run(job["id"])
        row = await automation.finished(job["id"])
        assert row is not None
        assert (row["status"], row["summary"]) == ("ok", "Tea!")
        assert "tea is ready" in home.model.requests[1].messages[-1].context
        assert len(home.model.requests) == 2
        assert not automation.events.waiting(MAIN)


async def test_a_poll_of_a_session_that_a_chat_has_open(tmp_path: Path) -> None:
    config = {"agents": {"defaults": {"heartbeat": {"every": "30m"}}}}
    home = House(tmp_path, "hello", "HEARTBEAT_OK", config=config)
    async with home.agent() as chat, home.agent("jobs") as service:
        chat.client.attend(chat.key)
        await chat.ask("hi")
        automation = automation_of(service)
        assert (await automation.beat())["status"] == "ok"
        assert len(home.model.requests) == 2
        assert await automation.heartbeats.event_turn(MAIN, "nothing-waits") is None
