"""A home through its gateway is the home itself: the same events, answers and questions, over a port or its own socket."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.served import TOKEN, Served, served
from tests.scenarios.home import House, until
from tests.scenarios.script import Line

from homarus import Agent, HomarusError
from homarus.cli.agent import open_agent
from homarus.cli.app import App
from homarus.core.errors import ConfigError, Unknown
from homarus.core.events import ApprovalAsked, MessageEnded, RunEnded, RunEvent, RunStarted, TextDelta, ToolEnded
from homarus.core.messages import Trust
from homarus.gateway.remote import RemoteClient, Unreachable, address_of
from homarus.queue.modes import Overrides
from homarus.queue.settings import Mode
from homarus.runtime.client import RunOptions
from homarus.runtime.functions import function_tool
from homarus.runtime.local import LocalClient


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A short path: the name of a Unix socket holds a hundred bytes."""
    with tempfile.TemporaryDirectory(prefix="homarus-") as folder:
        yield Path(folder)


@pytest.fixture
async def home(tmp_path: Path):
    async with served(House(tmp_path), unix=True) as found:
        yield found


def by_port(home: Served) -> dict[str, object]:
    return {"url": f"ws://127.0.0.1:{home.port}", "token": TOKEN, "env": home.house.env}


@pytest.fixture(params=["port", "socket"])
async def agent(home: Served, request: pytest.FixtureRequest):
    given = by_port(home) if request.param == "port" else {"env": home.house.env}
    async with await Agent.connect(**given) as found:
        yield found


async def test_a_turn_is_told_event_by_event(agent: Agent, home: Served) -> None:
    home.house.model.lines = [Line("I look.", calls=(("session_status", {}),)), Line("All is well.")]
    events = [event async for event in agent.run("hello")]
    assert isinstance(events[-1], RunEnded)
    kinds = [type(event) for event in events]
    assert kinds.index(RunStarted) < kinds.index(TextDelta) < kinds.index(MessageEnded) < kinds.index(ToolEnded)
    assert (await agent.ask("again")).text == "answer 3"
    assert [message.text for message in await agent.client.history(agent.key, 1)] == ["answer 3"]
    status = await agent.client.status(agent.key)
    assert (status.busy, status.messages, status.used) == (False, 6, 110)
    assert [info.key for info in await agent.client.sessions("")] == [agent.key]
    assert await agent.client.search("well", 5)
    assert "status" in (await agent.client.vocabulary(agent.key)).commands


async def test_steering_stopping_and_listening(agent: Agent, home: Served) -> None:
    home.house.model.hold()
    heard: list[RunEvent] = []
    unlisten = agent.listen(heard.append)
    assert not agent.steer("nobody runs")
    turn = asyncio.ensure_future(agent.ask("begin"))
    await until(lambda: any(isinstance(each, RunStarted) for each in heard))
    await until(lambda: home.house.model.active == 1)
    assert agent.steer("and this")
    assert agent.stop("enough")
    assert (await turn).status == "aborted"
    await until(lambda: any(isinstance(each, RunEnded) for each in heard))
    unlisten()
    home.house.model.gate = None
    seen = len(heard)
    await agent.ask("unheard")
    assert len(heard) == seen


async def test_the_turn_of_one_message_is_ended_and_that_of_another_is_not(agent: Agent, home: Served) -> None:
    home.house.model.hold()
    heard: list[RunEvent] = []
    agent.listen(heard.append)
    turn = asyncio.ensure_future(agent.ask("begin", options=RunOptions(message_id="first-one")))
    await until(lambda: home.house.model.active == 1)
    later = await agent.send("and later", options=RunOptions(message_id="later-one", queue=Overrides(Mode.FOLLOWUP)))
    assert later.item is not None
    assert not await agent.client.abort_turn_of(agent.key, "later-one", "interrupted")
    assert not turn.done()
    assert await agent.client.abort_turn_of(agent.key, "first-one", "interrupted")
    assert (await turn).status == "aborted"


async def test_a_command_is_answered_and_a_problem_is_said(agent: Agent) -> None:
    said = await agent.ask("/status")
    assert said.ok
    assert "main" in said.text
    with pytest.raises(HomarusError, match="unknown agent"):
        await Agent(agent.client, type(agent.key).parse("agent:nobody:main")).ask("hello")
    with pytest.raises(ConfigError, match="there are main"):
        agent.client.resolve("nobody", "main")
    with pytest.raises(HomarusError, match="cannot call"):
        agent.tool(lambda: 1, name="mine")  # type: ignore[call-overload]


