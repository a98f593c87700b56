"""Every moment that hooks can hear of: where it is tested, and that it comes with what it promises."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.automation.helpers import automation_of, settle, turn_job
from tests.gateway.served import served as gateway_of
from tests.hooks.helpers import write_hook
from tests.scenarios.chat import CONFIG, Platform, served
from tests.scenarios.home import House, merge, until
from tests.scenarios.script import Line

from homarus.cli.main import run
from homarus.config.paths import resolve_paths
from homarus.core.clock import SystemClock
from homarus.core.messages import Media, ToolResult
from homarus.hooks.events import KEYS
from homarus.plugins.health import HealthBook
from homarus.plugins.manifest import FILE, Lock, fingerprint
from homarus.sandbox.process import available
from homarus.sandbox.spec import Backend

boxed = pytest.mark.skipif(not available(Backend.BWRAP), reason="needs bubblewrap (apt install bubblewrap)")
COMMAND = "messages senderId commandSource timezone"
MESSAGE = "content from messageId channelId accountId conversationId"
# The key; what its context holds beside `workspaceDir`, `agentId` and `cfg`; and the tests that cause it.
MOMENTS = {
    "agent:bootstrap": ("bootstrapFiles sessionKey sessionId", "here"),
    "agent:reply": ("prompt reply", "here"),
    "agent:end": ("runId status text error durationMs", "here"),
    "agent:prepare": ("prompt model messages prependContext appendContext", "here"),
    "prompt:build": ("prompt model messages prependContext appendContext", "here"),
    "run:before": ("prompt runId messages systemPrompt notes message block blockReason", "here"),
    "write:before": ("role text runId block blockReason", "here"),
    "answer:final": ("runId model text revise", "here"),
    "model:call:started": ("runId callId provider model attempt", "here"),
    "model:call:ended": ("runId callId provider model attempt durationMs outcome errorKind", "here"),
    "model:resolve": ("prompt provider model", "here"),
    "model:input": ("runId model messages", "here"),
    "model:output": ("model text toolCalls stopReason usage error", "here"),
    "tool:persist": ("toolName toolCallId isError result", "here"),
    "tool:after": ("toolName toolCallId isError result durationMs", "here"),
    "command:new": (COMMAND, "here"),
    "command:reset": (COMMAND, "here"),
    "command:stop": (COMMAND, "here"),
    "session:start": ("sessionId reason", "here"),
    "session:end": ("sessionId reason", "here"),
    "session:patch": ("patch", "here"),
    "session:auto-reset": ("reason", "test_sessions.py"),
    "session:compact:before": ("reason tokensBefore messageCount", "test_compaction_hooks.py"),
    "session:compact:after": ("ok problem tokensAfter summaryLength", "test_compaction_hooks.py"),
    "gateway:startup": ("agents", "test_service_hooks.py"),
    "gateway:pre-restart": ("reason restartExpectedMs", "here"),
    "gateway:shutdown": ("", "test_service_hooks.py"),
    "message:claim": (f"{MESSAGE} handled reply", "here"),
    "message:dispatch": (f"{MESSAGE} handled reply", "here"),
    "message:received": (MESSAGE, "here"),
    "message:transcribed": (f"{MESSAGE} transcript", "here"),
    "message:preprocessed": (f"{MESSAGE} transcript bodyForAgent mediaPaths", "here"),
    "message:reply": ("text media replyTo asVoice to channelId accountId cancel", "here"),
    "message:sending": ("content to channelId accountId cancel", "here"),
    "message:sent": ("content to channelId accountId success error", "here"),
    "subagent:spawned": ("runId childSessionKey label model", "here"),
    "subagent:ended": ("runId childSessionKey label status", "here"),
    "cron:added": ("jobId", "here"),
    "cron:updated": ("jobId", "here"),
    "cron:removed": ("jobId", "here"),
    "cron:started": ("jobId runId", "here"),
    "cron:finished": ("jobId runId status", "here"),
    "install:before": ("kind name source folder sha256 findings block blockReason", "here"),
}
EAR = """
import json, pathlib

def handle(event):
    with open(pathlib.Path(event.options["stateDir"]) / "heard.jsonl", "a") as file:
        file.write(json.dumps([event.key, event.session_key, {name: str(value) for name, value in event.context.items()}]) + "\\n")
