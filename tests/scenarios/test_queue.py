"""What happens to messages that meet a running turn, through a whole home with a scripted model."""

import asyncio
from pathlib import Path

import pytest
from tests.scenarios.home import House, until
from tests.scenarios.script import Line

from homarus import Agent
from homarus.core.clock import SystemClock
from homarus.core.events import RunEnded, RunEvent, RunStarted, ToolEnded, UserAccepted
from homarus.core.messages import Inbound, Trust


def house(folder: Path, *lines: Line | str, mode: str = "steer", **queue: object) -> House:
    settings = {"mode": mode, "debounceMs": 0, **queue}
    return House(folder, *lines, config={"messages": {"queue": settings}})


def owner(number: int, text: str, **more: str) -> Inbound:
    return Inbound(id=f"m{number}", channel="telegram", text=text, sender="1", trust=Trust.OWNER, **more)


async def busy_with(agent: Agent, home: House, text: str = "work") -> asyncio.Event:
    """Start a turn and hold its model."""
    gate = home.model.hold()
    await agent.send(text)
    await home.model.entered.wait()
    return gate


async def all_done(agent: Agent) -> None:
    async with asyncio.timeout(60):
        await agent.client.runtime.lane(agent.key).idle()


# 13.1 lanes


async def test_two_messages_of_one_session_never_overlap(tmp_path: Path) -> None:
    home = house(tmp_path, mode="followup")
    overlaps: list[int] = []
    async with home.agent() as agent:
        agent.listen(lambda event: overlaps.append(home.model.active) if isinstance(event, RunStarted) else None)
        await asyncio.gather(*(agent.ask(f"m{number}") for number in range(5)))
    assert len(home.model.requests) == 5
    assert max(overlaps) == 0


async def test_five_sessions_with_four_places_make_the_fifth_wait(tmp_path: Path) -> None:
    home = House(tmp_path, config={"agents": {"defaults": {"maxConcurrent": 4}}})
    gate = home.model.hold()
    async with home.agent() as first:
        agents = [Agent(first.client, first.client.runtime.home.store("main").key(f"s{number}")) for number in range(5)]
        turns = [asyncio.ensure_future(agent.ask("go")) for agent in agents]
        await until(lambda: home.model.active == 4)
        await asyncio.sleep(0.02)
        assert home.model.active == 4
        gate.set()
        assert all(reply.ok for reply in await asyncio.gather(*turns))
    assert len(home.model.requests) == 5


# 13.2 modes


async def test_steer_joins_the_running_turn_and_is_stored_once(tmp_path: Path) -> None:
    home = house(tmp_path, Line("", (("ls", {"path": "."}),)), "done")
    async with home.agent() as agent:
        gate = await busy_with(agent, home)
        await agent.send("use the other folder")
        gate.set()
        await all_done(agent)
    texts = [
        entry["message"]["content"] for entry in home.transcript() if entry.get("message", {}).get("role") == "user"
    ]
    assert len(home.model.requests) == 2
    assert home.model.prompts[1] == "use the other folder"
    assert sum("use the other folder" in str(text) for text in texts) == 1


async def test_a_steered_message_that_the_run_did_not_take_becomes_a_turn(tmp_path: Path) -> None:
    home = house(tmp_path)
    events: list[RunEvent] = []
    async with home.agent() as agent:
        agent.listen(events.append)
        gate = await busy_with(agent, home)
        asked = asyncio.ensure_future(agent.ask("and then?"))
        await asyncio.sleep(0)
        gate.set()
        reply = await asked
        await all_done(agent)
    assert reply.ok
    assert home.model.prompts == ["work", "and then?"]


async def test_followup_makes_one_later_turn_for_each(tmp_path: Path) -> None:
    home = house(tmp_path, mode="followup")
    async with home.agent() as agent:
        gate = await busy_with(agent, home)
        for text in ("one", "two"):
            await agent.send(text)
        gate.set()
        await all_done(agent)
    assert home.model.prompts == ["work", "one", "two"]


