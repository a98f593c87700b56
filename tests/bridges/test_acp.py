"""An editor drives an agent: the official client library against the bridge, over real pipes and in this process."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.home import House, until
from tests.scenarios.script import Line

pytest.importorskip("acp", reason="needs the package agent-client-protocol")
from acp import PROTOCOL_VERSION, RequestError, connect_to_agent, schema, spawn_agent_process, text_block
from acp.core import AgentSideConnection

from homarus.bridges.acp import AcpAgent

OFF: dict[str, Any] = {"agents": {"defaults": {"sandbox": {"mode": "off"}}}}
ASKS = Line(calls=(("exec", {"command": "touch made"}),))


class Editor:
    """What an editor does: it keeps what it is told and answers questions."""

    def __init__(self, answer: str = "allow-once") -> None:
        self.updates: list[Any] = []
        self.questions: list[Any] = []
        self.offered: list[list[str]] = []
        self.answer = answer

    def on_connect(self, conn: Any) -> None:
        return None

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        self.questions.append(tool_call)
        self.offered.append([each.option_id for each in options])
        if self.answer == "fail":
            raise RequestError.internal_error()
        if self.answer == "cancel":
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=self.answer)
        )

    def said(self) -> str:
        return "".join(each.content.text for each in self.updates if each.session_update == "agent_message_chunk")

    def kinds(self) -> list[str]:
        return [each.session_update for each in self.updates]


@asynccontextmanager
async def joined(bridge: AcpAgent, editor: Editor) -> AsyncIterator[Any]:
    """Connect both sides over a real socket."""
    sides = [await asyncio.open_connection(sock=end) for end in socket.socketpair()]
    agent_side = AgentSideConnection(bridge, sides[0][1], sides[0][0])
    conn = connect_to_agent(editor, sides[1][1], sides[1][0])
    try:
        yield conn
    finally:
        await conn.close()
        await agent_side.close()
        for _, writer in sides:
            writer.close()


async def test_a_turn_with_a_tool_and_an_approval(tmp_path: Path) -> None:
    house = House(tmp_path, ASKS, "made it", config=OFF)
    editor = Editor()
    async with house.agent() as agent, joined(AcpAgent(agent.client, ""), editor) as conn:
        hello = await conn.initialize(protocol_version=PROTOCOL_VERSION)
        assert hello.protocol_version == 1
        assert hello.agent_capabilities.load_session
        session = (await conn.new_session(cwd="/projects/here", mcp_servers=[])).session_id
        done = await conn.prompt(session_id=session, prompt=[text_block("run it")])
        assert done.stop_reason == "end_turn"
        assert editor.said() == "made it"
        assert {"available_commands_update", "tool_call", "tool_call_update"} <= set(editor.kinds())
        assert len(editor.questions) == 1
        assert (house.workspace / "made").exists()
        assert "/projects/here" in house.model.prompts[0]
        listed = (await conn.list_sessions()).sessions
        assert [row.session_id for row in listed] == [session]
        editor.updates.clear()
        await conn.load_session(cwd="/", session_id=session, mcp_servers=[])
        assert editor.kinds()[:3] == ["user_message_chunk", "tool_call", "tool_call_update"]
        assert editor.said() == "made it"


async def test_always_is_offered_only_where_something_can_be_allowed_for_good(tmp_path: Path) -> None:
    calls = [Line(calls=(("exec", {"command": each}),)) for each in ("ls .", "ls . > made")]
    house = House(tmp_path, *calls, "done", config={**OFF, "tools": {"exec": {"mode": "ask"}}})
    editor = Editor()
    async with house.agent() as agent, joined(AcpAgent(agent.client, ""), editor) as conn:
        session = (await conn.new_session(cwd="/", mcp_servers=[])).session_id
        await conn.prompt(session_id=session, prompt=[text_block("run both")])
    assert ["allow-always" in each for each in editor.offered] == [True, False]


@pytest.mark.parametrize("answer", ["deny", "cancel", "fail", "nonsense"])
async def test_every_other_answer_is_a_no(tmp_path: Path, answer: str) -> None:
    house = House(tmp_path, ASKS, "could not", config=OFF)
    editor = Editor(answer)
    async with house.agent() as agent, joined(AcpAgent(agent.client, "", "main"), editor) as conn:
        session = (await conn.new_session(cwd="/", mcp_servers=[])).session_id
        assert session == "agent:main:main"
        await conn.prompt(session_id=session, prompt=[text_block("run it")])
        assert not (house.workspace / "made").exists()


async def test_a_cancel_ends_the_turn_and_says_so(tmp_path: Path) -> None:
    house = House(tmp_path, Line("so far", hang=True), config=OFF)
    async with house.agent() as agent, joined(AcpAgent(agent.client, ""), Editor()) as conn:
        session = (await conn.new_session(cwd="/", mcp_servers=[])).session_id
        turn = asyncio.create_task(conn.prompt(session_id=session, prompt=[text_block("think long")]))
        await until(lambda: bool(house.model.active))
        await conn.cancel(session_id=session)
        assert (await turn).stop_reason == "cancelled"


async def test_servers_of_an_editor_and_unknown_sessions_are_refused(tmp_path: Path) -> None:
    house = House(tmp_path, config=OFF)
    async with house.agent() as agent, joined(AcpAgent(agent.client, ""), Editor()) as conn:
        server = schema.McpServerStdio(name="x", command="/bin/true", args=[], env=[])
        with pytest.raises(RequestError, match=r"mcp\.servers"):
            await conn.new_session(cwd="/", mcp_servers=[server])
        with pytest.raises(RequestError):
            await conn.load_session(cwd="/", session_id="agent:main:nothing", mcp_servers=[])


async def test_the_command_speaks_the_protocol_and_nothing_else_on_its_output(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    editor = Editor()
    async with spawn_agent_process(editor, sys.executable, "-m", "homarus", "acp", env=env) as (conn, _process):
        await conn.initialize(protocol_version=PROTOCOL_VERSION)
        session = (await conn.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
        done = await conn.prompt(session_id=session, prompt=[text_block("Remember that the key hangs in the hall.")])
        assert done.stop_reason == "end_turn"
        assert "hall" in editor.said()
