"""The rules of the queue as tables."""

import pytest

from homarus.queue.modes import Action, Overrides, Rules, decide, parse_command, parse_duration, parse_mode, resolve
from homarus.queue.settings import Drop, Mode, QueueSettings


@pytest.mark.parametrize(
    ("mode", "busy", "takes_input", "action"),
    [
        *((mode, False, takes, Action.RUN) for mode in Mode for takes in (True, False)),
        (Mode.STEER, True, True, Action.STEER),
        (Mode.STEER, True, False, Action.ENQUEUE),
        (Mode.FOLLOWUP, True, True, Action.ENQUEUE),
        (Mode.FOLLOWUP, True, False, Action.ENQUEUE),
        (Mode.COLLECT, True, True, Action.ENQUEUE),
        (Mode.COLLECT, True, False, Action.ENQUEUE),
        (Mode.INTERRUPT, True, True, Action.INTERRUPT),
        (Mode.INTERRUPT, True, False, Action.INTERRUPT),
    ],
)
def test_what_each_mode_does(mode: Mode, busy: bool, takes_input: bool, action: Action) -> None:
    assert decide(mode, busy=busy, takes_input=takes_input) is action


@pytest.mark.parametrize(
    ("word", "mode"),
    [
        ("steer", Mode.STEER),
        ("queue", Mode.STEER),
        ("queued", Mode.STEER),
        ("steering", Mode.STEER),
        ("follow-ups", Mode.FOLLOWUP),
        ("followups", Mode.FOLLOWUP),
        ("Coalesce", Mode.COLLECT),
        ("interrupts", Mode.INTERRUPT),
        ("abort", Mode.INTERRUPT),
        ("steer+backlog", Mode.FOLLOWUP),
        ("sideways", None),
        (None, None),
    ],
)
def test_modes_in_every_spelling(word: str | None, mode: Mode | None) -> None:
    assert parse_mode(word) is mode


def test_the_old_backlog_mode_steers_only_when_asked() -> None:
    assert parse_mode("steer-backlog", backlog=True) is Mode.STEER_BACKLOG


@pytest.mark.parametrize(
    ("text", "ms"), [("250", 250), ("2s", 2000), ("1.5m", 90_000), ("1h", 3_600_000), ("1d", 86_400_000), ("x", None)]
)
def test_durations(text: str, ms: int | None) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize(
    ("text", "wish", "rest"),
    [
        ("collect debounce:2s cap:5 hello", Overrides(mode=Mode.COLLECT, debounce_ms=2000, cap=5), "hello"),
        ("drop:old", Overrides(drop=Drop.OLD), ""),
        ("default", Overrides(clear=True), ""),
        ("cap:0 x", Overrides(), "cap:0 x"),
        ("hello collect", Overrides(), "hello collect"),
        ("steer  keep\n  my   spacing", Overrides(mode=Mode.STEER), "keep\n  my   spacing"),
        ("", Overrides(), ""),
    ],
)
def test_the_queue_command_stops_at_the_first_unknown_word(text: str, wish: Overrides, rest: str) -> None:
    assert parse_command(text) == (wish, rest)


def test_the_nearest_wish_wins() -> None:
    settings = QueueSettings(
        mode="followup",
        debounce_ms=1,
        cap=3,
        drop="old",
        by_channel={"irc": "collect"},
        debounce_ms_by_channel={"irc": 2},
    )
    inline = Overrides(mode=Mode.INTERRUPT, debounce_ms=9, cap=1, drop=Drop.NEW)
    session = Overrides(mode=Mode.STEER, debounce_ms=8, cap=2)
    assert resolve(settings, "irc", inline=inline, session=session) == Rules(Mode.INTERRUPT, 9, 1, Drop.NEW)
    assert resolve(settings, "irc", session=session) == Rules(Mode.STEER, 8, 2, Drop.OLD)
    assert resolve(settings, "irc") == Rules(Mode.COLLECT, 2, 3, Drop.OLD)
    assert resolve(settings, "telegram", channel_debounce_ms=7) == Rules(Mode.FOLLOWUP, 7, 3, Drop.OLD)
    assert resolve(settings, "telegram") == Rules(Mode.FOLLOWUP, 1, 3, Drop.OLD)
    assert resolve(QueueSettings()) == Rules(Mode.STEER, 500, 20, Drop.SUMMARIZE)
    assert resolve(QueueSettings(mode="nonsense", cap=0, drop="nonsense")) == Rules()
