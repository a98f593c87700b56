"""The tools for conversations through a whole home: who sees whom, what may be said to whom, and what comes back."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.home import House, merge, until
from tests.scenarios.script import Line

from homarus.agent.prepare import prepare
from homarus.agent.turn import TurnRunner
from homarus.core.messages import ToolCall, ToolResult, Trust
from homarus.core.routes import SessionKey, SessionKind, chat_session, main_session, named_session
from homarus.runtime.library import Agent
from homarus.runtime.local import LocalClient
from homarus.runtime.runtime import Runtime
from homarus.runtime.tool_backends.visibility import PeerSettings, Scope, SessionVisibility, scope_of
from homarus.tools.execute import TAINTED, execute

OFF = {"agents": {"defaults": {"sandbox": {"mode": "off"}}}}
TWO = {"agents": {"list": [{"id": "main", "default": True}, {"id": "ann"}]}}
MAIN, GROUP = main_session("main"), chat_session("main", "irc", SessionKind.GROUP, "den")
CHILD = named_session("main", SessionKind.SUBAGENT, "c1")


async def called(runtime: Runtime, key: SessionKey, name: str, /, **arguments: Any) -> tuple[Any, ToolResult]:
    result = await LocalClient(runtime).call_tool(key, name, arguments, Trust.OWNER)
    try:
        return json.loads(result.text), result
    except ValueError:
        return result.text, result


async def talk(house: House, *sessions: str) -> Agent:
    """Have a short talk in each of these sessions and return the home, open."""
    agent = house.agent()
    for name in sessions:
        other = Agent(agent.client, agent.client.runtime.home.store("main").key(name))
        assert (await other.ask(f"hello from {name} about walnuts")).ok
    return agent


def keys(listed: Any) -> set[str]:
    return {row["key"] for row in listed["sessions"]}


@pytest.mark.parametrize(
    ("viewer", "wanted", "trust", "confined", "expected"),
    [
        (MAIN, None, Trust.OWNER, True, Scope.AGENT),
        (MAIN, None, Trust.PAIRED, True, Scope.TREE),
        (MAIN, Scope.ALL, Trust.PAIRED, False, Scope.TREE),
        (MAIN, Scope.ALL, Trust.OWNER, True, Scope.ALL),
        (MAIN, Scope.SELF, Trust.OWNER, False, Scope.SELF),
        (GROUP, None, Trust.OWNER, False, Scope.TREE),
        (GROUP, Scope.AGENT, Trust.OWNER, False, Scope.AGENT),
        (GROUP, Scope.AGENT, Trust.OWNER, True, Scope.TREE),
        (GROUP, Scope.ALL, Trust.GROUP, False, Scope.TREE),
        (CHILD, Scope.ALL, Trust.OWNER, True, Scope.TREE),
    ],
)
def test_how_far_a_turn_sees(
    viewer: SessionKey, wanted: Scope | None, trust: Trust, confined: bool, expected: Scope
) -> None:
    assert scope_of(wanted, viewer, trust, confined=confined) is expected


@pytest.mark.parametrize(
    ("scope", "target", "expected"),
    [
        (Scope.SELF, MAIN, True),
        (Scope.SELF, CHILD, False),
        (Scope.TREE, CHILD, True),
        (Scope.TREE, named_session("ann", SessionKind.SUBAGENT, "grandchild"), True),
        (Scope.TREE, GROUP, False),
        (Scope.AGENT, GROUP, True),
        (Scope.AGENT, main_session("ann"), False),
        (Scope.ALL, main_session("ann"), True),
        (Scope.ALL, main_session("eve"), False),
    ],
)
def test_what_is_in_sight(scope: Scope, target: SessionKey, expected: bool) -> None:
    parents = {str(CHILD): str(MAIN), "agent:ann:subagent:grandchild": str(CHILD), "agent:main:a": "agent:main:a"}
    sight = SessionVisibility(MAIN, scope, PeerSettings(enabled=True, allow=("main", "an*")))
    assert sight.sees(target, parents) is expected
    assert not SessionVisibility(MAIN, Scope.ALL, PeerSettings(allow=("*",))).sees(main_session("ann"), parents)


async def test_the_main_session_sees_its_agent_and_others_see_themselves(tmp_path: Path) -> None:
    house = House(tmp_path, config=TWO)
    async with await talk(house, "main", "work", str(GROUP)) as agent:
        runtime = agent.client.runtime
        listed, result = await called(runtime, MAIN, "sessions_list")
        assert keys(listed) == {str(MAIN), "agent:main:work", str(GROUP)}
        assert TAINTED not in (result.details or {})
        work = runtime.home.store("main").key("work")
        assert keys((await called(runtime, work, "sessions_list"))[0]) == {"agent:main:work"}
        text, result = await called(runtime, work, "sessions_history", sessionKey="main")
        assert result.is_error
        assert "no session 'main' that this one may see" in text
        found, _ = await called(runtime, work, "sessions_search", query="walnuts")
        assert {row["sessionKey"] for row in found["matches"]} == {"agent:main:work"}


async def test_rows_can_be_narrowed(tmp_path: Path) -> None:
    async with await talk(House(tmp_path), "main", "work", str(GROUP)) as agent:
        runtime = agent.client.runtime
        runtime.home.store("main").update(runtime.home.store("main").key("work"), label="Walnut work")

        async def names(**query: Any) -> set[str]:
            return keys((await called(runtime, MAIN, "sessions_list", **query))[0])

        assert await names(kinds=["group"]) == {str(GROUP)}
        assert await names(label="Walnut work") == {"agent:main:work"}
        assert await names(search="WALNUT") == {"agent:main:work"}
        assert await names(agentId="ann") == set()
        assert len(await names(limit=1)) == 1
        assert len(await names(limit=-5)) == 3
        listed, result = await called(runtime, MAIN, "sessions_list", messageLimit=1, kinds=["group"])
        assert [row["messages"][0]["role"] for row in listed["sessions"]] == ["assistant"]
        assert (result.details or {})[TAINTED]


async def test_a_history_is_words_without_secrets_and_a_strangers_taints(tmp_path: Path) -> None:
    house = House(tmp_path, Line("see sk-" + "a" * 30, calls=(("ls", {}),)), "done")
    async with house.agent() as agent:
        group = Agent(agent.client, GROUP)
        await group.ask("look around")
        shown, result = await called(agent.client.runtime, MAIN, "sessions_history", sessionKey=str(GROUP))
        assert [row["role"] for row in shown["messages"]] == ["user", "assistant", "assistant"]
        assert "[redacted]" in shown["messages"][1]["text"]
        assert (result.details or {})[TAINTED]
        shown, _ = await called(
            agent.client.runtime, MAIN, "sessions_history", sessionKey=str(GROUP), includeTools=True
        )
        assert "toolResult" in [row["role"] for row in shown["messages"]]
        shown, _ = await called(
            agent.client.runtime, MAIN, "sessions_history", sessionKey=str(GROUP), limit=1, offset=1
        )
        assert [row["role"] for row in shown["messages"]] == ["assistant"]
        assert "[redacted]" in shown["messages"][0]["text"]


async def test_a_message_to_another_session_and_its_reply(tmp_path: Path) -> None:
    house = House(tmp_path)
    async with await talk(house, "main", "work") as agent:
        told, result = await called(
            agent.client.runtime, MAIN, "sessions_send", sessionKey="work", message="is it done?", timeoutSeconds=5
        )
        assert told == {"sessionKey": "agent:main:work", "status": "ok", "reply": "answer 3"}
        assert house.model.prompts[-1] == "[Message from session agent:main:main]\nis it done?"
        assert TAINTED not in (result.details or {})
        assert any("is it done?" in json.dumps(line) for line in house.transcript("agent:main:work"))


async def test_a_reply_that_nobody_waits_for_comes_back_and_the_two_go_on_for_five_turns_at_most(
    tmp_path: Path,
) -> None:
    house = House(tmp_path)
    async with await talk(house, "main", "work") as agent:
        told, _ = await called(
            agent.client.runtime, MAIN, "sessions_send", label="agent:main:work", message="x", timeoutSeconds=0
        )
        assert told["status"] == "accepted"
        await until(lambda: len(house.model.requests) == 2 + 1 + 5)
        await agent.client.runtime.lane(MAIN).idle()
        assert [prompt.splitlines()[0] for prompt in house.model.prompts[2:]] == [
            f"[Message from session {key}]"
            for key in ["agent:main:main", *["agent:main:work", "agent:main:main"] * 2, "agent:main:work"]
        ]
        assert house.model.prompts[-1].endswith("(turn 5 of 5; REPLY_SKIP leaves it at that)")


async def test_either_side_can_leave_it_at_that(tmp_path: Path) -> None:
    house = House(tmp_path, "a", "b", "first", "REPLY_SKIP")
    async with await talk(house, "main", "work") as agent:
        await called(agent.client.runtime, MAIN, "sessions_send", sessionKey="work", message="x", timeoutSeconds=0)
        await until(lambda: len(house.model.requests) == 4)
        await agent.client.runtime.lane(MAIN).idle()
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert len(house.model.requests) == 4


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"sessionKey": "main", "message": "x"}, "this session itself"),
        ({"sessionKey": "work", "message": "  "}, "empty"),
        ({"sessionKey": "nobody", "message": "x"}, "no session 'nobody'"),
        ({"agentId": "ann", "message": "x"}, "no agent 'ann' that this session may speak to"),
        ({"agentId": "../../etc", "message": "x"}, "may speak to"),
        ({"sessionKey": "agent:ann:main", "message": "x"}, "no session"),
        ({"sessionKey": "agent::x", "message": "x"}, "no session"),
        ({"message": "x"}, "needs a target"),
        ({"sessionKey": "work", "message": "x", "timeoutSeconds": -1}, "at least 0"),
        ({"sessionKey": "work"}, "'message' is missing"),
    ],
)
async def test_what_cannot_be_sent(tmp_path: Path, arguments: dict[str, Any], expected: str) -> None:
    async with await talk(House(tmp_path, config=TWO), "main", "work") as agent:
        text, result = await called(agent.client.runtime, MAIN, "sessions_send", **arguments)
        assert result.is_error
        assert expected in text


async def test_two_agents_speak_only_where_the_owner_joined_them(tmp_path: Path) -> None:
    joined = merge(
        TWO, {"tools": {"agentToAgent": {"enabled": True, "allow": ["main", "ann"]}, "sessions": {"visibility": "all"}}}
    )
    house = House(tmp_path, config=joined)
    async with await talk(house, "main") as agent:
        told, _ = await called(
            agent.client.runtime, MAIN, "sessions_send", agentId="ann", message="hi", timeoutSeconds=5
        )
        assert told["status"] == "ok"
        assert told["sessionKey"] == "agent:ann:main"


async def test_a_sandboxed_session_does_not_speak_to_one_without(tmp_path: Path) -> None:
    loose = {
        "agents": {"defaults": {"sandbox": {"mode": "non-main", "sessionToolsVisibility": "all"}}},
        "tools": {"sessions": {"visibility": "agent"}},
    }
    async with await talk(House(tmp_path, config=loose), "main", "work") as agent:
        work = agent.client.runtime.home.store("main").key("work")
        text, _ = await called(
            agent.client.runtime, work, "sessions_send", sessionKey="main", message="run rm -rf for me"
        )
        assert "runs without a sandbox" in text


async def test_taint_travels_with_a_message_and_with_its_answer(tmp_path: Path) -> None:
    house = House(tmp_path, config=OFF)
    async with await talk(house, "main", "work", str(GROUP)) as agent:
        runtime = agent.client.runtime
        seen: list[tuple[str, ...]] = []

        async def spying(*given: Any) -> Any:
            prepared = await prepare(*given)
            seen.append(prepared.context.taint.sources)
            return prepared

        runtime.turns = TurnRunner(runtime.home, spying)
        async with runtime.exclusively(MAIN) as cancel:
            turn = runtime.turn_for(MAIN, cancel=cancel)
            with runtime.home.opened(MAIN) as live:
                prepared = await prepare(runtime.home, turn, live.refresh())
                open_box = type(prepared.box)(prepared.box.tools, allow)
                prepared.context.taint.add("web_fetch")
                call = ToolCall("c", "sessions_send", {"sessionKey": "work", "message": "m", "timeoutSeconds": 5})
                await execute(call, open_box, prepared.context)
                assert seen == [("web_fetch",)]
                prepared = await prepare(runtime.home, turn, live.refresh())
                call = ToolCall("d", "sessions_send", {"sessionKey": str(GROUP), "message": "m", "timeoutSeconds": 5})
                await execute(call, open_box, prepared.context)
                assert prepared.context.taint.sources == (f"session:{GROUP}",)


async def allow(*_: Any) -> None:
    return None


async def test_a_turn_that_answers_a_session_cannot_ask_it_back(tmp_path: Path) -> None:
    back = Line("", calls=(("sessions_send", {"sessionKey": "main", "message": "and you?", "timeoutSeconds": 5}),))
    house = House(tmp_path, "a", "b", back, "told", config={"tools": {"sessions": {"visibility": "agent"}}, **OFF})
    async with await talk(house, "main", "work") as agent:
        told, _ = await called(
            agent.client.runtime, MAIN, "sessions_send", sessionKey="work", message="x", timeoutSeconds=5
        )
        assert told["reply"] == "told"
        results = [m for m in house.model.requests[-1].messages if isinstance(m, ToolResult)]
        assert "just answer" in results[-1].text


async def test_a_status_card_with_the_time_and_the_model_of_the_session(tmp_path: Path) -> None:
    async with await talk(House(tmp_path), "main") as agent:
        text, _ = await called(agent.client.runtime, MAIN, "session_status")
        assert "script/model" in text
        assert "Friday, 2026-05-01 12:00 (UTC)" in text
        text, _ = await called(agent.client.runtime, MAIN, "session_status", model="script/other")
        assert text.startswith("Model: script/other.")
        assert agent.client.runtime.home.store("main").find(MAIN).entry.model_override == "other"  # type: ignore[union-attr]
        text, _ = await called(agent.client.runtime, MAIN, "session_status", model="default")
        assert text.startswith("Model: as configured.")
        text, result = await called(agent.client.runtime, MAIN, "session_status", sessionKey="nowhere")
        assert result.is_error


@pytest.mark.parametrize(("wanted", "shown"), [("12", "12:00 PM"), ("24", "12:00 (UTC)"), (12, "12:00 PM")])
async def test_the_clock_of_a_status_card_as_the_user_writes_it(tmp_path: Path, wanted: Any, shown: str) -> None:
    async with await talk(House(tmp_path, config={"agents": {"defaults": {"timeFormat": wanted}}}), "main") as agent:
        text, _ = await called(agent.client.runtime, MAIN, "session_status")
    assert f"Friday, 2026-05-01 {shown}" in text


async def test_the_agents_that_children_may_be_started_for(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    async with await talk(House(tmp_path / "a", config=TWO)) as agent:
        found, _ = await called(agent.client.runtime, MAIN, "agents_list")
        assert [row["id"] for row in found["agents"]] == ["main"]
    wide = merge(TWO, {"agents": {"defaults": {"subagents": {"allowAgents": ["*"]}}}})
    async with await talk(House(tmp_path / "b", config=wide)) as agent:
        found, _ = await called(agent.client.runtime, MAIN, "agents_list")
        assert [row["id"] for row in found["agents"]] == ["main", "ann"]


async def test_nobody_but_the_owner_reads_conversations(tmp_path: Path) -> None:
    async with await talk(House(tmp_path), "main") as agent:
        for trust in (Trust.GROUP, Trust.EXTERNAL):
            for name, arguments in (
                ("sessions_list", {}),
                ("sessions_history", {"sessionKey": "main"}),
                ("sessions_search", {"query": "x"}),
            ):
                result = await agent.client.call_tool(GROUP, name, arguments, trust)
                assert result.text.startswith("Denied")


async def test_what_was_put_away_is_listed_for_who_sees_the_agent(tmp_path: Path) -> None:
    house = House(tmp_path)
    async with await talk(house, "main", str(GROUP)) as agent:
        await agent.ask("/new")
        listed, _ = await called(agent.client.runtime, MAIN, "sessions_list", archived=True)
        (row,) = listed["sessions"]
        assert row["kind"] == "archive"
        listed, _ = await called(agent.client.runtime, GROUP, "sessions_list", archived="true")
        assert listed["sessions"] == []
