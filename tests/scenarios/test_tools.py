"""Tools through a whole runtime: policy, sandbox, approvals, and what all of it costs in the prompt."""

import asyncio
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.home import House
from tests.scenarios.script import Line

from homarus.core.cancel import Cancel
from homarus.core.clock import SystemClock
from homarus.core.errors import ConfigError
from homarus.core.events import ApprovalAsked, RunEvent, ToolEnded
from homarus.core.messages import Assistant, StopReason, Text, ToolCall, ToolResult, Trust
from homarus.models.provider import ModelRequest, Stop, StreamEvent
from homarus.runtime.client import RunOptions
from homarus.runtime.library import Agent
from homarus.runtime.local import LocalClient
from homarus.sandbox.process import available
from homarus.sandbox.spec import Backend
from homarus.tools.registry import spec_chars

SANDBOXED = pytest.mark.skipif(
    not (available(Backend.BWRAP) or available(Backend.LANDLOCK)), reason="this machine has no sandbox"
)


class Caller:
    """A model that makes one call and then says done."""

    def __init__(self, name: str, **arguments: Any) -> None:
        self.call = ToolCall("c1", name, arguments)
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest, *, cancel: Cancel) -> AsyncIterator[StreamEvent]:
        del cancel
        self.requests.append(request)
        if len(self.requests) == 1:
            yield Stop(Assistant((self.call,), stop_reason=StopReason.TOOL_USE))
        else:
            yield Stop(Assistant((Text("done"),)))


async def run(home: Path, model: Caller, config: str = "{}", trust: Trust = Trust.OWNER) -> tuple[str, list[RunEvent]]:
    state = home / ".openclaw"
    state.mkdir(mode=0o700, exist_ok=True)
    (state / "openclaw.json").write_text(config)
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "SECRET": "s3cr3t"}
    async with Agent.open(env=env) as agent:
        agent.client.runtime.home.models.registry.register("test", lambda _ref, _credential: model)
        events = [event async for event in agent.run("go", model="test/model", options=RunOptions(trust=trust))]
    (ended,) = [event for event in events if isinstance(event, ToolEnded)]
    return ended.result.text, events


@SANDBOXED
async def test_commands_run_in_a_sandbox_without_a_question(tmp_path: Path) -> None:
    text, _ = await run(tmp_path, Caller("exec", command="pwd; echo $SECRET; cat ~/.ssh/id_rsa; echo x > made"))
    workspace = tmp_path / ".openclaw" / "workspace"
    assert str(workspace) in text
    assert "s3cr3t" not in text
    assert (workspace / "made").exists()


async def test_a_command_on_the_host_is_denied_where_nobody_can_answer(tmp_path: Path) -> None:
    off = "{ agents: { defaults: { sandbox: { mode: 'off' } } } }"
    text, _ = await run(tmp_path, Caller("exec", command="touch made"), off)
    assert text.startswith("Denied: ")
    assert not list(tmp_path.rglob("made"))


async def test_a_person_can_allow_exactly_this_command(tmp_path: Path) -> None:
    state = tmp_path / ".openclaw"
    state.mkdir(mode=0o700)
    (state / "openclaw.json").write_text("{ agents: { defaults: { sandbox: { mode: 'off' } } } }")
    model = Caller("exec", command="touch made")
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    async with Agent.open(env=env) as agent:
        toolkit = agent.client.runtime.home.toolkit
        agent.client.runtime.home.models.registry.register("test", lambda _ref, _credential: model)
        asked: list[ApprovalAsked] = []

        def person(event: RunEvent) -> None:
            assert isinstance(event, ApprovalAsked)
            asked.append(event)
            asyncio.get_running_loop().create_task(toolkit.answer(event.approval_id, "once"))

        leave = toolkit.approvers.arrive(agent.key, person)
        assert (await agent.ask("go", model="test/model")).ok
        leave()
    assert "touch made" in asked[0].title
    assert (state / "workspace" / "made").exists()


async def test_a_stranger_gets_less(tmp_path: Path) -> None:
    text, _ = await run(tmp_path, Caller("write", path="x.md", content="y"), trust=Trust.EXTERNAL)
    assert text.startswith("Denied: ")
    assert not list(tmp_path.rglob("x.md"))


async def test_a_denied_tool_is_neither_in_the_schema_nor_in_the_prompt(tmp_path: Path) -> None:
    model = Caller("exec", command="true")
    text, _ = await run(tmp_path, model, "{ tools: { deny: ['exec', 'group:web'] } }")
    assert "there is no tool 'exec'" in text
    names = {spec.name for spec in model.requests[0].tools}
    assert not {"exec", "web_fetch", "web_search"} & names
    assert "- exec:" not in model.requests[0].system.text


