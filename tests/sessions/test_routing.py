import msgspec
import pytest

from homarus.config.blocks import validate
from homarus.config.load import inspect_config
from homarus.config.paths import resolve_paths
from homarus.core.errors import ConfigError
from homarus.core.messages import APART, Inbound
from homarus.core.routes import DmScope, SessionKey
from homarus.sessions.routing import route_for, routes_for, session_for
from homarus.sessions.settings import SessionSettings


def came(chat_type="direct", channel="telegram", **more):
    return Inbound(
        id="1",
        channel=channel,
        text="hi",
        **{"sender": "42", "peer": "42", "account": "bot", "chat_type": chat_type, **more},
    )


@pytest.mark.parametrize(
    ("inbound", "settings", "key"),
    [
        (came(), SessionSettings(), "agent:main:main"),
        (came(), SessionSettings(main_key="work"), "agent:main:work"),
        (came(), SessionSettings(dm_scope=DmScope.PER_PEER), "agent:main:direct:42"),
        (
            came(),
            SessionSettings(dm_scope=DmScope.PER_PEER, identity_links={"ada": ["telegram:42"]}),
            "agent:main:direct:ada",
        ),
        (came(), SessionSettings(dm_scope=DmScope.PER_CHANNEL_PEER), "agent:main:telegram:direct:42"),
        (came(), SessionSettings(dm_scope=DmScope.PER_ACCOUNT_CHANNEL_PEER), "agent:main:telegram:bot:direct:42"),
        (came(thread="9"), SessionSettings(), "agent:main:main:thread:9"),
        (came("group", peer="-100"), SessionSettings(), "agent:main:telegram:group:-100"),
        (came("group", peer="-100", thread="7"), SessionSettings(), "agent:main:telegram:group:-100:topic:7"),
        (
            came("channel", "slack", peer="C1", thread="17.5"),
            SessionSettings(),
            "agent:main:slack:channel:c1:thread:17.5",
        ),
        (
            came("room", "matrix", peer="!R:Ex.org", thread="$E"),
            SessionSettings(),
            "agent:main:matrix:room:!R:Ex.org:thread:$E",
        ),
        (came("group", peer="-100"), SessionSettings(group_scope="main"), "agent:main:main"),
        (came("group", peer="-100"), SessionSettings(scope="global"), "global"),
    ],
)
def test_which_session_a_message_belongs_to(inbound, settings, key):
    found = session_for(inbound, "main", settings)
    assert str(found) == key
    assert SessionKey.parse(key, main_key=settings.main_key) == found


def configured(tmp_path, **document):
    (tmp_path / "openclaw.json").write_bytes(msgspec.json.encode(document))
    env = {"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": str(tmp_path)}
    return inspect_config(resolve_paths(env), env)


AGENTS = {"entries": {"main": {"default": True}, **{name: {} for name in "abcdefgh"}}}


def test_an_answer_goes_back_where_the_message_came_from(tmp_path):
    route = route_for(came("group", peer="-100", thread="7"), configured(tmp_path))
    assert (route.agent_id, route.channel, route.account, route.to, route.thread) == (
        "main",
        "telegram",
        "bot",
        "-100",
        "7",
    )


LADDER = [
    {"agentId": "h", "match": {"channel": "discord", "accountId": "*"}},
    {"agentId": "g", "match": {"channel": "discord", "accountId": "bot"}},
    {"agentId": "f", "match": {"channel": "discord", "accountId": "bot", "teamId": "T"}},
    {"agentId": "e", "match": {"channel": "discord", "accountId": "bot", "guildId": "G"}},
    {"agentId": "d", "match": {"channel": "discord", "accountId": "bot", "guildId": "G", "roles": ["admin"]}},
    {"agentId": "c", "match": {"channel": "discord", "accountId": "bot", "peer": {"kind": "channel", "id": "*"}}},
    {"agentId": "b", "match": {"channel": "discord", "accountId": "bot", "peer": {"kind": "channel", "id": "P"}}},
    {"agentId": "a", "match": {"channel": "discord", "accountId": "bot", "peer": {"kind": "channel", "id": "C"}}},
]