async def test_only_the_transport_says_who_speaks(home: Served) -> None:
    seen: list[Trust] = []
    send = home.gateway.client.send

    async def spy(key, text, options=None):  # type: ignore[no-untyped-def]
        seen.append(options.trust)
        return await send(key, text, options)

    home.gateway.client.send = spy  # type: ignore[method-assign]
    async with home.client() as client:
        body = {"session": "main", "text": "hi", "options": {"trust": "external", "channel": "cron"}}
        await client.call("home.send", body)
        assert seen == [Trust.OWNER]
        for method, params in (
            ("home.patch", {"session": "main", "fields": {"elevated_level": "full"}}),
            ("home.run", {"session": "main", "text": "/elevated full"}),
            ("home.attend", {"session": "main", "stream": "s"}),
        ):
            refused = await client.ask(method, params)
            assert refused["error"]["code"] == "FORBIDDEN", method
    async with home.client(scopes=("operator.read",)) as client:
        assert (await client.ask("home.send", body))["error"]["code"] == "FORBIDDEN"


async def test_a_question_is_answered_through_the_gateway(tmp_path: Path) -> None:
    house, done = House(tmp_path, *[Line(calls=(("ring", {}),)), Line("done")] * 2), list[str]()

    def ring() -> None:
        """Ring the bell."""
        done.append("rang")

    async with served(house, unix=True) as home, await Agent.connect(env=house.env) as agent:
        home.gateway.client.add_tool(function_tool(ring, ask=True))
        await agent.ask("do it")
        assert "Denied" in str(house.model.requests[1].messages[-1]), "nobody attends"
        leave = agent.client.attend(agent.key)
        async for event in agent.run("do it"):
            if isinstance(event, ApprovalAsked):
                assert "allow-once" in await agent.client.answer(event.approval_id, "allow-once")
        leave()
    assert done == ["rang"]


async def test_a_gateway_that_comes_back_is_found_again(tmp_path: Path) -> None:
    house, heard = House(tmp_path), list[RunEvent]()
    async with served(house, unix=True):
        agent = await Agent.connect(env=house.env)
        agent.listen(heard.append)
        house.model.hold()
        cut = asyncio.ensure_future(agent.ask("begin"))
        await until(lambda: house.model.active == 1)
    with pytest.raises(Unreachable) as lost:
        await cut
    assert "it has the message" in lost.value.cure, "nobody is told to say it twice"
    with pytest.raises(Unreachable) as lost:
        await agent.ask("nobody is there")
    assert "it has the message" not in lost.value.cure
    house.model.gate = None
    async with served(house, unix=True):
        heard.clear()
        await agent.client.connect()
        assert (await agent.ask("hello again", options=RunOptions())).ok
        assert any(isinstance(each, RunStarted) for each in heard), "whoever listened listens on"
        await agent.aclose()


async def test_addresses_that_would_show_the_secret_are_refused(home: Served) -> None:
    env = home.house.env
    for wrong in ("ws://192.168.1.5:18789", "http://example.org", "ws://127.0.0.1.evil.com/", "ftp://x", "ws://"):
        with pytest.raises(ConfigError):
            address_of(wrong, token="t", env=env)
    assert address_of("https://gw.example.org", env=env).url == "wss://gw.example.org/"
    with pytest.raises(HomarusError):
        await Agent.connect(f"ws://127.0.0.1:{home.port}", token="wrong", env=env)
    with pytest.raises(Unreachable, match="no gateway answers"):
        await Agent.connect("unix:/nowhere/gateway.sock", env=env)


async def test_commands_use_the_gateway_that_owns_the_home(tmp_path: Path) -> None:
    house = House(tmp_path)
    app = App(env=house.env)
    async with served(house, unix=True):
        async with await open_agent(app, "", "main") as agent:
            assert isinstance(agent.client, RemoteClient)
            assert (await agent.ask("hello")).text == "answer 1"
        async with await open_agent(app, "", "main", local=True) as agent:
            assert isinstance(agent.client, LocalClient)
    (tmp_path / "far").mkdir()
    far = House(tmp_path / "far", config={"gateway": {"mode": "remote"}})
    async with served(house) as home:
        with pytest.raises(ConfigError, match="url"):
            await open_agent(App(env=far.env), "", "main")
        rules = {"mode": "remote", "remote": {"url": f"ws://127.0.0.1:{home.port}", "token": TOKEN}}
        (far.state / "openclaw.json").write_text(json.dumps({"gateway": rules}))
        async with await open_agent(App(env=far.env), "", "main") as agent:
            assert (await agent.ask("from afar")).text == "answer 2"
    left = app.paths.own_dir / "gateway.sock"
    assert left.exists(), "as after a kill"
    async with await open_agent(app, "", "main") as agent:
        assert isinstance(agent.client, LocalClient)


