"""A turn that a crash cut off goes on when its session is opened again: from the log, not for ever, as configured.

A crash is made by copying the home while a turn runs: the copy is what kill -9 would have left.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.script import tell, tool

from homarus.agent.resume import EARLY, INTERRUPTED
from homarus.config.paths import resolve_paths
from homarus.core.cancel import Cancel
from homarus.core.messages import Assistant, Inbound, Message, StopReason, Text, ToolCall, ToolResult, Trust
from homarus.core.routes import main_session
from homarus.core.tools import Risk
from homarus.models.provider import ModelRequest, Stop, StreamEvent
from homarus.queue.inbox import MAX_RESUMES
from homarus.runtime.runtime import Runtime
from homarus.runtime.speech import INTERRUPTED as SAID_SO
from homarus.sessions.entry import MessageEntry
from homarus.sessions.repair import APART
from homarus.tools.tool import ToolContext, ToolOutput, said

KEY = main_session("main")


class World:
    """One home, its model and two tools: `look` only reads, `act` does something."""

    def __init__(self, folder: Path, **defaults: Any) -> None:
        self.home = folder
        (folder / ".openclaw").mkdir(parents=True, exist_ok=True)
        settings = {"agents": {"defaults": {"model": {"primary": "script/one"}, **defaults}}}
        (folder / ".openclaw" / "openclaw.json").write_text(json.dumps(settings))
        self.hangs = asyncio.Event()
        self.restarted = False  # nothing hangs a second time
        self.ran: list[str] = []
        self.asked: list[tuple[Message, ...]] = []

    def open(self, answer: Callable[[tuple[Message, ...]], Assistant | None]) -> Runtime:
        env = {"HOME": str(self.home), "PATH": os.environ["PATH"], "TZ": "UTC"}
        runtime = Runtime.open(resolve_paths(env), env)
        world = self

        class Model:
            async def stream(self, request: ModelRequest, *, cancel: Cancel) -> AsyncIterator[StreamEvent]:
                world.asked.append(request.messages)
                reply = answer(request.messages)
                if reply is None:
                    world.hangs.set()
                    with cancel.interrupting():
                        await asyncio.sleep(3600)
                assert reply is not None
                yield Stop(reply)

        async def act(context: ToolContext, _arguments: dict[str, Any]) -> ToolOutput:
            world.ran.append(context.call_id)
            if context.call_id == "hang" and not world.restarted:
                world.hangs.set()
                with context.cancel.interrupting():
                    await asyncio.sleep(3600)
            return said("acted")

        async def look(context: ToolContext, _arguments: dict[str, Any]) -> ToolOutput:
            world.ran.append(context.call_id)
            return said("seen")

        runtime.home.models.registry.register("script", lambda _ref, _key: Model())
        runtime.home.toolkit.add(tool("together", act))
        runtime.home.toolkit.add(
            tool("act", act, risk=Risk.WRITE, sequential=True), tool("look", look, sequential=True)
        )
        return runtime

    def crash(self, name: str) -> World:
        """The home as kill -9 would leave it now."""
        copy = World.__new__(World)
        copy.home = self.home.parent / name
        shutil.copytree(self.home, copy.home)
        copy.hangs, copy.ran, copy.asked, copy.restarted = asyncio.Event(), [], [], True
        return copy


def message(text: str) -> Inbound:
    return Inbound(id=text, channel="test", text=text, trust=Trust.OWNER)


def story(runtime: Runtime) -> list[str]:
    with runtime.home.opened(KEY) as live:
        return [tell(one) for one in live.writer.history(APART)]


def words(text: str) -> Assistant:
    return Assistant((Text(text),), provider="script", model="one")


def call(*calls: tuple[str, str]) -> Assistant:
    parts = tuple(ToolCall(ident, name, {}) for ident, name in calls)
    return Assistant(parts, provider="script", model="one", stop_reason=StopReason.TOOL_USE)


def two_acts(messages: tuple[Message, ...]) -> Assistant | None:
    return call(("one", "act"), ("hang", "act"), ("read", "look")) if not _results(messages) else words("done")


def _results(messages: tuple[Message, ...]) -> list[ToolResult]:
    return [one for one in messages if isinstance(one, ToolResult)]


async def test_an_unanswered_message_is_answered_at_the_next_start(tmp_path: Path) -> None:
    world = World(tmp_path / "a")
    first = world.open(lambda _messages: None)
    first.submit(KEY, message("hello"))
    await world.hangs.wait()
    left = world.crash("b")
    await first.aclose()
    second = left.open(lambda _messages: words("hi"))
    assert second.lanes.recover() == 1
    await second.lane(KEY).idle()
    assert story(second) == ["user: hello", "model: hi"]
    await second.aclose()
    third = left.open(lambda _messages: words("again?"))
    assert third.lanes.recover() == 0
    assert third.lane(KEY).idle_now
    await third.aclose()


def three_together(messages: tuple[Message, ...]) -> Assistant | None:
    calls = (("one", "together"), ("hang", "together"), ("three", "together"))
    return call(*calls) if not _results(messages) else words("done")


async def test_a_call_that_waited_for_an_earlier_one_keeps_its_result(tmp_path: Path) -> None:
    world = World(tmp_path / "a")
    first = world.open(three_together)
    first.submit(KEY, message("do it"))
    await world.hangs.wait()
    async with asyncio.timeout(120):
        while not any(EARLY in file.read_text() for file in world.home.rglob("*.jsonl")):
            await asyncio.sleep(0.001)
    left = world.crash("b")
    await first.aclose()
    second = left.open(three_together)
    second.lanes.recover()
    await second.lane(KEY).idle()
    assert left.ran == ["hang"]  # it only reads, so it runs again; the one behind it had finished
    assert story(second) == [
        "user: do it",
        "model:  [together,together,together]",
        "together: acted",
        "together: acted",
        "together: acted",
        "model: done",
    ]
    await second.aclose()


async def test_finished_results_stay_reads_run_again_and_the_rest_is_honest(tmp_path: Path) -> None:
    world = World(tmp_path / "a")
    first = world.open(two_acts)
    first.submit(KEY, message("do it"))
    await world.hangs.wait()
    left = world.crash("b")
    await first.aclose()
    second = left.open(two_acts)
    second.submit(KEY, message("and then?"))
    await second.lane(KEY).idle()
    assert left.ran == ["read"]
    assert story(second) == [
        "user: do it",
        "model:  [act,act,look]",
        "act: acted",
        f"act!: {INTERRUPTED}",
        "look: seen",
        "model: done",
        "user: and then?",
        "model: done",
    ]
    await second.aclose()


async def test_a_turn_that_crashes_each_time_is_given_up_in_the_end_and_says_so(tmp_path: Path) -> None:
    world = World(tmp_path / "0")
    for life in range(1 + MAX_RESUMES):
        runtime = world.open(lambda _messages: None)
        if life:
            assert runtime.lanes.recover() == 1
        else:
            runtime.submit(KEY, message("poison"))
        await world.hangs.wait()
        world, before = world.crash(str(life + 1)), runtime
        await before.aclose()
    last = world.open(lambda _messages: words("fine"))
    last.submit(KEY, message("next"))
    await last.lane(KEY).idle()
    assert len(world.asked) == 1
    with last.home.opened(KEY) as live:
        said = [entry.message for entry in live.writer.branch if isinstance(entry, MessageEntry)]
    assert [(type(each).__name__, each.text) for each in said] == [
        ("User", "poison"), ("Assistant", ""), ("User", "next"), ("Assistant", "fine"),
    ]  # fmt: skip
    assert said[1].error == SAID_SO
    await last.aclose()


@pytest.mark.parametrize("resume", ["end", "continue"])
async def test_as_configured(tmp_path: Path, resume: str) -> None:
    world = World(tmp_path / "a", resume=resume)
    first = world.open(two_acts)
    first.submit(KEY, message("do it"))
    await world.hangs.wait()
    left = world.crash("b")
    await first.aclose()
    second = left.open(two_acts)
    second.lanes.recover()
    await second.lane(KEY).idle()
    assert (story(second)[-1] == "model: done") == (resume == "continue")
    assert len(left.asked) == (resume == "continue")
    await second.aclose()


async def test_what_waits_at_a_shutdown_is_answered_at_the_next_start(tmp_path: Path) -> None:
    world = World(tmp_path / "a")
    first = world.open(lambda _messages: None)
    first.submit(KEY, message("one"))
    await world.hangs.wait()
    first.submit(KEY, message("two"))
    await first.aclose()
    second = world.open(lambda _messages: words("yes"))
    assert second.lanes.recover() == 1
    await second.lane(KEY).idle()
    assert story(second)[-2:] == ["user: two", "model: yes"]
    await second.aclose()


async def test_a_message_whose_turn_cannot_begin_is_kept(tmp_path: Path) -> None:
    world = World(tmp_path / "a", model={"primary": "nobody/knows"})
    runtime = world.open(lambda _messages: words("hi"))
    runtime.submit(KEY, message("hello"))
    await runtime.lane(KEY).idle()
    assert story(runtime)[0] == "user: hello"
    await runtime.aclose()
