"""A session that another process has open: what is said there is told here, and commands are carried out there."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.home import NOW, House, until
from tests.scenarios.script import Line, tool

from homarus import Agent
from homarus.core.cancel import STARTS_OVER, STOPPED, Cancel
from homarus.core.clock import ManualClock, SystemClock
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
from homarus.core.routes import SessionKey
from homarus.runtime.elsewhere import FOLLOW_SECONDS, Tail
from homarus.sessions.store import SessionInfo, SessionStore
from homarus.storage.locks import is_suspended
from homarus.tools.tool import Tool, ToolContext, ToolOutput, said


@asynccontextmanager
async def following(house: House) -> AsyncIterator[tuple[Agent, list[RunEvent], asyncio.Task[None]]]:
    """A second process that follows the main session, and what it heard."""
    async with house.agent(clock=SystemClock()) as agent:
        heard: list[RunEvent] = []
        agent.listen(heard.append)
        task = asyncio.ensure_future(agent.client.follow(agent.key))
        try:
            yield agent, heard, task
        finally:
            task.cancel()


def kinds(events: list[RunEvent]) -> list[type]:
    return [type(event) for event in events]


async def test_what_is_said_there_is_told_here_and_the_session_is_taken_when_it_is_free(tmp_path: Path) -> None:
    house = House(tmp_path, Line("", (("ls", {"path": "."}),)), "looked", "mine now")
    owner = house.agent()
    leave = owner.client.attend(owner.key)
    await owner.client.status(owner.key)
    owner.client.runtime.lane(owner.key)
    async with following(house) as (agent, heard, task):
        assert agent.client.is_elsewhere(agent.key)
        await owner.ask("look around")
        await until(lambda: RunEnded in kinds(heard))
        assert kinds(heard) == [
            *(RunStarted, UserAccepted, MessageEnded, ToolStarted, ToolEnded, MessageEnded, RunEnded)
        ]
        assert isinstance(heard[-1], RunEnded)
        assert (heard[-1].status, heard[-1].text) == ("ok", "looked")
        leave()
        await owner.aclose()
        await asyncio.wait_for(task, 60)
        assert (await agent.ask("and now?")).text == "mine now"
        assert not agent.client.is_elsewhere(agent.key)


async def test_a_command_is_carried_out_by_the_process_that_has_the_session(tmp_path: Path) -> None:
    house = House(tmp_path, "hello")
    async with house.agent() as owner:
        await owner.ask("hi")
        told: list[RunEvent] = []
        owner.listen(told.append)
        leave = owner.client.attend(owner.key)
        async with house.agent(clock=SystemClock()) as other:
            done = await other.send("/pin always be brief")
            assert "brief" in (await other.send("/pins")).text
            assert done.replies
            assert (await other.send("/stop")).text == "Nothing was running."
            asked = await other.ask("//literally")
            assert asked.text == "answer 2"
        leave()
        notices = [event.text for event in told if isinstance(event, Notice)]
        assert "› /pin always be brief (from another terminal)" in notices
        assert list((house.state / "homarus/letters").iterdir()) == []
    assert house.model.prompts == ["hi", "/literally"]


async def test_a_command_that_nobody_there_takes_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    house = House(tmp_path, "hello")
    async with house.agent() as owner, house.agent(clock=SystemClock()) as other:
        await owner.ask("hi")
        owner.client.runtime.letters.changed = lambda: False  # a program whose loop stands still
        for words in ("/pin this", "/stop", "stop"):
            with pytest.raises(Locked, match=rf"process {os.getpid()}\) does not answer, so nothing was done"):
                await other.send(words)
        assert "owner" in (await other.send("/whoami")).text  # what needs no session works all the same
    assert list((house.state / "homarus/letters").iterdir()) == []


async def test_a_program_that_does_not_stay_is_named_and_stopped_from_elsewhere(tmp_path: Path) -> None:
    house = House(tmp_path, Line("half", hang=True))
    other = house.agent(clock=SystemClock())

    async def one_shot() -> str:
        async with house.agent() as owner:
            return (await owner.ask("hi")).status

    asked = asyncio.ensure_future(one_shot())
    await until(lambda: house.model.active == 1)
    async with other:
        assert "test run" in (await other.send("/name test run")).text
        assert (await other.send("/stop")).text == "Stopped."
        assert await asyncio.wait_for(asked, 60) == "aborted"
    assert house.row()["label"] == "test run"
    assert list((house.state / "homarus/letters").iterdir()) == []


@contextmanager
def suspended(path: Path) -> Iterator[int]:
    """Another process that has a transcript open and is suspended, as by Ctrl-Z."""
    code = f"""
