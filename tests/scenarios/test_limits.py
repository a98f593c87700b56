"""What bounds a run besides its budget, and what is said when it has nothing to say."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.home import House
from tests.scenarios.script import Line, tool

from homarus.core.clock import SystemClock
from homarus.core.errors import Denied
from homarus.core.events import ApprovalAsked, RunEvent
from homarus.core.tools import Risk
from homarus.tools.tool import Tool, ToolContext, ToolOutput, said


async def test_a_model_that_hangs_is_ended_by_the_limit_of_the_run(tmp_path: Path) -> None:
    house = House(tmp_path, Line(hang=True), "later")
    async with house.agent(clock=SystemClock()) as agent:
        reply = await asyncio.wait_for(agent.ask("hello", seconds=0.05), 120)
        assert reply.status == "timeout"
        assert "0.05 seconds" in reply.error
        assert house.row()["abortedLastRun"] is True
        assert (await agent.ask("and now?")).text == "later", "the session goes on"


async def test_a_tool_that_hangs_is_ended_by_the_limit_and_has_a_result(tmp_path: Path) -> None:
    house = House(tmp_path, "hello", Line("", (("wait", {}),)), "done")
    ended: list[str] = []

    async def wait(context: ToolContext, _arguments: dict[str, Any]) -> ToolOutput:
        try:
            with context.cancel.interrupting():
                await asyncio.sleep(3600)
        finally:
            ended.append("ended")
        return said("never")

    async with house.agent(clock=SystemClock()) as agent:
        agent.client.runtime.home.toolkit.add(tool("wait", wait))
        await agent.ask("hello")  # what is loaded once takes longer than some machines have within the limit
        reply = await asyncio.wait_for(agent.ask("work", seconds=2), 120)
    assert reply.status == "timeout"
    assert ended == ["ended"]
    kinds = [line["message"]["role"] for line in house.transcript() if line["type"] == "message"]
    assert kinds[2:] == ["user", "assistant", "toolResult"]


async def test_the_configured_limit_holds_and_zero_is_for_ever(tmp_path: Path) -> None:
    house = House(tmp_path, Line(hang=True), config={"agents": {"defaults": {"timeoutSeconds": 0.05}}})
    async with house.agent(clock=SystemClock()) as agent:
        assert (await asyncio.wait_for(agent.ask("hello"), 120)).status == "timeout"
        house.model.lines = []
        gate = house.model.hold()
        turn = asyncio.ensure_future(agent.ask("take your time", seconds=0))
        await asyncio.sleep(0.2)
        assert not turn.done()
        gate.set()
        assert (await turn).status == "ok"


async def test_the_clock_of_a_run_stands_still_while_a_person_is_asked(tmp_path: Path) -> None:
    config = {"agents": {"defaults": {"sandbox": {"mode": "off"}}}}
    house = House(tmp_path, "hello", Line("", (("exec", {"command": "true"}),)), "done", config=config)
    async with house.agent(clock=SystemClock()) as agent:
        await agent.ask("hello")

        def answer(event: RunEvent) -> None:
            if isinstance(event, ApprovalAsked):
                decide = agent.client.runtime.home.toolkit.answer(event.approval_id, "deny")
                asyncio.get_running_loop().call_later(2.2, lambda: asyncio.ensure_future(decide))

        agent.listen(answer)
        leave = agent.client.attend(agent.key)
        begin = time.monotonic()
        reply = await asyncio.wait_for(agent.ask("run it", seconds=2), 120)
        leave()
    assert time.monotonic() - begin > 2.2
    assert (reply.status, reply.text) == ("ok", "done")


async def test_a_turn_without_a_word_after_a_failed_tool_says_what_failed(tmp_path: Path) -> None:
    house = House(tmp_path, Line("", (("nothing_like_it", {}),)), "", "", "")
    async with house.agent() as agent:
        reply = await agent.ask("do it")
    assert reply.ok
    assert reply.text.startswith("nothing_like_it failed: there is no tool")
    assert len(house.model.requests) == 4, "the answer, and two calls for words"


async def test_a_program_may_change_or_refuse_a_call_before_the_gate(tmp_path: Path) -> None:
    calls = (("echo", {"x": "plain"}), ("echo", {"x": "secret"}), ("echo", {"x": "odd"}))
    house = House(tmp_path, Line("", calls), "done")

    async def check(_tool: Tool, arguments: dict[str, Any], _context: ToolContext) -> dict[str, Any]:
        if arguments["x"] == "secret":
            raise Denied("not that")
        return {"x": 7, "y": 1} if arguments["x"] == "odd" else {"x": "changed"}

    async with house.agent() as agent:
        agent.client.runtime.home.toolkit.add(tool("echo", risk=Risk.READ))
        agent.client.runtime.home.toolkit.before_call(check)
        await agent.ask("go")
    results = [line["message"] for line in house.transcript() if line.get("message", {}).get("role") == "toolResult"]
    texts = [result["content"][0]["text"] for result in results]
    assert texts[0] == "echo changed"
    assert texts[1] == "Denied: not that"
    assert "no argument 'y'" in texts[2], "what a program writes must fit, too"


@pytest.mark.parametrize("seconds", [None, 5.0])
async def test_a_run_in_time_is_not_touched(tmp_path: Path, seconds: float | None) -> None:
    async with House(tmp_path, "fine").agent(clock=SystemClock()) as agent:
        assert (await agent.ask("hello", seconds=seconds)).text == "fine"
