"""Every moment that hooks can hear of: where it is tested, and that it comes with what it promises."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.served import served as gateway_of
from tests.hooks.helpers import write_hook
from tests.scenarios.chat import CONFIG, Platform, served
from tests.scenarios.home import House, merge, until
from tests.scenarios.script import Line

from homarus.config.paths import resolve_paths
from homarus.core.clock import SystemClock
from homarus.core.messages import Media, ToolResult
from homarus.hooks.events import KEYS
from homarus.plugins.health import HealthBook
from homarus.plugins.manifest import FILE, Lock, fingerprint

COMMAND = "messages senderId commandSource timezone"
MESSAGE = "content from messageId channelId accountId conversationId"
# The key; what its context holds beside `workspaceDir`, `agentId` and `cfg`; and the tests that cause it.
MOMENTS = {
    "agent:bootstrap": ("bootstrapFiles sessionKey sessionId", "here"),
    "agent:end": ("runId status text error durationMs", "here"),
    "tool:after": ("toolName toolCallId isError result durationMs", "here"),
    "command:new": (COMMAND, "here"),
    "command:reset": (COMMAND, "here"),
    "command:stop": (COMMAND, "here"),
    "session:patch": ("patch", "here"),
    "session:auto-reset": ("reason", "test_sessions.py"),
    "session:compact:before": ("reason tokensBefore messageCount", "test_compaction_hooks.py"),
    "session:compact:after": ("ok problem tokensAfter summaryLength", "test_compaction_hooks.py"),
    "gateway:startup": ("agents", "test_service_hooks.py"),
    "gateway:pre-restart": ("reason restartExpectedMs", "here"),
    "gateway:shutdown": ("", "test_service_hooks.py"),
    "message:received": (MESSAGE, "here"),
    "message:transcribed": (f"{MESSAGE} transcript", "here"),
    "message:preprocessed": (f"{MESSAGE} transcript bodyForAgent mediaPaths", "here"),
    "message:sent": ("content to channelId accountId success error", "here"),
}
EAR = """
import json, pathlib

def handle(event):
    with open(pathlib.Path(event.options["stateDir"]) / "heard.jsonl", "a") as file:
        file.write(json.dumps([event.key, event.session_key, {name: str(value) for name, value in event.context.items()}]) + "\\n")
"""
FAMILIES = '["agent", "tool", "command", "session", "gateway", "message"]'


def listening(home: House) -> House:
    write_hook(home.state / "hooks", "ear", metadata=f'openclaw: {{"events": {FAMILIES}}}', code=EAR)
    write_hook(home.state / "hooks", "a-bad", metadata=f'openclaw: {{"events": {FAMILIES}}}', code="def handle(event):\n    raise SystemExit(event.key)\n")  # fmt: skip
    return home


HOOKS = {"hooks": {"internal": {"entries": {"ear": {"enabled": True}, "a-bad": {"enabled": True}}}}}
OFF = {"agents": {"defaults": {"sandbox": {"mode": "off"}}}}


def heard(home: House) -> list[tuple[str, dict[str, Any]]]:
    path = home.state / "heard.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [(key, context) for key, _session, context in rows]


def check(home: House, *keys: str) -> None:
    """See that each of these came, in this order, with all that it promises, beside a hook that fails at every one."""
    found = [(key, context) for key, context in heard(home) if key in keys]
    assert [key for key, _ in found] == list(keys)
    for key, context in found:
        promised = {*MOMENTS[key][0].split(), "workspaceDir", "agentId", "cfg"}
        assert promised <= context.keys(), (key, promised - context.keys())


def test_every_moment_is_in_the_table_in_the_docs_and_in_a_test() -> None:
    here, page = Path(__file__).parent, (Path(__file__).parents[2] / "docs" / "hooks.md").read_text()
    assert set(KEYS) == set(MOMENTS)
    for key, (_, file) in MOMENTS.items():
        family, _, action = key.partition(":")
        assert f"`{key}`" in page, key
        text = (here / file).read_text() if file != "here" else ""
        assert file == "here" or key in text or (family in text and action in text), key


async def test_the_moments_of_a_turn_of_commands_and_of_a_change(tmp_path: Path) -> None:
    home = listening(House(tmp_path, Line(calls=(("ls", {}),)), "fine", config=merge(OFF, HOOKS)))
    async with home.agent() as agent:
        assert (await agent.ask("go")).text == "fine"
        await agent.client.patch(agent.key, label="boiler")
        for command in ("/stop", "/new", "/reset"):
            await agent.ask(command)
    wanted = (
        "agent:bootstrap",
        "tool:after",
        "agent:end",
        "session:patch",
        "command:stop",
        "command:new",
        "command:reset",
    )
    seen = [key for key, _ in heard(home)]
    assert set(wanted) <= set(seen)
    assert seen.index("tool:after") < seen.index("agent:end")  # told beside the turn, and in order
    for key, context in heard(home):
        assert {*MOMENTS[key][0].split(), "workspaceDir", "agentId"} <= context.keys(), key


async def test_the_moments_of_a_message_in_their_order(tmp_path: Path) -> None:
    way = {
        "type": "cli",
        "command": sys.executable,
        "args": ["-c", "print('what time is it?')"],
        "capabilities": ["audio"],
    }
    config = merge(merge(CONFIG, HOOKS), {"tools": {"media": {"models": [way]}}})
    home, chat = listening(House(tmp_path, "noon", config=config)), Platform()
    home.clock = SystemClock()  # type: ignore[assignment]
    voice = (Media("voice", "audio/ogg", "voice.ogg", 2000, "OggS" + "v" * 2000),)
    async with home.agent() as agent, served(agent, chat):
        await chat.says("", media=voice)
        await until(lambda: any(key == "message:sent" for key, _ in heard(home)), 60)
        await until(lambda: any(key == "message:preprocessed" for key, _ in heard(home)), 60)
    check(home, "message:received", "message:transcribed", "message:preprocessed")
    told = dict(heard(home))
    assert {*MOMENTS["message:sent"][0].split()} <= told["message:sent"].keys()
    assert told["message:transcribed"]["transcript"] == "what time is it?"
    assert "what time is it?" in told["message:preprocessed"]["bodyForAgent"]
    assert "voice" in told["message:preprocessed"]["mediaPaths"]


async def test_the_moment_before_a_gateway_starts_anew(tmp_path: Path) -> None:
    home = listening(House(tmp_path, config=HOOKS))
    async with gateway_of(home) as running:
        running.gateway.life.restart("because")
        await running.gateway.life.ended()
    check(home, "gateway:pre-restart")
    assert dict(heard(home))["gateway:pre-restart"]["reason"] == "because"


PLUGIN = """
from homarus.plugins.api import Decision

