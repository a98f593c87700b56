"""Blocks of channels and accounts: which word counts, what is missing, what a slip does, and what `config validate` says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.channels.fake.platform import MANIFEST
from tests.channels.homes import account, configured, in_group, says

from homarus.channels.admit import admit
from homarus.channels.discovery import lacks, manifests, named, read_manifests
from homarus.channels.settings import account_of, accounts_of, default_account, fetched
from homarus.config.blocks import validate
from homarus.config.load import inspect_config
from homarus.config.paths import resolve_paths
from homarus.core.errors import ConfigError, installing


def test_the_word_of_an_account_stands_over_its_channels(tmp_path):
    accounts = {"work": {"dmPolicy": "open", "allowFrom": ["*"], "groups": {"room-2": {}}}, "Home Two": {}}
    config = configured(tmp_path, {"dmPolicy": "allowlist", "groups": {"room-1": {}}, "accounts": accounts})
    work, home = accounts_of(config, MANIFEST, {}).values()
    assert (work.id, home.id) == ("work", "home-two")
    assert (work.settings.dm_policy, home.settings.dm_policy) == ("open", "allowlist")
    # Tables replace, and are never mixed.
    assert set(work.settings.groups) == {"room-2"}
    assert set(home.settings.groups) == {"room-1"}
    assert work.own["server"] == "s"


@pytest.mark.parametrize(
    ("channel", "name"),
    [
        ({}, "default"),
        ({"accounts": {"b": {}, "a": {}}}, "a"),
        ({"accounts": {"b": {}, "default": {}}}, "default"),
        ({"accounts": {"b": {}, "default": {}}, "defaultAccount": "B"}, "b"),
        ({"accounts": {"b": {}}, "defaultAccount": "gone"}, "b"),
    ],
)
def test_which_account_is_meant_where_none_is_named(tmp_path, channel, name):
    config = configured(tmp_path, channel)
    assert default_account(config, "fake") == name
    assert [one.id for one in accounts_of(config, MANIFEST, {}).values() if one.default] == [name]


@pytest.mark.parametrize(
    ("channel", "on"),
    [
        ({}, True),
        ({"enabled": False}, False),
        ({"enabled": False, "accounts": {"default": {"enabled": True}}}, False),
        ({"accounts": {"default": {"enabled": False}}}, False),
        ({"accounts": {"default": True}}, True),
        ({"accounts": {"default": "yes"}}, False),
        ({"accounts": ["default"]}, False),
        ({"enabled": "true"}, False),
        ({"dmPolicy": "opne"}, False),
        ({"allowFrom": "u-ada"}, False),
        ({"groups": []}, False),
        ({"groups": {"room-1": {"requireMention": "no"}}}, False),
        ({"dmPolcy": "disabled"}, False),
        ({"groups": {"room-1": {"usres": ["u-ada"]}}}, False),
    ],
)
def test_a_block_that_cannot_be_read_switches_its_account_off(tmp_path, channel, on):
    config = configured(tmp_path, channel)
    assert account_of(config, MANIFEST, "default", {}).settings.enabled is on


def test_an_account_that_nobody_configured_is_off(tmp_path):
    assert not account_of(configured(tmp_path, {}), MANIFEST, "other", {}).settings.enabled
    assert accounts_of(configured(tmp_path), MANIFEST, {}) == {}


def test_variables_stand_in_for_the_default_account_alone(tmp_path):
    config = configured(tmp_path, {"token": None, "accounts": {"default": {}, "work": {}}})
    found = accounts_of(config, MANIFEST, {"FAKE_TOKEN": "of the environment"})
    assert found["default"].own["token"] == "of the environment"
    assert "token" not in found["work"].own


def test_what_is_required_and_not_there_is_named(tmp_path):
    found = account_of(configured(tmp_path, {"server": ""}), MANIFEST, "default", {})
    assert (found.configured, found.missing) == (False, ("server",))


def test_secrets_are_fetched_when_an_account_starts(tmp_path):
    (tmp_path / "token").write_text("hush")
    (tmp_path / "token").chmod(0o600)
    provider = {"providers": {"f": {"source": "file", "path": str(tmp_path / "token"), "mode": "singleValue"}}}
    ref = {"source": "file", "provider": "f", "id": "value"}
    config = configured(tmp_path, {"token": ref}, secrets=provider)
    found = account_of(config, MANIFEST, "default", {})
    assert "hush" not in repr(found)
    assert fetched(found, config, MANIFEST)["token"] == "hush"
    (tmp_path / "token").unlink()
    with pytest.raises(ConfigError, match=r"channels\.fake\.token"):
        fetched(found, config, MANIFEST)


@pytest.mark.parametrize(
    ("settings", "field", "value"),
    [
        ({"textChunkLimit": 100}, "limit", 100),
        ({"textChunkLimit": 100_000}, "limit", 400),
        ({"textChunkLimit": 0}, "limit", 400),
        ({"maxLinesPerMessage": 17}, "lines", 17),
        ({"mediaMaxMb": 0.5}, "media_bytes", 500_000),
        ({"mediaMaxMb": 500}, "media_bytes", 1_000_000),
        ({"mediaMaxMb": -1}, "media_bytes", 0),
        ({"markdown": {"tables": "code"}}, "tables", "code"),
    ],
)
def test_settings_narrow_a_place_and_never_widen_it(tmp_path, settings, field, value):
    assert getattr(account(tmp_path, **settings).place, field) == value


# Manifests


def test_a_platform_is_known_without_being_imported():
    code = (
        "import sys; from homarus.channels.discovery import manifests; from homarus.channels import manager, gatekeeper;"
        "names = set(manifests()); bad = [m for m in sys.modules for n in names if m.startswith(f'homarus.channels.{n}')];"
        "needs = {need.partition('.')[0] for one in manifests().values() for need in one.needs};"
        "sys.exit(str(bad + sorted(needs & set(sys.modules))) if bad or needs & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_manifest_is_whole():
    for manifest in manifests().values():
        assert manifest.label
        for key, setting in manifest.settings.items():
            assert key.isalnum(), key
            assert setting.help or setting.env, f"{manifest.id}.{key} says nothing of itself"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"id": "other", "label": "X", "entry": "a:b"}',
        '{"id": "x", "label": "X", "entry": "../a:b"}',
        '{"id": "x", "label": "X", "entry": "os.path:join"}',
        '{"id": "x", "label": "X"}',
    ],
)
def test_a_manifest_that_cannot_be_used_says_so(tmp_path, text):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "channel.json").write_text(text)
    with pytest.raises(ConfigError, match=r"channel\.json"):
        read_manifests(tmp_path)


def test_what_is_missing_comes_with_its_cure():
    import msgspec

    needy = msgspec.structs.replace(MANIFEST, needs=("no_such_module.deep",), extra="fake")
    assert lacks(needy) == ("Fake needs the Python package no_such_module.deep", installing("homarus[fake]"))
    tooled = msgspec.structs.replace(MANIFEST, programs={"no-such-program": "the package tools"})
    assert lacks(tooled) == ("Fake needs the program no-such-program", "install the package tools")
    assert lacks(MANIFEST) == ("", "")


def test_a_platform_answers_to_its_aliases():
    assert named("FK", {"fake": MANIFEST}) is MANIFEST
    assert named("nothing", {"fake": MANIFEST}) is None


# What is said about a file


@pytest.mark.parametrize(
    ("document", "key", "words"),
    [
        ({"channels": {"telegram": {"dmPolicy": "opne"}}}, "channels.telegram.dmPolicy", "none of"),
        ({"channels": {"telegram": {"dmPolcy": "open"}}}, "channels.telegram.dmPolcy", "no key that is known"),
        ({"channels": {"telegram": {"botTokn": "x"}}}, "channels.telegram.botTokn", "no key that is known"),
        ({"channels": {"telegram": {"webhookPort": "many"}}}, "channels.telegram.webhookPort", "a number"),
        ({"channels": {"telegram": {"dmPolicy": "open"}}}, "channels.telegram.dmPolicy", "allowFrom names"),
        ({"channels": {"telegram": {"dmPolicy": "allowlist"}}}, "channels.telegram.allowFrom", "empty"),
        ({"channels": {"nosuch": {}}}, "channels.nosuch", "no such channel"),
        (
            {"channels": {"telegram": {"accounts": {"Work": {}, "work": {}}}}},
            "channels.telegram.accounts.work",
            "same account",
        ),
        ({"channels": {"modelByChannel": {"telegram": {"1": "a/b"}}}}, "channels.modelByChannel", "no effect"),
        ({"accessGroups": {"x": {"type": "discord.channelAudience"}}}, "accessGroups.x.type", "no members"),
        ({"accessGroups": {"x": {"membres": {}}}}, "accessGroups.x.membres", "no key"),
        ({"broadcast": {"1": ["gone"]}}, "broadcast.1[0]", "no agent"),
    ],
)
def test_what_validate_says_of_channels(tmp_path, document, key, words):
    found = [problem for problem in validate(configured(tmp_path, **document)) if problem.key == key]
    assert any(words in problem.message for problem in found), found


def test_a_home_as_the_original_writes_it_has_no_complaint(tmp_path):
    telegram = {
        "enabled": True,
        "botToken": "1:x",
        "dmPolicy": "pairing",
        "allowFrom": ["tg:123456789"],
        "groups": {
            "*": {"requireMention": True},
            "-1001": {"allowFrom": ["1"], "systemPrompt": "Brief.", "topics": {"99": {"requireMention": False}}},
        },
        "historyLimit": 50,
        "reactionNotifications": "own",
        "mediaMaxMb": 100,
        "accounts": {"default": {"name": "Primary"}, "alerts": {"botToken": "2:y", "allowFrom": [5]}},
    }
    defaults = {"groupPolicy": "allowlist", "contextVisibility": "all", "implicitMentions": {"replyToBot": True}}
    document = {"channels": {"telegram": telegram, "defaults": defaults}}
    assert [problem for problem in validate(configured(tmp_path, **document)) if problem.severity != "info"] == []


# A mutated restrictive file never lets more people in.

STRICT = {
    "dmPolicy": "allowlist",
    "allowFrom": ["u-ada"],
    "groupPolicy": "allowlist",
    "groupAllowFrom": ["u-ada"],
    "groups": {"room-1": {"requireMention": True, "users": ["u-ada"], "enabled": True}},
    "accounts": {"default": {"allowFrom": ["u-ada"], "dmPolicy": "allowlist"}},
}
STRANGERS = [says(sender="u-eve"), in_group(sender="u-eve", mentioned=True), in_group(peer="room-2", mentioned=True)]


def paths(value, at=()):
    yield at
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*at, key))


def changed(value, path, change):
    if not path:
        return change(value)
    return {key: changed(inner, path[1:], change) if key == path[0] else inner for key, inner in value.items()}


def slips(word: str):
    for at in range(len(word)):
        yield word[:at] + word[at + 1 :]
        yield word[:at] + word[at : at + 2][::-1] + word[at + 2 :]


def mutations():
    """Yield the file with every single key misspelt in every simple way, and with every value replaced by a wrong one.

    `null` is not among the values: it means that a key is not set.
    """
    for path in [path for path in paths(STRICT) if path]:
        for other in (7, True, "allow", "*", "u-eve", [], {}, [["u-eve"]], {"u-eve": 1}, [{}], [None], 0.5):
            yield changed(STRICT, path, lambda _value, other=other: other)
        for wrong in sorted({*slips(path[-1])} - {path[-1]})[::3] if path[-1] not in {"room-1", "default"} else ():
            yield changed(
                STRICT,
                path[:-1],
                lambda table, name=path[-1], wrong=wrong: {
                    wrong if key == name else key: v for key, v in table.items()
                },
            )


def test_a_slip_in_a_restrictive_file_never_lets_more_people_in(tmp_path):
    runs = 0
    for document in mutations():
        config = configured(tmp_path, document)
        if config.unusable is not None:
            continue  # nothing runs on it at all
        runs += 1
        found = account_of(config, MANIFEST, "default", {})
        for stranger in STRANGERS:
            decision = admit(stranger, found, frozenset(), None)
            assert not decision.admitted, (document, decision.gates)
    assert runs > 50


@pytest.mark.parametrize(("extra", "able"), [({}, True), ({"phoneNumberId": "42"}, False)])
def test_an_account_lacks_what_its_way_cannot(tmp_path, extra, able):
    (tmp_path / "openclaw.json").write_text(json.dumps({"channels": {"whatsapp": {"enabled": True, **extra}}}))
    env = {"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": str(tmp_path)}
    config = inspect_config(resolve_paths(env), env)
    [place] = [one.place for one in accounts_of(config, manifests()["whatsapp"], {}).values()]
    assert (place.edit, place.delete) == (able, able)


@pytest.mark.parametrize(
    ("channel", "own", "limit"),
    [
        (None, None, 400),  # the platform's own
        (300, None, 300),
        (300, 200, 200),
        (None, 200, 200),
        (0, None, 400),
        (-1, None, 400),
        (300, 0, 400),  # an account that says nothing sensible gets the platform's, not the channel's
        (300, -5, 400),
        # Otherwise than with OpenClaw: nothing is longer than a platform bears.
        (100_000, None, 400),
    ],
)
def test_how_long_a_message_may_be_is_said_as_with_openclaw(
    tmp_path: Path, channel: int | None, own: int | None, limit: int
) -> None:
    block = {"textChunkLimit": channel, "accounts": {"work": {} if own is None else {"textChunkLimit": own}}}
    assert account(tmp_path, "work", **block).place.limit == limit
    assert account(tmp_path, "WORK", **block).place.limit == limit


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "12.7", "0.5"])
def test_a_length_that_is_no_whole_number_switches_the_account_off_and_is_named(tmp_path: Path, value: str) -> None:
    text = f'{{channels: {{fake: {{server: "s", token: "t", textChunkLimit: {value}}}}}}}'
    (tmp_path / "openclaw.json").write_text(text)
    env = {"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": str(tmp_path)}
    config = inspect_config(resolve_paths(env), env)
    found = account_of(config, MANIFEST, "default", {})
    assert not found.settings.enabled
    assert found.place.limit == MANIFEST.place.limit
    assert any("textChunkLimit" in str(problem) for problem in config.problems)


@pytest.mark.parametrize(
    ("channel", "own", "mode"),
    [
        (None, None, "length"),
        ({"chunkMode": "newline"}, None, "newline"),
        ({"chunkMode": "length"}, {"chunkMode": "newline"}, "newline"),
        ({"chunkMode": "newline"}, {"chunkMode": "length"}, "length"),
        ({"chunkMode": "newline"}, {}, "newline"),
        ({"chunkMode": "newline"}, {"mode": "off"}, "newline"),
        ({"mode": "off"}, None, "length"),
        ({"chunkMode": "sideways"}, None, "length"),
    ],
)
def test_where_a_message_is_cut_is_said_as_with_openclaw(
    tmp_path: Path, channel: dict[str, str] | None, own: dict[str, str] | None, mode: str
) -> None:
    block = {"streaming": channel} if channel is not None else {}
    inner = {"streaming": own} if own is not None else {}
    assert account(tmp_path, "work", **block, accounts={"work": inner}).place.chunk_mode == mode
