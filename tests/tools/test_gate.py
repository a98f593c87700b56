"""Risk times trust times taint, and that what was approved is what runs."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.tools.calling import text_of
from tests.tools.context import context

from homarus.core.clock import SystemClock, SystemIds
from homarus.core.errors import Denied, ToolError
from homarus.core.messages import ToolCall, Trust
from homarus.core.tools import Risk, ToolSpec
from homarus.sandbox.claims import Claim
from homarus.sandbox.spec import Backend, SandboxSpec
from homarus.tools.approval import Approvals, Decision, Request
from homarus.tools.command import make_plan, may_last
from homarus.tools.edit import edit_tool
from homarus.tools.exec import Granted, exec_tools
from homarus.tools.exec_settings import ExecSettings
from homarus.tools.execute import Toolbox, execute
from homarus.tools.files import file_tools
from homarus.tools.gate import RULES, Allow, Ask, Case, Deny, PolicyGate, decide, rule_subject
from homarus.tools.patch import patch_tool
from homarus.tools.paths import Reach
from homarus.tools.processes import ProcessManager
from homarus.tools.target import Target, target_of
from homarus.tools.tool import Taint, Tool, ToolContext, ToolOutput, said

BOX, HOST = SandboxSpec(Backend.BWRAP, "/w"), SandboxSpec(Backend.OFF, "/w")


def case(tool: str, risk: Risk, trust: Trust = Trust.OWNER, tainted: bool = False, **more: Any) -> Case:
    return Case(
        tool=tool, risk=risk, trust=trust, tainted=tainted, sandbox=more.pop("sandbox", BOX), workspace="/w", **more
    )


def never(kind: str, subject: str) -> bool:
    return False


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (case("read", Risk.READ), Allow),
        (case("write", Risk.WRITE, paths=("/w/f",)), Allow),
        (case("write", Risk.WRITE, paths=("/w/SOUL.md",)), Allow),
        (case("write", Risk.WRITE, tainted=True, paths=("/w/f",)), Allow),
        (case("write", Risk.WRITE, tainted=True, paths=("/w/SOUL.md",)), Ask),
        (case("edit", Risk.WRITE, tainted=True, paths=("/w/memory.MD",)), Ask),
        (case("write", Risk.WRITE, tainted=True, paths=("/w/skills/x/SKILL.md",)), Ask),
        (case("write", Risk.WRITE, tainted=True, paths=("/w/hooks/h/handler.py",)), Ask),
        (case("apply_patch", Risk.WRITE, tainted=True, paths=("/w/f", "/w/HEARTBEAT.md")), Ask),
        (case("write", Risk.WRITE, tainted=True, paths=("/w/sub/AGENTS.md",)), Ask),
        (case("write", Risk.WRITE, paths=("/etc/cron.d/x",), sandbox=HOST), Ask),
        (case("write", Risk.WRITE, paths=("/w/../etc/x",), sandbox=HOST), Ask),
        (case("write", Risk.WRITE, paths=("/w/f",), sandbox=HOST), Allow),
        (case("edit", Risk.WRITE, paths=("/etc/x",), sandbox=HOST, mode="deny"), Deny),
        (case("edit", Risk.WRITE, paths=("/etc/x",), sandbox=HOST, mode="full"), Allow),
        (case("edit", Risk.WRITE, paths=("/etc/x",), sandbox=HOST, mode="full", tainted=True), Ask),
        (case("read", Risk.READ, paths=("/etc/x",), sandbox=HOST), Allow),
        (case("write", Risk.WRITE, Trust.PAIRED, paths=("/w/f",)), Ask),
        (case("write", Risk.WRITE, Trust.GROUP, paths=("/w/f",)), Deny),
        (case("write", Risk.WRITE, Trust.EXTERNAL, paths=("/w/f",)), Deny),
        (case("read", Risk.READ, Trust.GROUP, paths=("/w/f",)), Allow),
        (case("read", Risk.READ, Trust.GROUP, paths=("/w/MEMORY.md",)), Deny),
        (case("read", Risk.READ, Trust.GROUP, paths=("/w/memory/2026-01-01.md",)), Deny),
        (case("read", Risk.READ, Trust.PAIRED, paths=("/w/MEMORY.md",)), Allow),
        (case("grep", Risk.READ, Trust.GROUP, paths=("/w",)), Deny),
        (case("grep", Risk.READ, Trust.GROUP, paths=("/w/src",)), Allow),
        (case("memory_search", Risk.READ, Trust.GROUP), Deny),
        (case("sessions_history", Risk.READ, Trust.EXTERNAL), Deny),
        (case("cron", Risk.ADMIN), Allow),
        (case("cron", Risk.ADMIN, tainted=True), Ask),
        (case("gateway", Risk.ADMIN, Trust.PAIRED), Deny),
        (case("cron", Risk.ADMIN, Trust.PAIRED, owner_only=True), Deny),
        (case("sessions_spawn", Risk.SEND, tainted=True), Ask),
        (case("exec", Risk.EXEC, Trust.GROUP), Deny),
        (case("exec", Risk.EXEC, Trust.EXTERNAL), Deny),
    ],
)
def test_decisions(given: Case, expected: type) -> None:
    assert isinstance(decide(given, never), expected)


CASES = st.builds(
    case,
    st.sampled_from(["read", "ls", "grep", "write", "memory_search", "web_fetch", "gateway"]),
    st.sampled_from(Risk),
    st.sampled_from(Trust),
    st.booleans(),
    action=st.sampled_from(["", "send", "config.get", "config.apply"]),
    target=st.sampled_from([None, Target("host", "a.example"), Target("recipient", "x:y", home=True)]),
    paths=st.sampled_from([(), ("/w/f",), ("/w/MEMORY.md",), ("/etc/x",)]),
    mode=st.sampled_from(["deny", "allowlist", "ask", "full"]),
    sandbox=st.sampled_from([BOX, HOST]),
)


@pytest.mark.parametrize(
    ("risk", "trust", "tainted", "expected"),
    [
        (Risk.READ, Trust.OWNER, False, Allow),
        (Risk.SEND, Trust.OWNER, False, Allow),
        (Risk.READ, Trust.OWNER, True, Allow),
        (Risk.WRITE, Trust.OWNER, True, Ask),
        (Risk.SEND, Trust.OWNER, True, Ask),
        (Risk.READ, Trust.PAIRED, False, Ask),
        (Risk.READ, Trust.GROUP, False, Deny),
        (Risk.READ, Trust.EXTERNAL, True, Deny),
    ],
)
def test_tools_of_plugins_and_servers_are_the_owners(risk: Risk, trust: Trust, tainted: bool, expected: type) -> None:
    one = case("tracker__find", risk, trust, tainted, foreign=True)
    verdict = decide(one, never)
    assert isinstance(verdict, expected)
    if isinstance(verdict, Ask) and trust is Trust.OWNER:
        assert verdict.lasting
        assert decide(one, lambda kind, subject: (kind, subject) == ("tool", "tracker__find")) == Allow()


@drawn(CASES)
def test_what_is_allowed_is_what_no_rule_objects_to(one: Case) -> None:
    objections = [found for rule in RULES if (found := rule(one, never)) is not None]
    assert decide(one, never) == (objections[0] if objections else Allow())
    if one.risk is not Risk.WRITE:
        # Where neither a command nor a file to be changed is at stake, the mode decides nothing.
        assert decide(replace(one, mode="deny"), never) == decide(one, never)


@pytest.mark.parametrize(
    ("tool", "arguments", "tainted", "expected"),
    [
        ("web_fetch", {"url": "https://a.example/x"}, False, Allow),
        ("web_fetch", {"url": "https://a.example/x?secret=1"}, True, Ask),
        ("web_fetch", {"url": "https://known.example/x"}, True, Allow),
        ("web_fetch", {"url": "https://known.example@evil.example/"}, True, Ask),
        ("message", {"action": "send", "text": "x"}, True, Allow),
        ("message", {"target": "stranger"}, True, Ask),
        ("message", {"target": "stranger"}, False, Allow),
        ("message", {"target": "friend"}, True, Allow),
        ("sessions_send", {"sessionKey": "agent:main:main"}, True, Ask),
    ],
)
def test_a_tainted_turn_reaches_only_what_is_known(
    tmp_path: Path, tool: str, arguments: dict[str, Any], tainted: bool, expected: type
) -> None:
    route = context(tmp_path).route
    known = {("host", "known.example"), ("recipient", "terminal:friend")}
    given = case(
        tool, Risk.SEND if tool != "web_fetch" else Risk.READ, tainted=tainted, target=target_of(tool, arguments, route)
    )
    assert isinstance(decide(given, lambda kind, subject: (kind, subject) in known), expected)


@pytest.mark.parametrize(
    ("command", "lasting"),
    [
        ("ls -l", True), ("wc -l f", True), ("cat f", True), ("uname -a", True),
        ("sh -c id", False), ("bash", False), ("python3 -c 1", False), ("env ls", False), ("xargs ls", False), ("find . -exec id", False),
        ("ls; id", False), ("ls | sh", False), ("cat f | wc", False), ("./script", False), ("apt install x", False), ("awk x", False),
        ("perl -e 1", False), ("git status", False), ("timeout 5 ls", False), ("nice ls", False), ("ls > f", False), ("echo $(id)", False),
        ("cat <<E\nx\nE", False), ("ls " + "x " * 40, False), ("ls " + "x" * 300, False), ("sort --compress-program=sh f", False), ("tar cf x --checkpoint-action=exec=sh f", False),
    ],
)  # fmt: skip
def test_for_what_always_is_an_answer(tmp_path: Path, command: str, lasting: bool) -> None:
    ctx = context(tmp_path)
    (ctx.workspace / "script").write_text("#!/bin/sh\n")
    (ctx.workspace / "script").chmod(0o755)
    try:
        plan = make_plan(ctx, {"command": command}, {})
    except ToolError as problem:  # a program that this machine lacks
        pytest.skip(str(problem))
    assert may_last(plan) is lasting


@pytest.mark.parametrize(
    ("mode", "command", "known", "taint", "expected"),
    [
        ("full", "sleep 0", False, (), Allow),
        ("full", "sleep 0", False, ("exec",), Allow),
        ("full", "sleep 0", False, ("exec", "web_fetch"), Ask),
        ("ask", "ls", True, (), Allow),
        ("ask", "ls", True, ("exec",), Allow),
        ("ask", "ls", True, ("sender:group",), Ask),
        ("ask", "ls", False, ("exec",), Ask),
        ("ask", "sleep 0", True, ("exec",), Ask),
        ("allowlist", "ls", True, ("exec",), Allow),
        ("allowlist", "ls", True, ("web_fetch",), Ask),
        ("allowlist", "ls", False, ("exec",), Deny),
        ("allowlist", "ls", False, ("web_fetch",), Deny),
        ("deny", "ls", True, (), Deny),
    ],
)
def test_a_command_that_may_always_run_is_not_asked_about_because_of_the_one_before(
    tmp_path: Path, mode: str, command: str, known: bool, taint: tuple[str, ...], expected: type
) -> None:
    """Every host command taints. What strangers wrote elsewhere still closes the host, whatever the owner chose for good."""
    ctx = context(tmp_path, taint=Taint(taint))
    given = case("exec", Risk.EXEC, tainted=bool(taint), sandbox=HOST, mode=mode)
    given = replace(given, plan=make_plan(ctx, {"command": command}, {}), by_commands=set(taint) <= {"exec"})
    assert isinstance(decide(given, lambda kind, subject: known), expected)


class Owner:
    """Answers every question in the same way, a moment later, and can do something in between."""

    def __init__(self, book: Approvals, decision: Decision, meanwhile: Any = None) -> None:
        self._book, self._decision, self._meanwhile = book, decision, meanwhile
        self.asked: list[Request] = []

    def reachable(self, request: Request) -> bool:
        return True

    async def announce(self, request: Request) -> None:
        self.asked.append(request)
        self._book.decide(request.id, self._decision, "test")
        if self._meanwhile:
            self._meanwhile()


class Place:
    def __init__(
        self, folder: Path, decision: Decision | None, mode: str = "", meanwhile: Any = None, **changes: Any
    ) -> None:
        self.book = Approvals(folder / "a.json", SystemClock(), SystemIds())
        self.owner = Owner(self.book, decision, meanwhile) if decision else None
        granted = Granted()
        self.manager = ProcessManager(SystemClock(), SystemIds())
        settings = ExecSettings(mode=mode)  # type: ignore[arg-type]
        gate = PolicyGate(self.book, granted, {}, approver=self.owner, settings=lambda _: settings)
        reach = Reach(workspace_only=True)
        tools = [*file_tools(reach), edit_tool(reach), patch_tool(reach), *exec_tools(self.manager, granted, {})]
        self.box = Toolbox({tool.name: tool for tool in tools}, gate)
        self.context = context(folder, clock=SystemClock(), ids=SystemIds(), **changes)

    async def __call__(self, name: str, **arguments: Any) -> str:
        try:
            return text_of(await execute(ToolCall("c1", name, arguments), self.box, self.context))
        finally:
            await self.manager.aclose()


async def test_a_host_command_without_anybody_to_ask(tmp_path: Path) -> None:
    place = Place(tmp_path, None)
    assert "nobody is here" in await place("exec", command="touch made")
    assert not (tmp_path / "ws" / "made").exists()


@pytest.mark.parametrize(
    ("mode", "done"), [("ask", True), ("", True), ("full", True), ("deny", False), ("allowlist", False)]
)
async def test_modes(tmp_path: Path, mode: str, done: bool) -> None:
    place = Place(tmp_path, "allow-once", mode)
    await place("exec", command="touch made")
    assert (tmp_path / "ws" / "made").exists() is done
    assert place.owner is not None
    assert len(place.owner.asked) == (mode in {"ask", ""})


async def test_the_question_shows_what_would_run(tmp_path: Path) -> None:
    place = Place(tmp_path, "deny")
    text = await place("exec", command="echo 'a b' > f", env={"TOKEN": "secret"})
    assert text.startswith("Denied")
    assert place.owner is not None
    asked = place.owner.asked[0]
    assert asked.details["argv"] == ["/bin/sh", "-c", "echo 'a b' > f"]
    assert asked.details["shell"] == "a redirection"
    assert "TOKEN" in asked.details["env"]
    assert not asked.lasting


async def test_a_script_that_changes_after_its_approval_does_not_run(tmp_path: Path) -> None:
    script = tmp_path / "ws" / "run.sh"
    place = Place(tmp_path, "allow-once", meanwhile=lambda: script.write_text("#!/bin/sh\ntouch evil\n"))
    script.write_text("#!/bin/sh\ntouch good\n")
    script.chmod(0o755)
    assert "not what was approved" in await place("exec", command="./run.sh")
    assert not (tmp_path / "ws" / "evil").exists()


async def test_always_covers_the_same_command_and_no_other(tmp_path: Path) -> None:
    place = Place(tmp_path, "allow-always")
    (tmp_path / "ws" / "f").write_text("x")
    assert await place("exec", command="cat f") == "x"
    assert await place("exec", command="cat f") == "x"
    assert place.owner is not None
    assert len(place.owner.asked) == 1
    await place("exec", command="cat ./f")
    assert len(place.owner.asked) == 2


async def test_taint_closes_what_shapes_the_agent(tmp_path: Path) -> None:
    place = Place(tmp_path, None, taint=Taint(("web_fetch",)))
    ws = place.context.workspace
    (ws / "SOUL.md").write_text("me")
    (ws / "alias.md").symlink_to("SOUL.md")
    (ws / "inner").symlink_to(".")
    for name in (
        "SOUL.md",
        "soul.md",
        "./SOUL.md",
        "alias.md",
        "inner/SOUL.md",
        str(ws / "SOUL.md"),
        "skills/../SOUL.md",
        "inner/new.md",
    ):
        await place("write", path=name, content="evil")
    await place("edit", path="alias.md", oldText="me", newText="evil")
    await place("apply_patch", input="*** Begin Patch\n*** Update File: SOUL.md\n@@\n-me\n+evil\n*** End Patch")
    await place("apply_patch", input="*** Begin Patch\n*** Add File: skills/x/SKILL.md\n+evil\n*** End Patch")
    assert (ws / "SOUL.md").read_text() == "me"
    assert not (ws / "skills" / "x").exists()
    assert not (ws / "new.md").exists()
    assert "Created" in await place("write", path="notes/plain.md", content="fine")


def test_a_grant_is_for_one_call_and_one_plan_once() -> None:
    granted = Granted()
    granted.give("c1", "d1", Claim())
    for call, digest in (("c2", "d1"), ("c1", "d2"), ("c1", "d1")):
        with pytest.raises(Denied):
            granted.take(call, digest)
    granted.give("c1", "d1", Claim())
    granted.take("c1", "d1")
    with pytest.raises(Denied):
        granted.take("c1", "d1")


def test_a_plan_is_what_it_says(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    one = make_plan(ctx, {"command": "ls -l"}, {})
    assert one == make_plan(ctx, {"command": "ls -l"}, {})
    others = [
        {"command": "ls -a"},
        {"command": "ls -l", "env": {"X": "1"}},
        {"command": "ls -l", "workdir": "/"},
        {"command": "ls  -l;"},
    ]
    assert len({one.digest, *(make_plan(ctx, other, {}).digest for other in others)}) == 5
    assert one.argv[0].startswith("/")
    assert rule_subject(one) != rule_subject(make_plan(ctx, others[1], {}))


async def test_two_questions_at_once(tmp_path: Path) -> None:
    """Both calls wait for their own answers; neither takes the other's."""
    place = Place(tmp_path, "allow-once")
    calls = [ToolCall(f"c{n}", "exec", {"command": f"touch f{n}"}) for n in range(4)]
    await asyncio.gather(*(execute(call, place.box, place.context) for call in calls))
    await place.manager.aclose()
    assert sorted(path.name for path in (tmp_path / "ws").iterdir()) == ["f0", "f1", "f2", "f3"]


def _tool(name: str) -> Tool:
    async def run(ctx: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
        return said("ran")

    return Tool(
        spec=ToolSpec(name, "", {"type": "object", "properties": {}}),
        risk=Risk.ADMIN,
        run=run,
        group="x",
        owner_only=True,
    )


async def test_an_owner_tool_is_refused_to_others(tmp_path: Path) -> None:
    place = Place(tmp_path, "allow-once", trust=Trust.PAIRED)
    place.box.tools["gateway"] = _tool("gateway")
    assert "owner only" in await place("gateway")
