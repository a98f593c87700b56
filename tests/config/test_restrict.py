"""No slip in a configuration may allow more than what was meant: it stops the program, or leaves the rules as strict."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from homarus.config.blocks import load_block
from homarus.config.keypath import format_path, parse_path
from homarus.config.load import load_config, remember_good
from homarus.config.paths import resolve_paths
from homarus.config.view import Config
from homarus.core.errors import ConfigError
from homarus.core.routes import DmScope
from homarus.gateway.scopes import implied
from homarus.models.ref import ModelRef, Resolved, allows
from homarus.runtime.chat_settings import chat_settings
from homarus.skills.gate import allowlist_of
from homarus.tools.policy import Who, allowed_tools, layers_for
from homarus.tools.registry import every_tool

TOOLS = tuple(every_tool().values())
_MODES = ("deny", "allowlist", "ask", "full")
_ACCESS = ("none", "ro", "rw")
RULES: list[dict[str, Any]] = [
    {"tools": {"deny": ["exec", "process"]}},
    {"tools": {"allow": ["read", "web_fetch"], "exec": {"mode": "deny"}}},
    {"tools": {"profile": "minimal", "fs": {"workspaceOnly": True}}},
    {"tools": {"profile": "coding", "deny": ["web_fetch", "web_search"], "web": {"fetch": {"enabled": False}}}},
    {"tools": {"exec": {"security": "deny", "ask": "always"}, "sandbox": {"tools": {"deny": ["exec"]}}}},
    {"tools": {"byProvider": {"openai": {"deny": ["exec", "write"]}}}},
    {"agents": {"defaults": {"sandbox": {"mode": "all", "workspaceAccess": "none", "network": False}}}},
    {"agents": {"defaults": {"sandbox": {"workspaceAccess": "ro"}, "modelPolicy": {"allow": ["local/*"]}}}},
    {"agents": {"defaults": {"budget": {"day": {"money": 1.5}}}}},
    {"agents": {"entries": {"main": {"tools": {"deny": ["exec"]}, "skills": ["weather"]}}}},
    {"agents": {"list": [{"id": "main", "tools": {"allow": ["read"]}, "sandbox": {"workspaceAccess": "none"}}]}},
    {"skills": {"allowBundled": [], "entries": {"weather": {"enabled": False}}}},
    {"gateway": {"auth": {"secretScopes": ["operator.read"], "rateLimit": {"maxAttempts": 3}}}},
    {"gateway": {"controlUi": {"enabled": False}, "tools": {"deny": ["memory_search"]}}},
    {"hooks": {"allowedAgentIds": ["guest"], "allowedSessionKeyPrefixes": ["hook:mail:"]}},
    {"session": {"dmScope": "per-peer"}},
    {"cron": {"enabled": False, "budget": {"money": 2.5}}},
    {"agents": {"defaults": {"heartbeat": {"budget": {"money": 0.5}}, "subagents": {"maxSpawnDepth": 0}}}},
    {"secrets": {"providers": {"e": {"source": "env", "allowlist": ["ONE"]}}}},
    {"channels": {"telegram": {"actions": {"messages": False, "reactions": False}}}},
]
WRONG = (5, -1, True, None, "", "some text", [], [5], {}, {"a": 1}, "${NOT_SET_ANYWHERE}", "minimall", 1e300)


def permissions(config: Config) -> dict[str, Any]:
    """Everything that these rules can take away, as values that compare: more is more."""
    agent = config.default_agent

    def read(name: str, scope: Any = config) -> Any:
        return scope.block(name.removeprefix("agents.defaults.").partition("#")[0], load_block(name))

    both = (read("tools"), read("tools", agent))
    found = allowed_tools(TOOLS, layers_for(*both, Who(provider="openai", model="x")))
    sandbox = read("agents.defaults.sandbox", agent)
    web = read("tools.web")
    known = allows(agent.raw, lambda name: Resolved(ModelRef(*f"{name}/".split("/", 2)[:2]), "name"))
    skills = read("skills")
    bundled, own = skills.allow_bundled, allowlist_of(agent.get("skills"))
    day = agent.block("", load_block("agents.defaults#turns")).budget.day.money
    entry = skills.entries.get("weather")
    gateway, hooks, cron = read("gateway"), read("hooks"), read("cron")
    beat, children = read("agents.defaults.heartbeat", agent), read("agents.defaults.subagents", agent)
    secrets, chat = read("secrets").providers, chat_settings(config, "telegram", "default")
    return {
        "tools": set(found.names),
        "doubts": found.warnings,
        "exec": min(_MODES.index(read("tools.exec", s).effective) for s in (config, agent)),
        "anywhere": not read("tools.fs").workspace_only,
        "fetch": web.fetch.enabled,
        "elevated": read("tools.elevated").enabled,
        "open": sandbox.mode == "off",
        "access": _ACCESS.index(sandbox.workspace_access),
        "network": sandbox.network not in (False, "none"),
        "models": {name for name in ("local/x", "openai/y") if known(ModelRef(*name.split("/")))},
        "bundled": bundled is None or bool(bundled),
        "skills": own is None or "other" in own,
        "weather": entry is None or entry.enabled is not False,
        "money": day or float("inf"),
        "scopes": set(implied(gateway.auth.secret_scopes)),
        "guesses": gateway.auth.rate_limit.max_attempts,
        "page": gateway.control_ui.enabled,
        "invoked": {"memory_search"} - set(gateway.tools.deny),
        "agents": hooks.allowed_agent_ids is None or set(hooks.allowed_agent_ids) > {"guest"},
        "keys": hooks.allowed_session_key_prefixes is None,
        "shared": read("session").dm_scope is DmScope.MAIN,
        "jobs": cron.enabled,
        "job money": cron.budget.money or float("inf"),
        "beat money": beat.budget.money or float("inf"),
        "depth": children.depth,
        "variables": any(each.allowlist is None for each in secrets.values()) or not secrets,
        "acts": {name for name in ("messages", "reactions") if not chat.is_off(name)},
    }


def wider(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    found = []
    for name, old in before.items():
        new = after[name]
        if name != "doubts" and (not new <= old if isinstance(old, set) else new > old):
            found.append(name)
    return found


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inner in items for place in ((*at, key), *places(inner, (*at, key)))]


def slip(word: str, dice: random.Random) -> str:
    at, letter = dice.randrange(len(word)), dice.choice("aexyz_")
    return dice.choice(
        [
            word[:at] + word[at + 1 :],
            word[:at] + letter + word[at:],
            word[:at] + letter + word[at + 1 :],
            word[:at] + word[at : at + 2][::-1] + word[at + 2 :],
            word.upper(),
        ]
    )


def mutated(rules: dict[str, Any], dice: random.Random) -> tuple[str, str]:
    """One slip: a key, a value, a name in a list, or a character of the text.

    A `choice` is no slip: null, true, and an empty value of the right kind take a rule back in so many words.
    """
    document = json.loads(json.dumps(rules))
    text = json.dumps(rules)
    kind = dice.choice(("key", "value", "name", "text"))
    if kind == "text":
        at = dice.choice([at for at, char in enumerate(text) if char in '{}[],:"'])
        return kind, text[:at] + dice.choice(["", "]", "}", ",", '"', "//", "\x00"]) + text[at + 1 :]
    if kind == "name":
        chosen = [path for path in places(document) if isinstance(_get(document, path), str)]
    else:
        chosen = [path for path in places(document) if kind == "value" or isinstance(path[-1], str)]
    if not chosen:
        return "text", text[:-1]
    path = dice.choice(chosen)
    parent = _get(document, path[:-1])
    if kind == "key":
        # A name of the user's own choice has no right spelling; and a channel by another name is one that is off.
        if path[-1] in ("main", "openai", "weather", "e", "telegram"):
            return "text", text[:-1]
        old = parent.pop(path[-1])
        if isinstance(old, dict | list) and dice.random() < 0.5:
            parent[path[-1]] = type(old)()  # the right name stands beside the mistyped one
        parent[slip(path[-1], dice) or "x"] = old
    else:
        old = parent[path[-1]]
        new = slip(old, dice) if kind == "name" else dice.choice(WRONG)
        new = "5x" if (type(old) is type(new) is dict and new) or {type(old), type(new)} <= {int, float} else new
        parent[path[-1]] = new
        if isinstance(parent, list) and isinstance(new, str):
            kind = "name"
        elif new is None or (type(old) is type(new) and (not new or new is True)):
            kind = "choice"
    return kind, json.dumps(document)


def _get(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def never_wider(folder: Path, count: int, seed: int) -> dict[str, int]:
    dice = random.Random(seed)
    env = {"HOME": str(folder), "OPENCLAW_STATE_DIR": str(folder)}
    paths = resolve_paths(env)
    seen = {"stopped": 0, "kept": 0, "stood in": 0}
    for number in range(count):
        rules = RULES[number % len(RULES)]
        paths.config_path.write_text(json.dumps(rules))
        first = load_config(paths, env)
        before = permissions(first)
        if dice.random() < 0.3:
            remember_good(first, explicit=True)
        kind, text = mutated(rules, dice)
        paths.config_path.write_text(text)
        try:
            config = load_config(paths, env)
        except ConfigError as problem:
            assert problem.cure, text
            seen["stopped"] += 1
            continue
        finally:
            (paths.own_dir / "openclaw.last-good.json").unlink(missing_ok=True)
        after = permissions(config)
        seen["stood in" if config.fallback else "kept"] += 1
        more = wider(before, after)
        # A tool, a model or a skill under another name is a name that nobody can judge; the policy says when it matches nothing.
        excused = kind == "name" and (after["doubts"] or set(more) <= {"models", "bundled", "skills", "invoked"})
        assert not more or excused or kind == "choice", (more, json.dumps(rules), text)
    return seen


def test_no_slip_widens_what_is_allowed(tmp_path: Path) -> None:
    seen = never_wider(tmp_path, 400, seed=1)
    assert min(seen.values()) > 10, seen


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(5))
def test_no_slip_widens_what_is_allowed_deep(tmp_path: Path, seed: int) -> None:
    assert sum(never_wider(tmp_path, 1000, seed=seed + 10).values()) == 1000


@pytest.mark.parametrize(
    ("text", "key", "meant"),
    [
        ('{ tolls: { deny: ["exec"] } }', "tolls", "tools"),
        ('{ tools: { denny: ["exec"] } }', "tools.denny", "deny"),
        ('{ tools: { exec: { mdoe: "deny" } } }', "tools.exec.mdoe", "mode"),
        ("{ tools: { f: { workspaceOnly: true } } }", "tools.f", "fs"),
        ("{ tools: { fs: { workspaceonly_: true } } }", "tools.fs.workspaceonly_", "workspaceOnly"),
        ('{ agent: { defaults: { sandbox: { mode: "all" } } } }', "agent.defaults", "agents.defaults"),
        ('{ agents: { default: { sandbox: { mode: "all" } } } }', "agents.default", "defaults"),
        ('{ agents: { defaults: { sandbx: { workspaceAccess: "none" } } } }', "agents.defaults.sandbx", "sandbox"),
        ('{ tools: { deny: ["web_fetch"] }, tool: { deny: ["exec"] } }', "tool", "tools"),
        ('{ tools: { deny: ["web_fetch"], denny: ["exec"] } }', "tools.denny", "deny"),
        (
            '{ agents: { defaults: { model: "a/b" }, default: { tools: { deny: ["exec"] } } } }',
            "agents.default",
            "defaults",
        ),
        (
            '{ agents: { defaults: { tools: { deny: [] }, tool: { deny: ["exec"] } } } }',
            "agents.defaults.tool",
            "tools",
        ),
        (
            '{ agents: { defaults: { sandbox: { mode: "all" }, sandbx: { workspaceAccess: "none" } } } }',
            "agents.defaults.sandbx",
            "sandbox",
        ),
        ('{ agents: { list: [ { id: "a", skills: ["x"], skill: [] } ] } }', "agents.list[0].skill", "skills"),
        ('{ agents: { list: [ { id: "a", tols: { deny: ["exec"] } } ] } }', "agents.list[0].tols", "tools"),
        ("{ agents: { defaults: { budget: { dya: { money: 1 } } } } }", "agents.defaults.budget.dya", "day"),
        ('{ commands: { alowFrom: ["me"] } }', "commands.alowFrom", "allowFrom"),
        ("{ hooks: { internal: { enabeld: false } } }", "hooks.internal.enabeld", "enabled"),
        ('{ channels: { default: { groupPolicy: "disabled" } } }', "channels.default", "defaults"),
        ("{ hooks: { intrnal: { enabled: false } } }", "hooks.intrnal", "internal"),
        ('{ session: { sendPolcy: { default: "deny" } } }', "session.sendPolcy", "sendPolicy"),
        ('{ gateway: { tools: { dney: ["exec"] } } }', "gateway.tools.dney", "deny"),
        ('{ gateway: { nodes: {}, node: { commands: { deny: ["x"] } } } }', "gateway.node", "nodes"),
        ('{ channels: { x: { groups: { g: { tols: { deny: ["exec"] } } } } } }', "channels.x.groups.g.tols", "tools"),
        (
            '{ channels: { x: { groups: { g: { tools: { dney: ["exec"] } } } } } }',
            "channels.x.groups.g.tools.dney",
            "deny",
        ),
        ('{ gateway: { auth: { secretScope: ["operator.read"] } } }', "gateway.auth.secretScope", "secretScopes"),
        ('{ gateway: { auht: { secretScopes: ["operator.read"] } } }', "gateway.auht", "auth"),
        ("{ gateway: { auth: { rateLimit: { maxAttempt: 3 } } } }", "gateway.auth.rateLimit.maxAttempt", "maxAttempts"),
        ("{ gateway: { controlUi: { enabeld: false } } }", "gateway.controlUi.enabeld", "enabled"),
        ('{ hooks: { allowedAgentId: ["main"] } }', "hooks.allowedAgentId", "allowedAgentIds"),
        ('{ hooks: { allowedSessionKeyPrefix: ["x"] } }', "hooks.allowedSessionKeyPrefix", "allowedSessionKeyPrefixes"),
        ('{ hooks: { mappings: [{ agentI: "guest" }] } }', "hooks.mappings[0].agentI", "agentId"),
        ('{ session: { dmScop: "per-peer" } }', "session.dmScop", "dmScope"),
        ("{ cron: { budjet: { money: 5 } } }", "cron.budjet", "budget"),
        ("{ cron: { budget: { mony: 5 } } }", "cron.budget.mony", "money"),
        ("{ cron: { enabeld: false } }", "cron.enabeld", "enabled"),
        ("{ heartbeat: { budgt: { money: 1 } } }", "heartbeat.budgt", "budget"),
        (
            '{ agents: { list: [{ id: "a", heartbeat: { budget: { mony: 1 } } }] } }',
            "agents.list[0].heartbeat.budget.mony",
            "money",
        ),
        (
            '{ agents: { defaults: { heartbeat: { activeHour: { start: "09:00" } } } } }',
            "agents.defaults.heartbeat.activeHour",
            "activeHours",
        ),
        (
            "{ agents: { defaults: { subagents: { maxSpawnDepht: 0 } } } }",
            "agents.defaults.subagents.maxSpawnDepht",
            "maxSpawnDepth",
        ),
        (
            '{ secrets: { providers: { e: { source: "env", allowList: ["A"] } } } }',
            "secrets.providers.e.allowList",
            "allowlist",
        ),
        (
            "{ channels: { telegram: { actions: { sendMesage: false } } } }",
            "channels.telegram.actions.sendMesage",
            "sendMessage",
        ),
    ],
)
def test_a_mistyped_restriction_stops_the_program(home, text: str, key: str, meant: str) -> None:
    home.write(text)
    with pytest.raises(ConfigError) as caught:
        load_config(home.paths, home.env)
    assert f"openclaw.json:1: {key}: " in str(caught.value)
    assert f"did you mean '{meant}'?" in str(caught.value)


def test_a_limit_that_nobody_knows_is_no_limit_and_stops_the_program(home) -> None:
    home.write("{ agents: { defaults: { budget: { day: { euros: 5 } } } } }")
    with pytest.raises(ConfigError, match=r"budget.day.euros: is no key that is known here"):
        load_config(home.paths, home.env)


@pytest.mark.parametrize(
    "text",
    [
        "{ tools: { exec: { node: 'x', host: 'gateway' } } }",
        "{ mine: { deny: 1 }, agents: { defaults: { mine: 1 } } }",
        '{ modles: {}, agents: { default: { model: "a/b" } } }',
        '{ agents: { defaults: { model: "a/b" }, default: { model: "c/d" } } }',
        '{ tools: { deny: ["exec"] }, tool: {}, agents: { defaults: { sandbox: { mode: "all" }, sandbx: null } } }',
        '{ gateway: { tls: {}, prot: 5 }, hooks: { tokn: "x" }, session: { scop: "main" } }',
        '{ channels: { irc: { host: "h", nick: "n", channels: ["#room"] } } }',
        '{ agents: { defaults: { subagents: { thinkin: "high" } } }, gateway: { auth: { token: "${UNSET}" } } }',
        '{ gateway: { auth: { allowTailscale: true }, controlUi: { basePath: "x" } }, hooks: { gmail: {} } }',
        "{ channels: { telegram: { actions: { sendMessage: false, sticker: false } } } }",
        '{ sandbox: {}, agents: { main: { model: "a/b" }, defaults: { sandbox: { prune: {} } } }, browser: {} }',
        '{ secrets: { providers: { e: { source: "env", timeoutMs: "soon" } } } }',
    ],
)
def test_what_is_known_or_nobodys_or_restricts_nothing_does_not_stop_it(home, text: str) -> None:
    home.write(text)
    load_config(home.paths, home.env)


@pytest.mark.parametrize(
    "text",
    [
        '{ agents: { defaults: { modelPolicy: { allow: "local/x" } } } }',
        '{ agents: { list: [ { id: "main", modelPolicy: { allow: ["local/x", 5] } } ] } }',
        '{ agents: { defaults: { budget: { day: { money: "little" } } } } }',
        '{ skills: { allowBundled: "weather" } }',
        "{ skills: { entries: [] } }",
        '{ gateway: { auth: { secretScopes: "operator.read" } } }',
        '{ gateway: { auth: { rateLimit: { maxAttempts: "three" } } } }',
        "{ gateway: { auth: { rateLimit: { windowMs: 0 } } } }",
        '{ gateway: { controlUi: { enabled: "flase" } } }',
        '{ gateway: { tools: { deny: "memory_search" } } }',
        '{ gateway: { nodes: { denyCommands: "camera.snap" } } }',
        '{ hooks: { allowedAgentIds: "main" } }',
        '{ hooks: { allowedSessionKeyPrefixes: "hook:" } }',
        "{ hooks: { mappings: [{ agentId: 5 }] } }",
        '{ session: { dmScope: "per_peer" } }',
        '{ messages: { groupChat: { visibleReplies: "message_toll" } } }',
        '{ cron: { budget: { money: "5 euro" } } }',
        "{ cron: { budget: { money: -1 } } }",
        "{ cron: { budget: 5 } }",
        '{ cron: { enabled: "flase" } }',
        '{ agents: { list: [{ id: "a", heartbeat: { budget: { tokens: "few" } } }] } }',
        '{ agents: { defaults: { subagents: { maxSpawnDepth: "0x" } } } }',
        '{ secrets: { providers: { e: { source: "env", allowlist: "A" } } } }',
        '{ secrets: { providers: { default: { source: "evn", allowlist: ["A"] } } } }',
        '{ channels: { telegram: { actions: "off" } } }',
        '{ channels: { telegram: { accounts: { a: { actions: { reactions: "flase" } } } } } }',
    ],
)
def test_a_wrong_value_without_a_strictest_reading_stops_the_program(home, text: str) -> None:
    home.write(text)
    with pytest.raises(ConfigError, match=r"openclaw.json:1: .*nothing runs until it is corrected"):
        load_config(home.paths, home.env)


@pytest.mark.parametrize(
    ("text", "key", "place"),
    [
        ('{ tools: { sandbox: { deny: ["exec"] } } }', "tools.sandbox.deny", "tools.sandbox.tools.deny"),
        ('{ tools: { subagents: { deny: ["exec"] } } }', "tools.subagents.deny", "tools.subagents.tools.deny"),
        ('{ agents: { tools: { deny: ["exec"] } } }', "agents.tools", "agents.defaults.tools"),
        ('{ agents: { work: { tools: { deny: ["exec"] } } } }', "agents.work", "agents.entries.work"),
        ('{ sandbox: { workspaceAccess: "none" } }', "sandbox", "agents.defaults.sandbox"),
        ('{ deny: ["exec"] }', "deny", "tools.deny"),
        ('{ dmScope: "per-peer" }', "dmScope", "session.dmScope"),
        ('{ agents: { list: [{ id: "a", deny: ["exec"] }] } }', "agents.list[0].deny", "agents.entries.a.tools.deny"),
        ('{ channels: { telegram: { deny: ["exec"] } } }', "channels.telegram.deny", "channels.telegram.tools.deny"),
        ('{ gateway: { deny: ["exec"] } }', "gateway.deny", "gateway.tools.deny"),
        ('{ tools: { denied: ["exec"] } }', "tools.denied", "deny"),
        ('{ tools: { disallow: ["exec"] } }', "tools.disallow", "deny"),
        ('{ plugins: { blocklist: ["x"] } }', "plugins.blocklist", "deny"),
    ],
)
def test_rules_that_stand_where_nothing_reads_them_stop_the_program(home, text: str, key: str, place: str) -> None:
    home.write(text)
    with pytest.raises(ConfigError) as caught:
        load_config(home.paths, home.env)
    assert f"openclaw.json:1: {key}: " in str(caught.value) and f"did you mean '{place}'?" in str(caught.value)


_ROWS = (
    'agents: { list: [{ id: "main" }, { id: "guest" }] }, bindings: [{ agentId: "guest", match: { channel: "%s" } }]'
)
_SENDS = 'session: { sendPolicy: { rules: [{ action: "deny", match: { channel: "%s" } }] } }'


@pytest.mark.parametrize(
    ("text", "key", "meant"),
    [
        (
            '{ models: { providers: { fake: {} } }, tools: { byProvider: { fakee: { deny: ["exec"] } } } }',
            "tools.byProvider.fakee",
            "fake",
        ),
        (
            '{ agents: { list: [{ id: "a", tools: { byProvider: { "opena/gpt-5": { deny: ["exec"] } } } }] } }',
            'agents.list[0].tools.byProvider["opena/gpt-5"]',
            "openai",
        ),
        (f"{{ {_ROWS % 'ircc'} }}", "bindings[0].match.channel", "irc"),
        (f"{{ {_SENDS % 'telegarm'} }}", "session.sendPolicy.rules[0].match.channel", "telegram"),
    ],
)
def test_a_rule_about_what_is_nearly_called_so_stops_the_program(home, text: str, key: str, meant: str) -> None:
    found = home.load(text).unusable
    assert found is not None and format_path(parse_path(found.key)) == format_path(parse_path(key))
    assert f"did you mean '{meant}'?" in found.cure


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('{ tools: { byProvider: { "OpenAI/gpt-5": { deny: ["exec"] }, "z.ai": { deny: ["exec"] } } } }', []),
        ('{ tools: { byProvider: { antigravity: { deny: ["exec"] } } } }', ["tools.byProvider.antigravity"]),
        (f"{{ {_ROWS % 'IRC'}, {_SENDS % 'cron'}, channels: {{ plugged: {{}} }} }}", []),
        (f"{{ {_ROWS % 'plugged'}, channels: {{ plugged: {{}} }} }}", []),
        (f"{{ {_ROWS % 'msteams'} }}", ["bindings[0].match.channel"]),
        (f"{{ {_SENDS % 'imessage'} }}", ["session.sendPolicy.rules[0].match.channel"]),
    ],
)
def test_a_rule_about_what_nothing_here_is_called_is_named_at_the_start(home, text: str, keys: list[str]) -> None:
    home.write(text)
    assert [problem.key for problem in load_config(home.paths, home.env).problems] == keys


@pytest.mark.parametrize(
    "text",
    [
        '{ session: { dmScope: "${NOT_SET_ANYWHERE}" } }',
        '{ gateway: { auth: { secretScopes: ["${NOT_SET_ANYWHERE}"] } } }',
        '{ hooks: { allowedAgentIds: ["${NOT_SET_ANYWHERE}"] } }',
        '{ cron: { budget: { money: "${NOT_SET_ANYWHERE}" } } }',
        '{ channels: { telegram: { actions: { messages: "${NOT_SET_ANYWHERE}" } } } }',
    ],
)
def test_a_restriction_from_a_variable_that_is_not_set_stops_the_program(home, text: str) -> None:
    home.write(text)
    with pytest.raises(ConfigError, match=r"NOT_SET_ANYWHERE is not set, and this key restricts what may happen"):
        load_config(home.paths, home.env)


def test_a_list_of_skills_from_a_variable_that_is_not_set_gives_no_other_skill(home) -> None:
    home.write('{ agents: { entries: { main: { skills: "${NOT_SET_ANYWHERE}" } } } }')
    try:
        config = load_config(home.paths, home.env)
    except ConfigError:
        return
    assert "other" not in (allowlist_of(config.agent("main").get("skills")) or {"other"})
