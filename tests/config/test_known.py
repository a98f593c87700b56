"""A setting is used, or the program says that it has no effect."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import homarus
from homarus.config.blocks import BLOCKS, load_block, path_of, validate
from homarus.config.known import BY_HAND, NO_EFFECT, Node, _structs, known_tree, near
from homarus.config.load import inspect_config
from homarus.config.restrict import RESTRICTIVE, restricts

SOURCES = {
    path: path.read_text(encoding="utf-8")
    for path in Path(homarus.__file__).parent.rglob("*.py")
    if path.name not in ("known.py", "restrict.py")
}


def node_at(path: str) -> Node | None:
    node: Node | None = known_tree()
    for step in path.split("."):
        node = node.child(step) if node is not None and not node.free else node
    return node


def fields(into: Any, path: str, holder: str = "") -> Iterator[tuple[str, tuple[Any, str], Any]]:
    """Every field with its path, its class, and the field of another class that holds it."""
    for field in msgspec.structs.fields(into):
        where = f"{path}.{field.encode_name}"
        yield where, (into, holder), field
        for shape, named in _structs(field.type):
            if shape is not into:
                yield from fields(shape, f"{where}.*" if named else where, field.name)


def is_used(owner: tuple[Any, str], field: Any) -> bool:
    """Whether an attribute or a key of this name is read; a plain word counts only near its class or its holder."""
    into, holder = owner
    package = into.__module__.split(".")[1]
    use = re.compile(rf"\.{field.name}\b|[\".]{field.encode_name}\"")
    telling = "_" in field.name
    near_by = (
        text
        for path, text in SOURCES.items()
        if telling or package in path.parts or into.__name__ in text or (holder and f".{holder}" in text)
    )
    return any(use.search(text) for text in near_by)


@pytest.mark.parametrize("name", sorted(BLOCKS))
def test_every_field_is_read_or_said_to_have_no_effect(name: str) -> None:
    unread = [
        where
        for where, into, field in fields(load_block(name), ".".join(map(str, path_of(name))))
        if not is_used(into, field) and where not in NO_EFFECT
    ]
    assert unread == [], "use it, or say in config/no_effect.json why it has no effect"


@pytest.mark.parametrize("name", sorted(BLOCKS))
def test_nothing_that_is_read_is_said_to_have_no_effect(name: str) -> None:
    stale = [
        where
        for where, into, field in fields(load_block(name), ".".join(map(str, path_of(name))))
        if where in NO_EFFECT and "_" in field.name and is_used(into, field)
    ]
    assert stale == [], "remove its line from config/no_effect.json"


def test_what_is_read_without_a_class_is_known() -> None:
    read = set()
    for text in SOURCES.values():
        for node in ast.walk(ast.parse(text)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get"):
                continue
            owner = ast.unparse(node.func.value).rpartition(".")[2].lstrip("_")
            if node.args and isinstance(node.args[0], ast.Constant) and owner in ("config", "agent"):
                read.add(("agents.defaults." if owner == "agent" else "") + str(node.args[0].value))
    assert len(read) > 15
    unknown = sorted(path for path in read if node_at(path) is None)
    assert unknown == [], "add a line to BY_HAND"


def test_no_key_is_both_read_by_hand_and_without_effect() -> None:
    assert set(BY_HAND).isdisjoint(NO_EFFECT)


def test_every_block_that_can_be_switched_off_counts_as_restrictive() -> None:
    for name in BLOCKS:
        if hasattr(load_block(name), "disabled"):
            assert any(f"{name}.".startswith(f"{top}.") for top in (*RESTRICTIVE, "channels")), name


@pytest.mark.parametrize(
    ("text", "key", "meant"),
    [
        ('{ modles: { mode: "merge" } }', "modles", "models"),
        ('{ modles: { mode: "merge" }, models: { mode: "merge" } }', "modles", "models"),
        ('{ agents: { default: { model: "a/b" } } }', "agents.default", "defaults"),
        ('{ agents: { defaults: {}, default: { model: "a/b" } } }', "agents.default", "defaults"),
        ("{ messages: { queue: { debounceMS: 5 } } }", "messages.queue.debounceMS", "debounceMs"),
        ("{ agents: { defaults: { skip_bootstrap: true } } }", "agents.defaults.skip_bootstrap", "skipBootstrap"),
        ("{ agents: { list: [ { id: 'a', workspce: '~' } ] } }", "agents.list[0].workspce", "workspace"),
        ("{ session: { reset: { idleMinute: 5 } } }", "session.reset.idleMinute", "idleMinutes"),
        ("{ memory: { citatons: 'on' } }", "memory.citatons", "citations"),
        ("{ agents: { list: [ { id: 'a', identity: { nme: 'A' } } ] } }", "agents.list[0].identity.nme", "name"),
        ("{ channels: { telegam: { enabled: false } } }", "channels.telegam", "telegram"),
    ],
)
def test_a_mistyped_key_is_kept_and_named(load, home, text: str, key: str, meant: str) -> None:
    found = {problem.key: problem for problem in validate(load(text))}
    assert found[key].severity == "warning"
    assert found[key].cure == f"did you mean '{meant}'?"
    assert home.file.read_text() == text


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ("{ agents: { defaults: { heartbeat: { every: '2x' } } } }", "agents.defaults.heartbeat.every", "duration"),
        ("{ agents: { defaults: { thinkingDefault: 'lowish' } } }", "agents.defaults.thinkingDefault", "low"),
        ("{ agents: { defaults: { thinkingDefault: 'hihg' } } }", "agents.defaults.thinkingDefault", "mean 'high'?"),
        ("{ agents: { defaults: { sandbox: { mode: 'al' } } } }", "agents.defaults.sandbox.mode", "mean 'all'?"),
        ("{ tools: { profile: 'codding' } }", "tools.profile", "did you mean 'coding'?"),
        ("{ tools: { byProvider: { zai: { profile: 'ful' } } } }", "tools.byProvider.zai.profile", "mean 'full'?"),
        ("{ models: { mode: 'mergee' } }", "models.mode", "did you mean 'merge'?"),
        ("{ messages: { queue: { mode: 'steeer' } } }", "messages.queue.mode", "did you mean 'steer'?"),
        ("{ messages: { queue: { drop: 'olde' } } }", "messages.queue.drop", "did you mean 'old'?"),
        ("{ agents: { defaults: { model: 'opnai/gpt-5' } } }", "agents.defaults.model", "mean 'openai/gpt-5'?"),
        (
            "{ agents: { list: [{ id: 'a', model: { primary: 'openai/gpt-5', fallbacks: ['opnai/gpt-5'] } }] } }",
            "agents.list[0].model.fallbacks[0]",
            "mean 'openai/gpt-5'?",
        ),
        ("{ memory: { citations: 'of' } }", "memory.citations", "did you mean 'off'?"),
        ("{ agents: { defaults: { heartbeat: { target: 'lst' } } } }", "agents.defaults.heartbeat.target", "'last'?"),
        (
            "{ agents: { defaults: { heartbeat: { activeHours: { start: '25:00' } } } } }",
            "agents.defaults.heartbeat.activeHours.start",
            "no time such as 08:30",
        ),
        (
            "{ agents: { defaults: { memorySearch: { provider: 'lokal' } } } }",
            "agents.defaults.memorySearch.provider",
            "did you mean 'local'?",
        ),
        (
            "{ agents: { defaults: { memorySearch: { sources: ['memry'] } } } }",
            "agents.defaults.memorySearch.sources",
            "one of memory, sessions",
        ),
        ("{ agents: { defaults: { userTimezone: 'Mars/X' } } }", "agents.defaults.userTimezone", "no time zone"),
        ("{ session: { maintenance: { pruneAfter: '30dayz' } } }", "session.maintenance.pruneAfter", "no duration"),
        ("{ session: { reset: { mode: 'daily', atHour: 25 } } }", "session.reset.atHour", "<= 23"),
        ("{ gateway: { port: 99999 } }", "gateway.port", "<= 65535"),
        ("{ gateway: { auth: { secretScopes: ['operator.reed'] } } }", "gateway.auth.secretScopes", "operator.read"),
        ("{ gateway: { tools: { deny: ['memroy_get'] } } }", "gateway.tools.deny", "names no tool"),
        ("{ agents: { defaults: { verboseDefault: 'fulll' } } }", "agents.defaults.verboseDefault", "mean 'full'?"),
        ("{ hooks: { presets: ['gmial'] } }", "hooks.presets", "one of gmail"),
        (
            "{ agents: { defaults: { subagents: { thinking: 'hihg' } } } }",
            "agents.defaults.subagents.thinking",
            "mean 'high'?",
        ),
        ("{ mcp: { servers: { x: {} } } }", "mcp.servers.x", "neither a command nor a url"),
        ("{ mcp: { servers: { x: { url: 'http://x', transport: 'htp' } } } }", "mcp.servers.x.transport", "'http'?"),
        (
            "{ models: { providers: { p: { models: [{ id: 'a', input: ['txt'] }] } } } }",
            "models.providers.p.models[0].input",
            "one of text, image",
        ),
        (
            "{ models: { providers: { p: { compat: { thinkingFormat: 'efort' } } } } }",
            "models.providers.p.compat.thinkingFormat",
            "did you mean 'effort'?",
        ),
        (
            "{ models: { providers: { p: { compat: { maxTokenField: 'max_tokens' } } } } }",
            "models.providers.p.compat.maxTokenField",
            "did you mean 'maxTokensField'?",
        ),
        ("{ channels: { email: { imapTls: 'tsl' } } }", "channels.email.imapTls", "did you mean 'tls'?"),
        ("{ channels: { irc: { tls: 'no' } } }", "channels.irc.tls", "must be true or false"),
        ("{ messages: { queue: { byChannel: { x: 'q' } } } }", "messages.queue.byChannel.x", "one of steer"),
    ],
)
def test_a_mistyped_value_is_named_with_what_may_stand_there(load, text: str, key: str, words: str) -> None:
    [problem] = validate(load(text))
    assert problem.severity != "info" and problem.key == key
    assert words in f"{problem.message}; {problem.cure}"


def test_words_in_any_case_and_of_any_era_are_right(load) -> None:
    text = """{ tools: { profile: " Coding " }, agents: { defaults: { thinkingDefault: "Think-Hard" } },
                messages: { queue: { mode: "Follow-Up", drop: "summarise", byChannel: { x: "steer+backlog", y: "" } } } }"""
    assert validate(load(text)) == []


@pytest.mark.parametrize("text", ["{ every: '30m' }", "{ every: '0m' }", "{ every: '1h30m' }", "{ every: 30 }"])
def test_durations_of_a_heartbeat(load, text: str) -> None:
    assert validate(load(f"{{ agents: {{ defaults: {{ heartbeat: {text} }} }} }}")) == []


@pytest.mark.parametrize(
    "key",
    [
        "channels.nosuch.botToken",
        "cron.webhook",
        "mcp.servers.x.codex",
        "gateway.tailscale",
        "hooks.gmail",
        "agents.defaults.sandbox.prune",
        "skills.load.watchDebounceMs",
        "tools.exec.safeBins",
        "session.threadBindings",
    ],
)
def test_a_block_that_nothing_reads_says_so(load, key: str) -> None:
    text = "5"
    for step in reversed(key.split(".")):
        text = f"{{ {step}: {text} }}"
    [problem] = [p for p in validate(load(text)) if "has no effect here" in p.message]
    assert key.startswith(problem.key)
    assert problem.severity == ("warning" if restricts(tuple(problem.key.split("."))) else "info")


def test_what_is_read_inside_a_block_without_effect_is_not_named(load) -> None:
    text = """{ plugins: { slots: { contextEngine: "x", memory: "y" } }, cron: { sessionRetention: "1d" }, memory: { citations: "on" },
                channels: { defaults: { groupPolicy: "open" }, telegram: { groups: { "*": { tools: { deny: ["exec"] } } } } }, meta: {}, wizard: { a: 1 } }"""
    assert validate(load(text)) == []


def test_what_nobody_knows_is_named_once_and_kept(load) -> None:
    found = validate(load("{ mine: { deep: { a: 1 } }, tools: { frobnicate: 1 } }"))
    assert [(p.severity, p.key) for p in found] == [("warning", "mine"), ("warning", "tools.frobnicate")]


def test_a_variable_of_the_environment_is_no_key_of_the_file(load) -> None:
    assert validate(load("{}", OPENCLAW_GATEWAY_PORT="5")) == []


@given(st.sampled_from(["deny", "allow", "workspaceOnly", "sandbox", "tools"]), st.data())
def test_one_slip_is_always_recognised(word: str, data) -> None:
    at = data.draw(st.integers(0, len(word) - 1))
    letter = data.draw(st.sampled_from("abcxyz"))
    slips = [word[:at] + word[at + 1 :], word[:at] + letter + word[at:], word[:at] + letter + word[at + 1 :]]
    slips.append(word[:at] + word[at : at + 2][::-1] + word[at + 2 :])
    for slip in slips:
        assert near(slip, {word, "somethingElse"}) == word
    assert near("somethingElseAltogether", {word}) == ""


def test_a_home_is_inspected_without_the_classes_of_blocks_that_are_not_there(home) -> None:
    home.write('{ agents: { defaults: { workspace: "~/w", model: "a/b" } } }')
    assert inspect_config(home.paths, home.env).problems == []