def first(call):
    seen.append(f"first {call.arguments['path']}")
    return Decision(arguments={"path": "here"}) if call.tool == "ls" else None

async def second(call):
    seen.append(f"second {call.arguments['path']}")
    if call.tool == "read":
        return Decision(block=True, reason="no reading today")

def bad(call):
    if call.tool == "grep":
        raise ValueError("oh")

def ended(event):
    seen.append(f"{event.key} {event.context['status']}")

seen = []

def register(api):
    api.hook("before_tool_call", second, order=2)
    api.hook("before_tool_call", bad, order=3)
    api.hook("before_tool_call", first, order=1)
    api.hook("agent_end", ended)
"""


async def test_hooks_of_plugins_change_and_block_calls_in_order_and_fail_closed(tmp_path: Path) -> None:
    calls = (("ls", {"path": "there"}), ("read", {"path": "x"}), ("grep", {"pattern": "x", "path": "y"}))
    config = merge(OFF, {"plugins": {"entries": {"guard": {"enabled": True, "inProcess": True}}}})
    home = House(tmp_path, *(Line(calls=(call,)) for call in calls), "done", config=config)
    folder = home.state / "plugins" / "guard"
    folder.mkdir(parents=True)
    names = ["before_tool_call", "agent_end"]
    (folder / FILE).write_text(json.dumps({"id": "guard", "entry": "plugin.py:register", "hooks": names}))
    (folder / "plugin.py").write_text(PLUGIN)
    Lock(resolve_paths(home.env)).write("guard", fingerprint(folder))
    (home.workspace / "here").mkdir(parents=True)
    (home.workspace / "here" / "found.txt").touch()
    async with home.agent() as agent:
        assert (await agent.ask("go")).text == "done"
    listed, read, searched = (each.text for each in home.model.requests[-1].messages if isinstance(each, ToolResult))
    assert "found.txt" in listed
    assert "no reading today" in read
    assert "the plugin guard, which looks at calls, failed" in searched
    seen = sys.modules["homarus_plugin_guard"].seen
    assert seen[:4] == ["first there", "second here", "first x", "second x"]
    assert seen[-1] == "agent:end ok"
    assert "ValueError: oh" in HealthBook(resolve_paths(home.env).own_dir).of("guard").last


@pytest.mark.parametrize("name", ["before_install", "tool:before", "x"])
def test_a_plugin_that_wants_to_hear_what_nobody_tells_is_told_so(name: str, tmp_path: Path) -> None:
    from homarus.plugins.manifest import read_plugin

    (tmp_path / FILE).write_text(json.dumps({"id": "p", "entry": "plugin.py:register", "hooks": [name]}))
    assert "nothing ever emits" in read_plugin(tmp_path).problem
