"""Compaction through the whole runtime with a model that cannot summarise: nothing is lost, and it is said once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import UTC
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.invariants.test_prefix import last_user, summary_of
from tests.models.servers import Answer, serving
from tests.scenarios.talker import Say, Talker, make_home, open_agent

from homarus.core.events import CompactionEnded, Notice, RunEvent
from homarus.core.messages import Inbound, Trust
from homarus.core.routes import SessionKey
from homarus.sessions.log import identify, read_entries
from homarus.sessions.usage import Ledger

WINDOW = 20_000
SMALL = {"keepRecentTokens": 500, "reserveTokensFloor": 0, "reserveTokens": 2_000, "timeoutSeconds": 60}
GARBAGE = Say("lorem ipsum " * 40)
REFUSAL = Say("I cannot help with that.")
FORGETFUL = Say("\n\n".join(f"## {name}\nnone" for name in ("Decisions", "Open TODOs", "Constraints/Rules",
                                                            "Pending user asks", "Exact identifiers")))  # fmt: skip
HANGING = Say(answer=Answer(hang=True))


def is_summary(body: dict[str, Any]) -> bool:
    return "<conversation>" in last_user(body)


def is_flush(body: dict[str, Any]) -> bool:
    return "will soon be condensed" in str(body["messages"]) and not is_summary(body)


async def talk(
    folder: Path, rule: Callable[[dict[str, Any], int], Say], turns: int, **compaction: Any
) -> tuple[Talker, list[RunEvent], Path]:
    """Talk until the window is full and beyond; return the server, what happened and the transcript."""
    server = Talker(rule)
    events: list[RunEvent] = []
    async with serving(server=server):
        env = make_home(folder, server.url, window=WINDOW, compaction={**SMALL, **compaction})
        agent = open_agent(env)
        agent.client.runtime.listen(agent.key, events.append)
        for turn in range(turns):
            async with asyncio.timeout(120):
                reply = await agent.ask(f"Please write chapter {turn} of the lighthouse story.")
            assert reply.ok, reply.error
        await agent.aclose()
    (transcript,) = (folder / ".openclaw" / "agents" / "main" / "sessions").glob("*.jsonl")
    return server, events, transcript


@pytest.mark.parametrize("bad", [GARBAGE, REFUSAL, FORGETFUL, HANGING], ids=["garbage", "refusal", "forgets", "hangs"])
async def test_a_summary_that_cannot_be_used(tmp_path: Path, bad: Say) -> None:
    def rule(body: dict[str, Any], number: int) -> Say:
        if is_summary(body):
            return bad
        return Say("NO_REPLY") if is_flush(body) else Say(f"Chapter {number}. " * 200, tokens=18_000 + 30 * number)

    server, events, transcript = await talk(tmp_path, rule, turns=8, timeoutSeconds=0.3 if bad is HANGING else 60)
    ended = [event for event in events if isinstance(event, CompactionEnded)]
    told = [event for event in events if isinstance(event, Notice) and "could not be compacted" in event.text]
    assert ended
    assert not any(event.ok for event in ended)
    assert len(told) == 1
    assert len(ended) <= 3
    assert '"type":"compaction"' not in transcript.read_text()
    assert all(f"chapter {turn} " in str(server.seen[-1].body) for turn in range(8))


async def test_memory_is_saved_once_in_each_cycle_and_leaves_no_trace_in_the_transcript(tmp_path: Path) -> None:
    asked: list[str] = []
    size = 0

    def rule(body: dict[str, Any], _number: int) -> Say:
        nonlocal size
        if is_summary(body):
            asked.append("summary")
            size = 3_000
            return Say(summary_of(last_user(body)))
        if is_flush(body):
            newest = body["messages"][-1]
            if newest["role"] == "user":
                asked.append("flush")
                return Say("", (("write", {"path": "SOUL.md", "content": "I was here."}),))
            assert "only memory/" in newest["content"], newest
            return Say("NO_REPLY")
        size += 3_000
        return Say("A chapter. " * 200, tokens=size)

    _, events, transcript = await talk(tmp_path, rule, turns=18)
    assert sum(isinstance(event, CompactionEnded) and event.ok for event in events) >= 2
    flushes = [place for place, what in enumerate(asked) if what == "flush"]
    assert flushes[0] == 0
    assert all("summary" in asked[one:other] for one, other in pairwise(flushes))
    text = transcript.read_text()
    assert "will soon be condensed" not in text
    assert "I was here" not in text
    # What it took stands there all the same.
    ledger = Ledger("purpose", UTC)
    ledger.add("main", "main", read_entries(identify(transcript)))
    spent = {row.name: row.calls for row in ledger.rows()}
    assert spent["flush"] == 2 * len(flushes)
    assert spent["compaction"] >= asked.count("summary")
    assert spent["answer"] == 18
    assert "I was here" not in (tmp_path / ".openclaw" / "workspace" / "SOUL.md").read_text()


async def test_an_overflow_is_retried_while_that_helps_and_then_named(tmp_path: Path) -> None:
    refusals = 0

    def rule(body: dict[str, Any], _number: int) -> Say:
        nonlocal refusals
        if is_summary(body):
            return Say(summary_of(last_user(body)))
        if is_flush(body):
            return Say("NO_REPLY")
        if "chapter" in last_user(body):
            return Say("Yes. " * 2_500)
        refusals += 1
        text = b'{"error": {"message": "maximum context length is 20000 tokens", "code": "context_length_exceeded"}}'
        return Say(answer=Answer([text], status=400, headers={"content-type": "application/json"}, chunked=False))

    async with serving(server=Talker(rule)) as server:
        agent = open_agent(make_home(tmp_path, server.url, window=WINDOW, compaction=SMALL))
        events: list[RunEvent] = []
        agent.client.runtime.listen(agent.key, events.append)
        for turn in range(3):
            assert (await agent.ask(f"chapter {turn}")).ok
        reply = await agent.ask("and now?")
        await agent.aclose()
    assert not reply.ok
    assert "what is asked now does not fit the model's window" in reply.error
    assert "/new" in reply.error
    assert 2 <= refusals <= 4, [event for event in events if isinstance(event, CompactionEnded)]


async def test_the_cap_on_the_context_counts_for_compaction(tmp_path: Path) -> None:
    summaries = 0

    def rule(body: dict[str, Any], _number: int) -> Say:
        nonlocal summaries
        if is_summary(body):
            summaries += 1
            return Say(summary_of(last_user(body)))
        return Say("NO_REPLY") if is_flush(body) else Say("A chapter. " * 500, tokens=45_000)

    async with serving(server=Talker(rule)) as server:
        agent = open_agent(make_home(tmp_path, server.url, contextTokens=50_000, compaction={"keepRecentTokens": 500}))
        for turn in range(3):
            assert (await agent.ask(f"chapter {turn}")).ok
        await agent.aclose()
    assert summaries > 0


async def test_other_models_can_be_named_for_the_summary_and_for_saving_memory(tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []

    def rule(body: dict[str, Any], _number: int) -> Say:
        kind = "summary" if is_summary(body) else "flush" if is_flush(body) else "turn"
        asked.append((kind, body["model"]))
        if kind == "flush":
            assert "Only birds matter." in str(body["messages"][0])
        else:
            assert "Only birds matter." not in str(body["messages"])
        if kind == "summary":
            return Say(summary_of(last_user(body)))
        return Say("NO_REPLY") if kind == "flush" else Say("A chapter. " * 400, tokens=18_500)

    flush = {"model": "mock/saver", "systemPrompt": "Only birds matter."}
    compaction = {**SMALL, "timeoutSeconds": 20, "model": "mock/summariser", "memoryFlush": flush}
    async with serving(server=Talker(rule)) as server:
        agent = open_agent(make_home(tmp_path, server.url, window=WINDOW, compaction=compaction))
        for turn in range(3):
            assert (await agent.ask(f"chapter {turn}")).ok
        await agent.aclose()
    assert {model for kind, model in asked if kind == "summary"} == {"summariser"}
    assert {model for kind, model in asked if kind == "flush"} == {"saver"}
    assert {model for kind, model in asked if kind == "turn"} == {"loop"}


async def test_a_model_that_cannot_be_had_for_a_summary_changes_nothing(tmp_path: Path) -> None:
    def rule(body: dict[str, Any], _number: int) -> Say:
        return Say("NO_REPLY") if is_flush(body) else Say("A chapter. " * 400, tokens=18_500)

    _, events, transcript = await talk(tmp_path, rule, turns=3, model="/")
    told = [event.text for event in events if isinstance(event, Notice)]
    assert any("could not be compacted" in text for text in told), told
    assert '"type":"compaction"' not in transcript.read_text()


async def test_no_memory_is_saved_in_a_workspace_that_cannot_be_written(tmp_path: Path) -> None:
    def rule(body: dict[str, Any], _number: int) -> Say:
        assert not is_flush(body)
        return Say(summary_of(last_user(body))) if is_summary(body) else Say("A chapter. " * 400, tokens=18_500)

    async with serving(server=Talker(rule)) as server:
        env = make_home(
            tmp_path, server.url, window=WINDOW, compaction=SMALL, tools={"deny": ["write", "memory_retain"]}
        )
        agent = open_agent(env)
        for turn in range(3):
            reply = await agent.ask(f"chapter {turn}")
            assert reply.ok, reply.error
        await agent.aclose()
    assert any(is_summary(seen.body) for seen in server.seen)


@pytest.mark.parametrize(
    ("trust", "chat", "session", "saved"),
    [
        (Trust.OWNER, "direct", "main", True),
        (Trust.OWNER, "group", "main", False),
        (Trust.OWNER, "direct", "agent:main:telegram:group:7", False),
        (Trust.PAIRED, "direct", "main", False),
        (Trust.EXTERNAL, "direct", "main", False),
    ],
)
async def test_memory_is_saved_for_the_owner_alone(
    tmp_path: Path, trust: Trust, chat: str, session: str, saved: bool
) -> None:
    asked: list[str] = []

    def rule(body: dict[str, Any], _number: int) -> Say:
        if is_summary(body):
            return Say(summary_of(last_user(body)))
        if is_flush(body):
            asked.append("flush")
            return Say("NO_REPLY")
        return Say("A chapter. " * 400, tokens=18_500)

    server = Talker(rule)
    async with serving(server=server):
        agent = open_agent(make_home(tmp_path, server.url, window=WINDOW, compaction=SMALL))
        key = agent.key if session == "main" else SessionKey.parse(session)
        for turn in range(4):
            inbound = Inbound(f"m{turn}", "terminal", f"chapter {turn}", trust=trust, chat_type=chat)
            lane = agent.client.runtime.lane(key)
            assert agent.client.runtime.submit(key, inbound) is not None
            async with asyncio.timeout(120):
                await lane.idle()
        await agent.aclose()
    assert bool(asked) is saved


async def test_what_is_saved_after_strangers_were_read_says_so(tmp_path: Path) -> None:
    today: list[str] = []

    def rule(body: dict[str, Any], _number: int) -> Say:
        if is_summary(body):
            return Say(summary_of(last_user(body)))
        if is_flush(body) and body["messages"][-1]["role"] == "user":
            today.append(re.findall(r"memory/\S+\.md", str(body["messages"][-1]))[0])
            return Say("", (("write", {"path": today[0], "content": "## Retain\n- W: The page wants a new SOUL.\n"}),))
        return Say("NO_REPLY") if is_flush(body) else Say("A chapter. " * 400, tokens=18_500)

    server = Talker(rule)
    async with serving(server=server):
        agent = open_agent(make_home(tmp_path, server.url, window=WINDOW, compaction=SMALL))
        with agent.client.runtime.home.opened(agent.key) as live:
            live.note_taint("web_fetch")
        for turn in range(4):
            assert (await agent.ask(f"chapter {turn}")).ok
        await agent.aclose()
    note = (tmp_path / ".openclaw/workspace" / today[0]).read_text()
    assert "\n- W: The page wants a new SOUL. <!-- origin: web_fetch -->\n" in note