"""
FAMILIES = (
    '["agent", "prompt", "model", "tool", "command", "session", "gateway", "message", "subagent", "cron", "answer"{}]'
)


# Where one that fails has said no.
ALSO = ', "run", "write"'


def listening(home: House) -> House:
    write_hook(home.state / "hooks", "ear", metadata=f'openclaw: {{"events": {FAMILIES.format(ALSO)}}}', code=EAR)
    write_hook(home.state / "hooks", "a-bad", metadata=f'openclaw: {{"events": {FAMILIES.format("")}}}', code="def handle(event):\n    raise SystemExit(event.key)\n")  # fmt: skip
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
        "session:start",
        "write:before",
        "model:resolve",
        "agent:prepare",
        "prompt:build",
        "agent:bootstrap",
        "run:before",
        "agent:reply",
        "model:input",
        "model:call:started",
        "model:call:ended",
        "answer:final",
        "model:output",
        "tool:persist",
        "tool:after",
        "agent:end",
        "session:patch",
        "command:stop",
        "command:new",
        "command:reset",
        "session:end",
    )
    seen = [key for key, _ in heard(home)]
    assert set(wanted) <= set(seen)
    assert seen.count("model:input") == seen.count("model:output") == seen.count("tool:persist") + 1 == 2
    assert (
        seen.index("model:resolve")
        < seen.index("agent:prepare")
        < seen.index("prompt:build")
        < seen.index("run:before")
        < seen.index("agent:reply")
        < seen.index("tool:persist")
    )
    assert (
        seen.index("tool:persist") < seen.index("tool:after") < seen.index("agent:end")
    )  # told beside the turn, and in order
    told = [context["role"] for key, context in heard(home) if key == "write:before"]
    assert told == ["user", "assistant", "toolresult", "assistant"]
    assert seen.count("model:call:started") == seen.count("model:call:ended") == 2 * seen.count("answer:final") == 2
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
    check(home, "message:claim", "message:dispatch", "message:reply", "message:sending", "message:sent")
    told = dict(heard(home))
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


@pytest.mark.parametrize("name", ["before_everything", "tool:before", "x"])
def test_a_plugin_that_wants_to_hear_what_nobody_tells_is_told_so(name: str, tmp_path: Path) -> None:
    from homarus.plugins.manifest import read_plugin

    (tmp_path / FILE).write_text(json.dumps({"id": "p", "entry": "plugin.py:register", "hooks": [name]}))
    assert "nothing ever emits" in read_plugin(tmp_path).problem


# One plugin at every moment that can be changed: what it does is said by its configuration.
CHANGER = """
from homarus.plugins.api import Decision

def register(api):
    def at(name):
        def hear(event):
            wish = api.config.get(name)
            if wish == "fail":
                raise ValueError("oh")
            if wish:
                event.context.update(wish)
        api.hook(name, hear)
    for name in NAMES:
        at(name)
    api.hook("before_tool_call", lambda call: Decision(**api.config["call"]) if "call" in api.config else None)
