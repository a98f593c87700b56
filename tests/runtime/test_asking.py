"""`homarus.ask` from several threads: each gets the answer to its own question, and nobody waits for themselves."""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

import homarus
from homarus import Agent, HomarusError, ScriptedModel
from homarus.core.messages import ToolResult
from homarus.core.routes import main_session
from homarus.core.tools import Risk, ToolSpec
from homarus.runtime.asking import in_line, noting
from homarus.tools.tool import Tool, ToolOutput

MAIN = main_session("main")


@pytest.fixture
def env(tmp_path):
    return {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}


class TestTheLine:
    async def test_one_goes_after_the_other_in_the_order_in_which_they_came(self, tmp_path):
        said, waiting = [], []

        async def ask(number):
            with in_line(tmp_path, MAIN) as turn:
                waiting.append(number)
                await turn.comes()
                said.append(number)
                await asyncio.sleep(0)
                said.append(number)

        await asyncio.gather(*map(ask, range(4)))
        assert waiting == [0, 1, 2, 3]
        assert said == [0, 0, 1, 1, 2, 2, 3, 3]

    async def test_one_that_gives_up_lets_the_next_wait_for_those_before(self, tmp_path):
        go, said = asyncio.Event(), []

        async def ask(name, until=None):
            with in_line(tmp_path, MAIN) as turn:
                await turn.comes()
                if until is not None:
                    await until.wait()
                said.append(name)

        tasks = []
        for name, until in (("first", go), ("second", None), ("third", None)):
            tasks.append(asyncio.create_task(ask(name, until)))
            await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.wait(tasks[1:2])
        assert said == []
        go.set()
        await asyncio.wait(tasks)
        assert said == ["first", "third"]

    async def test_another_session_and_another_home_do_not_wait(self, tmp_path):
        with (
            in_line(tmp_path, MAIN),
            in_line(tmp_path, main_session("other")) as one,
            in_line(tmp_path / "x", MAIN) as two,
        ):
            await one.comes()
            await two.comes()

    async def test_a_function_is_refused_by_whatever_name_its_home_goes_and_free_when_it_has_ended(self, tmp_path):
        (tmp_path / "link").symlink_to(tmp_path)
        said, later = [], asyncio.Event()

        async def ask(home):
            with in_line(home, MAIN):
                said.append("free")

        async def ask_later():
            await later.wait()
            await ask(tmp_path)

        async def run(_context, given):
            for home in (tmp_path, tmp_path / "link"):
                with pytest.raises(HomarusError, match="name another session"):
                    await ask(home)
            tasks.append(asyncio.create_task(ask_later()))
            return ToolOutput(())

        tasks = []
        tool = Tool(spec=ToolSpec("f", "", {}), risk=Risk.READ, run=run, group="program")
        await noting(tmp_path, tool).run(SimpleNamespace(session=MAIN), {})
        assert said == []
        later.set()
        await tasks[0]
        assert said == ["free"]


def test_each_thread_gets_the_answer_to_its_own_question(env):
    begun, go = threading.Event(), threading.Event()

    def look() -> None:
        begun.set()
        go.wait(60)

    def ask(number: int) -> str:
        tools, answers = ([look], [("look", {})]) if number == 0 else ([], [])
        model = ScriptedModel(*answers, f"answer {number}")
        return homarus.ask(f"question {number}", env=env, model=model, tools=tools).text

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(ask, 0)
        assert begun.wait(60)
        others = [pool.submit(ask, number) for number in (1, 2, 3)]
        go.set()
        assert [done.result(60) for done in (first, *others)] == [f"answer {number}" for number in range(4)]


@pytest.mark.parametrize("plain", [True, False])
def test_a_function_that_asks_where_it_is_being_answered_is_told_so(env, plain):
    def again() -> str:
        return homarus.ask("again", env=env, model=ScriptedModel("again")).text

    async def again_too() -> str:
        return again()

    model = ScriptedModel(("again" if plain else "again_too", {}), "ok")
    assert homarus.ask("go", env=env, model=model, tools=[again, again_too], seconds=20).text == "ok"
    results = [message for message in model.requests[-1].messages if isinstance(message, ToolResult)]
    assert "name another session" in results[0].text


