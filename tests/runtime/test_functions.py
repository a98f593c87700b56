"""A program's functions while they run: how they end, and what happens to those that do not."""

import asyncio
import os
import sys
import threading

import pytest

from homarus import Agent, ScriptedModel, ToolContext
from homarus.core.messages import ToolResult
from homarus.runtime.functions import function_tool


@pytest.fixture
def env(tmp_path):
    return {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}


@pytest.fixture
def stuck():
    """A function that does not end by itself; `begun` and `ended` say how far it is."""

    class Stuck:
        begun, go, ended = threading.Event(), threading.Event(), threading.Event()

        def tool(self) -> str:
            self.begun.set()
            self.go.wait(60)
            self.ended.set()
            return "late"

    found = Stuck()
    yield found
    found.go.set()


def results(model):
    return [message for message in model.requests[-1].messages if isinstance(message, ToolResult)]


class TestAFunctionThatDoesNotEnd:
    async def test_a_limit_ends_the_turn_and_the_late_result_is_thrown_away(self, env, stuck):
        model = ScriptedModel(("tool", {}), "and now?")
        async with Agent.open(env=env, model=model, tools=[stuck.tool]) as agent:
            reply = await agent.ask("go", seconds=0.2)
            assert (reply.status, stuck.begun.is_set(), stuck.ended.is_set()) == ("timeout", True, False)
            stuck.go.set()
            assert await asyncio.to_thread(stuck.ended.wait, 60)
            assert (await agent.ask("again")).text == "and now?"
        assert ["stopped before it finished" in each.text for each in results(model)] == [True]

    async def test_stop_ends_the_turn(self, env, stuck):
        async with Agent.open(env=env, model=ScriptedModel(("tool", {})), tools=[stuck.tool]) as agent:
            asked = asyncio.create_task(agent.ask("go"))
            await asyncio.to_thread(stuck.begun.wait, 60)
            assert agent.stop()
            assert (await asked).status == "aborted"
        assert not stuck.ended.is_set()

    async def test_closing_does_not_wait_for_it(self, env, stuck):
        async with Agent.open(env=env, model=ScriptedModel(("tool", {})), tools=[stuck.tool]) as agent:
            asked = asyncio.create_task(agent.ask("go"))
            await asyncio.to_thread(stuck.begun.wait, 60)
        assert (await asked).status == "aborted"
        assert not stuck.ended.is_set()

    async def test_one_that_looks_is_told_that_nobody_waits_any_more(self, env):
        begun, told = threading.Event(), threading.Event()

        def thorough(context: ToolContext) -> None:
            context.cancel.on_cancel(told.set)
            begun.set()
            told.wait(60)

        async with Agent.open(env=env, model=ScriptedModel(("thorough", {})), tools=[thorough]) as agent:
            asked = asyncio.create_task(agent.ask("go"))
            await asyncio.to_thread(begun.wait, 60)
            assert agent.stop()
            assert (await asked).status == "aborted"
        assert told.is_set()


class TestHowOneEnds:
    @pytest.mark.parametrize("plain", [True, False])
    async def test_sys_exit_is_a_failed_call(self, env, plain):
        def leave() -> None:
            sys.exit(3)

        async def leave_too() -> None:
            sys.exit(3)

        model = ScriptedModel(("leave", {}), "still here")
        async with Agent.open(env=env, model=model) as agent:
            agent.tool(leave if plain else leave_too, name="leave")
            assert (await agent.ask("go")).text == "still here"
        assert [(each.is_error, "SystemExit: 3" in each.text) for each in results(model)] == [(True, True)]

    def test_an_interrupt_means_the_program(self, env):
        def interrupt() -> None:
            raise KeyboardInterrupt

        async def ask() -> None:
            async with Agent.open(env=env, model=ScriptedModel(("interrupt", {}), "no"), tools=[interrupt]) as agent:
                await agent.ask("go")

        with pytest.raises(KeyboardInterrupt):
            asyncio.run(ask())

    async def test_one_that_waited_for_something_that_was_cancelled_has_failed(self, env):
        async def wait() -> None:
            other = asyncio.ensure_future(asyncio.sleep(60))
            other.cancel()
            await other

        model = ScriptedModel(("wait", {}), "still here")
        async with Agent.open(env=env, model=model, tools=[wait]) as agent:
            assert (await agent.ask("go")).text == "still here"
        assert [(each.is_error, "was cancelled" in each.text) for each in results(model)] == [(True, True)]

    async def test_what_a_plain_function_returns_is_awaited(self, env):
        async def later() -> str:
            return "at last"

        model = ScriptedModel(("it", {}), "ok")
        async with Agent.open(env=env, model=model) as agent:
            agent.tool(lambda: later(), name="it")
            await agent.ask("go")
        assert [each.text for each in results(model)] == ["at last"]

    def test_a_generator_is_refused(self):
        def plain():
            yield 1

        async def other():
            yield 1

        for function in (plain, other):
            with pytest.raises(TypeError, match="return a list"):
                function_tool(function)