async def test_a_session_is_meant_beside_a_gateway_as_it_is_without(tmp_path: Path) -> None:
    house = House(tmp_path)
    app = App(env=house.env)
    async with served(house, unix=True) as home:
        async with await open_agent(app, "", "main") as agent:
            await agent.ask("hello")
        ident = home.gateway.client.home.store("main").find(agent.key).entry.session_id
        await sessions(home, "rename", "main", "garden")
        for word in ("garden", ident[:8]):
            async with await open_agent(app, "", word) as agent:
                assert isinstance(agent.client, RemoteClient) and agent.key.is_main
        await sessions(home, "resume", ident)  # it lives, so that nothing is made
        async with await open_agent(app, "", "main") as agent:
            await agent.ask("/new")
        with pytest.raises(Unknown, match="was put away"):
            await open_agent(app, "", ident[:8])


async def sessions(home: Served, *words: str) -> Any:
    """What somebody types meanwhile in another process."""
    env = {**os.environ, **home.house.env, "PYTHONPATH": os.pathsep.join(sys.path)}
    line = [sys.executable, "-m", "homarus", "sessions", *words, "--json"]
    process = await asyncio.create_subprocess_exec(*line, env=env, stdout=-1, stderr=-1)
    out, err = await process.communicate()
    assert process.returncode == 0, err
    return json.loads(out)


async def test_conversations_are_read_and_copied_beside_a_gateway_at_work(home: Served, tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_text(
        '{"type":"session","version":3,"id":"old","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}\n'
        '{"type":"message","id":"a","parentId":null,"timestamp":"2026-01-01T00:00:01.000Z",'
        '"message":{"role":"user","content":"about the plumber","timestamp":1767225601000}}\n'
    )
    async with await Agent.connect(**by_port(home)) as agent:
        await agent.ask("where is the lamp")
        gate = home.house.model.hold()
        asked = asyncio.ensure_future(agent.ask("and the candle"))
        await home.house.model.entered.wait()  # in the middle of a turn, with the session open
        assert "agent:main:main" in {row["key"] for row in (await sessions(home, "list"))["sessions"]}
        assert "and the candle" in json.dumps(await sessions(home, "show", "main"))
        assert {hit["session"] for hit in await sessions(home, "search", "lamp")} == {"agent:main:main"}
        copy = (await sessions(home, "fork", "main", "second"))["key"]
        (brought,) = await sessions(home, "import", str(tmp_path / "old.jsonl"))
        gate.set()
        assert (await asked).ok
        # What the turn writes at its end takes nothing of that away, and the gateway goes on with the copies.
        async with home.client() as client:
            await until(lambda: not home.gateway.runtime.lanes.busy, 60)
            rows = {row["key"]: row for row in (await client.call("sessions.list", {}))["sessions"]}
        assert {"agent:main:main", copy, brought["key"]} <= set(rows)
        key = agent.client.resolve("", copy)
        assert [event async for event in agent.client.run(key, "go on", RunOptions())]
        assert "where is the lamp" in "".join(each.text for each in home.house.model.requests[-1].messages)
        assert (await sessions(home, "list"))["count"] == 3


async def test_sessions_that_a_gateway_has_open_are_changed_through_it(home: Served, tmp_path: Path) -> None:
    typed = partial(sessions, home)
    async with await Agent.connect(**by_port(home)) as agent:
        await agent.ask("hello")
        other = agent.client.resolve("", "garden")
        assert [event async for event in agent.client.run(other, "hello", RunOptions())]
        async with home.client(scopes=("operator.read",)) as page:
            await page.call("sessions.subscribe", {})
            assert (await typed("rename", "garden", "roses"))["label"] == "roses"
            await page.event("sessions.changed", sessionKey=str(other))  # whoever looks at the list hears of it
        gone = await typed("delete", "roses")  # open here, and ended here
        assert Path(gone["archive"]).is_file()
        assert home.gateway.client.operations.find(other) is None
        assert (await typed("cleanup", "--enforce"))[0]["enforced"] is True
