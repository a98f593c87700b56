"""Keys, families and the event's log form."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from homarus.hooks.events import KEYS, event, family, is_known, listening_order

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
    ("name", "known"),
    [
        ("command", True),
        ("command:*", True),
        ("session:compact", True),
        ("session:compact:after", True),
        ("comm", False),
        ("command:newer", False),
        ("", False),
    ],
)
def test_a_name_that_nobody_emits_is_found(name, known):
    assert is_known(name) is known
    assert all(is_known(key) for key in KEYS)


def test_a_star_means_the_family():
    assert family(" command:* ") == family("command") == "command"
