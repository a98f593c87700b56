"""Which session gets how much of a prompt."""

from __future__ import annotations

import pytest

from homarus.core.routes import SessionKey
from homarus.prompt.modes import Mode, mode_for


@pytest.mark.parametrize(
    ("key", "mode"),
    [
        ("main", Mode.FULL),
        ("agent:main:telegram:group:1", Mode.FULL),
        ("agent:main:cron:daily", Mode.FULL),
        ("agent:main:hook:x", Mode.FULL),
        ("agent:main:subagent:x", Mode.MINIMAL),
        ("agent:main:heartbeat:x", Mode.MINIMAL),
    ],
)
def test_mode_of_a_session(key, mode):
    assert mode_for(SessionKey.parse(key)) is mode


def test_a_session_without_a_key_gets_all():
    assert mode_for(None) is Mode.FULL


@pytest.mark.parametrize(
    ("window", "mode"), [(0, Mode.FULL), (2_048, Mode.LEAN), (15_999, Mode.LEAN), (16_000, Mode.FULL)]
)
def test_a_small_window_gets_a_lean_prompt(window, mode):
    assert mode_for(SessionKey.parse("main"), window) is mode
    assert mode_for(SessionKey.parse("agent:main:subagent:x"), window) is Mode.MINIMAL