@pytest.mark.parametrize(
    ("facts", "agent"),
    [
        ({"peer": "c", "space": "G", "roles": ("admin",), "parent": "P"}, "a"),
        ({"peer": "x", "space": "G", "roles": ("admin",), "parent": "P"}, "b"),
        ({"peer": "x", "space": "G", "roles": ("admin",)}, "c"),
        ({"peer": "x", "space": "G", "roles": ("admin",), "chat_type": "group"}, "d"),
        ({"peer": "x", "space": "G", "chat_type": "group"}, "e"),
        ({"peer": "x", "space": "T", "chat_type": "group"}, "f"),
        ({"peer": "x", "space": "O", "roles": ("admin",), "chat_type": "group"}, "g"),
        ({"peer": "x", "account": "other"}, "h"),
        ({"peer": "x", "channel": "slack"}, "main"),
    ],
)
def test_the_most_exact_binding_wins(tmp_path, facts, agent):
    config = configured(tmp_path, agents=AGENTS, bindings=LADDER)
    inbound = came(**{"chat_type": "channel", "channel": "discord", **facts})
    assert route_for(inbound, config).agent_id == agent


def test_a_binding_without_an_account_means_the_default_one(tmp_path):
    rows = [{"agentId": "a", "match": {"channel": "telegram"}}]
    config = configured(tmp_path, agents=AGENTS, bindings=rows, channels={"telegram": {"defaultAccount": "work"}})
    assert route_for(came(account="work"), config).agent_id == "a"
    assert route_for(came(account="bot"), config).agent_id == "main"


def test_every_field_of_a_binding_must_fit(tmp_path):
    match = {"channel": "telegram", "accountId": "*", "peer": {"kind": "direct", "id": "42"}, "guildId": "G"}
    config = configured(tmp_path, agents=AGENTS, bindings=[{"agentId": "a", "match": match}])
    assert route_for(came(), config).agent_id == "main"
    assert route_for(came(space="G"), config).agent_id == "a"


@pytest.mark.parametrize(
    "row",
    [
        {"agentId": "gone", "match": {"channel": "telegram", "accountId": "*"}},
        {"agentId": "a", "match": {"channel": "telegram", "accountid": "*"}},
        {"agentId": "a", "match": {"chanel": "telegram"}},
        {"agentId": "a"},
        {"agentId": "a", "match": {"channel": "telegram", "peer": {"kind": "freind", "id": "1"}}},
        "telegram",
    ],
)
def test_a_binding_that_cannot_be_followed_leads_to_nobody(tmp_path, row):
    config = configured(tmp_path, agents=AGENTS, bindings=[row])
    with pytest.raises(ConfigError):
        route_for(came(), config)
    assert any(problem.severity == "error" and problem.key.startswith("bindings") for problem in validate(config))


def test_a_binding_may_set_the_scope_of_its_sessions(tmp_path):
    match = {"channel": "telegram", "accountId": "*"}
    rows = [{"agentId": "a", "match": match, "session": {"dmScope": "per-channel-peer", "groupScope": "main"}}]
    config = configured(tmp_path, agents=AGENTS, bindings=rows)
    assert str(route_for(came(), config).session_key) == "agent:a:telegram:direct:42"
    assert str(route_for(came("group", peer="-1"), config).session_key) == "agent:a:main"


@pytest.mark.parametrize(
    ("facts", "session", "key"),
    [
        (None, {}, "agent:main:main"),
        ({APART: True}, {}, "agent:main:telegram:direct:42"),
        ({APART: True}, {"dmScope": "main"}, "agent:main:main"),
        (None, {"dmScope": "per-peer"}, "agent:main:direct:42"),
        ({APART: True}, {"dmScope": "per-peer", "identityLinks": {"ada": ["telegram:42"]}}, "agent:main:direct:ada"),
    ],
)
def test_who_is_apart_shares_the_main_session_only_where_the_settings_say_so(tmp_path, facts, session, key):
    config = configured(tmp_path, session=session)
    assert str(route_for(came(facts=facts), config).session_key) == key


def test_several_agents_answer_where_broadcast_says_so(tmp_path):
    config = configured(tmp_path, agents=AGENTS, broadcast={"strategy": "sequential", "-100": ["a", "b", "a"]})
    routes, in_turn = routes_for(came("group", peer="-100"), config)
    assert [str(route.session_key) for route in routes] == [
        "agent:a:telegram:group:-100",
        "agent:b:telegram:group:-100",
    ]
    assert in_turn
    assert routes_for(came(), config) == ((route_for(came(), config),), False)


@pytest.mark.parametrize("named", [["a", "gone"], [], "a", [1]])
def test_a_broadcast_that_cannot_be_followed_leads_to_nobody(tmp_path, named):
    config = configured(tmp_path, agents=AGENTS, broadcast={"-100": named})
    with pytest.raises(ConfigError):
        routes_for(came("group", peer="-100"), config)
