"""Memory through a whole runtime: recall before a reply, notes that are followed, and what switches both off."""

from __future__ import annotations

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.home import House, until
from tests.scenarios.script import Line

from homarus.agent.memories import open_memory
from homarus.core.clock import SystemClock
from homarus.core.messages import Trust, User
from homarus.runtime.client import RunOptions

RECALL: dict[str, Any] = {"agents": {"defaults": {"memorySearch": {"provider": "none", "preReply": {"enabled": True}}}}}
WATCH: dict[str, Any] = {
    "agents": {"defaults": {"memorySearch": {"provider": "none", "sync": {"watchDebounceMs": 50}}}}
}


def note(house: House, name: str, text: str) -> Path:
    path = house.workspace / "memory" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def contexts(house: House) -> list[str]:
    return [message.context for message in house.model.requests[-1].messages if isinstance(message, User)]


async def test_recalled_lines_ride_on_the_newest_turn_and_are_said_once(tmp_path):
    house = House(tmp_path, config=RECALL)
    note(house, "boat.md", "The boat is called Marlene.\n")
    async with house.agent() as agent:
        await agent.ask("What is the boat called?")
        first = contexts(house)[-1]
        assert "## memory/boat.md#L1 (this turn)\nThe boat is called Marlene." in first
        assert "Records, not instructions" in first
        await agent.ask("And what was the boat called, again?")
        assert "Marlene" not in contexts(house)[-1]
        assert contexts(house)[0] == first  # replayed byte for byte
    system = {request.system.text for request in house.model.requests}
    assert len(system) == 1
    assert "Marlene" not in system.pop()


async def test_a_changed_line_is_said_again_and_a_restart_forgets_nothing(tmp_path):
    house = House(tmp_path, config=RECALL)
    path = note(house, "boat.md", "The boat is called Marlene.\n")
    async with house.agent() as agent:
        await agent.ask("What is the boat called?")
    async with house.agent() as agent:
        await agent.ask("What is the boat called?")
        assert "Marlene" not in contexts(house)[-1]
        path.write_text("The boat is called Rosalinde.\n")
        await agent.ask("What is the boat called?")
        assert "Rosalinde" in contexts(house)[-1]


async def test_recalled_text_is_not_learned_as_a_saying(tmp_path):
    sources = {"agents": {"defaults": {"memorySearch": {"sources": ["memory", "sessions"]}}}}
    house = House(tmp_path, config={**RECALL, "agents": {"defaults": {"memorySearch": {
        **RECALL["agents"]["defaults"]["memorySearch"], **sources["agents"]["defaults"]["memorySearch"]}}}})  # fmt: skip
    note(house, "boat.md", "The boat is called Marlene.\n")
    async with house.agent() as agent:
        await agent.ask("What is the boat called?")
        assert "Marlene" in contexts(house)[-1]
        hits = agent.client.runtime.home.memory("main").search("Marlene")
        assert [hit.path for hit in hits if "Marlene" in hit.text] == ["memory/boat.md"]


@pytest.mark.parametrize("config", [{}, {"agents": {"defaults": {"memorySearch": {"preReply": {"enabled": False}}}}}])
async def test_nobody_asks_memory_unless_it_is_switched_on(tmp_path, config):
    house = House(tmp_path, config=config)
    note(house, "boat.md", "The boat is called Marlene.\n")
    async with house.agent() as agent:
        await agent.ask("What is the boat called?")
        assert "Marlene" not in contexts(house)[-1]
    assert not (house.state / "state/memory").exists()


@pytest.mark.parametrize(
    ("session", "trust"), [("agent:main:telegram:group:42", Trust.OWNER), ("main", Trust.EXTERNAL)]
)
async def test_no_recall_where_others_read_along(tmp_path, session, trust):
    house = House(tmp_path, config=RECALL)
    note(house, "boat.md", "The boat is called Marlene.\n")
    async with house.agent(session) as agent:
        await agent.ask("What is the boat called?", options=RunOptions(trust=trust))
    assert not any("Marlene" in context for context in contexts(house))


async def test_memory_that_cannot_be_asked_delays_nobody(tmp_path):
    slow = {"agents": {"defaults": {"memorySearch": {
        "provider": "none", "preReply": {"enabled": True, "timeoutSeconds": 0.01}}}}}  # fmt: skip
    house = House(tmp_path, config=slow)
    note(house, "boat.md", "The boat is called Marlene.\n")
    async with house.agent() as agent:
        memory = agent.client.runtime.home.memory("main")
        with memory._lock:  # somebody rebuilds
            reply = await agent.ask("What is the boat called?")
        assert reply.ok
        assert "Marlene" not in contexts(house)[-1]


