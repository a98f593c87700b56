from __future__ import annotations

import pytest
from hypothesis import given, settings
from tests.config import json5_texts as texts

from homarus.config.diff import unified_diff
from homarus.config.redact import MARKER, redact, restore
from homarus.core.errors import ConfigError


@pytest.mark.parametrize(
    "path",
    ["models.providers.*.apiKey", "models.providers.*.headers.X", "models.providers.*.request.auth.token", "models.providers.*.request.tls.key", "models.providers.*.request.tls.passphrase", "skills.entries.*.apiKey", "memory.search.remote.apiKey", "gateway.auth.password", "gateway.auth.token", "gateway.remote.token", "cron.webhookToken", "channels.telegram.botToken", "channels.telegram.webhookSecret", "channels.slack.appToken", "channels.slack.signingSecret", "channels.sms.authToken", "channels.buzz.authTag", "channels.buzz.privateKey", "channels.irc.password", "channels.irc.nickserv.password", "channels.feishu.appSecret", "channels.feishu.encryptKey", "channels.feishu.verificationToken", "channels.qqbot.clientSecret", "channels.msteams.appPassword", "channels.matrix.accessToken", "channels.nextcloud-talk.botSecret", "channels.nextcloud-talk.apiPassword", "channels.googlechat.serviceAccount", "hooks.token", "talk.apiKey", "env.vars.ANY", "env.ANY", "plugins.entries.acpx.config.mcpServers.*.env.X", "agents.defaults.sandbox.ssh.identityData", "mcp.servers.x.env.K", "profiles.*.key", "profiles.*.access_token", "secret_id"],
)  # fmt: skip
def test_known_places_of_secrets_are_hidden(path: str) -> None:
    document: object = "hunter2hunter2"
    for step in reversed(path.split(".")):
        document = {step: document}
    assert "hunter2" not in str(redact(document))
    assert MARKER in str(redact(document))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("maxTokens", 8192),
        ("reserveTokens", 20000),
        ("contextTokens", 5),
        ("token", None),
        ("token", ""),
        ("token", "${TOKEN}"),
        ("token", "$TOKEN"),
        ("token", {"source": "env", "provider": "default", "id": "TOKEN"}),
        ("tokenFile", "/run/token"),
        ("apiKeyEnv", "NAME"),
        ("keyRef", {"source": "file", "id": "/x"}),
        ("mainKey", "main"),
        ("sessionKey", "agent:main:main"),
        ("primary", "anthropic/claude-sonnet-4-6"),
        ("baseUrl", "http://127.0.0.1:8099/v1"),
        ("passEnv", ["PATH"]),
        ("enabled", True),
        ("pin", True),
    ],
)
def test_what_is_no_secret_is_shown(key: str, value: object) -> None:
    assert redact({key: value}) == {key: value}


@pytest.mark.parametrize(
    "text",
    [
        "sk-ant-api03-abcdefgh12345678",
        "xoxb-123456789012-abcdef",
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1",
        "Bearer abcdefghijkl",
        "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0",
        "-----BEGIN RSA PRIVATE KEY-----\nabc",
    ],
)
def test_what_looks_like_a_secret_is_hidden_under_any_name(text: str) -> None:
    assert redact({"note": text}) == {"note": MARKER}
    assert redact([text]) == [MARKER]


def test_passwords_in_addresses_are_cut_out() -> None:
    assert redact("postgres://me:geheim@db/x") == f"postgres://me:{MARKER}@db/x"
    assert redact("https://x/y?a=1&access_token=abc#f") == f"https://x/y?a=1&access_token={MARKER}#f"


def test_objects_and_lists_below_a_secret_name_are_hidden_whole() -> None:
    shown = redact({"serviceAccount": {"type": "x", "n": 5, "on": True}, "apiKeys": ["a", "b"]})
    assert shown == {"serviceAccount": {"type": MARKER, "n": MARKER, "on": True}, "apiKeys": [MARKER, MARKER]}


@settings(max_examples=100, deadline=None)
@given(texts.plain)
def test_what_was_shown_can_be_written_back(value: object) -> None:
    document = {"token": value, "x": {"apiKey": value, "plain": value}, "headers": {"a": value}, "list": [value]}
    assert restore(redact(document), document, "") == document


def test_the_marker_needs_an_old_value() -> None:
    with pytest.raises(ConfigError, match="there is none"):
        restore({"token": MARKER}, {}, "gateway")


def test_arguments_of_programs_keep_their_secrets() -> None:
    arguments = [
        "serve",
        "--token",
        "hunter2",
        "--port",
        "80",
        "--api-key=hunter2",
        "-password",
        "--verbose",
        "--token-file",
        "/run/t",
    ]
    shown = redact({"mcp": {"servers": {"s": {"args": arguments}}}})["mcp"]["servers"]["s"]["args"]
    assert shown == [
        *("serve", "--token", MARKER, "--port", "80", f"--api-key={MARKER}"),
        *("-password", "--verbose", "--token-file", "/run/t"),
    ]
    assert restore(shown, arguments, "mcp.servers.s.args") == arguments
    assert redact(["--token=${TOKEN}", "--token", "$TOKEN"]) == ["--token=${TOKEN}", "--token", "$TOKEN"]


def test_a_diff_hides_what_follows_a_flag() -> None:
    before = '{ args: ["--token", "hunter2", "--port=80"] }'
    shown = unified_diff(before, before.replace("80", "81"), "f")
    assert "hunter2" not in shown
    assert "--port=81" in shown