async def test_an_agent_that_meets_it_waits_and_is_answered(env):
    begun, go = threading.Event(), threading.Event()

    def look() -> None:
        begun.set()
        go.wait(60)

    model = ScriptedModel(("look", {}), "of ask")
    asked = asyncio.create_task(asyncio.to_thread(homarus.ask, "go", env=env, model=model, tools=[look]))
    await asyncio.to_thread(begun.wait, 60)
    async with Agent.open(env=env, model=ScriptedModel("of the agent")) as agent:
        other = asyncio.create_task(agent.ask("and you?"))
        await asyncio.sleep(0)
        go.set()
        assert ((await asked).text, (await other).text) == ("of ask", "of the agent")


@pytest.mark.parametrize("how", ["ask", "run", "in a loop of its own"])
async def test_a_function_of_an_agent_is_refused_to_wait_for_its_own_turn(env, how):
    model = ScriptedModel(("again", {}), "heard it")
    async with Agent.open(env=env, model=model) as agent:

        def in_a_thread() -> str:
            return asyncio.run(agent.ask("again", seconds=20)).text

        async def in_the_loop() -> str:
            if how == "ask":
                return (await agent.ask("again", seconds=20)).text
            return str([event async for event in agent.run("again", seconds=20)])

        agent.tool(in_a_thread if how.startswith("in a") else in_the_loop, name="again")
        assert (await agent.ask("go", seconds=20)).text == "heard it"
        results = [message for message in model.requests[1].messages if isinstance(message, ToolResult)]
        assert "agent.send" in results[0].text


async def test_another_session_may_be_asked_from_a_function(env):
    model = ScriptedModel(("look_up", {}), "from the other one", "ok")
    async with Agent.open(env=env, model=model) as agent:

        @agent.tool
        async def look_up() -> str:
            return (await agent.session("other").ask("what is it?")).text

        assert (await agent.ask("go")).text == "ok"
        assert "from the other one" in str(model.requests[-1].messages)


@pytest.mark.parametrize("how", ["ask", "run"])
async def test_a_task_does_not_wait_for_an_agent_that_only_it_can_close(env, how):
    async with Agent.open(env=env, model=ScriptedModel("one", "three")) as first:
        assert (await first.ask("one")).text == "one"
        async with Agent.open(env=env, model=ScriptedModel("two", "four")) as second:
            # The limit is for a version that waits.
            with pytest.raises(HomarusError, match=r"this program has agent:main:main open already.*await agent\.ask"):
                if how == "ask":
                    await second.ask("two", seconds=5)
                else:
                    [event async for event in second.run("two", seconds=5)]
            assert (await second.session("other").ask("two")).text == "two"
            assert (await first.ask("three")).text == "three"
            await first.aclose()
            assert (await second.ask("four")).text == "four"


async def test_whoever_waits_is_told_that_it_is_this_program_that_has_the_session(env):
    async with Agent.open(env=env, model=ScriptedModel("one")) as first, Agent.open(env=env) as second:
        await first.ask("hello")

        async def waits():
            return (await anext(second.run("and you?"))).text

        assert await asyncio.create_task(waits()) == (
            "another agent of this program has agent:main:main open; the message is queued there"
        )


async def test_a_second_agent_waits_until_the_first_one_is_closed(env):
    first = Agent.open(env=env, model=ScriptedModel("of the first"))
    async with Agent.open(env=env, model=ScriptedModel("of the second")) as second:
        async with first:
            assert (await first.ask("hello")).text == "of the first"
            waiting = asyncio.create_task(second.ask("and you?"))
            await asyncio.wait({waiting}, timeout=0.2)
            assert not waiting.done()
        assert (await waiting).text == "of the second"
