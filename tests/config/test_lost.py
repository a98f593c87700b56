"""No file loses a rule by its shape without a word: it stops the program, or what is lost is named."""

from __future__ import annotations

import pytest

from homarus.config.load import load_config
from homarus.core.errors import ConfigError


def stopped(home, text: str) -> str:
    home.write(text)
    with pytest.raises(ConfigError) as caught:
        load_config(home.paths, home.env)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{ tools: { deny: ["exec"] }, tools: { web: {} } }', "tools"),
        ('{ tools: { deny: ["exec"], deny: [] } }', "tools.deny"),
        ('{ tools: { deny: ["exec"], deny: [] }, tools: { deny: [] } }', "tools.deny"),
        (
            '{ agents: { defaults: { sandbox: { workspaceAccess: "none" } } }, agents: { list: [{ id: "main" }] } }',
            "agents",
        ),
        ('{ agents: { defaults: { sandbox: { mode: "all" } }, defaults: {} } }', "agents.defaults"),
        (
            '{ agents: { defaults: { sandbox: { workspaceAccess: "none", workspaceAccess: "rw" } } } }',
            "agents.defaults.sandbox.workspaceAccess",
        ),
        ('{ agents: { list: [{ id: "a", tools: { deny: ["exec"] }, tools: {} }] } }', "agents.list[0].tools"),
        ('{ agents: { defaults: { models: { "a/b": {} }, models: { "c/d": {} } } } }', "agents.defaults.models"),
        ("{ agent: { elevated: { enabled: false }, elevated: {} } }", "agent.elevated"),
        ("{ gateway: { auth: { secretScopes: [] } }, gateway: { port: 1 } }", "gateway"),
        ("{ gateway: { auth: { secretScopes: [] }, auth: {} } }", "gateway.auth"),
        ("{ channels: { telegram: { groups: { a: {} }, groups: {} } } }", "channels.telegram.groups"),
        ('{ channels: { telegram: { dm: { policy: "disabled" }, dm: {} } } }', "channels.telegram.dm"),
        ('{ session: { sendPolicy: { default: "deny" } }, session: { scope: "main" } }', "session"),
        ("{ cron: { enabled: false }, cron: { maxConcurrentRuns: 1 } }", "cron"),
        ('{ bindings: [{ agentId: "guest" }], bindings: [] }', "bindings"),
        ('{ $include: "./a.json5", $include: "./b.json5" }', "$include"),
        ('{ tools: { $include: "./a.json5" }, tools: {} }', "tools"),
        ('{ mine: { $include: "./a.json5" }, mine: {} }', "mine"),
    ],
)
def test_a_rule_that_may_be_lost_because_its_key_is_written_twice_stops_the_program(home, text: str, key: str) -> None:
    for name in ("a.json5", "b.json5"):
        home.write("{ }", name)
    assert f"openclaw.json:1: {key}: is written twice" in stopped(home, text)


def test_a_key_that_an_included_file_has_twice_is_named_where_it_stands(home) -> None:
    home.write('{\n deny: ["exec"],\n deny: [] }', "rules.json5")
    assert "rules.json5:3: tools.deny: is written twice" in stopped(home, '{ tools: { $include: "./rules.json5" } }')


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{ tools: { deny: ["exec"] }, tools: { deny: ["exec"], web: {} } }', "tools"),
        ("{ gateway: {}, gateway: { port: 1 } }", "gateway"),
        ("{ gateway: null, gateway: { port: 1 } }", "gateway"),
        ('{ gateway: { auth: { token: "a", token: "b" } } }', "gateway.auth.token"),
        ('{ agents: { defaults: { model: "a/b", model: "c/d" } } }', "agents.defaults.model"),
        ('{ mcp: { servers: { x: { command: "x", env: { A: "1", A: "2" } } } } }', "mcp.servers.x.env.A"),
        ("{ mine: 1, mine: 2 }", "mine"),
    ],
)
def test_what_is_written_twice_and_loses_no_rule_is_a_warning_to_every_command(home, text: str, key: str) -> None:
    home.write(text)
    heard = []
    load_config(home.paths, home.env, notify=heard.append)
    assert [(each.severity, each.key, each.message) for each in heard] == [("warning", key, "is written twice")]


