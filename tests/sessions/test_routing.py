import pytest

from homarus.core.messages import Inbound
from homarus.core.routes import DmScope, SessionKey
from homarus.sessions.routing import route_for, session_for
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


def test_an_answer_goes_back_where_the_message_came_from():
    route = route_for(came("group", peer="-100", thread="7"), "Main", SessionSettings())
    assert (route.agent_id, route.channel, route.account, route.to, route.thread) == (
        "main",
        "telegram",
        "bot",
        "-100",
        "7",
    )