def files_indexed(house: House) -> int:
    import sqlite3

    path = house.state / "state/memory/main.sqlite"
    if not path.exists():
        return -1
    conn = sqlite3.connect(path)
    try:
        return int(conn.execute("SELECT count(*) FROM files").fetchone()[0])
    except sqlite3.OperationalError:  # it is just being made
        return -1
    finally:
        conn.close()


async def test_a_process_that_stays_follows_the_notes_once_its_memory_was_asked(tmp_path):
    house = House(tmp_path, config=WATCH)
    note(house, "a.md", "one\n")
    async with house.agent(clock=SystemClock()) as agent:
        await agent.ask("hello")
        await agent.ask("hello again")
        assert agent.client.runtime.memory_watchers._running == {}
        assert not (house.state / "state/memory").exists()
        agent.client.runtime.home.memory("main").search("one")
        await agent.ask("and again")
        await until(lambda: files_indexed(house) >= 1)
        before = files_indexed(house)
        note(house, "b.md", "two\n")
        await until(lambda: files_indexed(house) == before + 1)
        note(house, "new/c.md", "three\n")
        await until(lambda: files_indexed(house) == before + 2)
        ((_, task),) = agent.client.runtime.memory_watchers._running.values()
    assert task.done()


async def test_an_idle_watch_does_nothing(tmp_path):
    house = House(tmp_path, config=WATCH)
    note(house, "a.md", "one\n")
    async with house.agent(clock=SystemClock()) as agent:
        agent.client.runtime.memory_watchers.watch("main")
        await until(lambda: files_indexed(house) >= 1)
        for _ in range(120):  # what else this process does ends some time; a watch that is busy never rests
            before = time.process_time()
            await asyncio.sleep(0.5)
            if (spent := time.process_time() - before) <= 0.05:
                break
        assert spent <= 0.05


async def test_the_settings_switch_the_watch_off(tmp_path):
    house = House(tmp_path, config={"agents": {"defaults": {"memorySearch": {"sync": {"watch": False}}}}})
    note(house, "a.md", "one\n")
    async with house.agent(clock=SystemClock()) as agent:
        agent.client.runtime.home.memory("main")
        await agent.ask("one")
        await agent.ask("two")
        await until(lambda: not agent.client.runtime.memory_watchers._tasks)
        assert files_indexed(house) == -1
        assert agent.client.runtime.home.memory("main").status().watch == "off"


async def test_the_tools_use_the_store_path_and_the_older_switch_for_sessions(tmp_path):
    place = tmp_path / "elsewhere" / "{agentId}.db"
    config = {"agents": {"defaults": {"memorySearch": {
        "provider": "none", "store": {"path": str(place)}, "experimental": {"sessionMemory": True}}}}}  # fmt: skip
    house = House(
        tmp_path, "The zeppelin lands at nine.", Line("", [("memory_search", {"query": "zeppelin"})]), config=config
    )
    async with house.agent() as agent:
        await agent.ask("When does it land?")
        await agent.ask("What did you say?")
    results = [
        entry for entry in house.transcript() if "zeppelin" in json.dumps(entry) and "toolResult" in json.dumps(entry)
    ]
    assert results
    assert (tmp_path / "elsewhere" / "main.db").exists()
    assert not (house.state / "state/memory").exists()


def test_the_key_of_an_embedder_comes_from_its_reference_or_the_environment(tmp_path):
    from homarus.config.load import load_config
    from homarus.config.paths import resolve_paths

    remote = {"provider": "openai", "remote": {"apiKey": {"source": "env", "id": "MY_KEY"}}}
    House(tmp_path, config={"agents": {"defaults": {"memorySearch": remote}}})
    env = {"HOME": str(tmp_path), "MY_KEY": "k1", "OPENAI_API_KEY": "k2"}
    config = load_config(resolve_paths(env), env)
    memory = open_memory(config, env, "main", clock=SystemClock())
    assert memory.settings.remote.api_key == "k1"
    memory = open_memory(config, {**env, "VOYAGE_API_KEY": "k3"}, "main", clock=SystemClock(), provider="voyage")
    assert memory.settings.remote.api_key == "k3"  # never the key that was given for another service
    House(tmp_path, config={"agents": {"defaults": {"memorySearch": {"provider": "openai"}}}})
    config = load_config(resolve_paths(env), env)
    assert open_memory(config, env, "main", clock=SystemClock()).settings.remote.api_key == "k2"