@pytest.mark.parametrize(
    "text",
    [
        '{ "a:b": "c:d", /* e: */ f: \'g":\', // h: "\n mine: [{ j: "//" }, { j: 1 }] }',
        "{ a: { b: 1 }, c: { b: 1 } }",
        '{ a: "\\":", b: 1 }',
    ],
)
def test_a_colon_in_a_text_or_a_comment_is_no_second_key(load, text: str) -> None:
    assert load(text).problems == []


@pytest.mark.parametrize(
    ("text", "key", "other"),
    [
        ('{ "tools.deny": ["exec"], tools: { deny: [] } }', '["tools.deny"]', "tools.deny"),
        (
            '{ channels: { telegram: { dm: { policy: "disabled" }, dmPolicy: "open" } } }',
            "channels.telegram.dm.policy",
            "channels.telegram.dmPolicy",
        ),
        (
            '{ agents: { list: [{ id: "main", tools: { deny: ["exec"] } }], entries: { main: { tools: { deny: [] } } } } }',
            "agents.list[0].tools.deny",
            "agents.entries.main.tools.deny",
        ),
        ('{ agent: { tools: { deny: ["exec"] } }, tools: { deny: [] } }', "agent.tools.deny", "tools.deny"),
    ],
)
def test_a_rule_in_two_spellings_that_differ_stops_the_program(home, text: str, key: str, other: str) -> None:
    assert f"openclaw.json:1: {key}: is written as {other}, too, which says something else" in stopped(home, text)


def test_two_spellings_that_differ_in_what_restricts_nothing_are_a_warning(load) -> None:
    [problem] = load('{ gateway: { token: "a", auth: { token: "b" } } }').problems
    assert (problem.severity, problem.key) == ("warning", "gateway.token")


def test_two_spellings_that_agree_or_complete_each_other_are_fine(load) -> None:
    text = '{ "tools.deny": ["exec"], agent: { tools: { allow: ["read"] } }, tools: { deny: ["exec"] } }'
    assert load(text).problems == []


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{ $includ: "./rules.json5" }', "$includ"),
        ('{ $includes: ["./rules.json5"] }', "$includes"),
        ('{ "$include ": "rules" }', '["$include "]'),
        ('{ tools: { $Include: "./t" } }', "tools.$Include"),
        ('{ tools: { include: "./t" } }', "tools.include"),
        ('{ includes: ["rules.json5"] }', "includes"),
        ('{ "tools.$include": "./t.json5" }', '["tools.$include"]'),
        ('{ $import: "./t.json5" }', "$import"),
        ('{ agents: { list: [{ id: "a", Include: "./a.json5" }] } }', "agents.list[0].Include"),
    ],
)
def test_a_mistyped_include_stops_the_program(home, text: str, key: str) -> None:
    said = stopped(home, text)
    assert f"openclaw.json:1: {key}: is no key that is known here" in said
    assert "did you mean '$include'?" in said


@pytest.mark.parametrize(
    "text",
    [
        '{ mcp: { servers: { x: { command: "x", tools: { include: ["./a"] } } } } }',
        '{ plugins: { entries: { x: { config: { include: "./a" } } } } }',
        '{ mine: { include: "./a" }, $schema: "./openclaw.schema.json" }',
        '{ env: { INCLUDE: "./include", vars: { include: "./include" } } }',
        "{ include: { a: 1 } }",
    ],
)
def test_a_key_of_that_name_that_somebody_reads_or_that_names_no_file_is_fine(home, text: str) -> None:
    home.write(text)
    load_config(home.paths, home.env)
