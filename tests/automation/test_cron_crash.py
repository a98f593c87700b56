"""A process that ends between any two steps of a run: what is written down of it is what people saw, and each of it once."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.automation.helpers import House, settle, turn_job
from tests.scenarios.chat import Platform
from tests.scenarios.script import Line
from tests.scenarios.test_chat import house

from homarus.automation.jobs import Job, JobBook, Json
from homarus.automation.scheduler import Automation
from homarus.automation.webhooks import HookOrder
from homarus.core.errors import HomarusError, ModelError, ModelFailure
from homarus.core.routes import SessionKey
from homarus.runtime.starter import TurnStarter
from homarus.runtime.switchboard import Switchboard

TARGET = {"mode": "announce", "channel": "fake", "to": "7"}
BROKEN = ModelError(ModelFailure.AUTH, "no such key")


class Killed(Exception):
    """The process ends here."""


class Mortal(TurnStarter):
    """Brings words to people, and may end before or after it did."""

    ends = ""

    async def deliver(
        self, session: SessionKey, target: dict[str, Any], text: str, ident: str, *, said: SessionKey | None = None
    ) -> str:
        if self.ends == "before":
            raise Killed
        done = await super().deliver(session, target, text, ident, said=said)
        if self.ends == "after":
            raise Killed
        return done


class MortalBook(JobBook):
    """Ends instead of writing down what became of a run."""

    def change(self, ident: str, change: Callable[[Job], Json | None]) -> Json | None:
        if "runningAtMs" not in (change(self.find(ident)) or {"state": {}})["state"]:
            raise Killed
        return super().change(ident, change)


@contextlib.asynccontextmanager
async def process(
    home: House, chat: Platform, ends: str = "", *, started: bool = True
) -> AsyncIterator[tuple[Automation, Switchboard]]:
    """One process of a home. Its channels may still be starting, as they are when jobs are taken up."""
    async with home.agent() as agent:
        runtime = agent.client.runtime
        board = Switchboard(agent.client, **chat.given)
        board.join()
        runtime.recover()
        if started:
            await board.start()
        starter = Mortal(runtime)
        starter.ends = ends
        automation = Automation(runtime.home, starter)
        try:
            yield automation, board
        finally:
            await automation.aclose()
            await board.drain(20)
            await board.aclose()


async def run_once(automation: Automation, **more: Any) -> str:
    """Let a job come due and run as far as the process lives; return its id."""
    job = Job(automation.add(turn_job(delivery=TARGET, **more)))
    due = job.next_ms
    automation.cron.begin(job, str(due), dueAtMs=due, trigger="schedule")
    await settle(automation)
    return job.id


async def taken_up(automation: Automation, job_id: str) -> Json:
    automation.cron.take_up()
    await settle(automation)
    (row,) = automation.runs(job_id)
    assert "runningAtMs" not in automation.job(job_id)["state"]
    return row


@pytest.mark.parametrize("ends", ["before", "after"])
@pytest.mark.parametrize("target", [TARGET, {"mode": "announce", "channel": "last"}])
async def test_an_answer_is_brought_once_also_while_the_channels_are_starting(
    tmp_path: Path, ends: str, target: dict[str, Any]
) -> None:
    home, chat = house(tmp_path, "hi", "tea"), Platform()
    async with process(home, chat) as (automation, _board):
        await chat.says("hello")  # so that there is a last chat
        await chat.sees(1)
    async with process(home, chat, ends) as (automation, _board):
        job_id = await run_once(automation)
        automation.cron.book.change(job_id, lambda job: {**job.raw, "delivery": target})
        assert automation.runs(job_id) == []
    async with process(home, chat, started=False) as (automation, board):
        row = await taken_up(automation, job_id)
        await board.start()
        await chat.sees(2)
    assert (row["status"], row["delivered"], row["summary"]) == ("ok", True, "tea")
    assert [(each.to, each.text) for each in chat.shown] == [("7", "hi"), ("7", "tea")]
    assert len(home.model.requests) == 2


async def test_what_was_brought_counts_though_nobody_could_be_reached_there_now(tmp_path: Path) -> None:
    home, chat = house(tmp_path, "tea"), Platform()
    async with process(home, chat, "after") as (automation, _board):
        job_id = await run_once(automation)
        await chat.sees(1)
    async with process(home, chat, started=False) as (automation, board):
        board.config.document["channels"]["fake"]["enabled"] = False
        await board.reload()
        assert board.reaches("fake", "default", "7")
        row = await taken_up(automation, job_id)
    assert (row["status"], row["deliveryStatus"]) == ("ok", "delivered")
    assert chat.texts == ["tea"]


async def test_what_was_brought_counts_though_the_session_of_the_run_is_gone(tmp_path: Path) -> None:
    home, chat = house(tmp_path, "tea"), Platform()
    async with process(home, chat, "after") as (automation, _board):
        job_id = await run_once(automation)
        await chat.sees(1)
    async with process(home, chat) as (automation, board):
        (key,) = [name for name in board._home.store("main").index.rows() if ":cron:" in name]
        board._home.store("main").delete(SessionKey.parse(key))
        row = await taken_up(automation, job_id)
    assert (row["status"], row["delivered"]) == ("ok", True)
    assert "error" not in row
    assert chat.texts == ["tea"]


async def test_what_nobody_saw_is_never_called_delivered(tmp_path: Path) -> None:
    home, chat = house(tmp_path, "tea"), Platform()
    async with process(home, chat, "before") as (automation, _board):
        job_id = await run_once(automation)
    async with process(home, chat) as (automation, board):
        (key,) = [name for name in board._home.store("main").index.rows() if ":cron:" in name]
        board._home.store("main").delete(SessionKey.parse(key))
        row = await taken_up(automation, job_id)
        await board.drain(20)
    assert row["status"] == "error"
    assert "delivered" not in row
    assert [text for text in chat.texts if "tea" in text] == []


@pytest.mark.parametrize("ends", ["before", "after", "book"])
async def test_a_failure_is_told_once_and_the_job_moves_on_once(tmp_path: Path, ends: str) -> None:
    home, chat = house(tmp_path, "hi", Line(error=BROKEN)), Platform()
    async with process(home, chat) as (automation, _board):
        await chat.says("hello")
        await chat.sees(1)
    async with process(home, chat, ends) as (automation, board):
        if ends == "book":
            book = automation.cron.book
            automation.cron.book = MortalBook(book.folder, home.clock, board._home.zone)
        job_id = await run_once(automation)
        (row,) = automation.runs(job_id)
        assert row["status"] == "error"
        assert "runningAtMs" in automation.job(job_id)["state"]
    async with process(home, chat, started=False) as (automation, board):
        assert (await taken_up(automation, job_id))["status"] == "error"
        state = automation.job(job_id)["state"]
        assert (state["consecutiveErrors"], state["lastStatus"]) == (1, "error")
        await board.start()
        await chat.sees(2)
        assert await taken_up(automation, job_id) == row
    told = [text for text in chat.texts if text != "hi"]
    assert len(told) == 1
    assert "failed" in told[0]


@pytest.mark.parametrize("ends", ["before", "after"])
async def test_the_answer_to_a_web_hook_reaches_its_chat_once(tmp_path: Path, ends: str) -> None:
    home, chat = house(tmp_path, "the build is green"), Platform()
    order = HookOrder(action="agent", ident="h1", text="what of the build?", target={"channel": "fake", "to": "7"})
    async with process(home, chat, ends) as (automation, _board):
        assert automation.hook(order) == "h1"
        await settle(automation)
    async with process(home, chat, started=False) as (automation, board):
        automation.take_up()
        await settle(automation)
        await board.start()
        await chat.sees(1)
    async with process(home, chat) as (automation, board):
        automation.take_up()
        await settle(automation)
        await board.drain(20)
    assert chat.texts == ["the build is green"]
    assert len(home.model.requests) == 1


async def test_an_order_of_a_web_hook_that_nobody_can_carry_out_is_not_tried_for_ever(tmp_path: Path) -> None:
    home, chat = house(tmp_path), Platform()
    order = HookOrder(action="agent", ident="h1", text="hello", agent_id="gone")
    async with process(home, chat) as (automation, _board):
        with pytest.raises(HomarusError):
            automation.hook(order)
        assert automation.orders.open() == []
        automation.orders._log.note({"action": "claimed", "runId": "h1", "order": msgspec.to_builtins(order)})
        automation.orders._log.note({"action": "claimed", "runId": "h2", "order": {"action": "from a later version"}})
        assert automation.orders.open() == [order]
        automation.take_up()
        assert automation.orders.open() == []
    assert home.model.requests == []


async def test_an_agent_that_wrote_by_itself_before_a_crash_is_not_quoted_after_it(tmp_path: Path) -> None:
    wrote = Line(calls=(("message", {"action": "send", "channel": "fake", "to": "7", "message": "tea"}),))
    home, chat = house(tmp_path, wrote, "I told them."), Platform()
    async with process(home, chat) as (automation, _board):
        job = Job(automation.add(turn_job(delivery=TARGET)))
        claim = {"ts": 1, "jobId": job.id, "action": "claimed", "runId": "7", "runAtMs": 1}
        automation.cron.log(job.id).note(claim)
        _key, ran = await automation.cron._execute(job, claim)
        assert ran.sent
        await chat.sees(1)
    async with process(home, chat) as (automation, board):
        row = await taken_up(automation, job.id)
        await board.drain(20)
    assert (row["status"], row["deliveryStatus"]) == ("ok", "not-requested")
    assert chat.texts == ["tea"]
