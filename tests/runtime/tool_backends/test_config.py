"""The gateway tool on a real configuration file: secrets stay hidden, and every change is asked for."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.home import House

from homarus.core.events import ApprovalAsked, RunEvent
from homarus.core.messages import ToolResult, Trust
from homarus.core.routes import main_session

KEY = main_session("main")
SECRET = "sk-live-0123456789abcdef0123456789"
CONFIG = {
    "models": {"providers": {"x": {"baseUrl": "http://127.0.0.1:1", "apiKey": SECRET, "models": [{"id": "m"}]}}},
    "env": {"vars": {"OTHER": "hunter2-hunter2"}},
}


async def act(house: House, answer: str = "", trust: Trust = Trust.OWNER, **arguments: Any) -> ToolResult:
    """Call the tool with somebody there who answers questions so; without an answer nobody is there."""
    async with house.agent() as agent:
        toolkit = agent.client.runtime.home.toolkit

        def person(event: RunEvent) -> None:
            assert isinstance(event, ApprovalAsked)
            asyncio.get_running_loop().create_task(toolkit.answer(event.approval_id, answer))

        if answer:
            toolkit.approvers.arrive(KEY, person)
        return await agent.client.call_tool(KEY, "gateway", arguments, trust)


def written(house: House) -> Any:
    return json.loads((house.state / "openclaw.json").read_text())


@pytest.mark.parametrize("path", ["", "models.providers.x.apiKey", "models.providers.x", "env.vars.OTHER", "env"])
async def test_no_secret_is_shown(tmp_path: Path, path: str) -> None:
    result = await act(House(tmp_path, config=CONFIG), action="config.get", path=path)
    assert not result.is_error
    assert SECRET not in result.text
    assert "hunter2" not in result.text


async def test_values_and_their_schema(tmp_path: Path) -> None:
    house = House(tmp_path, config=CONFIG)
    assert (
        json.loads((await act(house, action="config.get", path="models.providers.x.baseUrl")).text)["value"]
        == "http://127.0.0.1:1"
    )
    assert json.loads((await act(house, action="config.get", path="no.such.key")).text)["value"] is None
    assert "workspaceAccess" in (await act(house, action="config.schema", path="agents.defaults.sandbox")).text
    assert "no schema" in (await act(house, action="config.schema", path="no.such.key")).text
    assert len((await act(house, action="config.schema")).text) <= 64_000


async def test_a_change_is_made_when_the_owner_says_so(tmp_path: Path) -> None:
    house = House(tmp_path, config=CONFIG)
    patch = {"tools": {"deny": ["exec"]}, "models": {"providers": {"x": {"apiKey": "__OPENCLAW_REDACTED__"}}}}
    result = await act(house, "once", action="config.patch", patch=patch)
    assert "holds from the next start" in result.text
    assert written(house)["tools"] == {"deny": ["exec"]}
    # The marker that stood for the secret did not replace it.
    assert written(house)["models"]["providers"]["x"]["apiKey"] == SECRET


async def test_the_whole_configuration_is_replaced_and_keeps_what_it_hid(tmp_path: Path) -> None:
    house = House(tmp_path, config={**CONFIG, "tools": {"deny": ["exec"], "alsoAllow": ["read"]}})
    shown = json.loads((await act(house, action="config.get")).text)
    wanted = {**shown["value"], "tools": {"deny": ["write"]}}
    del wanted["env"]
    raw = json.dumps(wanted)
    result = await act(house, "once", action="config.apply", raw=raw, baseHash=shown["hash"])
    assert not result.is_error, result.text
    assert written(house)["tools"] == {"deny": ["write"]}
    assert "env" not in written(house)
    assert written(house)["models"]["providers"]["x"]["apiKey"] == SECRET


@pytest.mark.parametrize(
    ("arguments", "answer", "trust", "expected"),
    [
        ({"action": "config.patch", "patch": {"tools": {"exec": {"mode": "full"}}}}, "", Trust.OWNER, "nobody is here"),
        ({"action": "config.patch", "patch": {"tools": {"exec": {"mode": "full"}}}}, "deny", Trust.OWNER, "would be changed"),
        ({"action": "config.patch", "patch": {"agents": {"defaults": {"sandbox": {"mode": 7}}}}}, "once", Trust.OWNER, "nothing was written"),
        ({"action": "config.patch"}, "once", Trust.OWNER, "needs patch"),
        ({"action": "config.patch", "patch": {"a": 1}, "path": "x..y"}, "once", Trust.OWNER, ""),
        ({"action": "restart"}, "once", Trust.OWNER, "nothing here can restart"),
        ({"action": "config.get"}, "", Trust.PAIRED, "there is no tool"),
        ({"action": "config.get"}, "", Trust.EXTERNAL, "there is no tool"),
        ({"action": "config.apply", "patch": {}}, "once", Trust.OWNER, "needs raw"),
        ({"action": "config.apply", "raw": "{"}, "once", Trust.OWNER, "raw:1"),
        ({"action": "config.apply", "raw": "[]"}, "once", Trust.OWNER, "holds no object"),
        ({"action": "config.apply", "raw": "{}", "baseHash": "0"}, "once", Trust.OWNER, "has changed"),
        ({"action": "config.apply", "raw": "{}"}, "", Trust.OWNER, "nobody is here"),
        ({"action": "update.run"}, "", Trust.OWNER, "nobody is here"),
        ({"action": "update.run"}, "once", Trust.OWNER, "package manager"),
    ],
)  # fmt: skip
async def test_what_is_not_done(
    tmp_path: Path, arguments: dict[str, Any], answer: str, trust: Trust, expected: str
) -> None:
    house = House(tmp_path, config=CONFIG)
    before = written(house)
    result = await act(house, answer, trust, **arguments)
    assert result.is_error
    assert expected in result.text
    assert written(house) == before
