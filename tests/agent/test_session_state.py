"""A session's log tells what its next turn need not say again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.agent.test_compose import Home

from homarus.agent.session_state import SessionState, session_state
from homarus.context.pins import PIN
from homarus.core.clock import CountingIds
from homarus.core.messages import Assistant, Text, User
from homarus.core.routes import SessionKey
from homarus.sessions.store import SessionStore

MAIN = SessionKey.parse("main")


class Talk:
    """A session that is written as a turn would write it."""

    def __init__(self, home: Home) -> None:
        self.home = home
        folder = home.config.paths.sessions_dir("main")
        self.store = SessionStore(folder, "main", clock=home.clock, ids=CountingIds(), main_key="main")

    def past(self) -> SessionState:
        return session_state(self.home.config, self.home.clock, MAIN)

    def turn(self, text: str) -> str:
        """Write one exchange and return the carrier that rode on it; everything is read anew, as after a restart."""
        carrier, _ = self.home.prompt().carrier(self.past().said)
        with self.store.open_writer(MAIN) as writer:
            writer.append_message(User((Text(text),), context=carrier))
            writer.append_message(Assistant((Text("ok"),)))
        return carrier


@pytest.fixture
def talk(tmp_path):
    return Talk(Home(tmp_path))


def test_nobody_has_spoken(talk):
    assert talk.past() == SessionState()


def test_only_what_changed_is_said_across_restarts(talk):
    first = talk.turn("hi")
    assert "## Date" in first
    assert "## Runtime" in first
    assert talk.turn("again") == ""
    talk.home.clock.set(datetime(2026, 3, 2, 12, tzinfo=UTC))
    (talk.home.workspace / "HEARTBEAT.md").unlink()
    third = talk.turn("next day")
    assert "## Date\nMonday 2026-03-02" in third
    assert "## HEARTBEAT.md\nNo longer applies." in third
    assert "## Runtime" not in third
    assert talk.turn("same day") == ""


def test_after_a_compaction_everything_is_said_again(talk):
    first = talk.turn("one")
    talk.turn("two")
    with talk.store.open_writer(MAIN) as writer:
        kept = writer.branch[-2].id
        writer.compact("They said hello.", kept, 1000)
    assert talk.turn("three") == first
    assert talk.turn("four") == ""


def test_figures_and_levels_of_the_row(talk):
    talk.turn("one")
    talk.store.update(
        MAIN,
        total_tokens=5000,
        thinking_level="high",
        reasoning_level="on",
        provider_override="groq",
        model_override="small",
        last_channel="irc",
    )
    past = talk.past()
    assert past.occasion == ""
    assert past.tokens == 5000
    assert past.messages == {"assistant": 1, "user": 1}
    assert past.session_id
    composed = talk.home.prompt(turn=past.turn)
    carrier, _ = composed.carrier(past.said)
    assert "model=groq/small" in carrier
    assert "channel=irc" in carrier
    assert "thinking=high" in carrier
    assert "shown to the user" in carrier


def test_a_standing_instruction_is_shown_as_it_would_be_said(talk):
    talk.turn("one")
    with talk.store.open_writer(MAIN) as writer:
        writer.append("custom", {"customType": PIN, "data": {"text": "Never sail at night."}})
    past = talk.past()
    carrier, _ = talk.home.prompt(turn=past.turn).carrier(past.said)
    assert "## Standing instructions of the owner\n- Never sail at night." in carrier
