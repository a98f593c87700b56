"""A changed file counts with the next turn: models, agents, tools of servers, skills, memory, the log. Nothing starts anew for it."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.served import Served, Wire, served
from tests.scenarios.home import House, merge, until
from tests.scenarios.script import Line

from homarus.gateway.logs import LogFile, read_log

SMALL_SERVER = str(Path(__file__).parents[1] / "plugins" / "mcp" / "small_server.py")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A short path: the name of a Unix socket holds a hundred bytes."""
    with tempfile.TemporaryDirectory(prefix="homarus-") as folder:
        yield Path(folder)


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(House(tmp_path)) as found:
        yield found
        assert not found.gateway.life.restarts


def change(home: Served, more: dict[str, Any]) -> None:
    path = home.house.state / "openclaw.json"
    path.write_text(json.dumps(merge(json.loads(path.read_text()), more)))
    assert home.gateway.life.changed() == "hot"


async def ask(client: Wire, text: str, **more: Any) -> str:
    """Say something on a socket that stays, and return the answer."""
    ident = await client.send("agent", {"message": text, "idempotencyKey": text, **more})
    assert (await client.response(ident))["payload"]["status"] == "accepted"
    payload = (await client.response(ident))["payload"]
    return "".join(part["text"] for part in payload["result"]["payloads"])


