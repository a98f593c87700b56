"""This home as a server: driven by the official client, over real pipes and in this process."""

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.home import House
from tests.scenarios.script import Line

pytest.importorskip("mcp", reason="needs the package mcp")
from mcp import Client, StdioServerParameters

from homarus.bridges.mcp import Conversations, build
from homarus.core.messages import Image
from homarus.runtime.client import RunOptions

OFF: dict[str, Any] = {"agents": {"defaults": {"sandbox": {"mode": "off"}}}}
ASKS = Line(calls=(("exec", {"command": "touch made"}),))


async def called(client: Client, name: str, **arguments: Any) -> Any:
    result = await client.call_tool(name, arguments)
    text = result.content[0].text if result.content else ""
    assert not result.is_error, text
    return json.loads(text) if text.startswith("{") else text


async def test_conversations_and_notes_over_a_real_pipe(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    params = StdioServerParameters(command=sys.executable, args=["-m", "homarus", "mcp", "serve", "--owner"], env=env)
    async with Client(params) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert {"conversations_list", "messages_read", "messages_send", "events_wait", "memory_search"} <= tools
        said = await called(client, "messages_send", key="main", text="Remember that the boiler was serviced in March.")
        assert said["status"] == "ok", said
        rows = (await called(client, "conversations_list"))["conversations"]
        assert [row["key"] for row in rows] == ["agent:main:main"]
        messages = (await called(client, "messages_read", key="main"))["messages"]
        assert "boiler" in messages[0]["text"]
        assert "boiler" in str(await called(client, "memory_search", query="boiler"))
        document = await client.read_resource("homarus://conversations/main")
        assert "boiler" in document.contents[0].text
        lost = await client.call_tool("messages_read", {"key": "nobody"})
        assert lost.is_error
        assert "there is no conversation" in lost.content[0].text


async def test_the_pictures_of_a_message(tmp_path: Path) -> None:
    house = House(tmp_path, "a dot", config=OFF)
    picture = Image(base64.b64encode(b"a picture").decode(), "image/png")
    async with house.agent() as agent, Client(build(Conversations(agent.client, "", owner=False))) as client:
        async for _event in agent.client.run(agent.key, "what is it?", RunOptions(images=(picture,))):
            pass
        first, answer = (await called(client, "messages_read", key="main"))["messages"]
        assert (first["images"], answer.get("images")) == (1, None)
        (content,) = (
            await client.call_tool("attachments_fetch", {"key": "main", "timestamp": first["timestamp"]})
        ).content
        assert (content.type, content.data, content.mime_type) == ("image", picture.data, "image/png")
        lost = await client.call_tool("attachments_fetch", {"key": "main", "timestamp": 1})
        assert lost.is_error


async def test_another_program_is_not_the_owner(tmp_path: Path) -> None:
    house = House(tmp_path, ASKS, "could not", config=OFF)
    async with house.agent() as agent, Client(build(Conversations(agent.client, "", owner=False))) as client:
        await called(client, "messages_send", key="main", text="run it")
        refused = await client.call_tool("permissions_respond", {"id": "a1", "decision": "allow-once"})
        assert refused.is_error
        assert "may not answer for the owner" in refused.content[0].text
    assert "commands on the host are for the owner only" in house.model.requests[-1].messages[-1].text


async def test_a_question_is_heard_and_answered(tmp_path: Path) -> None:
    house = House(tmp_path, ASKS, "done", config=OFF)
    async with house.agent() as agent, Client(build(Conversations(agent.client, "", owner=True))) as client:
        said = await called(client, "messages_send", key="main", text="run it", wait_seconds=0)
        assert said["status"] == "running"
        cursor, open_questions = 0, []
        while not open_questions:
            told = await called(client, "events_wait", after=cursor, wait_seconds=10)
            cursor = told["cursor"]
            open_questions = (await called(client, "permissions_list_open"))["permissions"]
        assert "touch made" in open_questions[0]["title"]
        await called(client, "permissions_respond", id=open_questions[0]["id"], decision="allow-once")
        kinds: list[str] = []
        while "run_ended" not in kinds:
            told = await called(client, "events_wait", after=cursor, wait_seconds=10)
            cursor = told["cursor"]
            kinds += [event["type"] for event in told["events"]]
    assert (house.workspace / "made").exists()
