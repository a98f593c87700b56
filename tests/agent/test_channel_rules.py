"""Rules that hang on who writes and where from, for turns that chat platforms ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from homarus.agent.channel_rules import channel_layers
from homarus.agent.prepare import _bounds
from homarus.agent.toolkit import wish_of
from homarus.agent.turn import Turn
from homarus.config.load import inspect_config
from homarus.config.paths import resolve_paths
from homarus.core.messages import Trust
from homarus.core.routes import Route, SessionKey, main_session
from homarus.sandbox.spec import SandboxSpec
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


class Sandboxes:
    """The part of a home that says where a session's commands run."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def workspace(self, _agent_id):
        return Path("/nowhere")

    def sandbox(self, _agent_id, session, **_more):
        self.asked.append(str(session))
        return SandboxSpec.nothing("/nowhere", "none here")


@pytest.mark.parametrize(
    ("channel", "to", "chat", "key"),
    [
        ("terminal", "", "direct", "agent:main:main"),
        ("telegram", "42", "direct", "agent:main:telegram:default:direct:42"),
        ("telegram", "-100", "group", "agent:main:telegram:group:-100"),
    ],
)
def test_commands_of_a_chat_in_the_main_session_run_where_that_chats_do(channel, to, chat, key):
    home, main = Sandboxes(), main_session("main")
    route = Route("main", main, channel, "default", to)
    turn = Turn(run_id="r", agent_id="main", session=main, route=route, text="", chat_type=chat)
    _bounds(home, turn)  # type: ignore[arg-type]
    assert home.asked == [key]


CHANNELS = {
    "discord": {
        "guilds": {
            "g1": {"tools": {"deny": ["exec"]}, "channels": {"c1": {"tools": {"deny": ["write"]}}}},
            "*": {"tools": {"deny": ["cron"]}},
        }
    },
    "telegram": {"groups": {"-1": {"tools": {"deny": ["exec"]}, "topics": {"5": {"tools": {"deny": ["write"]}}}}}},
    "broken": {"guilds": {"g1": {"channels": "all of them"}}},
}


@pytest.mark.parametrize(
    ("channel", "peer", "more", "denied"),
    [
        ("discord", "c1", {"space": "g1"}, {"exec", "write"}),
        ("discord", "t7", {"space": "g1", "parent": "c1"}, {"exec", "write"}),
        ("discord", "c9", {"space": "g1"}, {"exec"}),
        ("discord", "c9", {"space": "g2"}, {"cron"}),
        ("telegram", "-1", {"thread": "5"}, {"exec", "write"}),
        ("telegram", "-1", {"thread": "6"}, {"exec"}),
        ("telegram", "-2", {"thread": "5"}, set()),
    ],
)
def test_rules_for_tools_of_guilds_and_topics(channel, peer, more, denied):
    route = Route("main", SessionKey.parse(f"agent:main:{channel}:channel:{peer}"), channel, "default", peer, **more)
    layers = channel_layers(CHANNELS, route, ("u",), "channel")
    assert {name for layer in layers for name in layer.rules.deny or ()} == denied


def test_rules_of_a_guild_that_cannot_be_read_leave_no_tool():
    route = Route("main", SessionKey.parse("agent:main:broken:channel:c1"), "broken", to="c1", space="g1")
    [layer] = channel_layers(CHANNELS, route, ("u",), "channel")
    assert layer.rules.allow == () or "*" in (layer.rules.deny or ())