@asynccontextmanager
async def model_server(words: str) -> AsyncIterator[dict[str, Any]]:
    """A server that answers everything with these words, as `models.providers` names it."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        await reader.readexactly(int(head.partition("content-length:")[2].split("\r\n")[0]))
        rows = [{"choices": [{"index": 0, "delta": {"content": words}, "finish_reason": None}]}]
        rows += [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
        body = "".join(f"data: {json.dumps(row)}\n\n" for row in rows) + "data: [DONE]\n\n"
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        facts = {"api": "openai-completions", "apiKey": "k", "models": [{"id": "m", "contextWindow": 100_000}]}
        yield {"baseUrl": f"http://127.0.0.1:{port}/v1", **facts}


async def test_a_new_provider_answers_the_next_turn_and_another_address_the_one_after(home: Served) -> None:
    async with home.client() as client, model_server("tea") as tea, model_server("coffee") as coffee:
        assert await ask(client, "one") == "answer 1"
        change(home, {"models": {"providers": {"own": tea}}, "agents": {"defaults": {"model": "own/m"}}})
        assert await ask(client, "two") == "tea"
        change(home, {"models": {"providers": {"own": coffee}}})
        assert await ask(client, "three") == "coffee"
        change(home, {"agents": {"defaults": {"model": "script/model"}}})
        assert await ask(client, "four") == "answer 2", "whoever was registered in this process is still known"


async def test_a_changed_file_that_is_included_counts_and_a_broken_one_does_not(tmp_path: Path) -> None:
    house = House(tmp_path)
    part, main = house.state / "secret.json5", house.state / "openclaw.json"
    settings = json.loads(main.read_text())
    gate = settings.pop("gateway", {})
    main.write_text(json.dumps({**settings, "gateway": {"$include": "./secret.json5"}}))

    def write(token: str) -> None:
        part.write_text(json.dumps(merge(gate, {"auth": {"mode": "token", "token": token}})))

    write("the-first-secret-of-this-home")
    async with served(house, token=None) as found:
        live, seen = found.gateway.live, found.gateway.live.stamp()
        assert await live.secret() == "the-first-secret-of-this-home"
        write("the-second-secret-of-this-home-is-longer")
        assert live.stamp() != seen
        assert await live.secret() == "the-second-secret-of-this-home-is-longer"
        part.write_text("{ auth: ")
        assert await live.secret() == "the-second-secret-of-this-home-is-longer"
        write("the-third-secret")
        assert await live.secret() == "the-third-secret"


async def test_a_turn_that_runs_keeps_the_model_that_it_began_with(home: Served) -> None:
    home.house.model.lines = [Line(calls=(("session_status", {}),)), Line("done")]
    gate = home.house.model.hold()
    async with home.client() as client, model_server("tea") as tea:
        running = asyncio.ensure_future(ask(client, "one"))
        await home.house.model.entered.wait()
        change(home, {"models": {"providers": {"own": tea}}, "agents": {"defaults": {"model": "own/m"}}})
        gate.set()
        assert await running == "done"
        assert await ask(client, "two") == "tea"


async def test_a_new_agent_and_another_workspace_count_with_the_next_turn(home: Served) -> None:
    folder = home.house.folder / "elsewhere"
    async with home.client() as client:
        await ask(client, "one")
        change(home, {"agents": {"defaults": {"workspace": str(folder)}, "entries": {"main": {}, "cook": {}}}})
        await ask(client, "two")
        assert str(folder) in str(home.house.model.requests[-1].system)
        await ask(client, "three", agentId="cook")
        assert {row["id"] for row in (await client.call("agents.list"))["agents"]} == {"main", "cook"}
        change(home, {"agents": {"entries": {"main": {}, "cook": {"default": True}}}})
        assert (await client.call("agents.list"))["defaultId"] == "cook"


async def test_servers_of_tools_come_change_and_go(home: Served) -> None:
    pytest.importorskip("mcp", reason="needs the package mcp")

    def server(note: str, **more: Any) -> dict[str, Any]:
        return {"command": sys.executable, "args": [SMALL_SERVER, "fine", str(home.house.folder / note)], **more}

    async def offered(client: Wire, *wanted: str) -> None:
        """Ask until these tools are there: a turn does not wait for ever for a server that is slow to start."""
        found: list[str] = []
        for number in range(20):
            await ask(client, f"{wanted} {number}")
            found = sorted(tool.name for tool in home.house.model.requests[-1].tools if "__" in tool.name)
            if found == sorted(wanted):
                return
        raise AssertionError(found)

    def started(note: str) -> list[str]:
        return (home.house.folder / note).read_text().split()

    kept = [f"kept__{name}" for name in ("echo", "env", "send")]
    async with home.client() as client:
        await offered(client)
        change(home, {"mcp": {"servers": {"kept": server("kept"), "other": server("first")}}})
        await offered(client, *kept, *(f"other__{name}" for name in ("echo", "env", "send")))
        change(home, {"mcp": {"servers": {"other": server("second", toolFilter={"include": ["echo"]})}}})
        await offered(client, *kept, "other__echo")
        await until(lambda: not Path(f"/proc/{started('first')[-1]}").exists())  # the one that changed was ended
        assert Path(f"/proc/{started('second')[-1]}").exists() or not Path("/proc/self").exists()
        change(home, {"mcp": {"servers": {"other": {"enabled": False}}}})
        await offered(client, *kept)
        assert len(started("kept")) == 1, "the one that stayed as it was went on"


async def test_skills_of_another_folder_are_listed_with_the_next_turn(home: Served) -> None:
    folder = home.house.folder / "more-skills"
    (folder / "tea").mkdir(parents=True)
    (folder / "tea" / "SKILL.md").write_text("---\nname: tea\ndescription: Brew tea.\n---\nBoil water.\n")
    async with home.client() as client:
        seen = []
        for number, dirs in enumerate(([], [str(folder)], [])):
            change(
                home,
                {"skills": {"load": {"extraDirs": dirs, "watch": True}, "entries": {"x": {"env": {"N": f"{number}"}}}}},
            )
            await ask(client, f"say {number}")
            seen.append("Brew tea." in str(home.house.model.requests[-1].system))
        change(home, {"skills": {"load": {"extraDirs": [str(folder)]}, "limits": {"maxSkillsInPrompt": 0}}})
        await ask(client, "say nothing of them")
        seen.append("Brew tea." in str(home.house.model.requests[-1].system))
    assert seen == [False, True, False, False]


async def test_memory_is_searched_as_the_settings_say_now(home: Served) -> None:
    runtime_home = home.gateway.runtime.home
    before = runtime_home.memory("main")
    change(home, {"session": {"maintenance": {"mode": "warn"}}})
    assert runtime_home.memory("main") is before, "what does not concern it leaves it alone"
    change(home, {"agents": {"defaults": {"memorySearch": {"query": {"maxResults": 3}}}}})
    assert runtime_home.memory("main").settings.query.max_results == 3


async def test_the_first_channel_brings_the_tool_for_messages(home: Served) -> None:
    async with home.client() as client:
        await ask(client, "one")
        assert "message" not in {tool.name for tool in home.house.model.requests[-1].tools}
        change(home, {"channels": {"telegram": {"enabled": False}}})
        await ask(client, "two")
        assert "message" in {tool.name for tool in home.house.model.requests[-1].tools}


async def test_more_places_hold_for_turns_that_come_then(home: Served) -> None:
    change(home, {"agents": {"defaults": {"maxConcurrent": 1}}})
    gate = home.house.model.hold()
    async with home.client() as client:
        for number in range(2):
            await client.call("agent", {"message": "x", "sessionKey": f"s{number}", "idempotencyKey": f"r{number}"})
        await home.house.model.entered.wait()
        change(home, {"agents": {"defaults": {"maxConcurrent": 2}}})
        await client.call("agent", {"message": "x", "sessionKey": "s2", "idempotencyKey": "r2"})
        await until(lambda: home.house.model.active == 2)
        gate.set()
        await until(lambda: len(home.house.model.requests) == 3)


async def test_the_log_goes_on_elsewhere_and_with_another_level(home: Served, caplog: pytest.LogCaptureFixture) -> None:
    gateway, own = home.gateway, logging.getLogger("homarus.tests.reload")
    gateway.log = LogFile(gateway.client.home.config)
    try:
        other = home.house.folder / "other.log"
        own.debug("unheard")
        change(home, {"logging": {"level": "debug", "file": str(other)}})
        own.debug("heard")
        change(home, {"logging": {"level": "error"}})
        own.warning("too quiet")
        assert [row["message"] for row in read_log(other, 100)[0] if row["logger"] == own.name] == ["heard"]
        assert all(row["logger"] != own.name for row in read_log(home.house.state / "logs" / "gateway.log", 100)[0])
        change(home, {"logging": {"file": str(other / "below-a-file")}})
        own.error("still there")
        assert "still there" in other.read_text()
    finally:
        gateway.log.close()


async def test_a_heartbeat_that_is_switched_on_is_due_by_the_new_settings(home: Served) -> None:
    automation = home.gateway.runtime.automation

    def left_ms() -> int:
        due = automation.status()["heartbeats"]["agents"].get("main", {}).get("nextAtMs")
        return due - home.gateway.now_ms if due else 10**9

    change(home, {"agents": {"defaults": {"heartbeat": {"every": "7h"}}}})
    await until(lambda: left_ms() < 10**9)
    assert left_ms() > 300_000
    change(home, {"agents": {"defaults": {"heartbeat": {"every": "5m"}}}})
    await until(lambda: left_ms() <= 300_000)