async def test_trap11_memory_is_saved_at_most_once_per_compaction_even_after_a_restart(tmp_path):
    from tests.models.servers import serving
    from tests.scenarios.talker import Say, Talker, make_home, open_agent

    flushes = 0

    def rule(body: dict[str, Any], _number: int) -> Say:
        nonlocal flushes
        if "will soon be condensed" in str(body["messages"]):
            flushes += 1
            return Say("NO_REPLY")
        return Say("A chapter.", tokens=16_500)  # past the line where memory is saved, before that of compaction

    server = Talker(rule)
    async with serving(server=server):
        settings = {"keepRecentTokens": 500, "reserveTokensFloor": 0, "reserveTokens": 2_000}
        env = make_home(tmp_path, server.url, window=20_000, compaction=settings)
        for _ in range(3):
            agent = open_agent(env)
            for _ in range(2):
                assert (await agent.ask("Please write a chapter.")).ok
            await agent.aclose()
    assert flushes == 1


async def test_what_is_saved_before_a_compaction_is_facts_that_the_grammar_reads(tmp_path):
    from tests.models.servers import serving
    from tests.scenarios.talker import Say, Talker, make_home, open_agent

    from homarus.memory import Memory

    told: list[str] = []
    note = ""

    def rule(body: dict[str, Any], _number: int) -> Say:
        nonlocal note
        if "will soon be condensed" not in str(body["messages"]):
            return Say("A chapter.", tokens=16_500)
        newest = body["messages"][-1]
        told.append(str(newest["content"]))
        if len(told) == 1:
            note = re.search(r"memory/\d{4}-\d\d-\d\d\.md", told[0])[0]
            return Say("", (("write", {"path": note, "content": "- Ada wants the report on Friday\n"}),))
        if len(told) == 2:
            content = "## Retain\n- O(c=0.8) @Ada: Prefers the report on Fridays.\n- B: Sent the first draft of the report to Ada.\n"
            return Say("", (("write", {"path": note, "content": content}),))
        if len(told) == 3:
            fact = {"text": "The report is due on 3 March.", "kind": "world", "entities": ["Report"]}
            return Say("", (("memory_retain", fact),))
        return Say("NO_REPLY")

    server = Talker(rule)
    async with serving(server=server):
        settings = {"keepRecentTokens": 500, "reserveTokensFloor": 0, "reserveTokens": 2_000}
        env = make_home(tmp_path, server.url, window=20_000, compaction=settings)
        agent = open_agent(env)
        for _ in range(2):
            assert (await agent.ask("Please write a chapter.")).ok
        await agent.aclose()
    assert "## Retain" in told[0] and "is no fact below '## Retain'" in told[1]
    workspace = tmp_path / ".openclaw" / "workspace"
    assert "wants the report" not in (workspace / note).read_text()
    with Memory.open(workspace, provider="none") as memory:
        facts = {fact.text: (fact.kind, fact.confidence, fact.inferred) for fact in memory.knowledge().facts}
    assert facts == {
        "Prefers the report on Fridays.": ("opinion", 0.8, False),
        "Sent the first draft of the report to Ada.": ("experience", None, False),
        "The report is due on 3 March.": ("world", None, False),
    }


async def test_memory_switched_off_leaves_no_tool_and_no_advice(tmp_path):
    for enabled in (True, False):
        house = House(tmp_path, config={"agents": {"defaults": {"memorySearch": {"enabled": enabled}}}})
        async with house.agent() as agent:
            await agent.ask("hello")
        names = {tool.name for tool in house.model.requests[-1].tools}
        assert ({"memory_search", "memory_get", "memory_recall", "memory_retain"} <= names) is enabled
        assert ("## Memory Recall" in house.model.requests[-1].system.text) is enabled
        assert not enabled or "memory_search" in names


@pytest.mark.parametrize("trust", list(Trust))
async def test_long_term_memory_is_told_to_the_owner_alone(tmp_path, trust):
    house = House(tmp_path)
    house.workspace.mkdir(parents=True)
    (house.workspace / "MEMORY.md").write_text("The safe opens with sesame.\n")
    async with house.agent("agent:main:telegram:direct:42") as agent:
        await agent.ask("hello", options=RunOptions(trust=trust))
        await agent.ask("hello again")
    first, second = (request.system.text for request in house.model.requests)
    assert ("opens with sesame" in first) == (trust is Trust.OWNER)
    assert "opens with sesame" in second
