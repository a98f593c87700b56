from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from homarus.core.clock import epoch_ms
from homarus.core.routes import SessionKey
from homarus.sessions.lifecycle import (
    Age,
    ResetCommand,
    daily_boundary,
    fresh_row,
    model_hint,
    policy_for,
    reset_command,
    soft_row,
    stale,
)
from homarus.sessions.settings import ResetPolicy, SessionSettings, seconds, size

BERLIN = ZoneInfo("Europe/Berlin")
TRIGGERS = ["/new", "/reset"]


def local(hour, minute=0, day=10):
    return datetime(2026, 6, day, hour, minute, tzinfo=BERLIN)


def age(started, touched=None, updated=None, header=None):
    moments = (started, touched, header, updated)
    return Age(*(epoch_ms(moment) if moment else 0 for moment in moments))


@pytest.mark.parametrize(
    ("facts", "now", "reason"),
    [
        (age(local(3, 59)), local(4, 1), "daily"),
        (age(local(4, 1)), local(23, 0), None),
        (age(local(3, 59), touched=local(4, 20), updated=local(4, 30)), local(5), "daily"),
        (age(None, header=local(3)), local(5), "daily"),
        (age(None, updated=local(3)), local(5), "daily"),
        (age(local(9, day=12), header=local(3)), local(5), "daily"),  # a moment in the future says nothing
        (age(None), local(5), None),
    ],
)
def test_daily(facts, now, reason):
    assert stale(facts, ResetPolicy(mode="daily"), now.astimezone(UTC), BERLIN) == reason


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (age(local(1), touched=local(10, 59), updated=local(11, 59)), "idle"),
        (age(local(1), touched=local(11, 1)), None),
        (age(local(10, 59)), "idle"),
    ],
)
def test_idle_for_an_hour(facts, reason):
    now = local(12)
    assert stale(facts, ResetPolicy(mode="idle", idle_minutes=60), now, BERLIN) == reason
    assert stale(facts, ResetPolicy(mode="idle"), now, BERLIN) == reason


def test_either_reason_is_enough_and_none_means_never():
    both = ResetPolicy(idle_minutes=30)
    assert stale(age(local(3)), both, local(5), BERLIN) == "daily"
    assert stale(age(local(5), touched=local(5)), both, local(6), BERLIN) == "idle"
    assert stale(age(local(3, day=1)), ResetPolicy(mode="none"), local(5), BERLIN) is None


def test_the_boundary_follows_the_wall_clock_over_a_change_of_time():
    # On 2026-03-29 the clocks go from two to three.
    now = datetime(2026, 3, 29, 3, 30, tzinfo=BERLIN)
    assert daily_boundary(now, BERLIN, 4) == datetime(2026, 3, 28, 4, tzinfo=BERLIN)
    assert daily_boundary(now + timedelta(hours=1), BERLIN, 4) == datetime(2026, 3, 29, 4, tzinfo=BERLIN)
    assert daily_boundary(local(4), BERLIN, 4) == local(4)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/new", ResetCommand("/new")),
        ("/NEW opus hi", ResetCommand("/new", "opus hi")),
        ("/new\nfirst line\n  second", ResetCommand("/new", "first line\n  second")),
        ("/reset soft", ResetCommand("/reset", soft=True)),
        ("/reset soft please", ResetCommand("/reset", "please", soft=True)),
        ("/newer", None),
        ("well /new", None),
        ("", None),
    ],
)
def test_triggers(text, expected):
    assert reset_command(text, TRIGGERS) == expected


def test_triggers_in_groups_and_from_strangers():
    assert reset_command("@bot /new hello", TRIGGERS, group=True) == ResetCommand("/new", "hello")
    assert reset_command("<@U123>: /new", TRIGGERS, group=True) == ResetCommand("/new")
    assert reset_command("@bot /new", TRIGGERS) is None
    assert reset_command("/new", TRIGGERS, authorised=False) is None
    assert reset_command("neu", ["neu"]) == ResetCommand("neu")


def test_a_model_may_be_named():
    known = {"opus": "anthropic/claude-opus"}.get
    assert model_hint("opus hi there", known) == ("anthropic/claude-opus", "hi there")
    assert model_hint("opus", known) == ("anthropic/claude-opus", "")
    assert model_hint("hello opus", known) == (None, "hello opus")
    assert model_hint("", known) == (None, "")


def test_which_rule_applies():
    settings = SessionSettings(
        reset=ResetPolicy(mode="daily"),
        reset_by_type={"dm": ResetPolicy(mode="none"), "thread": ResetPolicy(mode="idle", idle_minutes=1)},
        reset_by_channel={"Discord": ResetPolicy(mode="idle", idle_minutes=9)},
    )

    def rule(text, **more):
        return policy_for(settings, SessionKey.parse(text), **more)

    assert rule("main").mode == "none"
    assert rule("agent:main:telegram:group:-1").mode == "daily"
    assert rule("agent:main:telegram:group:-1:topic:3").idle_minutes == 1
    assert rule("main", threaded=True).idle_minutes == 1
    assert rule("agent:main:discord:channel:1").idle_minutes == 9
    assert rule("main", channel="discord").idle_minutes == 9
    assert policy_for(SessionSettings(), SessionKey.parse("main")).mode == "none"


def test_what_lives_on():
    old = {
        "sessionId": "old", "sessionFile": "/x", "thinkingLevel": "high", "queueMode": "collect", "sendPolicy": "deny",
        "compactionCount": 4, "memoryFlushAt": 5, "skillsSnapshot": {}, "totalTokens": 9, "novel": {"a": 1},
        "modelOverride": "opus", "providerOverride": "a", "modelOverrideSource": "user",
        "authProfileOverride": "p", "authProfileOverrideSource": "auto",
    }  # fmt: skip
    assert fresh_row(old, "new", 7) == {
        "sessionId": "new", "sessionStartedAt": 7, "lastInteractionAt": 7, "updatedAt": 7, "thinkingLevel": "high",
        "queueMode": "collect", "sendPolicy": "deny", "novel": {"a": 1},
        "modelOverride": "opus", "providerOverride": "a", "modelOverrideSource": "user",
    }  # fmt: skip
    auto = fresh_row({"modelOverride": "x", "modelOverrideSource": "auto"}, "new", 7)
    assert "modelOverride" not in auto
    assert fresh_row({"modelOverride": "x"}, "new", 7)["modelOverride"] == "x"
    assert soft_row({"sessionId": "s", "cliSessionIds": {"a": "b"}, "compactionCount": 2}, 9) == {
        "sessionId": "s",
        "compactionCount": 2,
        "updatedAt": 9,
    }


def test_durations_and_sizes():
    assert [seconds(text) for text in ("30d", "12h", "90m", 2, "x", None, True)] == [
        2592000,
        43200,
        5400,
        172800,
        None,
        None,
        None,
    ]
    assert [size(text) for text in ("500mb", "1.5kb", 12, "x", None)] == [500 << 20, 1536, 12, None, None]


def test_a_chat_has_its_own_channels_rule_wherever_somebody_talks_in_it_from():
    telegram, discord = ResetPolicy(mode="idle", idle_minutes=5), ResetPolicy(mode="daily")
    settings = SessionSettings(reset_by_channel={"Telegram": telegram, "discord": discord})
    group = SessionKey.parse("agent:main:telegram:group:7")
    assert policy_for(settings, group, "terminal") is telegram
    assert policy_for(settings, group, "discord") is telegram
    assert policy_for(settings, SessionKey.parse("agent:main:main"), "discord") is discord
    assert policy_for(settings, SessionKey.parse("agent:main:main"), "terminal").mode == "none"
