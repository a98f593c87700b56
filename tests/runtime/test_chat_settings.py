"""What an account says of its manner of speaking lies over what its channel says, key by key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from homarus.config.convert import convert
from homarus.config.load import load_config
from homarus.config.paths import resolve_paths
from homarus.core.routes import Route, SessionKey
from homarus.runtime.chat_settings import SendPolicy, chat_settings


@pytest.mark.parametrize(
    ("channel", "account", "mode", "blocks", "chunk_mode"),
    [
        ({"mode": "partial", "block": {"enabled": True}}, {"mode": "off"}, "off", True, None),
        ({"mode": "partial", "chunkMode": "newline"}, {"block": {"enabled": False}}, "partial", False, "newline"),
        ({"mode": "partial"}, None, "partial", None, None),
        (None, {"mode": "block"}, "block", None, None),
        ("partial", "off", "off", None, None),
        ({"mode": "partial", "block": {"enabled": True}}, False, "off", True, None),
    ],
)
def test_an_account_streams_as_its_channel_but_for_what_it_says_itself(
    tmp_path: Path, channel: Any, account: Any, mode: str, blocks: bool | None, chunk_mode: str | None
) -> None:
    document = {"channels": {"telegram": {"streaming": channel, "accounts": {"Work": {"streaming": account}}}}}
    (tmp_path / ".openclaw").mkdir()
    (tmp_path / ".openclaw" / "openclaw.json").write_text(json.dumps(document))
    env = {"HOME": str(tmp_path)}
    streaming = chat_settings(load_config(resolve_paths(env), env), "telegram", "work").streaming
    assert (streaming.mode, streaming.block.enabled) == (mode, blocks)
    assert (streaming.chunk_mode or None) == chunk_mode


@pytest.mark.parametrize(
    ("channel", "account", "off"),
    [
        ({}, {}, set()),
        ({"reactions": False, "edits": False}, {"polls": False}, {"reactions", "edits", "polls"}),
        ({"messages": False}, {"messages": True}, set()),
        (
            {"sendMessage": False, "editMessage": False, "deleteMessage": False, "poll": False},
            {"messages": True},
            {"messages", "edits", "deletes", "polls"},
        ),
    ],
)
def test_an_action_is_off_by_either_name_and_an_account_only_changes_what_it_names(
    tmp_path: Path, channel: dict[str, bool], account: dict[str, bool], off: set[str]
) -> None:
    document = {"channels": {"telegram": {"actions": channel, "accounts": {"work": {"actions": account}}}}}
    (tmp_path / ".openclaw").mkdir()
    (tmp_path / ".openclaw" / "openclaw.json").write_text(json.dumps(document))
    env = {"HOME": str(tmp_path)}
    found = chat_settings(load_config(resolve_paths(env), env), "telegram", "work")
    assert {name for name in ("reactions", "edits", "deletes", "polls", "messages") if found.is_off(name)} == off


@pytest.mark.parametrize(
    ("match", "sent"),
    [
        ({"channel": "IRC"}, False),
        ({"channel": " irc "}, False),
        ({"chatType": "DM"}, False),
        ({"chatType": "Direct"}, False),
        ({"chatType": "group"}, True),
        ({"channel": "telegram"}, True),
        # A word that is none of a chat's kinds leaves nothing to be sent.
        ({"chatType": "grop"}, False),
    ],
)
def test_a_rule_about_sending_takes_its_words_in_any_case(match: dict[str, str], sent: bool) -> None:
    heard: list[Any] = []
    block = {"rules": [{"action": "deny", "match": match}]}
    policy = convert(block, SendPolicy, lambda path, why: heard.append(why))
    route = Route("main", SessionKey.parse("agent:main:main", default_agent="main"), "irc", "default", "ann")
    assert policy.allows(route, "direct") is sent
    assert bool(heard) == (match.get("chatType") == "grop")