"""
NAMES = ["before_model_resolve", "agent_turn_prepare", "before_prompt_build", "before_agent_run", "before_agent_reply", "before_agent_finalize", "tool_result_persist", "before_message_write", "inbound_claim", "before_dispatch", "reply_payload_sending", "message_sending", "before_install"]  # fmt: skip
EITHER = pytest.mark.parametrize("inside", [True, pytest.param(False, marks=boxed)])


def a_home(folder: Path, *lines: Line | str, config: dict[str, Any] = OFF) -> House:
    folder.mkdir(exist_ok=True)
    return House(folder, *lines, config=config)


def changing(home: House, wishes: dict[str, Any], *, inside: bool, plugin: str = "changer") -> House:
    folder = home.state / "plugins" / plugin
    folder.mkdir(parents=True)
    manifest = {"id": plugin, "entry": "plugin.py:register", "hooks": [*NAMES, "before_tool_call"]}
    (folder / FILE).write_text(json.dumps(manifest))
    (folder / "plugin.py").write_text(f"NAMES = {NAMES}\n{CHANGER}")
    Lock(resolve_paths(home.env)).write(plugin, fingerprint(folder))
    file, entry = home.state / "openclaw.json", {"enabled": True, "inProcess": inside, "config": wishes}
    file.write_text(json.dumps(merge(json.loads(file.read_text()), {"plugins": {"entries": {plugin: entry}}})))
    return home


def failures(home: House, plugin: str = "changer") -> str:
    return HealthBook(resolve_paths(home.env).own_dir).of(plugin).last


def tainted(home: House) -> bool:
    return "plugin:changer" in json.dumps(home.transcript())


@EITHER
async def test_a_plugin_answers_instead_of_the_model(inside: bool, tmp_path: Path) -> None:
    home = changing(a_home(tmp_path), {"before_agent_reply": {"reply": "I know"}}, inside=inside)
    async with home.agent() as agent:
        assert (await agent.ask("go")).text == "I know"
    assert home.model.requests == []
    said = [row["message"] for row in home.transcript() if row.get("type") == "message"]
    assert [each["role"] for each in said] == ["user", "assistant"]
    assert tainted(home) is not inside


@EITHER
@pytest.mark.parametrize("name", ["before_prompt_build", "agent_turn_prepare"])
@pytest.mark.parametrize("place", ["prependContext", "appendContext"])
async def test_a_plugin_adds_to_what_the_model_is_told_and_the_prompt_stays(
    place: str, name: str, inside: bool, tmp_path: Path
) -> None:
    wishes = {name: {place: "it rains"}}
    plain = a_home(tmp_path / "plain", "a")
    home = changing(a_home(tmp_path / "home", "a"), wishes, inside=inside)
    for each in (plain, home):
        async with each.agent() as agent:
            await agent.ask("go")
    request = home.model.requests[0]
    assert "it rains" not in request.system.stable + request.system.session
    assert "it rains" in str(request.messages)
    assert ("EXTERNAL_UNTRUSTED_CONTENT" in str(request.messages)) is not inside
    assert tainted(home) is not inside


@EITHER
async def test_a_plugin_shortens_a_result_before_it_is_stored(inside: bool, tmp_path: Path) -> None:
    wishes = {"tool_result_persist": {"result": "short", "isError": True}}
    home = changing(House(tmp_path, Line(calls=(("ls", {}),)), "fine", config=OFF), wishes, inside=inside)
    home.workspace.mkdir(parents=True)
    (home.workspace / "long-name.txt").touch()
    async with home.agent() as agent:
        assert (await agent.ask("go")).text == "fine"
    result = next(each for each in home.model.requests[-1].messages if isinstance(each, ToolResult))
    assert "short" in result.text
    assert "long-name" not in json.dumps(home.transcript())
    assert not result.is_error
    assert ("EXTERNAL_UNTRUSTED_CONTENT" in result.text) is not inside
    assert tainted(home) is not inside


@EITHER
async def test_a_plugin_names_a_configured_model_and_no_other(inside: bool, tmp_path: Path) -> None:
    for name, chosen in (("second", "second"), ("unheard-of", "model")):
        config = merge(OFF, {"models": {"providers": {"script": {"models": [{"id": "model"}, {"id": "second"}]}}}})
        home = a_home(tmp_path / name, "fine", config=config)
        changing(home, {"before_model_resolve": {"model": name}}, inside=inside)
        async with home.agent() as agent:
            assert (await agent.ask("go")).text == "fine"
        assert home.model.requests[0].model == chosen


@EITHER
@pytest.mark.parametrize(
    ("wish", "seen"), [({"content": "better"}, ["better"]), ({"cancel": True}, []), ("fail", ["noon"])]
)
async def test_a_plugin_changes_or_cancels_a_message_before_it_is_promised(
    wish: Any, seen: list[str], inside: bool, tmp_path: Path
) -> None:
    home, chat = changing(a_home(tmp_path, "noon", config=CONFIG), {"message_sending": wish}, inside=inside), Platform()
    home.clock = SystemClock()  # type: ignore[assignment]
    async with home.agent() as agent, served(agent, chat) as board:
        await chat.says("what time is it?")
        await until(lambda: len(home.model.requests) == 1 and agent.client.runtime.lanes.idle, 60)
        await board.drain(60)
        outbox = resolve_paths(home.env).own_dir / "outbox.jsonl"
        kept = outbox.read_text() if outbox.exists() else ""
    assert chat.texts == seen
    assert "noon" not in kept or wish == "fail"
    assert ("ValueError: oh" in failures(home)) is (wish == "fail")


@EITHER
async def test_a_plugin_blocks_a_call_from_either_side(inside: bool, tmp_path: Path) -> None:
    home = House(tmp_path, Line(calls=(("ls", {}),)), "fine", config=OFF)
    changing(home, {"call": {"block": True, "reason": "not today"}}, inside=inside)
    async with home.agent() as agent:
        await agent.ask("go")
    assert "not today" in home.model.requests[-1].messages[-1].text


@EITHER
def test_a_plugin_refuses_what_is_to_be_installed_and_one_that_fails_refuses_too(
    inside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    skill, dice = tmp_path / "skill", tmp_path / "dice"
    skill.mkdir()
    dice.mkdir()
    (dice / FILE).write_text(json.dumps({"id": "dice", "entry": "plugin.py:register"}))
    (skill / "SKILL.md").write_text("---\nname: tidy\ndescription: Tidies up.\n---\nTidy up.\n")
    for number, (wish, said) in enumerate(
        (({"block": True, "blockReason": "too new"}, "too new"), ("fail", "failed"), (None, ""))
    ):
        home = changing(a_home(tmp_path / str(number)), {"before_install": wish}, inside=inside)
        for name, value in home.env.items():
            monkeypatch.setenv(name, value)
        for kind, folder in (("skills", skill), ("plugins", dice)):
            assert (run([kind, "install", str(folder)]) == 0) is (wish is None)
            assert said in capsys.readouterr().err
        assert (home.state / "skills" / "tidy").exists() is (wish is None)
        assert (home.state / "plugins" / "dice").exists() is (wish is None)


async def test_the_moments_of_subagents_and_jobs(tmp_path: Path) -> None:
    spawn = Line(calls=(("sessions_spawn", {"task": "count", "label": "counter"}),))
    home = listening(House(tmp_path, spawn, "started", "one two", "told", config=merge(OFF, HOOKS)))
    async with home.agent() as agent:
        await agent.ask("go")
        await until(lambda: any(key == "subagent:ended" for key, _ in heard(home)), 60)
        automation = automation_of(agent)
        automation.add(turn_job())
        automation.run("mail")
        await settle(automation)
        automation.update("mail", {"description": "new"})
        automation.remove("mail")
    check(home, "subagent:spawned", "subagent:ended")
    check(home, "cron:added", "cron:started", "cron:finished", "cron:updated", "cron:removed")
