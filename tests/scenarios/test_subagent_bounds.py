"""A child can never do more than its parent: through the functions that the runtime itself uses, over random policies."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from homarus.agent.prepare import Prepared, prepare
from homarus.agent.turn import Turn
from homarus.agent.window import can_save
from homarus.config.paths import resolve_paths
from homarus.core.clock import CountingIds, SystemClock
from homarus.core.errors import Denied, HomarusError, ToolError
from homarus.core.messages import ToolCall, Trust
from homarus.core.routes import Route, SessionKey, main_session
from homarus.runtime.runtime import Runtime
from homarus.sandbox.settings import SandboxSettings
from homarus.sandbox.spec import Access, Mount
from homarus.sessions.row import SessionEntry
from homarus.subagents.run import RunningChild
from homarus.tools.execute import execute
from homarus.tools.policy import Who
from homarus.tools.tool import ToolContext

NAMES = (
    "read",
    "write",
    "exec",
    "process",
    "web_fetch",
    "memory_search",
    "sessions_spawn",
    "subagents",
    "group:fs",
    "*",
)
MODES = ("deny", "allowlist", "ask", "full")
STRICT = list(MODES)


def rules() -> st.SearchStrategy[dict[str, Any]]:
    names = st.lists(st.sampled_from(NAMES), max_size=4)
    return st.fixed_dictionaries(
        {},
        optional={
            "profile": st.sampled_from(["coding", "full", "minimal"]),
            "allow": names,
            "deny": names,
            "alsoAllow": names,
        },
    )


def tools() -> st.SearchStrategy[dict[str, Any]]:
    more = {
        "subagents": st.fixed_dictionaries({"tools": rules()}),
        "sandbox": st.fixed_dictionaries({"tools": rules()}),
        "byProvider": st.dictionaries(st.sampled_from(["builtin", "builtin/notebook"]), rules(), max_size=1),
        "exec": st.fixed_dictionaries({"mode": st.sampled_from(MODES)}),
    }
    return st.builds(lambda own, others: {**own, **others}, rules(), st.fixed_dictionaries({}, optional=more))


def sandbox() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "mode": st.sampled_from(["off", "all", "non-main"]),
            "workspaceAccess": st.sampled_from(["rw", "ro", "none"]),
            "network": st.booleans(),
            "binds": st.sampled_from([[], ["/srv"], ["/opt:rw"]]),
            "memoryMb": st.sampled_from([64, 512, 0]),
            "env": st.sampled_from([[], ["LANG"], ["TZ", "LANG"]]),
        },
    )


def agents() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"tools": tools(), "sandbox": sandbox()},
        optional={
            "subagents": st.fixed_dictionaries(
                {},
                optional={
                    "allowAgents": st.sampled_from([["*"], ["b"], ["a", "c"], []]),
                    "maxSpawnDepth": st.integers(0, 7),
                    "maxChildrenPerAgent": st.integers(1, 4),
                },
            )
        },
    )


HOMES = st.fixed_dictionaries({"a": agents(), "b": agents(), "c": agents(), "tools": tools(), "sandbox": sandbox()})
ORDERS = st.fixed_dictionaries(
    {"task": st.just("x")},
    optional={
        "agentId": st.sampled_from(["a", "b", "c", "d"]),
        "sandbox": st.sampled_from(["inherit", "require"]),
        "context": st.sampled_from(["isolated", "fork"]),
        "workspace": st.sampled_from(["sub", "../out", "/etc", "."]),
    },
)


def home_of(folder: Path, wanted: dict[str, Any]) -> Runtime:
    state = folder / ".openclaw"
    state.mkdir()
    entries = [{"id": name, **wanted[name]} for name in "abc"]
    defaults = {"model": "builtin/notebook", "sandbox": wanted["sandbox"]}
    document = {"agents": {"defaults": defaults, "list": entries}, "tools": wanted["tools"]}
    (state / "openclaw.json").write_text(json.dumps(document))
    env = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
    return Runtime.open(resolve_paths(env), env, clock=SystemClock(), ids=CountingIds())


async def context_of(runtime: Runtime, key: SessionKey, trust: Trust, taint: tuple[str, ...] = ()) -> ToolContext:
    return (await prepared_for(runtime, key, trust, taint))[1].context


async def prepared_for(
    runtime: Runtime, key: SessionKey, trust: Trust, taint: tuple[str, ...] = ()
) -> tuple[Turn, Prepared]:
    turn = Turn(
        run_id="r",
        agent_id=key.agent_id,
        session=key,
        route=Route(key.agent_id, key),
        text="",
        trust=trust,
        taint=taint,
        chat_type="direct",
    )
    turn = replace(turn, bounds=runtime.children.bounds(key), generations=runtime.turn_for(key).generations)
    return turn, await prepare(runtime.home, turn, SessionEntry(session_id="s"))


def check(runtime: Runtime, parent: ToolContext, child: ToolContext) -> None:
    gate = runtime.home.toolkit._gate
    assert set(child.tools) <= set(parent.tools), "a tool that its parent lacks"
    assert not set(child.tools) & {"sessions_send", "gateway", "agents_list", "session_status", "cron", "message"}
    check_sandbox(runtime, parent, child)
    assert set(parent.taint.sources) <= set(child.taint.sources), "a taint was lost"
    assert list(Trust).index(child.trust) >= list(Trust).index(parent.trust), "more trust than its parent"
    assert STRICT.index(gate._mode(child)) <= STRICT.index(gate._mode(parent)), "an exec mode that is wider"
    assert child.depth == parent.depth + 1 <= parent.max_depth and child.max_depth <= parent.max_depth
    assert "sessions_spawn" not in child.tools or child.depth < child.max_depth
    assert set(parent.lineage) | {parent.agent_id} <= set(child.lineage)
    if not {"sessions_spawn"} <= set(parent.tools):
        assert "sessions_spawn" not in child.tools


def check_sandbox(runtime: Runtime, parent: ToolContext, child: ToolContext) -> None:
    """Of another agent's child: that agent's own folders, as far as both agents' rules go, and else nothing new."""
    given = child.sandbox
    if child.agent_id != parent.agent_id and parent.sandbox.enforced:
        theirs = runtime.home.workspace(child.agent_id).resolve()
        rules = runtime.home.config.agent(child.agent_id).block("sandbox", SandboxSettings)
        most = max(Access(rules.workspace_access), parent.sandbox.home_access, key=list(Access).index)
        assert given.enforced and not given.can_read(str(parent.workspace)), "the parent's workspace"
        assert not given.can_write(str(theirs)) or most is Access.RW, "a workspace that one of both may not write"
        assert not given.can_read(str(theirs)) or most is not Access.NONE, "a workspace that one of both may not see"
        own = {str(theirs), str(runtime.home.config.paths.state_dir.resolve() / f"sandboxes/agent-{child.agent_id}")}
        assert given.access is Access.NONE or given.workspace in own
        mounts = tuple(mount for mount in given.mounts if mount != Mount(str(theirs)))
        given = replace(given, access=Access.NONE, mounts=mounts)
    assert parent.sandbox.contains(given), "a wider sandbox"