async def test_the_first_request_of_a_new_session_is_small(tmp_path: Path) -> None:
    model = Caller("ls")
    await run(tmp_path, model)
    request = model.requests[0]
    assert len(request.system.text) + spec_chars(request.tools) <= 20_000


JUNK: list[Any] = [
    None, "", 0, -1, 10**30, 10**400, 1.5, float("inf"), float("nan"), True, [], {}, ["a"], {"a": 1}, [[[]]], "x", "../..", "/", "~", "@", "*", "(", "[",
    "\x00", "a\nb", "e\u0301", "\ud800", "x" * 5_000, '{"a": 1}', "[1,2]", "null", "-5", "NaN", "9" * 5_000, "/dev/zero", "/proc/self/mem", "/proc/kmsg",
    "https://", "http://[", "file:///etc/passwd", "agent:main:main", "agent::", "main", "SOUL.md", "memory", {"kind": "at"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("seed", "count"), [(1, 150), *[pytest.param(seed, 2_000, marks=pytest.mark.deep) for seed in (2, 3)]]
)
async def test_no_junk_is_taken_for_a_bug_of_ours(tmp_path: Path, seed: int, count: int) -> None:
    """Whatever a model sends to whichever tool, it is told what to do instead, or it gets what it asked for."""
    choice = random.Random(seed)
    house = House(tmp_path, config={"agents": {"defaults": {"sandbox": {"mode": "off"}, "imageModel": "script/model"}}})
    async with house.agent(clock=SystemClock()) as agent:
        runtime = agent.client.runtime
        left_out = {"exec", "process", "sessions_spawn", "sessions_send", "web_fetch", "web_search"}
        names = [name for name in runtime.home.toolkit.box().tools if name not in left_out]
        for _ in range(count):
            tool = runtime.home.toolkit.box().tools[choice.choice(names)]
            schema = tool.schema or tool.spec.parameters
            arguments = {
                name: choice.choice(part.get("enum") or JUNK if choice.random() < 0.6 else JUNK)
                for name, part in schema["properties"].items()
                if name in schema.get("required", ()) or choice.random() < 0.5
            }
            result = await LocalClient(runtime).call_tool(agent.key, tool.name, arguments, Trust.OWNER)
            assert "unexpectedly" not in result.text, (tool.name, arguments)
            assert len(result.text) < 70_000


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read", {"path": "\ud800"}),
        ("read", {"path": "a", "\ud800": "x"}),
        ("exec", {"command": "true", "env": {"A": "\ud800"}}),
        ("exec", {"command": "true", "env": {"\ud800": "x"}}),
        ("sessions_list", {"kinds": ["\ud800"]}),
        ("gateway", {"action": "config.patch", "patch": {"a": ["\ud800"]}}),
        ("memory_search", {"query": "\udfff"}),
    ],
)
async def test_half_a_character_in_a_call_is_an_error_that_the_model_can_mend(
    tmp_path: Path, name: str, arguments: dict[str, Any]
) -> None:
    house = House(tmp_path, Line(calls=((name, arguments),)), Line(calls=((name, arguments),)), "done")
    async with house.agent() as agent:
        reply = await agent.ask("go")
    assert reply.text == "done"
    first, second = [message for message in house.model.requests[-1].messages if isinstance(message, ToolResult)]
    assert first.is_error
    assert first.text == second.text
    assert "half a character" in first.text or "there is no argument '?'" in first.text


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("exec", {"command": "cat kept/rules.json; echo x > made"}),
        ("read", {"path": "kept/rules.json"}),
        ("write", {"path": ".ssh/authorized_keys", "content": "evil"}),
        ("write", {"path": "kept/rules.json", "content": '{tools: {exec: {mode: "full"}}}'}),
        ("edit", {"path": "kept/rules.json", "oldText": "secret", "newText": "evil"}),
        ("apply_patch", {"input": "*** Begin Patch\n*** Add File: made\n+x\n*** End Patch"}),
        ("grep", {"pattern": "secret"}),
        ("find", {"pattern": "*"}),
        ("ls", {}),
    ],
)
@pytest.mark.parametrize("backend", ["podman", "ssh"])
async def test_without_a_usable_sandbox_nothing_runs_and_no_file_is_touched(
    tmp_path: Path, tool: str, arguments: dict[str, Any], backend: str
) -> None:
    """Rules and keys lie in the workspace, as in one that was moved there by hand: whatever got through would show or change them."""
    workspace = tmp_path / "work"
    (workspace / "kept").mkdir(parents=True)
    (workspace / "kept" / "rules.json").write_text(kept := '{"key": "secret"}')
    config = f'{{agents: {{defaults: {{workspace: "{workspace}", sandbox: {{backend: "{backend}"}}}}}}}}'
    text, _ = await run(tmp_path, Caller(tool, **arguments), config)
    assert text.startswith("Denied: ")
    assert f"sandbox.backend '{backend}' is not supported" in text
    assert (workspace / "kept" / "rules.json").read_text() == kept
    assert not (workspace / ".ssh").exists()
    assert not (workspace / "made").exists()