import time
from datetime import UTC, datetime
from pathlib import Path
from homarus.sessions.places import own
held = own(Path({str(path)!r}), datetime.now(UTC))
print("held", flush=True)
time.sleep(600)
"""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        process.send_signal(signal.SIGSTOP)
        while not is_suspended(process.pid):
            time.sleep(0.01)
        yield process.pid
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def test_a_program_that_is_suspended_is_named_with_the_cure(tmp_path: Path) -> None:
    house = House(tmp_path, "hello", "taken over")
    async with house.agent() as first:
        await first.ask("hi")
    with suspended(Path(house.row()["sessionFile"])) as pid:
        async with following(house) as (agent, heard, task):
            await until(lambda: bool(heard))
            told = [event.text for event in heard if isinstance(event, Notice) and event.kind == "warning"]
            assert told == [agent.client.elsewhere.stuck(agent.key)]
            assert f"process {pid}) is suspended" in told[0]
            assert "`fg` in its terminal" in told[0]
            for words in ("/status", "/stop", "/name x"):
                with pytest.raises(Locked, match=rf"process {pid}\) is suspended, so nothing was done \(`fg`"):
                    await agent.send(words)
            await agent.send("are you there?")  # whoever says something is reminded
            assert [event.text for event in heard if isinstance(event, Notice)] == told * 2
            asked = agent.run("and you?")
            notices = [event async for event in _first(asked, 2)]
            assert [event.kind for event in notices if isinstance(event, Notice)] == ["queued", "warning"]
            await asked.aclose()
            heard.clear()
            os.kill(pid, signal.SIGCONT)
            await until(lambda: bool(heard))
            assert heard == [Notice("the other program goes on")]
            os.kill(pid, signal.SIGKILL)
            await asyncio.wait_for(task, 60)
            await agent.client.runtime.lane(agent.key).idle()
    assert house.model.prompts == ["hi", "are you there?"]


async def _first(events: AsyncIterator[RunEvent], count: int) -> AsyncIterator[RunEvent]:
    for _ in range(count):
        yield await anext(events)


async def test_those_who_follow_see_that_the_session_is_compacted_and_can_end_that(tmp_path: Path) -> None:
    house = House(tmp_path, "hello", "what was asked meanwhile")
    async with house.agent() as owner, following(house) as (agent, heard, _task):
        await owner.ask("hi")
        leave = owner.client.attend(owner.key)
        await until(lambda: RunEnded in kinds(heard))
        heard.clear()
        async with owner.client.runtime.exclusively(owner.key, "compacting"):
            await until(lambda: bool(heard))
            assert kinds(heard) == [RunStarted, ToolProgress]
            assert isinstance(heard[1], ToolProgress)
            assert heard[1].text == "compacting"
            await agent.send("typed meanwhile")
            await until(lambda: owner.client.runtime.lane(owner.key).busy)
            stopping = asyncio.ensure_future(agent.send("/stop"))
            await until(lambda: owner.client.runtime._operations[owner.key].cancelled)
        assert (await asyncio.wait_for(stopping, 60)).text == "Stopped."
        await until(lambda: RunEnded in kinds(heard))
        ended = [event for event in heard if isinstance(event, RunEnded)]
        assert ended[-1].error == STOPPED  # by which a chat knows that what was typed is forgotten
        heard.clear()
        async with owner.client.runtime.exclusively(owner.key, "compacting"):
            await until(lambda: bool(heard))
        await until(lambda: RunEnded in kinds(heard))
        assert kinds(heard) == [RunStarted, ToolProgress, RunEnded]
        leave()
    assert house.model.prompts == ["hi"]


async def test_a_line_that_is_being_written_waits_and_a_fresh_transcript_is_told(tmp_path: Path) -> None:
    house = House(tmp_path, "one", "two")
    async with house.agent() as owner:
        await owner.ask("first")
        tail = Tail(owner.client.home.store("main"), owner.key)
        assert tail.read() == []
        path = Path(house.row()["sessionFile"])
        with path.open("ab") as file:
            file.write(b'{"type":"message","id":"x"')
        assert tail.read() == []
        path.write_bytes(path.read_bytes().removesuffix(b'{"type":"message","id":"x"'))
        await owner.send("/new")
        await owner.ask("second")
        events = tail.read()
        assert events[0] == Notice("the session starts over")
        assert [event.message.text for event in events if isinstance(event, UserAccepted)] == ["second"]


async def test_a_turn_whose_transcript_is_put_away_is_over_for_those_who_follow(tmp_path: Path) -> None:
    house = House(tmp_path, "one", Line("half", hang=True), "three")
    async with house.agent() as owner:
        await owner.ask("first")
        tail = Tail(owner.client.home.store("main"), owner.key)
        await owner.send("second")
        await until(lambda: house.model.active == 1)
        assert kinds(tail.read()) == [RunStarted, UserAccepted]
        await owner.send("/new")
        ended, notice = tail.read()
        assert isinstance(ended, RunEnded)
        assert (ended.status, ended.error) == ("aborted", STARTS_OVER)
        assert notice == Notice("the session starts over")
        await owner.ask("third")
        assert kinds(tail.read()) == [RunStarted, UserAccepted, MessageEnded, RunEnded]


@pytest.mark.parametrize("label", ["", "the trip"])
async def test_a_session_that_starts_over_is_free_for_nobody_meanwhile(tmp_path: Path, label: str) -> None:
    house = House(tmp_path, "hello", "again")

    class Looking(ManualClock):
        """Whenever the owner looks at the time, somebody else looks whether the session is free."""

        other: Agent | None = None

        def now(self) -> datetime:
            if self.other is not None:
                held.append(self.other.client.is_elsewhere(self.other.key))
            return super().now()

    held: list[bool] = []
    clock = Looking(NOW)
    async with house.agent(clock=clock) as owner, house.agent() as other:
        await owner.ask("hi")
        if label:
            await owner.send(f"/name {label}")
        before, clock.other = house.row()["sessionId"], other
        await owner.send("/new")
        clock.other = None
        assert house.row()["sessionId"] != before
        assert held
        assert all(held)
        assert (await owner.ask("once more")).text == "again"


async def test_a_session_that_starts_over_between_two_looks_is_held_all_the_same(tmp_path: Path) -> None:
    house = House(tmp_path, "hello")

    class Slow(SessionStore):
        """Looks, and comes to the lock when the owner has gone on."""

        gone_on = False

        def find(self, key: SessionKey) -> SessionInfo | None:
            found = super().find(key)
            if not self.gone_on:
                self.gone_on = True
                owner.client.home.start_over(key, "new")
            return found

    async with house.agent() as owner, house.agent() as other:
        await owner.ask("hi")
        home = other.client.home
        home._stores["main"] = Slow.of(home.config, "main", clock=home.clock, ids=home.ids)
        assert other.client.is_elsewhere(other.key)


async def test_whoever_has_the_session_answers_also_after_it_changed_hands(tmp_path: Path) -> None:
    house = House(tmp_path, "hello", "from the other one", "and mine again")
    async with house.agent() as first:
        await first.ask("hi")
        first.client.home.sessions.forget(first.key)  # as one that was not used for long is
        other = house.agent()
        leave = other.client.attend(other.key)
        await asyncio.wait_for(other.client.follow(other.key), 60)
        assert (await first.ask("who has it?")).text == "from the other one"
        leave()
        await other.aclose()
        assert (await first.ask("and now?")).text == "and mine again"
    assert house.model.prompts == ["hi", "who has it?", "and now?"]


async def test_a_command_whose_program_ended_is_an_error_also_for_who_took_the_session_over(tmp_path: Path) -> None:
    house = House(tmp_path, "hello")
    async with house.agent() as owner, house.agent(clock=SystemClock()) as other:
        leave = owner.client.attend(owner.key)
        await owner.ask("hi")
        owner.client.runtime.carry_out = lambda _session, _letter, _item: None  # it ends before it comes to that
        sent = asyncio.ensure_future(other.send("/pin this"))
        letters = house.state / "homarus/letters"
        await until(lambda: letters.is_dir() and bool(list(letters.iterdir())))
        await until(lambda: not list(letters.iterdir()))
        leave()
        owner.client.home.sessions.forget(owner.key)
        other.client.runtime.lane(other.key)
        with pytest.raises(HomarusError, match="ended before it answered"):
            await asyncio.wait_for(sent, 60)


def waiting_tool() -> tuple[Tool, asyncio.Event]:
    """A tool that works until it is stopped, and what says that it began."""
    began = asyncio.Event()

    async def work(context: ToolContext, _arguments: dict[str, Any]) -> ToolOutput:
        began.set()
        with context.cancel.interrupting():
            await asyncio.sleep(3600)
        return said("done")

    return tool("work", work), began


async def test_a_turn_that_was_stopped_in_a_call_is_over_for_those_who_follow(tmp_path: Path) -> None:
    house = House(tmp_path, "hello", Line("", (("work", {}),)), "after that")
    work, began = waiting_tool()
    async with house.agent() as owner:
        owner.client.add_tool(work)
        await owner.ask("hi")
        async with following(house) as (_agent, heard, _task):
            await owner.send("work")
            await asyncio.wait_for(began.wait(), 60)
            await until(lambda: ToolStarted in kinds(heard))
            house.clock.advance(5)
            await owner.client.stop(owner.key)
            await until(lambda: RunEnded in kinds(heard))
            call, ended = heard[-2:]
            assert isinstance(call, ToolEnded)
            assert call.seconds == 5
            assert isinstance(ended, RunEnded)
            assert (ended.status, ended.error) == ("aborted", "stopped by the user")
            heard.clear()
            await owner.ask("go on")
            await until(lambda: RunEnded in kinds(heard))
            assert kinds(heard) == [RunStarted, UserAccepted, MessageEnded, RunEnded]


async def test_a_turn_that_cannot_begin_is_over_for_those_who_follow(tmp_path: Path) -> None:
    house = House(tmp_path, "hello")
    async with house.agent() as owner:
        await owner.ask("hi")
        async with following(house) as (_agent, heard, _task):
            await owner.client.patch(owner.key, model_override="/")  # as an older home may hold it
            reply = await owner.ask("hello?")
            assert not reply.ok
            await until(lambda: RunEnded in kinds(heard))
            assert kinds(heard) == [RunStarted, UserAccepted, RunEnded]
            ended = heard[-1]
            assert isinstance(ended, RunEnded)
            assert (ended.status, ended.error) == ("error", reply.error)


async def test_whoever_left_a_message_hears_that_its_turn_was_stopped(tmp_path: Path) -> None:
    house = House(tmp_path, "hello", Line("", (("work", {}),)), "another answer")
    work, began = waiting_tool()
    async with house.agent() as owner, house.agent(clock=SystemClock()) as other:
        owner.client.add_tool(work)
        await owner.ask("hi")
        leave = owner.client.attend(owner.key)
        asked = asyncio.ensure_future(other.ask("work"))
        await asyncio.wait_for(began.wait(), 60)
        await owner.client.stop(owner.key)
        await owner.ask("something else")
        reply = await asyncio.wait_for(asked, 60)
        assert (reply.status, reply.text) == ("aborted", "")
        leave()


async def test_whoever_left_a_message_hears_that_it_was_forgotten_before_its_turn_began(tmp_path: Path) -> None:
    house = House(tmp_path, "hello", "another answer")
    async with house.agent() as owner, house.agent(clock=SystemClock()) as other:
        await owner.ask("hi")
        leave = owner.client.attend(owner.key)
        async with following(house) as (_agent, heard, _task):
            async with owner.client.runtime.exclusively(owner.key):
                asked = asyncio.ensure_future(other.ask("work"))
                await until(lambda: owner.client.runtime.lane(owner.key).busy)
                stopping = asyncio.ensure_future(owner.client.stop(owner.key))
                await asyncio.sleep(0.1)
            await stopping
            reply = await asyncio.wait_for(asked, 60)
            assert (reply.status, reply.text) == ("aborted", "")
            await until(lambda: RunEnded in kinds(heard))
            assert kinds(heard) == [RunEnded]
            assert (await owner.ask("something else")).text == "another answer"
        leave()
    assert house.model.prompts == ["hi", "something else"]


async def test_those_who_follow_are_told_once_what_is_asked_there(tmp_path: Path) -> None:
    house = House(tmp_path, "hello")
    async with house.agent(clock=SystemClock()) as owner:
        await owner.ask("hi")
        leave, toolkit = owner.client.attend(owner.key), owner.client.home.toolkit

        def asking(session: str, summary: str) -> asyncio.Future[str]:
            facts = {"digest": summary, "kind": "exec", "subject": summary, "agent_id": "main", "session": session}
            request = toolkit.approvals.new_request(summary=summary, reason="a command would run", **facts)
            return asyncio.ensure_future(toolkit.approvals.ask(request, toolkit.approvers, Cancel()))

        async with following(house) as (_agent, heard, _task):
            toolkit.approvers.works_for("agent:main:other", str(owner.key))
            asked = [asking("agent:main:other", "not ours"), asking(str(owner.key), "ls /etc")]
            await until(lambda: Notice in kinds(heard))
            await asyncio.sleep(2 * FOLLOW_SECONDS)
            (notice,) = heard
            assert isinstance(notice, Notice)
            assert notice.text.startswith("? ls /etc\na command would run (answer it in the other terminal)")
            for request in toolkit.approvals.read().pending:
                await owner.client.answer(request.id, "deny")
            assert [await each for each in asked] == ["deny", "deny"]
        leave()