async def test_collect_makes_one_later_turn_for_all(tmp_path: Path) -> None:
    home = house(tmp_path, mode="collect")
    async with home.agent() as agent:
        gate = await busy_with(agent, home)
        for text in ("one", "two"):
            await agent.send(text)
        gate.set()
        await all_done(agent)
    assert home.model.prompts == [
        "work",
        "[Queued messages while agent was busy]\n\n---\nQueued #1\none\n\n---\nQueued #2\ntwo",
    ]


async def test_interrupt_ends_the_run_and_runs_the_newest(tmp_path: Path) -> None:
    home = house(tmp_path, mode="interrupt")
    ends: list[str] = []
    async with home.agent() as agent:
        agent.listen(lambda event: ends.append(event.status) if isinstance(event, RunEnded) else None)
        await busy_with(agent, home)
        home.model.gate = None
        await agent.send("never mind, do this")
        await all_done(agent)
    assert ends == ["aborted", "ok"]
    assert home.model.prompts == ["work", "never mind, do this"]


async def test_an_inline_wish_beats_the_session_and_the_session_beats_the_configuration(tmp_path: Path) -> None:
    home = house(tmp_path, mode="steer", byChannel={"telegram": "interrupt"})
    async with home.agent() as agent:
        rules = agent.client.runtime.rules
        assert rules(agent.key, "terminal").mode == "steer"
        assert rules(agent.key, "telegram").mode == "interrupt"
        await agent.ask("/queue collect")
        assert rules(agent.key, "telegram").mode == "collect"


# 13.3 drop policies


@pytest.mark.parametrize("drop", ["summarize", "old", "new"])
async def test_the_twenty_first_message(tmp_path: Path, drop: str) -> None:
    home = house(tmp_path, mode="collect", drop=drop)
    async with home.agent() as agent:
        gate = await busy_with(agent, home)
        handled = [await agent.send(f"message {number} " + "x" * 200) for number in range(1, 22)]
        gate.set()
        await all_done(agent)
    prompt = home.model.prompts[1]
    assert bool(handled[-1].refused) is (drop == "new")
    assert ("message 21 " in prompt) is (drop != "new")
    assert ("---\nQueued #1\nmessage 1 " in prompt) is (drop == "new")
    assert ("[Queue overflow] Dropped 1 message(s) due to cap." in prompt) is (drop == "summarize")
    if drop == "summarize":
        line = next(line for line in prompt.split("\n") if line.startswith("- "))
        assert len(line) <= 162


# 13.4 drain


async def test_collected_messages_of_two_routes_stay_three_turns_in_order(tmp_path: Path) -> None:
    home = house(tmp_path, mode="collect")
    async with home.agent() as agent:
        gate = await busy_with(agent, home)
        for number, chat in enumerate(("A", "B", "A")):
            await agent.client.router.handle(agent.key, owner(number, f"from {chat}", peer=chat))
        gate.set()
        await all_done(agent)
    assert home.model.prompts == ["work", "from A", "from B", "from A"]


async def test_the_debounce_starts_again_with_each_message(tmp_path: Path) -> None:
    home = house(tmp_path, mode="collect", debounceMs=150)
    async with home.agent(clock=SystemClock()) as agent:
        gate = await busy_with(agent, home)
        await agent.send("one")
        gate.set()
        for text in ("two", "three"):
            await asyncio.sleep(0.08)
            await agent.send(text)
        await all_done(agent)
    assert len(home.model.prompts) == 2
    assert "Queued #3" in home.model.prompts[1]


async def test_the_same_message_of_a_platform_counts_once(tmp_path: Path) -> None:
    home = house(tmp_path)
    async with home.agent() as agent:
        first = await agent.client.router.handle(agent.key, owner(1, "hello"))
        again = await agent.client.router.handle(agent.key, owner(1, "hello"))
        await all_done(agent)
        later = await agent.client.router.handle(agent.key, owner(1, "hello"))
    assert first.item is not None
    assert again.refused
    assert later.refused
    assert home.model.prompts == ["hello"]