async def descend(runtime: Runtime, orders: list[dict[str, Any]], trust: Trust, taint: tuple[str, ...]) -> int:
    """Start one child below another for as long as it is allowed, and check each against its parent."""
    parent, generations = await context_of(runtime, main_session("a"), trust, taint), 0
    parent.workspace.mkdir(parents=True, exist_ok=True)
    for order in orders:
        try:
            wish = runtime.children.planner.plan(parent, order, "builtin/notebook", 0)
        except (Denied, ToolError):
            continue
        child = RunningChild(wish.run, wish.run.taint)
        runtime.children._at_work[wish.key] = child
        # What comes from elsewhere with more trust does not widen it either.
        context = await context_of(runtime, wish.key, Trust.OWNER)
        check(runtime, parent, context)
        assert wish.run.root == str(context.root) == "agent:a:main"
        parent, generations = context, generations + 1
    return generations


async def one_tree(wanted: dict[str, Any], orders: list[dict[str, Any]], trust: Trust, taint: tuple[str, ...]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        runtime = home_of(Path(folder), wanted)
        try:
            return await descend(runtime, orders, trust, taint)
        finally:
            runtime.children._at_work.clear()
            await runtime.aclose()


GIVEN = given(
    HOMES,
    st.lists(ORDERS, min_size=1, max_size=6),
    st.sampled_from(Trust),
    st.sampled_from([(), ("web_fetch",), ("sender:group", "x")]),
)
QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


@settings(max_examples=40, deadline=None, suppress_health_check=QUIET)
@GIVEN
def test_no_child_can_do_more_than_its_parent(
    wanted: dict[str, Any], orders: list[dict[str, Any]], trust: Trust, taint: tuple[str, ...]
) -> None:
    import asyncio

    asyncio.run(one_tree(wanted, orders, trust, taint))


@pytest.mark.deep
@settings(max_examples=2_000, deadline=None, suppress_health_check=QUIET)
@GIVEN
def test_no_child_can_do_more_than_its_parent_over_many_trees(
    wanted: dict[str, Any], orders: list[dict[str, Any]], trust: Trust, taint: tuple[str, ...]
) -> None:
    import asyncio

    asyncio.run(one_tree(wanted, orders, trust, taint))


async def test_the_trees_of_the_property_have_generations(tmp_path: Path) -> None:
    """The property above would hold of nothing; this one shows that real trees grow."""
    free = {"tools": {}, "sandbox": {"mode": "off"}, "subagents": {"allowAgents": ["*"], "maxSpawnDepth": 9}}
    wanted = {"a": free, "b": free, "c": free, "tools": {}, "sandbox": {}}
    orders = [{"task": "x", "agentId": name} for name in "bcabca"]
    assert await one_tree(wanted, orders, Trust.OWNER, ()) == 5


async def test_an_agent_with_wider_settings_is_held_to_its_parents(tmp_path: Path) -> None:
    narrow = {
        "tools": {"deny": ["web_fetch"], "exec": {"mode": "deny"}},
        "sandbox": {"mode": "all"},
        "subagents": {"allowAgents": ["b"]},
    }
    wide = {"tools": {"exec": {"mode": "full"}}, "sandbox": {"mode": "off", "network": True}}
    runtime = home_of(tmp_path, {"a": narrow, "b": wide, "c": wide, "tools": {}, "sandbox": {}})
    parent = await context_of(runtime, main_session("a"), Trust.OWNER)
    wish = runtime.children.planner.plan(parent, {"task": "x", "agentId": "b"}, "builtin/notebook", 0)
    assert wish.run.sandbox.enforced and not wish.run.sandbox.network
    theirs = runtime.home.workspace("b")
    assert (wish.run.sandbox.workspace, wish.run.sandbox.access, wish.note) == (str(theirs), Access.RW, "")
    assert not wish.run.sandbox.can_read(str(parent.workspace))
    assert "web_fetch" not in wish.run.tools and not [name for name in wish.run.tools if name.startswith("memory_")]
    runtime.children._at_work[wish.key] = RunningChild(wish.run, ())
    child = await context_of(runtime, wish.key, Trust.OWNER)
    assert runtime.home.toolkit._gate._mode(child) == "deny"
    assert "web_fetch" not in child.tools
    with pytest.raises(Denied, match="no sub-agent may run as 'c'"):
        runtime.children.planner.plan(parent, {"task": "x", "agentId": "c"}, "builtin/notebook", 0)
    # A session of a child that is talked to later is held by the same bounds, read from the book.
    runtime.children._at_work.clear()
    await runtime.aclose()


@pytest.mark.parametrize(
    ("order", "error"),
    [
        ({"agentId": "nobody"}, "no sub-agent may run as 'nobody'"),
        ({"agentId": "../b"}, "no sub-agent may run as"),
        ({"cwd": "/etc"}, "outside of what you can see"),
        ({"workspace": "../../.."}, "outside of what you can see"),
        ({"cwd": "missing"}, "is not a folder"),
        ({"thinking": "sideways"}, "is no thinking level"),
        ({"runTimeoutSeconds": -1}, "is negative"),
    ],
)
async def test_hostile_and_wrong_orders_are_refused_with_a_reason(
    tmp_path: Path, order: dict[str, Any], error: str
) -> None:
    runtime = home_of(tmp_path, {"a": {}, "b": {}, "c": {}, "tools": {}, "sandbox": {}})
    parent = await context_of(runtime, main_session("a"), Trust.OWNER)
    parent.workspace.mkdir(parents=True, exist_ok=True)
    with pytest.raises(HomarusError, match=error):
        runtime.children.planner.plan(parent, {"task": "x", **order}, "builtin/notebook", 0)
    await runtime.aclose()


async def test_an_own_workspace_is_made_inside_and_a_link_does_not_lead_out(tmp_path: Path) -> None:
    runtime = home_of(tmp_path, {"a": {}, "b": {}, "c": {}, "tools": {}, "sandbox": {}})
    parent = await context_of(runtime, main_session("a"), Trust.OWNER)
    parent.workspace.mkdir(parents=True, exist_ok=True)
    (tmp_path / "secret").mkdir()
    (parent.workspace / "link").symlink_to(tmp_path / "secret")
    plan = runtime.children.planner.plan
    wish = plan(parent, {"task": "x", "workspace": "work/one"}, "builtin/notebook", 0)
    assert wish.run.own_folder and (parent.workspace / "work" / "one").is_dir()
    assert wish.run.cwd == str(parent.workspace / "work/one") and wish.run.workspace == str(parent.workspace)
    for path in ("link", "link/new", "work/../../../secret"):
        with pytest.raises(HomarusError):
            plan(parent, {"task": "x", "workspace": path}, "builtin/notebook", 0)
    assert not list((tmp_path / "secret").iterdir())
    bare = replace(parent, tools=("read", "sessions_spawn"))
    with pytest.raises(ToolError, match="is not a folder"):
        plan(bare, {"task": "x", "workspace": "new"}, "builtin/notebook", 0)
    await runtime.aclose()


def two_agents(folder: Path, narrow: dict[str, Any], other: dict[str, Any]) -> Runtime:
    wanted = {"a": {"sandbox": narrow, "subagents": {"allowAgents": ["b"]}}, "b": {"sandbox": other}, "c": {}}
    return home_of(folder, {**wanted, "tools": {}, "sandbox": {}})


@pytest.mark.parametrize(
    ("parents", "others", "reads", "writes"),
    [
        ("rw", "rw", True, True),
        ("ro", "rw", True, False),
        ("rw", "ro", True, False),
        ("none", "rw", False, False),
        ("rw", "none", False, False),
    ],
)
async def test_a_child_of_another_agent_works_in_that_agents_workspace_as_both_allow(
    tmp_path: Path, parents: str, others: str, reads: bool, writes: bool
) -> None:
    runtime = two_agents(tmp_path, {"workspaceAccess": parents}, {"workspaceAccess": others, "mode": "off"})
    parent = await context_of(runtime, main_session("a"), Trust.OWNER)
    theirs = str(runtime.home.workspace("b"))
    wish = runtime.children.planner.plan(parent, {"task": "x", "agentId": "b"}, "builtin/notebook", 0)
    runtime.children._at_work[wish.key] = RunningChild(wish.run, ())
    child = await context_of(runtime, wish.key, Trust.OWNER)
    for spec in (wish.run.sandbox, child.sandbox):
        assert (spec.can_read(theirs), spec.can_write(theirs)) == (reads, writes)
        assert not spec.can_read(str(runtime.home.workspace("a"))) and spec.enforced
    # It works where it can write: there, or in the folder that this agent's sandbox has instead.
    assert child.sandbox.can_write(str(child.cwd)) and str(child.workspace) == child.sandbox.workspace
    assert child.cwd == (Path(theirs) if writes else tmp_path / ".openclaw/sandboxes/agent-b")
    # A later task of the same child is held to the same.
    again = runtime.children.planner.again(parent, wish.run, "y", 0)
    assert (again.sandbox.can_read(theirs), again.sandbox.can_write(theirs)) == (reads, writes)
    bound = replace(parent, sandbox=replace(parent.sandbox, access=Access.NONE, mounts=(), instead_of=""))
    assert not runtime.children.planner.again(bound, wish.run, "y", 0).sandbox.can_read(theirs)
    runtime.children._at_work.clear()
    await runtime.aclose()


async def test_a_workspace_that_is_a_home_is_not_lent(tmp_path: Path) -> None:
    """An agent without a sandbox may work in a whole home; the child of a sandboxed one gets no folder of it."""
    wanted = {"a": {"subagents": {"allowAgents": ["b"]}}, "b": {"sandbox": {"mode": "off"}, "workspace": str(tmp_path)}}
    runtime = home_of(tmp_path, {**wanted, "c": {}, "tools": {}, "sandbox": {}})
    parent = await context_of(runtime, main_session("a"), Trust.OWNER)
    wish = runtime.children.planner.plan(parent, {"task": "x", "agentId": "b"}, "builtin/notebook", 0)
    assert wish.run.sandbox.access is Access.NONE and not wish.run.sandbox.can_read(str(tmp_path))
    assert "works without files" in wish.note
    await runtime.aclose()


async def test_a_strangers_child_is_a_stranger_in_the_other_workspace(tmp_path: Path) -> None:
    runtime = two_agents(tmp_path, {}, {})
    theirs = runtime.home.workspace("b")
    (theirs / "memory").mkdir(parents=True)
    for name in ("MEMORY.md", "memory/2026-01-01.md", "AGENTS.md", "open.txt"):
        (theirs / name).write_text("the words\n")
    group = SessionKey.parse("agent:a:telegram:group:7")
    parent = await context_of(runtime, group, Trust.GROUP, ("sender:group",))
    parent = replace(parent, tools=("read", "write", "grep", "exec", "sessions_spawn"))
    wish = runtime.children.planner.plan(parent, {"task": "x", "agentId": "b"}, "builtin/notebook", 0)
    runtime.children._at_work[wish.key] = RunningChild(wish.run, wish.run.taint)
    child = await context_of(runtime, wish.key, Trust.OWNER)
    assert child.trust is Trust.GROUP and child.taint.sources == ("sender:group",)
    box = runtime.home.toolkit.box("b", Who(child.trust), None, ())

    async def call(name: str, **arguments: Any) -> Any:
        return await execute(ToolCall("1", name, arguments), box, child)

    assert "the words" in (await call("read", path="open.txt")).text
    for refused in (
        call("read", path="MEMORY.md"),
        call("read", path="memory/2026-01-01.md"),
        call("read", path=str(runtime.home.workspace("a") / "AGENTS.md")),
        call("grep", pattern="words", path=""),
        call("write", path="AGENTS.md", content="mine"),
        call("exec", command="cat MEMORY.md"),
    ):
        result = await refused
        assert result.is_error and "the words" not in result.text
    runtime.children._at_work.clear()
    await runtime.aclose()


@pytest.mark.parametrize(("agent", "saves"), [("a", True), ("b", False)])
async def test_a_child_saves_nothing_in_the_memory_of_another_agent(tmp_path: Path, agent: str, saves: bool) -> None:
    runtime = two_agents(tmp_path, {}, {})
    parent = await context_of(runtime, main_session("a"), Trust.OWNER)
    wish = runtime.children.planner.plan(parent, {"task": "x", "agentId": agent}, "builtin/notebook", 0)
    runtime.children._at_work[wish.key] = RunningChild(wish.run, ())
    assert can_save(*await prepared_for(runtime, wish.key, Trust.OWNER)) is saves
    assert can_save(*await prepared_for(runtime, main_session("a"), Trust.OWNER))
    assert not can_save(*await prepared_for(runtime, main_session("a"), Trust.PAIRED))
    runtime.children._at_work.clear()
    await runtime.aclose()
