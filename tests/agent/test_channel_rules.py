"""Rules that hang on who writes and where from, for turns that chat platforms ask for."""

from __future__ import annotations

import pytest

from homarus.agent.toolkit import wish_of
from homarus.agent.turn import Turn
from homarus.config.load import inspect_config
from homarus.config.paths import resolve_paths
from homarus.core.messages import Trust
from homarus.core.routes import Route, main_session
from homarus.sessions.row import SessionEntry


@pytest.mark.parametrize(
    ("senders", "to", "granted"),
    [
        (("u-ada",), "room", True),
        (("u-bob",), "room", False),
        # The chat is on no list of people, and of several who speak at once nobody is the one on it.
        (("u-bob",), "u-ada", False),
        (("u-ada", "u-bob"), "u-ada", False),
        ((), "u-ada", True),
    ],
)
def test_whoever_speaks_must_be_on_the_list_for_commands_outside_the_sandbox(tmp_path, senders, to, granted):
    (tmp_path / "openclaw.json").write_text(
        '{"tools": {"elevated": {"enabled": true, "allowFrom": {"irc": ["u-ada"]}}}}'
    )
    env = {"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": str(tmp_path)}
    key = main_session("main")
    turn = Turn(
        run_id="r",
        agent_id="main",
        session=key,
        route=Route("main", key, "irc", "default", to),
        text="",
        trust=Trust.OWNER,
        chat_type="group",
        senders=senders,
        levels={"elevated": "on"},
    )
    wish = wish_of(inspect_config(resolve_paths(env), env), turn, SessionEntry(session_id="s"))
    assert (wish.elevated == "on") is granted
