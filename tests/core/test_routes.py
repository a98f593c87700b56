import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.core.errors import ConfigError
from homarus.core.routes import (
    DmScope,
    Route,
    SessionKey,
    SessionKind,
    chat_session,
    direct_session,
    main_session,
    named_session,
    normalize_account_id,
    normalize_agent_id,
    policy_session,
)

K = SessionKind

SHAPES = [
    ("agent:main:main", K.MAIN, {}),
    ("agent:work:direct:alice", K.DIRECT, {"peer": "alice"}),
    ("agent:main:telegram:direct:123", K.DIRECT, {"channel": "telegram", "peer": "123"}),
    ("agent:main:telegram:bot2:direct:123", K.DIRECT, {"channel": "telegram", "account": "bot2", "peer": "123"}),
    ("agent:main:whatsapp:group:12@g.us", K.GROUP, {"channel": "whatsapp", "peer": "12@g.us"}),
    ("agent:main:slack:channel:c01", K.CHANNEL, {"channel": "slack", "peer": "c01"}),
    ("agent:main:irc:room:#dev", K.ROOM, {"channel": "irc", "peer": "#dev"}),
    ("agent:main:slack:channel:c01:thread:17.5", K.CHANNEL, {"channel": "slack", "peer": "c01", "thread": "17.5"}),
    ("agent:main:telegram:group:-100:topic:7", K.GROUP, {"channel": "telegram", "peer": "-100", "topic": "7"}),
    ("agent:main:main:thread:9:7", K.MAIN, {"thread": "9:7"}),
    ("agent:main:cron:job-1", K.CRON, {"peer": "job-1"}),
    ("agent:main:cron:job-1:run:r9", K.CRON, {"peer": "job-1", "run": "r9"}),
    ("agent:main:hook:0b1", K.HOOK, {"peer": "0b1"}),
    ("agent:main:subagent:aa", K.SUBAGENT, {"peer": "aa"}),
    ("agent:main:subagent:aa:subagent:bb", K.SUBAGENT, {"peer": "aa:subagent:bb"}),
    ("agent:main:boot:r1", K.BOOT, {"peer": "r1"}),
    ("agent:main:heartbeat:r1", K.HEARTBEAT, {"peer": "r1"}),
    ("agent:main:explicit:fixture-two", K.EXPLICIT, {"peer": "fixture-two"}),
    ("agent:main:dashboard:0b1", K.DASHBOARD, {"peer": "0b1"}),
    ("agent:main:openai-user:bob", K.OTHER, {"peer": "openai-user:bob"}),
    ("global", K.GLOBAL, {}),
]


@pytest.mark.parametrize(("text", "kind", "fields"), SHAPES)
def test_every_shape_is_read_and_written_back(text, kind, fields):
    key = SessionKey.parse(text)
    assert (key.kind, str(key)) == (kind, text)
    names = ("channel", "account", "peer", "thread", "topic", "run")
    assert {name: getattr(key, name) for name in names if getattr(key, name)} == fields


@pytest.mark.parametrize(
    "bad",
    [
        "agent",
        "agent:",
        "agent:main",
        "agent:main:",
        "agent::main",
        "agent:a b:main",
        "agent:-x:main",
        "agent:main::x",
        "agent:main:a\nb",
    ],
)
def test_a_bad_agent_key_is_an_error_and_never_the_default_agent(bad):
    with pytest.raises(ConfigError):
        SessionKey.parse(bad)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", "agent:ops:main"),
        ("main", "agent:ops:main"),
        ("  MAIN ", "agent:ops:main"),
        ("cron:j1", "agent:ops:cron:j1"),
        ("hook:0B1", "agent:ops:hook:0b1"),
        ("telegram:group:-1", "agent:ops:telegram:group:-1"),
        ("notes", "agent:ops:notes"),
        ("Agent:Main:Telegram:DM:Bob", "agent:main:telegram:direct:bob"),
        ("agent:main:dm:Bob", "agent:main:direct:bob"),
    ],
)
def test_aliases(text, canonical):
    assert str(SessionKey.parse(text, default_agent="ops")) == canonical


def test_case_is_kept_only_where_the_platform_needs_it():
    signal = "agent:main:signal:group:AbC+/="
    matrix = "agent:main:matrix:channel:!RoomX:Example.org:thread:$EvT"
    assert str(SessionKey.parse(signal)) == signal
    assert str(SessionKey.parse(matrix)) == matrix
    assert SessionKey.parse(matrix).thread == "$EvT"
    assert SessionKey.parse("agent:main:matrix:direct:@Bob:Example.org").peer == "@bob:example.org"
    assert SessionKey.parse("agent:main:telegram:group:ABC").peer == "abc"


@pytest.mark.parametrize(
    ("scope", "text"),
    [
        (DmScope.MAIN, "agent:main:main"),
        (DmScope.PER_PEER, "agent:main:direct:42"),
        (DmScope.PER_CHANNEL_PEER, "agent:main:telegram:direct:42"),
        (DmScope.PER_ACCOUNT_CHANNEL_PEER, "agent:main:telegram:bot:direct:42"),
    ],
)
def test_dm_scopes(scope, text):
    key = direct_session("main", "telegram", "42", account="bot", scope=scope)
    assert str(key) == text
    assert SessionKey.parse(text) == key
    assert key.is_private_main
    assert key.chat_type == "direct"


