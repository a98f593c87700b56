"""Which tools a turn has, and that a child never has more than its parent."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from homarus.core.messages import Trust
from homarus.sandbox.spec import Access, Backend, Limits, Mount, SandboxSpec
from homarus.tools.policy import (
    ELSEWHERE,
    PROFILES,
    ChildRules,
    Layer,
    PolicySettings,
    Rules,
    Who,
    allowed_tools,
    layers_for,
    sender_layers,
)
from homarus.tools.registry import every_tool
from homarus.tools.tool import Taint, Tool

FOREIGN = {"plugin_tool": "plugins", **{name: group for group, names in ELSEWHERE.items() for name in names}}
TOOLS = (
    *every_tool().values(),
    *(
        replace(every_tool()["ls"], spec=replace(every_tool()["ls"].spec, name=name), group=group)
        for name, group in FOREIGN.items()
    ),
)
ALL = tuple(tool.name for tool in TOOLS)


def group(name: str) -> set[str]:
    return {tool.name for tool in TOOLS if tool.group == name}


def only(*names: str) -> list[Tool]:
    return [tool for tool in TOOLS if tool.name in names]


def names(*layers: Rules) -> set[str]:
    return set(allowed_tools(TOOLS, [Layer(f"l{n}", rules) for n, rules in enumerate(layers)]).names)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (Rules(), set(ALL)),
        (Rules(profile="full"), set(ALL)),
        (Rules(profile="minimal"), {"session_status"}),
        (Rules(profile="minimal", also_allow=("exec",)), {"session_status", "exec"}),
        (Rules(profile="nonsense"), set()),
        (Rules(allow=("read",)), {"read"}),
        (Rules(allow=("READ", " Ls ")), {"read", "ls"}),
        (Rules(allow=("exec",)), {"exec", "apply_patch"}),
        (Rules(allow=("write",)), {"write", "apply_patch"}),
        (Rules(allow=("exec",), deny=("apply_patch",)), {"exec"}),
        (Rules(allow=("bash",)), {"exec"}),
        (Rules(allow=("group:web",)), {"web_search", "web_fetch"}),
        (
            Rules(allow=("sessions_*",), deny=("sessions_send",)),
            {n for n in ALL if n.startswith("sessions_")} - {"sessions_send"},
        ),
        (Rules(allow=("group:plugins",)), set(FOREIGN)),
        (Rules(deny=("*",)), set()),
        # However a name is written, what it means is gone.
        *[
            (Rules(deny=(word,)), set(ALL) - {"exec"})
            for word in ("EXEC", " exec ", "bash", "Shell", "\uff45\uff58\uff45\uff43", "ex?c", "e*c")
        ],
        *[(Rules(deny=(word,)), set(ALL) - {"read"}) for word in ("read_file", "Read", "READ")],
        (Rules(deny=("Group: FS",)), set(ALL) - group("fs")),
        (Rules(allow=("group:fs", "nosuch")), set(group("fs"))),
        (Rules(profile="coding", allow=("message", "read"), also_allow=("message",)), {"read"}),
    ],
)
def test_one_layer(rules: Rules, expected: set[str]) -> None:
    assert names(rules) == expected


def test_an_allow_list_that_matches_nothing_allows_nothing() -> None:
    left = allowed_tools(TOOLS, [Layer("tools", Rules(allow=("nosuch", "browsr")))])
    assert left.names == ()
    assert left.warnings == (
        "tools: 'allow' names no tool that exists, so no tool is left",
        "tools: allow: 'nosuch' names no tool that exists",
        "tools: allow: 'browsr' names no tool that exists; did you mean 'browser'?",
    )


@pytest.mark.parametrize("rules", [Rules(allow=("nosuch",)), Rules(allow=(" ",)), Rules(profile="codign")])
def test_no_scope_takes_a_list_that_matches_nothing_for_no_list(rules: Rules) -> None:
    same = PolicySettings(profile=rules.profile, allow=rules.allow)
    child = PolicySettings(subagents=ChildRules(rules))
    boxed = PolicySettings(sandbox=ChildRules(rules))
    by_provider = PolicySettings(by_provider={" Z.AI ": rules})
    free = PolicySettings()
    for everyone, agent, who in [
        (same, free, Who()),
        (free, same, Who()),
        (child, free, Who(depth=1)),
        (free, child, Who(depth=1)),
        (boxed, free, Who()),
        (by_provider, free, Who(provider="zai")),
        (free, by_provider, Who(provider="zai", model="glm")),
    ]:
        assert allowed_tools(TOOLS, layers_for(everyone, agent, who)).names == ()
    assert allowed_tools(TOOLS, sender_layers("group", rules, {}, "ann")).names == ()
    assert allowed_tools(TOOLS, sender_layers("group", None, {"ann": rules}, "ann")).names == ()


def test_the_layers_of_a_child() -> None:
    rules = PolicySettings(subagents=ChildRules(Rules(deny=("web_*",))))

    def left(who: Who) -> set[str]:
        return set(allowed_tools(TOOLS, layers_for(rules, PolicySettings(), who), who).names)

    child, leaf = left(Who(depth=1, max_depth=2)), left(Who(depth=2, max_depth=2))
    denied = {"sessions_send", "gateway", "agents_list", "session_status", "cron", "message"}
    assert not child & (denied | {"web_fetch"})
    assert "sessions_spawn" in child
    assert child - leaf == {
        *("sessions_list", "sessions_history", "sessions_search", "sessions_spawn", "sessions_yield", "subagents")
    }


def test_only_the_owner_has_the_owners_tools() -> None:
    for trust in (Trust.PAIRED, Trust.GROUP, Trust.EXTERNAL):
        who = Who(trust=trust)
        left = allowed_tools(TOOLS, layers_for(PolicySettings(), PolicySettings(), who), who).names
        assert set(ALL) - set(left) == {"cron", "gateway"}


def test_a_tool_joins_the_profiles_and_rules_of_the_group_that_it_names() -> None:
    new = replace(every_tool()["web_fetch"], spec=replace(every_tool()["web_fetch"].spec, name="web_look"))
    tools = [*TOOLS, new]
    assert "web_look" in allowed_tools(tools, [Layer("tools", Rules(profile="coding"))]).names
    assert "web_look" not in allowed_tools(tools, [Layer("tools", Rules(deny=("group:web",)))]).names


def test_a_tool_that_is_not_here_today_is_no_slip() -> None:
    words = ("cron", "group:memory", "web_search", "browser", "group:ui", "tts")
    assert allowed_tools(only("read", "exec"), [Layer("tools", Rules(deny=words))]).warnings == ()


def test_a_rule_that_denies_nothing_is_told() -> None:
    left = allowed_tools(TOOLS, [Layer("tools", Rules(deny=("group:filesystem", "exec", "tts", "plugin_*")))])
    assert left.warnings == ("tools: deny: 'group:filesystem' names no tool that exists",)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("exce", {"exec"}),
        ("exe", {"exec"}),
        ("bsh", {"exec"}),
        ("web-fetch", {"web_fetch"}),
        ("group:runtme", group("runtime")),
        ("gruop:web", group("web")),
        ("memry_*", group("memory")),
    ],
)
def test_a_slip_in_a_deny_list_denies_what_was_meant(word: str, meant: set[str]) -> None:
    left = allowed_tools(TOOLS, [Layer("tools", Rules(deny=(word,)))])
    assert set(left.names) == set(ALL) - meant
    assert left.warnings[0].endswith("That is denied until it is corrected")


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (Rules(deny=("exce",)), "did you mean 'exec'? That is denied until it is corrected"),
        (
            Rules(deny=("group:runtme",)),
            "did you mean 'group:runtime'? That is denied until it is corrected",
        ),
        (Rules(deny=("shel",)), "did you mean 'exec'? That is denied until it is corrected"),
        (Rules(allow=("raed", "exec")), "did you mean 'read'?"),
        (Rules(also_allow=("web_serch",)), "did you mean 'web_search'?"),
    ],
)
def test_the_check_of_a_file_and_a_turn_say_the_same_of_a_slip(rules: Rules, words: str) -> None:
    ((path, message),) = rules.warnings
    assert message.endswith(words)
    left = allowed_tools(TOOLS, [Layer("tools", rules)])
    assert left.warnings == (f"tools: {path[0]}: {message}",)


@pytest.mark.parametrize("word", ["lobster", "llm-task", "mcp__github__*", "x*"])
def test_a_tool_of_somebody_else_in_a_deny_list_takes_nothing_of_ours(word: str) -> None:
    assert names(Rules(deny=(word,))) == set(ALL)


def test_provider_and_sender_rules() -> None:
    everyone = PolicySettings(by_provider={"small": Rules(deny=("exec",)), "small/mini": Rules(allow=("read",))})
    assert "exec" not in allowed_tools(TOOLS, layers_for(everyone, PolicySettings(), Who(provider="small"))).names
    assert allowed_tools(TOOLS, layers_for(everyone, PolicySettings(), Who(provider="small", model="mini"))).names == (
        "read",
    )
    layers = sender_layers("group", Rules(deny=("exec",)), {"ann": Rules(), "*": Rules(allow=("read",))}, "bob")
    assert allowed_tools(TOOLS, layers).names == ("read",)


ITEM = st.sampled_from(
    ["read", "exec", "write", "*", "sessions_*", "group:fs", "group:runtime", "nosuch", "EXEC", "message", "cron"]
)
ITEMS = st.lists(ITEM, max_size=3).map(tuple)
RULES = st.builds(Rules, profile=st.sampled_from(["", *PROFILES, "odd"]), allow=ITEMS, also_allow=ITEMS, deny=ITEMS)
PATHS = st.sampled_from(["/w", "/w/a", "/w/a/b", "/data", "/data/x", "/other"])
LIMITS = st.builds(Limits, st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
SPECS = st.builds(
    SandboxSpec,
    backend=st.sampled_from(list(Backend)),
    workspace=PATHS,
    access=st.sampled_from(list(Access)),
    network=st.booleans(),
    mounts=st.lists(st.builds(Mount, PATHS, st.booleans()), max_size=3).map(tuple),
    limits=LIMITS,
    env=st.lists(st.sampled_from(["A", "B"]), max_size=2, unique=True).map(tuple),
    locked=st.lists(st.sampled_from(["SOUL.md", "skills", "a"]), max_size=2, unique=True).map(tuple),
)


@settings(max_examples=300)
@given(st.lists(st.tuples(RULES, SPECS, st.booleans(), st.sampled_from(list(Trust))), min_size=1, max_size=5))
def test_a_child_can_never_do_more_than_its_parent(tree: list[tuple[Rules, SandboxSpec, bool, Trust]]) -> None:
    """A line of descent: each generation adds rules, a wish for a sandbox and perhaps taint of its own."""
    layers: list[Layer] = []
    tools: set[str] | None = None
    spec: SandboxSpec | None = None
    taint = Taint()
    for depth, (rules, wish, tainted, trust) in enumerate(tree):
        layers = [
            *layers,
            *layers_for(
                PolicySettings(),
                PolicySettings(profile=rules.profile, allow=rules.allow, deny=rules.deny),
                Who(trust=trust, depth=depth, max_depth=4),
            ),
        ]
        mine = set(allowed_tools(TOOLS, layers, Who(trust=Trust.OWNER, depth=depth, max_depth=4)).names)
        child = wish if spec is None else spec.narrow(wish)
        inherited = Taint((*taint.sources, f"g{depth}") if tainted else taint.sources)
        if tools is not None and spec is not None:
            assert mine <= tools
            assert spec.contains(child)
            assert set(taint.sources) <= set(inherited.sources)
            for path in ("/w", "/w/a", "/w/a/b", "/w/SOUL.md", "/w/skills/x", "/data/x", "/other", "/etc"):
                assert spec.can_read(path) or not child.can_read(path)
                assert spec.can_write(path) or not child.can_write(path)
            assert not child.network or spec.network or not spec.enforced
            assert child.enforced or not spec.enforced
        tools, spec, taint = mine, child, inherited