async def test_a_workspace_that_holds_the_rules_is_refused_before_a_turn(tmp_path: Path) -> None:
    config = f'{{agents: {{defaults: {{workspace: "{tmp_path}"}}}}}}'
    with pytest.raises(ConfigError, match="holds keys, a whole home"):
        await run(tmp_path, Caller("ls"), config)
    assert not (tmp_path / "AGENTS.md").exists()


@SANDBOXED
@pytest.mark.parametrize("access", ["none", "ro"])
async def test_work_goes_on_without_a_writable_workspace(tmp_path: Path, access: str) -> None:
    config = f'{{agents: {{defaults: {{sandbox: {{workspaceAccess: "{access}"}}}}}}}}'
    state = tmp_path / ".openclaw"
    workspace = state / "workspace"
    workspace.mkdir(parents=True)
    (workspace / "NOTES.md").write_text("mine")
    own = state / "sandboxes" / "agent-main"
    line = f"pwd; echo x > made && cat made; cat {workspace}/NOTES.md; echo evil > {workspace}/NOTES.md"
    model = Caller("exec", command=line)
    text, _ = await run(tmp_path, model, config)
    assert text.startswith(f"{own}\nx\n")
    assert ("mine" in text) is (access == "ro")
    assert (workspace / "NOTES.md").read_text() == "mine"
    assert (own / "made").read_text() == "x\n"
    system = model.requests[0].system
    assert f"Working directory: {own}\n" in system.text
    assert ("which can only be read" if access == "ro" else "which cannot be seen from here") in system.text
    text, _ = await run(tmp_path, Caller("write", path="made", content="y"), config)
    assert text.startswith("Replaced")
    text, _ = await run(tmp_path, Caller("read", path=str(workspace / "NOTES.md")), config)
    assert ("mine" in text) is (access == "ro")
    text, _ = await run(tmp_path, Caller("write", path=str(workspace / "NOTES.md"), content="evil"), config)
    assert text.startswith("Denied")
    assert (workspace / "NOTES.md").read_text() == "mine"


@SANDBOXED
async def test_the_owners_notes_beside_the_folder_are_closed_to_others(tmp_path: Path) -> None:
    workspace = tmp_path / ".openclaw" / "workspace"
    workspace.mkdir(parents=True)
    (workspace / "MEMORY.md").write_text("private")
    config = '{agents: {defaults: {sandbox: {workspaceAccess: "ro"}}}}'
    for tool, arguments in (
        ("read", {"path": str(workspace / "MEMORY.md")}),
        ("grep", {"pattern": "p", "path": str(workspace)}),
        ("find", {"pattern": "*", "path": str(workspace)}),
    ):
        text, _ = await run(tmp_path, Caller(tool, **arguments), config, Trust.EXTERNAL)
        assert "private" not in text
        assert "MEMORY.md:" not in text
        assert text.startswith("Denied")


@pytest.mark.parametrize(
    "sandbox", [{"backend": "ssh"}, {"backend": "docker", "docker": {"binary": "/nonexistent/docker"}}]
)
async def test_without_the_sandbox_that_was_asked_for_nothing_runs_and_no_file_is_touched(
    tmp_path: Path, sandbox: dict[str, Any]
) -> None:
    (tmp_path / ".openclaw/workspace").mkdir(parents=True)
    (tmp_path / ".openclaw/workspace/f.txt").write_text("the words\n")
    patch = "*** Begin Patch\n*** Add File: made.txt\n+x\n*** End Patch"
    calls: list[tuple[str, dict[str, Any]]] = [
        ("exec", {"command": "touch made.txt; cat f.txt"}),
        ("read", {"path": "f.txt"}),
        ("read", {"path": str(tmp_path / ".openclaw/openclaw.json")}),
        ("write", {"path": "made.txt", "content": "x"}),
        ("edit", {"path": "f.txt", "oldText": "words", "newText": "changed"}),
        ("apply_patch", {"input": patch}),
        ("ls", {"path": "."}),
        ("grep", {"pattern": "words", "path": "."}),
        ("find", {"pattern": "*.txt"}),
    ]
    config = {"agents": {"defaults": {"sandbox": sandbox}}, "tools": {"exec": {"mode": "full"}}}
    house = House(tmp_path, Line(calls=tuple(calls)), "done", config=config)
    async with house.agent() as agent:
        await agent.ask("go")
    results = [message for message in house.model.requests[-1].messages if isinstance(message, ToolResult)]
    assert len(results) == len(calls)
    for result in results:
        assert result.is_error and "the words" not in result.text and "sandbox" in result.text, result.text
    assert not (house.workspace / "made.txt").exists()
    assert (house.workspace / "f.txt").read_text() == "the words\n"
