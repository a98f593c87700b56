"""What a client sees of a turn: two answers or events, steering, stopping, the same id twice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.served import Served, Wire, served
from tests.scenarios.home import House
from tests.scenarios.script import Line

from homarus.gateway.methods.agent import WaitParams

MAIN = "agent:main:main"


@pytest.fixture
async def home(tmp_path: Path):
    async with served(House(tmp_path)) as found:
        yield found


def sending(text: str, ident: str, **more: Any) -> dict[str, Any]:
    return {"sessionKey": MAIN, "message": text, "idempotencyKey": ident, **more}


async def states(client: Wire, run: str, last: str) -> list[str]:
    """Wait for the end of a run and return what was told of it as `chat`."""
    await client.event("chat", runId=run, state=last)
    return [e["payload"]["state"] for e in client.events if e["event"] == "chat" and e["payload"]["runId"] == run]


async def test_an_agent_answers_one_request_twice(home: Served) -> None:
    async with home.client() as client:
        ident = await client.send("agent", {"message": "hello", "idempotencyKey": "r1"})
        first = (await client.response(ident))["payload"]
        second = (await client.response(ident))["payload"]
        assert (first["status"], first["runId"], first["sessionKey"]) == ("accepted", "r1", MAIN)
        assert (second["status"], second["runId"]) == ("ok", "r1")
        assert [each["text"] for each in second["result"]["payloads"]] == ["answer 1"]
        assert second["result"]["meta"]["agentMeta"]["sessionId"]
        waited = await client.call("agent.wait", {"runId": "r1"})
        assert (waited["status"], waited["terminalReply"]) == ("ok", "answer 1")
        again = await client.call("agent", {"message": "hello", "idempotencyKey": "r1"})
        assert again == second
        assert len(home.house.model.requests) == 1


async def test_what_a_client_adds_to_the_prompt_is_told_for_that_turn(home: Served) -> None:
    async with home.client() as client:
        for ident, more in (("r1", {"extraSystemPrompt": "Answer in verse."}), ("r2", {})):
            asked = await client.send("agent", {"message": "hello", "idempotencyKey": ident, **more})
            for _ in range(2):
                await client.response(asked)
    first, second = (str(request) for request in home.house.model.requests)
    assert "Answer in verse." in first
    assert "Answer in verse." not in second.rpartition("hello")[2]


async def test_a_page_is_answered_once_and_told_the_rest(home: Served) -> None:
    async with home.client() as client:
        assert (await client.call("chat.send", sending("hello", "r1")))["status"] == "started"
        assert (await states(client, "r1", "final"))[-1] == "final"
        final = await client.event("chat", runId="r1", state="final")
        assert final["message"]["content"] == [{"type": "text", "text": "answer 1"}]
        streams = [e["payload"] for e in client.events if e["event"] == "agent"]
        await client.event("agent", stream="lifecycle", runId="r1")
        assert streams[0]["data"]["phase"] == "start"
        assert [each["seq"] for each in streams] == sorted(each["seq"] for each in streams)
        seen = await client.call("chat.history", {"sessionKey": MAIN})
        roles = [message["role"] for message in seen["messages"]]
        user = seen["messages"][0]
        assert roles == ["user", "assistant"]
        assert user["idempotencyKey"] == user["__openclaw"]["idempotencyKey"] == "r1:user"
        assert (await client.call("chat.send", sending("hello", "r1")))["status"] == "ok"
        assert len(home.house.model.requests) == 1


async def test_each_connection_counts_what_it_receives(home: Served) -> None:
    async with home.client() as one, home.client(ident="cli", mode="probe") as blind:
        await one.call("chat.send", sending("hello", "r1"))
        await one.event("chat", runId="r1", state="final")
        numbers = [event["seq"] for event in one.events if "seq" in event]
        assert numbers == list(range(1, len(numbers) + 1))
        await blind.ask("health")
        assert not {"chat", "agent"} & {event["event"] for event in blind.events}


async def test_a_message_that_meets_a_turn_steers_it(home: Served) -> None:
    gate = home.house.model.hold()
    home.house.model.lines = [Line(calls=(("session_status", {}),)), Line("done")]
    async with home.client() as client:
        await client.call("chat.send", sending("begin", "r1"))
        await home.house.model.entered.wait()
        assert (await client.call("chat.send", sending("and this", "r2", queueMode="steer")))["status"] == "started"
        assert (await client.call("chat.send", sending("and this", "r2")))["status"] == "in_flight"
        gate.set()
        folded = await client.event("chat", runId="r2", state="final")
        assert "message" not in folded
        final = await client.event("chat", runId="r1", state="final")
        assert final["message"]["content"][0]["text"] == "done"


async def test_a_turn_can_be_stopped_from_outside(home: Served) -> None:
    home.house.model.lines = [Line("never", hang=True)]
    async with home.client() as client:
        await client.call("chat.send", sending("begin", "r1"))
        await home.house.model.entered.wait()
        assert (await client.call("chat.abort", {"sessionKey": MAIN, "runId": "other"}))["aborted"] is False
        done = await client.call("chat.abort", {"sessionKey": MAIN, "runId": "r1"})
        assert (done["aborted"], done["runIds"]) == (True, ["r1"])
        assert (await states(client, "r1", "aborted"))[-1] == "aborted"
        waited = await client.call("agent.wait", {"runId": "r1"})
        assert (waited["status"], waited["error"], waited["stopReason"]) == ("error", "aborted", "rpc")
        row = (await client.call("sessions.describe", {"key": MAIN}))["session"]
        assert (row["hasActiveRun"], row["status"]) == (False, "done")


async def test_waiting_in_vain_ends_nothing_and_the_same_id_is_in_flight(home: Served) -> None:
    assert WaitParams(run_id="r").timeout_ms == 30_000
    gate = home.house.model.hold()
    async with home.client() as client:
        await client.call("chat.send", sending("begin", "r1"))
        await home.house.model.entered.wait()
        assert (await client.call("agent.wait", {"runId": "r1", "timeoutMs": 1}))["status"] == "timeout"
        assert (await client.call("chat.send", sending("begin", "r1")))["status"] == "in_flight"
        ident = await client.send("agent", {"message": "begin", "sessionKey": MAIN, "idempotencyKey": "r1"})
        assert (await client.response(ident))["payload"]["status"] == "in_flight"
        gate.set()
        assert (await client.call("agent.wait", {"runId": "r1"}))["status"] == "ok"
    assert len(home.house.model.requests) == 1


async def test_a_command_is_answered_without_a_model(home: Served) -> None:
    async with home.client() as client:
        await client.call("chat.send", sending("/help", "r1"))
        final = await client.event("chat", runId="r1", state="final")
        assert "/new" in final["message"]["content"][0]["text"]
        assert home.house.model.requests == []


async def test_who_may_only_write_gives_no_far_reaching_command(home: Served) -> None:
    async with home.client() as client:
        error = (await client.ask("chat.send", sending("/config set a.b 1", "r1")))["error"]
        assert error["details"]["missingScope"] == "operator.admin"
        error = (await client.ask("agent", {"message": "/new", "idempotencyKey": "r2"}))["error"]
        assert error["details"]["missingScope"] == "operator.admin"


async def test_those_who_follow_a_session_see_its_messages(home: Served) -> None:
    async with home.client() as client, home.client() as other:
        await client.call("sessions.subscribe", {})
        await client.call("sessions.messages.subscribe", {"key": "main"})
        await other.call("chat.send", sending("hello", "r1"))
        said = await client.event("session.message")
        assert said["message"]["idempotencyKey"] == "r1:user"
        await client.event("sessions.changed", reason="agent.input.settled")
        await other.call("health")
        assert not {"session.message", "sessions.changed"} & {event["event"] for event in other.events}


async def test_internal_words_never_reach_a_client(home: Served) -> None:
    home.house.model.lines = [Line("NO_REPLY")]
    async with home.client() as client:
        await client.call("chat.send", sending("hello", "r1"))
        final = await client.event("chat", runId="r1", state="final")
        assert "message" not in final
        assert "NO_REPLY" not in str(client.events)
        seen = await client.call("chat.history", {"sessionKey": MAIN})
        assert [message["role"] for message in seen["messages"]] == ["user"]


async def test_many_sessions_at_once_are_all_answered(home: Served) -> None:
    async with home.client() as client:
        sent = [
            await client.send("agent", {"message": "hi", "sessionKey": f"agent:main:s{n}", "idempotencyKey": f"r{n}"})
            for n in range(40)
        ]
        done: dict[str, dict[str, Any]] = {}
        async with asyncio.timeout(60):
            while len(done) < len(sent):
                frame = await client.read()
                if frame["type"] == "res" and frame["payload"]["status"] != "accepted":
                    done[frame["id"]] = frame
        assert {frame["payload"]["status"] for frame in done.values()} == {"ok"}


async def test_a_message_that_an_earlier_process_took_in_is_not_refused(tmp_path: Path) -> None:
    """Whoever was not told that it was taken sends it again, to whoever serves the home then."""
    async with served(House(tmp_path)) as home, home.client() as client:
        await client.call("chat.send", sending("hello", "r1"))
        await states(client, "r1", "final")
    async with served(House(tmp_path)) as home, home.client() as client:
        assert await client.call("chat.send", sending("hello", "r1")) == {"runId": "r1", "status": "ok"}
        assert (await client.call("agent.wait", {"runId": "r1"}))["status"] == "ok"
        await client.call("chat.send", sending("more", "r2"))
        await states(client, "r2", "final")
        assert len(home.house.model.requests) == 1, "it is answered once"


async def test_a_message_whose_sender_left_before_it_was_taken_can_be_sent_again(home: Served) -> None:
    gateway = home.gateway
    async with gateway._intake, home.client() as client:
        await client.send("chat.send", sending("hello", "r1"))
        async with asyncio.timeout(60):
            while gateway.runs.get("r1") is None:
                await asyncio.sleep(0.01)
        await client.raw.close()
        async with asyncio.timeout(60):
            while gateway.runs.get("r1") is not None:
                await asyncio.sleep(0.01)
    async with home.client() as client:
        assert (await client.call("chat.send", sending("hello", "r1")))["status"] == "started"
        await states(client, "r1", "final")


async def test_an_agent_says_accepted_once_the_message_is_durable(home: Served) -> None:
    async with home.client() as client:
        async with home.gateway._intake:
            ident = await client.send("agent", {"message": "hello", "idempotencyKey": "r1"})
            async with asyncio.timeout(60):
                while home.gateway.runs.get("r1") is None:
                    await asyncio.sleep(0.01)
            assert (await client.ask("agent.wait", {"runId": "r1", "timeoutMs": 1}))["payload"]["status"] == "timeout"
            assert not [path for path in home.house.state.rglob("*.jsonl") if b"hello" in path.read_bytes()]
        assert (await client.response(ident))["payload"]["status"] == "accepted"
        assert [path for path in home.house.state.rglob("*.jsonl") if b"hello" in path.read_bytes()]
        assert (await client.response(ident))["payload"]["status"] == "ok"


async def test_an_agent_is_asked_again_what_an_earlier_process_answered(tmp_path: Path) -> None:
    for _ in range(2):
        async with served(House(tmp_path)) as home, home.client() as client:
            ident = await client.send("agent", {"message": "hello", "idempotencyKey": "r1"})
            answers = [(await client.response(ident))["payload"] for _ in range(2)]
            assert [answer["status"] for answer in answers] == ["accepted", "ok"]
            assert [each["text"] for each in answers[1]["result"]["payloads"]] == ["answer 1"]
    assert not home.house.model.requests, "the second process asked nobody"