async def test_the_same_id_in_two_chats_of_one_session_is_two_messages(tmp_path: Path) -> None:
    home = house(tmp_path, mode="followup")
    async with home.agent() as agent:
        for peer in ("100", "200"):
            taken = await agent.client.router.handle(agent.key, owner(1, f"hello from {peer}", peer=peer))
            assert taken.item is not None
        await all_done(agent)
    assert home.model.prompts == ["hello from 100", "hello from 200"]


# 13.6 steering


async def test_steer_skips_the_calls_that_have_not_begun_and_comes_before_the_next_answer(tmp_path: Path) -> None:
    paths = [{"path": "AGENTS.md"}, {"path": "SOUL.md"}, {"path": "USER.md"}]
    home = house(tmp_path, Line("", tuple(("read", path) for path in paths)), "done")
    results: list[ToolEnded | UserAccepted] = []
    async with home.agent() as agent:
        gate = await busy_with(agent, home)
        agent.listen(lambda event: results.append(event) if isinstance(event, ToolEnded | UserAccepted) else None)
        await agent.send("/steer stop reading")
        gate.set()
        await all_done(agent)
    texts = [each.result.text if isinstance(each, ToolEnded) else each.message.text for each in results]
    assert texts == ["Skipped due to queued user message."] * 3 + ["stop reading"]
    assert all(each.result.is_error for each in results[:3] if isinstance(each, ToolEnded))
    roles = [entry["message"]["role"] for entry in home.transcript() if entry["type"] == "message"]
    assert roles == ["user", "assistant", "toolResult", "toolResult", "toolResult", "user", "assistant"]


async def test_at_the_model_boundary_nothing_is_skipped(tmp_path: Path) -> None:
    calls = (("read", {"path": "SOUL.md"}), ("read", {"path": "USER.md"}))
    home = house(tmp_path, Line("", calls), "done", steerBoundary="model")
    async with home.agent() as agent:
        gate = await busy_with(agent, home)
        await agent.send("hurry")
        gate.set()
        await all_done(agent)
    results = [entry["message"] for entry in home.transcript() if entry.get("message", {}).get("role") == "toolResult"]
    assert not any("Skipped" in str(result["content"]) for result in results)


@pytest.mark.parametrize(("drain", "calls"), [("one-at-a-time", 3), ("all", 2)])
async def test_waiting_messages_join_one_at_a_time_or_all(tmp_path: Path, drain: str, calls: int) -> None:
    lines = [Line("", (("ls", {"path": "."}),)), Line("", (("ls", {"path": "."}),)), "done"]
    home = house(tmp_path, *(lines if calls == 3 else [lines[0], "done"]), steerDrain=drain)
    async with home.agent() as agent:
        gate = await busy_with(agent, home)
        await agent.send("first")
        await agent.send("second")
        gate.set()
        await all_done(agent)
    assert len(home.model.requests) == calls


async def test_tell_without_a_run_is_an_ordinary_message(tmp_path: Path) -> None:
    home = house(tmp_path)
    async with home.agent() as agent:
        assert (await agent.ask("/tell me a story")).text == "answer 1"
    assert home.model.prompts == ["me a story"]


# Nothing accepted is lost.


async def test_what_waited_when_the_process_died_is_answered_by_the_next_one(tmp_path: Path) -> None:
    home = house(tmp_path, mode="followup")
    agent = home.agent()
    await busy_with(agent, home)
    await agent.send("do not forget me")
    # A crash: nothing is stopped, nothing is settled; only the lock dies with the process.
    task = agent.client.runtime.lane(agent.key)._task
    assert task is not None
    task.cancel()
    await asyncio.wait([task])
    agent.client.runtime.home.sessions.close()
    home.model.gate = None
    async with home.agent() as second:
        second.client.runtime.lane(second.key)
        await all_done(second)
    assert home.model.prompts[-1].endswith("do not forget me")
