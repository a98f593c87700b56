"""Windows that are smaller than what is put into them: the conversation goes on, and what cannot fit is named before it is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.invariants.test_prefix import last_user, summary_of
from tests.models.servers import Answer, serving
from tests.scenarios.talker import Say, Talker, make_home, open_agent
from tests.scenarios.test_compaction import GARBAGE, is_flush, is_summary

from homarus.core.events import Notice, RunEnded, RunEvent
from homarus.runtime.client import RunOptions

REFUSED = {"error": {"code": 400, "message": "request exceeds the available context size", "type": "exceed_context_size_error"}}  # fmt: skip


def strict(window: int, *, summarises: bool = True) -> Talker:
    """Return a server that refuses what its window does not hold, counted as four bytes to a token."""

    def rule(body: dict[str, Any], _number: int) -> Say:
        if len(json.dumps(body).encode()) // 4 > window:
            answer = Answer([json.dumps(REFUSED).encode()], status=400, headers={"content-type": "application/json"})
            return Say(answer=answer)
        if is_summary(body):
            return Say(summary_of(last_user(body))) if summarises else GARBAGE
        return Say("NO_REPLY") if is_flush(body) else Say("I have noted that, and I will keep it in mind.")

    return Talker(rule)


def message(number: int) -> str:
    text = f"This is message {number}: the warehouse in hall {number} keeps boxes of kind B-{number * 37}"
    return f"{text}, which are to be counted again before the end of the month, so please keep that in mind for later."


@pytest.mark.parametrize("summarises", [True, False], ids=["summarises", "cannot summarise"])
async def test_fifty_messages_go_through_a_window_of_four_thousand(tmp_path: Path, summarises: bool) -> None:
    events: list[RunEvent] = []
    async with serving(server=strict(4_096, summarises=summarises)) as server:
        env = make_home(tmp_path, server.url, window=4_096)
        for number in range(50):
            agent = open_agent(env)  # a program of its own for each message, as `homarus agent` is
            agent.client.runtime.listen(agent.key, events.append)
            reply = await agent.ask(message(number))
            await agent.aclose()
            assert reply.ok, (number, reply.error)
    assert is_flush(server.seen[1].body) is False  # the first message costs one request
    warnings = [event.text for event in events if isinstance(event, Notice) and event.kind == "warning"]
    assert len(warnings) == (0 if summarises else 1), warnings
    assert all(len(text) < 200 and "heading" not in text for text in warnings)
    transcripts = "".join(path.read_text() for path in (tmp_path / ".openclaw/agents/main/sessions").glob("*.jsonl"))
    assert all(message(number) in transcripts for number in range(50))


async def test_a_history_that_a_server_refuses_is_cut_whatever_becomes_of_the_summary(tmp_path: Path) -> None:
    # The home believes in a window that the server does not have.
    async with serving(server=strict(6_000, summarises=False)) as server:
        agent = open_agent(make_home(tmp_path, server.url, window=12_000))
        replies = [await agent.ask(message(number) * 4) for number in range(40)]
        await agent.aclose()
    assert all(reply.ok for reply in replies), [reply.error for reply in replies if not reply.ok]


async def test_a_message_larger_than_the_window_is_refused_unsent_and_the_session_goes_on(tmp_path: Path) -> None:
    text = "\n".join(map(str, range(40_000)))  # about 57,000 tokens
    async with serving(server=strict(32_768)) as server:
        agent = open_agent(make_home(tmp_path, server.url, window=32_768))
        attached = RunOptions(attached=f'<file name="standard input">\n{text}\n</file>')
        events = [event async for event in agent.client.run(agent.key, "summarise", attached)]
        assert server.seen == []
        reply = await agent.ask("hello")
        await agent.aclose()
    (ended,) = [event for event in events if isinstance(event, RunEnded)]
    assert ended.status == "error"
    assert "standard input is about 57,223 tokens, and the window of mock/loop has 32,768" in ended.error
    assert "send a part of it" in ended.error
    assert reply.ok
    assert len(server.seen) == 1
    sent = json.dumps(server.seen[0].body["messages"])
    assert "summarise" in sent
    assert "tokens more were not sent" in sent


@pytest.mark.parametrize("window", [700, 1_000, 1_500, 2_048])
async def test_a_window_in_which_no_message_fits_says_what_to_switch_off(tmp_path: Path, window: int) -> None:
    async with serving(server=strict(window)) as server:
        agent = open_agent(make_home(tmp_path, server.url, window=window))
        replies = [await agent.ask(text) for text in ("hi", "\n".join(map(str, range(2_000))))]
        await agent.aclose()
        assert server.seen == []
    for reply in replies:
        assert f"and the model's window has {window:,}" in reply.error
        assert "the prompt and the tools take about" in reply.error
        assert "switch something off" in reply.error and "send a part" not in reply.error


@pytest.mark.parametrize("summarises", [True, False], ids=["summarises", "cannot summarise"])
async def test_the_message_after_one_that_the_server_refused_goes_through(tmp_path: Path, summarises: bool) -> None:
    # By the count of the home it fits, by that of the server it does not.
    async with serving(server=strict(32_768, summarises=summarises)) as server:
        agent = open_agent(make_home(tmp_path, server.url, window=60_000))
        refused = await agent.ask("\n".join(map(str, range(30_000))))
        reply = await agent.ask("hello")
        await agent.aclose()
    assert "what is asked now does not fit the model's window" in refused.error
    assert "/new" in refused.error
    assert reply.ok, reply.error


async def test_a_small_window_gets_few_tools_and_says_which_it_lacks(tmp_path: Path) -> None:
    async with serving(server=strict(4_096)) as server:
        agent = open_agent(make_home(tmp_path, server.url, window=4_096, tools={"alsoAllow": ["cron"]}))
        assert (await agent.ask("hello")).ok
        listed, report = (await agent.ask("/tools")).text, (await agent.ask("/context list")).text
        await agent.aclose()
    told = {tool["function"]["name"] for tool in server.seen[0].body["tools"]}
    assert told == {"read", "write", "edit", "exec", "cron", "memory_get", "memory_retain", "memory_search"}
    for text in (listed, report):
        assert "Tools left out: apply_patch, grep, find" in text
        assert "a window of 4,096 tokens" in text
        assert "tools.alsoAllow" in text


async def test_a_large_window_has_all_tools(tmp_path: Path) -> None:
    async with serving(server=strict(16_000)) as server:
        agent = open_agent(make_home(tmp_path, server.url, window=16_000))
        assert (await agent.ask("hello")).ok
        listed = (await agent.ask("/tools")).text
        await agent.aclose()
    assert len(server.seen[0].body["tools"]) > 20
    assert "left out" not in listed


def reading(sizes: list[int], steps: int, *, summarises: bool) -> Talker:
    """Return a server that takes everything, notes how large it was in tokens of four bytes, and reads files before it answers."""

    def rule(body: dict[str, Any], _number: int) -> Say:
        sizes.append(len(json.dumps(body, ensure_ascii=False).encode()) // 4)
        if is_summary(body):
            return Say(summary_of(last_user(body))) if summarises else GARBAGE
        if is_flush(body):
            return Say("NO_REPLY")
        taken[0] += 1
        return Say(calls=(("read", {"path": "list.txt"}),)) if taken[0] % (steps + 1) else Say("I have read it.")

    taken = [0]
    return Talker(rule)


@pytest.mark.parametrize("summarises", [True, False], ids=["summarises", "cannot summarise"])
@pytest.mark.parametrize("window", [4_096, 3_000, 2_500])
async def test_nothing_is_sent_that_the_window_does_not_hold(tmp_path: Path, window: int, summarises: bool) -> None:
    sizes: list[int] = []
    async with serving(server=reading(sizes, 3, summarises=summarises)) as server:
        env = make_home(tmp_path, server.url, window=window)
        workspace = tmp_path / ".openclaw/workspace"
        workspace.mkdir()
        (workspace / "list.txt").write_text("\n".join(f"shelf {number}: B-{number * 37}" for number in range(400)))
        agent = open_agent(env)
        replies = [await agent.ask(f"Please read the list, time {number}.") for number in range(6)]
        await agent.aclose()
    assert all(reply.ok for reply in replies), [reply.error for reply in replies]
    assert max(sizes) < window, sizes


@pytest.mark.parametrize("window", [2_048, 1_024, 1])
async def test_a_window_without_room_for_a_conversation_is_an_error_before_anything_is_sent(
    tmp_path: Path, window: int
) -> None:
    async with serving(server=strict(window)) as server:
        agent = open_agent(make_home(tmp_path, server.url, window=window))
        reply = await agent.ask("hello")
        await agent.aclose()
    assert server.seen == []
    assert "the prompt and the tools take about" in reply.error and f"window has {window:,}" in reply.error
    assert "tools.allow" in reply.error
