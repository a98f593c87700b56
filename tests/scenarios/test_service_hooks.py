"""Moments of a home that serves: a session that is changed, and the end of the service."""

import json
from pathlib import Path

from tests.gateway.served import served
from tests.hooks.helpers import write_hook
from tests.scenarios.home import House, until

from homarus.runtime.client import RunOptions

CODE = """
import json, pathlib
def handle(event):
    with open(pathlib.Path(event.options["stateDir"]) / "heard.jsonl", "a") as file:
        file.write(json.dumps([event.key, event.session_key, event.context.get("patch")]) + "\\n")
"""


def heard(house: House) -> list[list[object]]:
    path = house.state / "heard.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


LISTENS = {"hooks": {"internal": {"entries": {"ear": {"enabled": True}}}}}


def listening(folder: Path) -> House:
    house = House(folder, config=LISTENS)
    write_hook(house.state / "hooks", "ear", metadata='openclaw: {"events": ["session:patch", "gateway"]}', code=CODE)
    return house


async def test_a_session_that_is_changed_is_told_with_what_changed(tmp_path: Path) -> None:
    house = listening(tmp_path)
    async with house.agent() as agent:
        await agent.client.patch(agent.key, label="boiler")
    assert heard(house) == [["session:patch", "agent:main:main", {"label": "boiler"}]]


async def test_a_session_that_is_deleted_has_ended(tmp_path: Path) -> None:
    admin = ("operator.admin",)
    house = House(tmp_path, config={**LISTENS, "gateway": {"auth": {"secretScopes": list(admin)}}})
    code = CODE.replace("patch", "reason")
    write_hook(house.state / "hooks", "ear", metadata='openclaw: {"events": ["session:end"]}', code=code)
    async with served(house) as home:
        client = home.gateway.client
        key = client.resolve("", "boiler")
        async for _event in client.run(key, "hello", RunOptions()):
            pass
        async with home.client(scopes=admin) as program:
            assert (await program.call("sessions.delete", {"key": str(key)}))["deleted"] is True
        await until(lambda: bool(heard(house)))
    assert [row for row in heard(house) if row[2] != "shutdown"] == [["session:end", str(key), "deleted"]]


async def test_only_the_process_that_serves_a_home_tells_of_its_end(tmp_path: Path) -> None:
    house = listening(tmp_path)
    async with house.agent() as agent:
        await agent.ask("hello")
    assert heard(house) == []
    async with house.agent() as agent:
        automation = agent.client.runtime.automation
        automation.start()
        await until(lambda: automation.runs_here)
        await automation.boot()
    assert [row[0] for row in heard(house)] == ["gateway:startup", "gateway:shutdown"]