def test_identity_links_match_bare_or_qualified_in_any_case():
    links = {"Alice": ["telegram:42", "ALICE@x"]}
    telegram = direct_session("main", "telegram", "42", scope=DmScope.PER_PEER, links=links)
    mail = direct_session("main", "mail", "alice@X", scope=DmScope.PER_PEER, links=links)
    other = direct_session("main", "discord", "42", scope=DmScope.PER_PEER, links=links)
    assert str(telegram) == str(mail) == "agent:main:direct:alice"
    assert other.peer == "42"


def test_an_old_row_is_found_by_its_other_spelling():
    key = SessionKey.parse("agent:main:telegram:direct:42")
    assert "agent:main:telegram:dm:42" in key.spellings
    assert SessionKey.parse("agent:main:work", main_key="work").spellings == ("agent:main:work", "agent:main:main")


def test_main_key_of_an_old_configuration():
    key = SessionKey.parse("agent:main:work", main_key="work")
    assert key == main_session("main", "work")
    assert key.is_main
    assert SessionKey.parse("agent:main:work").kind is K.OTHER


def test_who_reads_along():
    group = chat_session("main", "telegram", K.GROUP, "-1")
    assert group.is_shared and not group.is_private_main and group.chat_type == "group"
    assert group.with_topic(3).chat_type == "thread"
    assert group.with_topic(3).base == group
    assert named_session("main", K.SUBAGENT, "x").is_subagent
    assert named_session("main", K.CRON, "x", run="r").is_cron
    assert not SessionKey.parse("global").is_private_main
    assert not SessionKey.parse("agent:main:main:thread:4").is_main


def test_an_id_from_outside_cannot_forge_a_marker():
    mixed = SessionKey.parse("agent:main:slack:channel:c01:Thread:17.5")
    assert mixed == SessionKey.parse(str(mixed)) == SessionKey.parse("agent:main:slack:channel:c01:thread:17.5")
    assert chat_session("main", "irc", K.CHANNEL, "#a:Thread:b").thread == ""
    hostile = chat_session("main", "irc", K.CHANNEL, "#a:thread:main\nagent:main:main")
    assert hostile.thread == ""
    assert "\n" not in str(hostile)
    assert SessionKey.parse(str(hostile)) == hostile


@pytest.mark.parametrize(
    ("raw", "clean"),
    [("", "main"), ("Main", "main"), ("a b!c", "a-b-c"), ("--x--", "x"), ("日本", "main"), ("a" * 70, "a" * 64)],
)
def test_agent_ids(raw, clean):
    assert normalize_agent_id(raw) == clean
    assert normalize_agent_id(clean) == clean


def test_account_ids_default():
    assert normalize_account_id(" ") == "default"


text = st.text(max_size=20) | st.sampled_from(
    ["direct", "group", "main", "a:thread:b", "a:Thread:b", ":run:", ":Run:", "matrix", "signal", "::", "A:B"]
)


@given(
    text,
    text,
    text,
    text,
    st.sampled_from(list(DmScope)),
    st.sampled_from([K.GROUP, K.CHANNEL, K.ROOM]),
    st.sampled_from([K.CRON, K.HOOK, K.SUBAGENT, K.EXPLICIT]),
)
def test_parse_of_text_gives_the_same_key(agent, channel, peer, suffix, scope, chat, named):
    base = [
        direct_session(agent, channel, peer, account=suffix, scope=scope),
        chat_session(agent, channel, chat, peer),
    ]
    keys = [
        *base,
        *(key.with_thread(suffix) for key in base),
        *(key.with_topic(suffix) for key in base),
        named_session(agent, named, peer, run=suffix),
    ]
    for key in keys:
        assert SessionKey.parse(str(key)) == key


@given(
    st.text(max_size=40)
    | st.from_regex(r"(agent:)?(\w{1,3}:){0,5}(thread|Thread|TOPIC|direct|group|cron|run)?:?\w{0,3}", fullmatch=True)
)
def test_any_text_parses_to_a_fixed_point_or_is_refused(raw):
    try:
        key = SessionKey.parse(raw)
    except ConfigError:
        return
    assert SessionKey.parse(str(key)) == key
    assert str(SessionKey.parse(str(key))) == str(key)


@pytest.mark.parametrize(
    ("route", "chat", "key"),
    [
        (("telegram", "bot", "42"), "direct", "agent:main:telegram:bot:direct:42"),
        (("telegram", "bot", "-100"), "group", "agent:main:telegram:group:-100"),
        (("slack", "default", "C1"), "channel", "agent:main:slack:channel:c1"),
        # Of a chat of which nobody says what it is, the most is not assumed.
        (("telegram", "bot", "42"), "", "agent:main:telegram:group:42"),
        (("terminal", "default", ""), "direct", "agent:main:main"),
        (("terminal", "default", "me"), "direct", "agent:main:main"),
        (("webchat", "default", "me"), "direct", "agent:main:main"),
    ],
)
def test_who_writes_into_the_main_session_from_outside_is_not_at_the_machine(route, chat, key):
    main = main_session("main")
    channel, account, to = route
    assert str(policy_session(main, Route("main", main, channel, account, to), chat)) == key


def test_other_sessions_have_their_own_key():
    key = chat_session("main", "irc", K.GROUP, "den")
    assert policy_session(key, Route("main", key, "irc", "default", "den"), "group") is key
