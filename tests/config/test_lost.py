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


@pytest.mark.parametrize(
    ("text", "key", "home_of_it"),
    [
        ('{ sandbox: { mode: "all" } }', "sandbox", "agents.defaults.sandbox"),
        ('{ deny: ["exec"] }', "deny", "tools.deny"),
        ('{ agents: { sandbox: { mode: "all" } } }', "agents.sandbox", "agents.defaults.sandbox"),
        ('{ agents: { tools: { deny: ["exec"] } } }', "agents.tools", "agents.defaults.tools"),
        ('{ agents: { main: { tools: { deny: ["exec"] } } } }', "agents.main", "agents.entries.main"),
        ('{ agents: { defaults: { deny: ["exec"] } } }', "agents.defaults.deny", "agents.defaults.tools.deny"),
        ('{ agents: { list: [{ id: "a", deny: ["x"] }] } }', "agents.list[0].deny", "agents.entries.a.tools.deny"),
        ('{ tools: { "exec.mode": "deny" } }', 'tools["exec.mode"]', "tools.exec.mode"),
        (
            '{ agents: { defaults: { "tools.deny": ["x"] } } }',
            'agents.defaults["tools.deny"]',
            "agents.defaults.tools.deny",
        ),
        (
            '{ gateway: { "auth.secretScopes": [] } }',
            'gateway["auth.secretScopes"]',
            "gateway.auth.secretScopes",
        ),
        ('{ channels: { "telegram.groups": {} } }', 'channels["telegram.groups"]', "channels.telegram.groups"),
        ('{ tools: { tools: { deny: ["exec"] } } }', "tools.tools", "tools"),
        ('{ agents: { agents: { defaults: { sandbox: { mode: "all" } } } } }', "agents.agents", "agents"),
        ("{ gateway: { gateway: { auth: { secretScopes: [] } } } }", "gateway.gateway", "gateway"),
    ],
)
def test_a_rule_where_nothing_reads_it_stops_the_program(home, text: str, key: str, home_of_it: str) -> None:
    said = stopped(home, text)
    assert f"openclaw.json:1: {key}: is " in said
    assert f"it belongs at {home_of_it}; " in said or f"did you mean '{home_of_it}'?" in said


def test_a_file_that_says_once_more_what_it_is_included_as_is_named(home) -> None:
    home.write('{ tools: { deny: ["exec"] } }', "tools.json5")
    assert "tools.json5:1: tools.tools: is not read here" in stopped(home, '{ tools: { $include: "./tools.json5" } }')


@pytest.mark.parametrize("key", ["agents.list[0].tools.deny", "agents.list.0.tools.deny", "bindings.0.agentId"])
def test_a_key_cannot_name_a_place_in_a_list(home, key: str) -> None:
    assert "names a place in a list" in stopped(home, f'{{ "{key}": ["exec"] }}')


def test_the_mistyped_id_of_an_agent_stops_the_program(home) -> None:
    said = stopped(home, '{ agents: { list: [{ Id: "guest", tools: { deny: ["exec"] } }] } }')
    assert "agents.list[0].Id: is no key that is known here (did you mean 'id'?" in said


@pytest.mark.parametrize(
    "key",
    [
        "\u200b\u200btools\u200b",
        "\uff54\uff4f\uff4f\uff4c\uff53",
        "t\u043e\u043els",
        "to\u00adols",
        "tools\u00a0",
        "TOOLS",
    ],
)
def test_a_key_that_only_looks_like_another_stops_the_program(home, key: str) -> None:
    assert "did you mean 'tools'?" in stopped(home, f'{{ "{key}": {{ deny: ["exec"] }} }}')


@pytest.mark.parametrize("key", ["__proto__", "constructor", "openclaw"])
def test_a_strange_block_that_looks_like_rules_is_named_to_every_command(home, key: str) -> None:
    home.write(f'{{ "{key}": {{ tools: {{ deny: ["exec"] }} }}, mine: {{ deny: 1 }} }}')
    heard = []
    load_config(home.paths, home.env, notify=heard.append)
    assert [(each.severity, each.key) for each in heard] == [("warning", key)]
    assert "what looks like rules in it has no effect" in heard[0].message


@pytest.mark.parametrize(
    "text",
    [
        '{ agents: { defaults: { models: { "openai/gpt-4.1": {}, "tools.x": {}, models: {} } } } }',
        '{ mcp: { servers: { mcp: { command: "x" }, "tools.deny": { command: "x", env: { "exec.mode": "1" } } } } }',
        '{ tools: { byProvider: { openai: { deny: ["exec"] }, "openai/gpt-4.1": { deny: ["exec"] } } } }',
        '{ channels: { telegram: { groups: { "tools.a": { requireMention: true } } } } }',
        '{ plugins: { entries: { x: { config: { tools: { tools: { a: 1 } }, "tools.deny": 1 } } } } }',
        '{ "agents.list": [{ id: "main" }], "tools.deny": ["exec"] }',
        "{ mine: { mine: { a: 1 } } }",
    ],
)
def test_names_of_the_users_own_choice_are_no_rules(load, text: str) -> None:
    assert load(text).problems == []


@pytest.mark.parametrize(
    ("one", "two", "text"),
    [
        ('[{ tools: { deny: ["exec"] } }]', "{ }", '{ $include: ["./1.json5", "./2.json5"] }'),
        ('[{ deny: ["exec"] }]', "{ web: {} }", '{ tools: { $include: ["./1.json5", "./2.json5"] } }'),
        ('{ tools: { exec: ["deny"] } }', "{ }", '{ $include: "./1.json5", tools: { exec: { mode: "full" } } }'),
    ],
)
def test_included_rules_of_another_shape_than_what_lies_over_them_stop_the_program(
    home, one: str, two: str, text: str
) -> None:
    home.write(one, "1.json5")
    home.write(two, "2.json5")
    assert "has one shape in an included file and another in what lies over it" in stopped(home, text)


def test_a_model_in_another_shape_than_in_the_included_file_is_fine(home) -> None:
    home.write('{ agents: { defaults: { model: { primary: "a/b" } } } }', "1.json5")
    assert home.load('{ $include: "./1.json5", agents: { defaults: { model: "c/d" } } }').problems == []
