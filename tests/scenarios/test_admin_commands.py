"""Commands that reach beyond their conversation. They do not exist until they are switched on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.home import House

from homarus import Agent
from homarus.core.messages import Inbound, Trust
from homarus.core.tools import Risk, ToolSpec
from homarus.tools.tool import Tool, ToolContext, ToolOutput, said

ON = {"commands": dict.fromkeys(("bash", "config", "debug", "restart", "send", "activation", "btw"), True)}
NAMES = ("bash", "config", "debug", "restart", "allowlist", "send", "activation", "btw")


def with_commands(agent: Agent, ran: list[str]) -> Agent:
    """Give the agent an exec that only notes what it was told to run, behind the real gate's place."""

    async def run(_context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        ran.append(str(arguments.get("command") or arguments))
        return said(f"ran {ran[-1]}")

    words = {name: {"type": "string"} for name in ("command", "action", "sessionId")}
    for name in ("exec", "process"):
        spec = ToolSpec(name, "Notes what it is told.", {"type": "object", "properties": words})
        agent.client.runtime.home.toolkit.add(Tool(spec=spec, risk=Risk.READ, run=run, group="test"))
    return agent


@pytest.mark.parametrize("name", NAMES)
async def test_an_admin_command_says_how_to_switch_it_on_and_costs_no_call(tmp_path: Path, name: str) -> None:
    house = House(tmp_path)
    async with house.agent() as agent:
        reply = await agent.ask(f"/{name} x")
    assert reply.text.startswith(f"/{name} is switched off.")
    assert house.model.prompts == []


async def test_only_the_owner_gives_them(tmp_path: Path) -> None:
    house = House(tmp_path, config={"commands": {**ON["commands"], "allowFrom": ["*"]}})
    ran: list[str] = []
    async with with_commands(house.agent(), ran) as agent:
        for number, text in enumerate(("/bash id", "/config get", "/debug set a.b 1", "! id")):
            other = Inbound(id=f"m{number}", channel="telegram", text=text, sender="77", trust=Trust.PAIRED)
            handled = await agent.client.router.handle(agent.key, other)
            assert handled.replies == ()
            assert handled.item is None
    assert ran == []
    assert house.model.requests == []


async def test_bash_runs_what_the_model_could_run_and_stores_nothing(tmp_path: Path) -> None:
    house, ran = House(tmp_path, config=ON), list[str]()
    async with with_commands(house.agent(), ran) as agent:
        assert (await agent.ask("/bash ls -l /tmp")).text == "ran ls -l /tmp"
        assert (await agent.ask("! echo $HOME")).text == "ran echo $HOME"
        assert (await agent.ask("!date")).text == "ran date"
        assert "poll" in (await agent.ask("/bash poll abc")).text
        assert "kill" in (await agent.ask("/bash stop abc")).text
        assert "Usage" in (await agent.ask("/bash")).text
        assert (await agent.ask("!")).text == "answer 1", "a bare mark is a text"
    assert ran[:3] == ["ls -l /tmp", "echo $HOME", "date"]
    assert house.model.prompts == ["!"]


async def test_an_exclamation_is_a_text_while_bash_is_off(tmp_path: Path) -> None:
    house = House(tmp_path)
    async with house.agent() as agent:
        await agent.ask("! important")
    assert house.model.prompts == ["! important"]


async def test_bash_passes_the_same_gate_as_the_model(tmp_path: Path) -> None:
    house = House(tmp_path, config={**ON, "agents": {"defaults": {"sandbox": {"mode": "off"}}}})
    async with house.agent() as agent:
        text = (await agent.ask(f"/bash touch {tmp_path}/made")).text
    assert not (tmp_path / "made").exists(), "nobody was there to say yes"
    assert "host" in text


async def test_debug_holds_in_this_process_and_leaves_the_file_alone(tmp_path: Path) -> None:
    house = House(tmp_path, config=ON)
    before = (house.state / "openclaw.json").read_bytes()
    async with house.agent() as agent:
        assert "Nothing is set" in (await agent.ask("/debug")).text
        assert "next turn" in (await agent.ask("/debug set agents.defaults.thinkingDefault high")).text
        assert "next turn" in (await agent.ask('/debug set messages.queue.mode "collect"')).text
        assert "collect" in (await agent.ask("/queue")).text
        assert json.loads((await agent.ask("/debug show")).text)["messages.queue.mode"] == "collect"
        assert "as configured" in (await agent.ask("/debug unset messages.queue.mode")).text
        assert "steer" in (await agent.ask("/queue")).text
        assert agent.client.runtime.home.config.get("agents.defaults.thinkingDefault") == "high"
        await agent.ask("/debug reset")
        assert agent.client.runtime.home.config.get("agents.defaults.thinkingDefault") is None
        assert "Usage" in (await agent.ask("/debug unset nothing.like.it")).text
    assert (house.state / "openclaw.json").read_bytes() == before


@pytest.mark.parametrize("words", ['tools.exec.mdoe "full"', 'tools "off"', "agents.defaults.budget.day.money cheap"])
async def test_debug_takes_no_restriction_that_cannot_be_read(tmp_path: Path, words: str) -> None:
    """What would stop the program in the file is refused here, and what held before holds on."""
    house = House(tmp_path, config=ON)
    async with house.agent() as agent:
        config = agent.client.runtime.home.config
        await agent.ask("/debug set agents.defaults.thinkingDefault high")
        key = words.split()[0]
        before = config.get(key)
        assert key in (await agent.ask(f"/debug set {words}")).text
        assert config.get(key) == before and config.get("agents.defaults.thinkingDefault") == "high"
        assert list(json.loads((await agent.ask("/debug show")).text)) == ["agents.defaults.thinkingDefault"]


@pytest.mark.parametrize("words", ["/trace on", "/send off"])
async def test_a_choice_without_effect_says_so(tmp_path: Path, words: str) -> None:
    async with House(tmp_path, config=ON).agent() as agent:
        assert "has no effect here" in (await agent.ask(words)).text


async def test_debug_shows_no_secret(tmp_path: Path) -> None:
    house = House(tmp_path, config=ON)
    async with house.agent() as agent:
        await agent.ask("/debug set gateway.auth.token sk-very-secret-indeed")
        assert "secret-indeed" not in (await agent.ask("/debug show")).text


async def test_restart_says_that_there_is_no_gateway(tmp_path: Path) -> None:
    async with House(tmp_path, config=ON).agent() as agent:
        assert "No gateway" in (await agent.ask("/restart")).text


async def test_the_allowlist_of_a_channel_is_shown_and_changed(tmp_path: Path) -> None:
    house = House(tmp_path, config={**ON, "channels": {"telegram": {"allowFrom": ["11"], "enabled": False}}})
    async with house.agent() as agent:
        assert (await agent.ask("/allowlist")).text == "telegram dm: 11"
        assert "No sender" in (await agent.ask("/allowlist list discord")).text
        assert "channel=" in (await agent.ask("/allowlist add 22")).text
        assert "set" in (await agent.ask("/allowlist add channel=telegram 22")).text
        assert "set" in (await agent.ask("/allowlist add group channel=telegram -100")).text
    async with house.agent() as agent:
        assert (await agent.ask("/allowlist")).text == "telegram dm: 11, 22\ntelegram group: -100"
        await agent.ask("/allowlist remove channel=telegram 11")
        assert (await agent.ask("/allowlist remove channel=telegram 99")).text == "Nothing changed."
    stored = json.loads((house.state / "openclaw.json").read_text())
    assert stored["channels"]["telegram"] == {"allowFrom": ["22"], "enabled": False, "groupAllowFrom": ["-100"]}


async def test_fast_says_where_there_is_no_faster_queue(tmp_path: Path) -> None:
    async with House(tmp_path).agent() as agent:
        assert "no faster queue" in (await agent.ask("/fast on")).text
        assert "no faster queue" not in (await agent.ask("/fast default")).text


async def test_think_says_where_a_model_does_not_think(tmp_path: Path) -> None:
    plain = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "plain"}]}
    async with House(tmp_path, config={"models": {"providers": {"mine": plain}}}).agent() as agent:
        await agent.ask("/model mine/plain")
        assert "mine/plain does not think" in (await agent.ask("/think high")).text
        assert "does not think" not in (await agent.ask("/think off")).text
        assert "does not think" not in (await agent.ask("/think default")).text


async def test_exec_choices_beside_a_text_hold_for_that_message(tmp_path: Path) -> None:
    house = House(tmp_path)
    async with house.agent() as agent:
        await agent.ask("clean up /exec security=deny")
        await agent.ask("again")
    assert house.model.prompts[0].strip() == "clean up"
    assert "execSecurity" not in house.row()
