"""Keys, families and the event's log form."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import homarus
from homarus.hooks.events import KEYS, event, family, listening_order, unheard

NOW = datetime(2026, 11, 15, 8, 30, tzinfo=UTC)


def test_an_event_is_named_by_type_and_action():
    made = event("session:compact:before", NOW, session_key="agent:main:main")
    assert (made.type, made.action, made.key) == ("session", "compact:before", "session:compact:before")
    assert listening_order(made.key) == ("session", "session:compact", "session:compact:before")


def test_the_log_form_leaves_the_context_behind():
    made = event("command:new", NOW, session_key="k", context={"run_turn": print})
    assert made.to_json() == {
        "type": "command",
        "action": "new",
        "sessionKey": "k",
        "timestamp": 1794731400000,
        "messages": [],
    }


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("command", ""),
        ("command:*", ""),
        ("session", ""),
        ("session:compact", ""),
        ("session:compact:after", ""),
        ("comm", "nothing ever emits 'comm'"),
        ("command:newer", "nothing ever emits 'command:newer'"),
        ("", "nothing ever emits ''"),
        ("gateway:pre-restart", ""),
        ("message", ""),
        ("message:transcribed", ""),
    ],
)
def test_a_name_that_nobody_emits_is_found(name, why):
    assert unheard(name) == why


def test_the_keys_that_are_emitted_are_emitted_somewhere():
    source = "".join(
        path.read_text() for path in Path(homarus.__file__).parent.rglob("*.py") if path.name != "events.py"
    )
    assert [key for key in KEYS if f'"{key}' not in source] == []


def test_a_star_means_the_family():
    assert family(" command:* ") == family("command") == "command"
