"""A feed loses no event and wakes its reader for other reasons too; whoever follows a message gets its own answer."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from tests.scenarios.home import House, until
from tests.scenarios.script import Line

from homarus.core.events import ApprovalAsked, MessageEnded, Notice, RunEnded, RunEvent, RunStarted
from homarus.runtime.events import EARLIER, EventFeed


async def test_events_come_in_order_and_none_is_lost() -> None:
    feed, seen = EventFeed(), list[str]()

    async def read() -> None:
        while len(seen) < 100:
            while not feed:
                await feed.change()
            event = feed.take()
            assert isinstance(event, Notice)
            seen.append(event.text)

    reader = asyncio.ensure_future(read())
    for number in range(100):
        feed.put(Notice(str(number), "test"))
        if number % 3 == 0:
            await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await reader
    assert seen == [str(number) for number in range(100)]


async def test_a_wake_up_without_an_event() -> None:
    feed = EventFeed()
    feed.wake()  # nobody waits: nothing to remember
    waiting = asyncio.ensure_future(feed.change())
    await asyncio.sleep(0)
    assert not waiting.done()
    feed.wake()
    async with asyncio.timeout(60):
        await waiting
    assert not feed


async def test_a_reader_that_was_cancelled_does_not_stop_the_writers() -> None:
    feed = EventFeed()
    waiting = asyncio.ensure_future(feed.change())
    await asyncio.sleep(0)
    waiting.cancel()
    feed.put(Notice("after", "test"))
    await asyncio.gather(waiting, return_exceptions=True)
    assert len(feed) == 1


async def test_a_listener_that_fails_keeps_neither_the_turn_nor_the_others_from_going_on(tmp_path: Path) -> None:
    async with House(tmp_path, "hello").agent() as agent:
        heard: list[RunEvent] = []

        def fail(_event: RunEvent) -> None:
            raise RuntimeError("not my day")

        agent.listen(fail)
        agent.listen(heard.append)
        assert (await agent.ask("hi")).text == "hello"
        assert [type(event) for event in (heard[0], heard[-1])] == [RunStarted, RunEnded]


async def test_a_turn_that_goes_on_after_a_crash_is_not_the_answer_to_what_is_asked_now(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    before = House(tmp_path / "before", "never said")
    gate = before.model.hold()
    async with before.agent() as agent:
        await agent.send("first question")
        await before.model.entered.wait()
        shutil.copytree(before.folder, tmp_path / "left")  # as kill -9 would leave it
        gate.set()
    left = House(tmp_path / "left", "the old answer", "the new answer")
    async with left.agent() as agent:
        events = [event async for event in agent.run("second question")]
    assert [event.text for event in events if isinstance(event, RunEnded)] == ["the new answer"]
    assert [event.message.text for event in events if isinstance(event, MessageEnded)] == ["the new answer"]
    (notice,) = (event for event in events if isinstance(event, Notice))
    assert notice == Notice("“first question” was waiting and is answered first:\nthe old answer", EARLIER)
    assert isinstance(events[1], RunStarted)
    assert left.model.prompts == ["first question", "second question"]


async def test_what_is_collected_into_one_turn_has_one_answer_for_each_who_asked(tmp_path: Path) -> None:
    config = {"messages": {"queue": {"mode": "collect", "debounceMs": 0}}}
    house = House(tmp_path, "one", "for both", config=config)
    gate = house.model.hold()
    async with house.agent() as agent:
        first = asyncio.ensure_future(agent.ask("first"))
        await house.model.entered.wait()
        others = [asyncio.ensure_future(agent.ask(text)) for text in ("second", "third")]
        await until(lambda: len(agent.client.runtime.lane(agent.key).waiting) == 2)
        gate.set()
        assert (await first).text == "one"
        assert [(await other).texts for other in others] == [("for both",), ("for both",)]


async def test_a_question_of_an_earlier_turn_reaches_whoever_waits_behind_it(tmp_path: Path) -> None:
    config = {"messages": {"queue": {"mode": "followup", "debounceMs": 0}}}
    house = House(tmp_path, Line("", (("order", {}),)), "ordered", "and yours", config=config)
    gate = house.model.hold()
    async with house.agent() as agent:
        agent.tool(name="order", ask=True)(lambda: "done")
        leave = agent.client.attend(agent.key)
        await agent.send("order it")
        await house.model.entered.wait()
        seen = list[RunEvent]()

        async def wait_behind() -> None:
            async for event in agent.run("mine"):
                seen.append(event)
                if isinstance(event, ApprovalAsked):
                    await agent.client.answer(event.approval_id, "deny")

        waiting = asyncio.ensure_future(wait_behind())
        await until(lambda: len(agent.client.runtime.lane(agent.key).waiting) == 1)
        gate.set()
        await waiting
        leave()
    assert [type(event) for event in seen if isinstance(event, ApprovalAsked | MessageEnded)] == [
        ApprovalAsked,
        MessageEnded,
    ]
    assert isinstance(seen[-1], RunEnded)
    assert seen[-1].text == "and yours"
