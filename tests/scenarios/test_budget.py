"""Budgets from the configuration, through the whole runtime: across turns, restarts and everything that calls a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.models.servers import serving
from tests.scenarios.talker import Say, Talker, make_home, open_agent

from homarus.core.events import RunEvent


async def test_the_budget_of_a_run_ends_it_before_the_next_call(tmp_path: Path) -> None:
    server = Talker(lambda _body, number: Say(calls=(("ls", {"path": "." if number else "memory"}),)))
    async with serving(server=server):
        agent = open_agent(make_home(tmp_path, server.url, budget={"run": {"calls": 2}}))
        reply = await agent.ask("Look around.")
        await agent.aclose()
    assert "this run's budget of 2 model calls is used up" in reply.error
    assert len(server.seen) == 2


async def test_the_budget_of_a_day_outlives_the_process(tmp_path: Path) -> None:
    server = Talker(lambda _body, _number: Say("Hello.", tokens=1_000))
    async with serving(server=server):
        env = make_home(tmp_path, server.url, budget={"day": {"tokens": 2_500}})
        errors = []
        for _ in range(4):
            agent = open_agent(env)
            errors.append((await agent.ask("Good morning.")).error)
            await agent.aclose()
    assert errors[:3] == ["", "", ""]
    assert "today's budget of 2,500 tokens is used up" in errors[3]
    assert len(server.seen) == 3


async def test_summaries_and_saving_memory_count(tmp_path: Path) -> None:
    def rule(body: dict[str, Any], number: int) -> Say:
        return Say(f"Chapter {number}. " * 20, tokens=17_000 + 300 * number)

    server, events = Talker(rule), list[RunEvent]()
    compaction = {"keepRecentTokens": 500, "reserveTokensFloor": 0, "reserveTokens": 2_000}
    async with serving(server=server):
        agent = open_agent(make_home(tmp_path, server.url, window=20_000, compaction=compaction))
        agent.client.runtime.listen(agent.key, events.append)
        used = 0
        for turn in range(5):
            used += (await agent.ask(f"Please write chapter {turn}.")).usage.total
        spent = agent.client.runtime.home.spending.today("main")
        await agent.aclose()
    assert spent.calls == len(server.seen) > 5
    assert spent.usage.total == used
