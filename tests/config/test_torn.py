"""What is left of a broken text shows the rules that it wants, and an older content without them does not stand in."""

from __future__ import annotations

import json

import pytest

from homarus.config.load import inspect_config, remember_good
from homarus.config.scan import ScanError, parse
from homarus.config.torn import wanted_rule

WEAK = """{
  models: { providers: { fake: { baseUrl: "http://127.0.0.1:9/v1", models: [{ id: "fake" }] } } }, // mine
  agents: { defaults: { model: { primary: "fake/fake" }, workspace: "~/w" }, entries: { main: { name: "M" } } },
  channels: { telegram: { botToken: "t" } }, gateway: { port: 18789 }
}"""
# What is written into it, before what, and from which word on the text shows it.
RULES = {
    "tools": ("  channels", '  tools: { deny: ["exec"], fs: { workspaceOnly: true } },\n', "tools"),
    "mode": ("  channels", '  tools: { exec: { mode: "deny" } },\n', "tools"),
    "sandbox": ("workspace", 'sandbox: { mode: "all", workspaceAccess: "none" }, ', "sandbox"),
    "of one": ("name:", 'tools: { allow: ["read"] }, ', "tools"),
    "chat": ("botToken", 'dmPolicy: "allowlist", allowFrom: ["1"], ', "dmPolicy"),
    "auth": ("port", 'auth: { mode: "token", secretScopes: ["operator.read"] }, ', "auth"),
    "approvals": ("  channels", "  approvals: { exec: { enabled: true } },\n", "approvals"),
    "policy": ("workspace", 'modelPolicy: { allow: ["fake/*"] }, ', "modelPolicy"),
    "models": ("workspace", 'models: { "fake/fake": {} }, ', "models"),
    "budget": ("workspace", "budget: { dailyUsd: 1 }, ", "budget"),
    "send": ("  channels", '  session: { dmScope: "per-peer", sendPolicy: { default: "deny" } },\n', "session"),
    "at the top": ("  channels", '  sandbox: { mode: "all" },\n', "sandbox"),
    "older": ("  channels", '  routing: { allowFrom: ["1"] },\n', "routing"),
    "bindings": ("  channels", '  bindings: [{ agentId: "main", match: { channel: "telegram" } }],\n', "bindings"),
    "include": ("  channels", '  hooks: { $include: "./hooks.json5" },\n', "hooks"),
}


def with_rule(name: str) -> tuple[str, int, int]:
    """Return the weak text with a rule in it, where the rule begins, and where it can be seen first."""
    before, rule, first = RULES[name]
    at = WEAK.index(before)
    return WEAK[:at] + rule + WEAK[at:], at, at + rule.index(first) + len(first)


def is_read(text: str) -> bool:
    """Say whether a text can be read: then what it says counts, and nothing stands in."""
    try:
        parse(text)
    except ScanError:
        return False
    return True


def loaded(home, older: str, text: str):
    """Read a text in a home whose last good content is another one."""
    assert remember_good(home.load(older), explicit=True)
    return home.load(text)


@pytest.mark.parametrize("name", RULES)
def test_a_text_that_was_cut_off_behind_a_new_rule_is_not_replaced_by_one_without_it(name: str) -> None:
    text, _, seen = with_rule(name)
    for size in range(seen, len(text)):
        assert wanted_rule(WEAK, text[:size]), text[:size]


@pytest.mark.parametrize("name", RULES)
def test_no_byte_that_is_lost_takes_a_new_rule_away(name: str) -> None:
    text, _, _ = with_rule(name)
    for at in range(len(text)):
        broken = text[:at] + text[at + 1 :]
        assert is_read(broken) or wanted_rule(WEAK, broken), text[max(0, at - 20) : at + 20]


@pytest.mark.parametrize("name", RULES)
def test_a_rule_that_is_taken_out_or_changed_with_a_slip_is_not_the_older_one(name: str) -> None:
    text, at, _ = with_rule(name)
    size = len(RULES[name][1])
    assert wanted_rule(text, f"{text[:at]}{text[at + size :]}}}"), "a permission may have gone"
    values = [place for place in range(at, at + size) if text[place] == '"']
    for place in values[::2]:
        assert wanted_rule(text, f"{text[: place + 1]}other {text[place + 1 :]}}}")


@pytest.mark.parametrize("name", RULES)
def test_the_rules_that_were_read_stand_in_for_the_same_text_with_a_slip(name: str) -> None:
    text, *_ = with_rule(name)
    for size in range(len(text)):
        assert not wanted_rule(text, text[:size]), "as a full disk leaves it"
    for place, char in enumerate(text):
        if char in "{}[]\"':,":
            assert not wanted_rule(text, text[:place] + text[place + 1 :]), text[max(0, place - 20) : place + 20]


@pytest.mark.parametrize(
    "text",
    [
        WEAK.replace('"fake/fake"', '"fake/other'),
        WEAK.replace('"~/w" }', '"~/elsewhere"'),
        WEAK.replace("18789 }", "18790"),
        WEAK.replace("mine", "yours")[:-1],
        WEAK.replace("  channels", '  logging: { level: "debug" ,\n  channels'),
        WEAK.replace("[{ id:", '[{ id: "new" { id:'),
    ],
)
def test_a_slip_in_an_edit_about_other_things_does_not_stop_the_program(home, text: str) -> None:
    config = loaded(home, WEAK, text)
    assert config.unusable is None
    assert config.fallback is not None
    strict, *_ = with_rule("tools")
    assert not wanted_rule(strict, text.replace("  channels", RULES["tools"][1] + "  channels"))


def test_every_cut_and_every_lost_byte_of_a_file_stops_or_keeps_the_rules(home) -> None:
    strict, _, seen = with_rule("tools")
    wanted = ["exec"]
    texts = [strict[:size] for size in range(seen, len(strict))]
    texts += [strict[:at] + strict[at + 1 :] for at in range(len(strict))]
    stood = 0
    for older in (WEAK, strict):
        assert remember_good(home.load(older), explicit=True)
        for text in texts:
            config = home.load(text)
            stood += config.fallback is not None
            if config.unusable is None and config.fallback is not None:
                assert config.get("tools.deny") == wanted, text
    assert stood > 150


def test_what_is_said_names_no_word_of_the_text(home) -> None:
    config = loaded(home, WEAK, WEAK.replace('"t"', '"sk-allow\\u0041-7531"') + "}")
    assert config.unusable is not None
    assert "7531" not in str(config.unusable)
    assert str(config.unusable).startswith(f"{home.file}:5: ")


def test_a_copy_without_the_texts_is_compared_as_it_is(home) -> None:
    home.write(json.dumps({"logging": {"level": "info"}}), "openclaw.json.last-good")
    assert home.load('{ logging: { level: "debug" ').fallback is not None
    config = home.load('{ logging: { level: "debug" }, tools: { deny: ["exec" } }')
    assert (config.fallback, config.unusable is None) == (None, False)
    assert inspect_config(home.paths, home.env).document.get("tools") is None


def test_a_text_in_another_encoding_is_read_all_the_same(home) -> None:
    strict, *_ = with_rule("tools")
    for encoding in ("utf-16", "utf-16-le", "utf-32-le"):
        assert loaded(home, WEAK, strict.encode(encoding)).unusable is not None, encoding
        assert loaded(home, strict, strict.encode(encoding)).get("tools.deny") == ["exec"], encoding
