"""Which mode applies, and what it does with a message: pure functions, so that the rules are one table in the tests."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.patterns import late
from homarus.queue.settings import (
    BACKLOG,
    DEFAULT_CAP,
    DEFAULT_DEBOUNCE_MS,
    DEFAULT_MODE,
    DROPS,
    MODES,
    Drop,
    Mode,
    QueueSettings,
)

_DURATION = late(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?")
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_CLEAR = frozenset({"default", "reset", "clear"})


class Overrides(Struct, frozen=True):
    """What a message or a session asks for; None leaves the choice to the next in line."""

    mode: Mode | None = None
    debounce_ms: int | None = None
    cap: int | None = None
    drop: Drop | None = None
    clear: bool = False

    @property
    def empty(self) -> bool:
        return self == Overrides()


class Rules(Struct, frozen=True):
    """What holds for one message: inline wish, then session, then channel, then the general setting, then the default."""

    mode: Mode = DEFAULT_MODE
    debounce_ms: int = DEFAULT_DEBOUNCE_MS
    cap: int = DEFAULT_CAP
    drop: Drop = Drop.SUMMARIZE
    # A report of the program's own: it joins a running turn, and no full queue drops it.
    kept: bool = False


class Action(StrEnum):
    RUN = "run"
    STEER = "steer"
    ENQUEUE = "enqueue"
    INTERRUPT = "interrupt"


def decide(mode: Mode, *, busy: bool, takes_input: bool) -> Action:
    """Say what happens to a message. A run that cannot take input makes `steer` behave as `followup`."""
    if not busy:
        return Action.RUN
    if mode is Mode.INTERRUPT:
        return Action.INTERRUPT
    if mode in {Mode.STEER, Mode.STEER_BACKLOG} and takes_input:
        return Action.STEER
    return Action.ENQUEUE


def parse_mode(text: str | None, *, backlog: bool = False) -> Mode | None:
    """Return the mode in any spelling of any era, or None for a word that names none."""
    word = (text or "").strip().lower()
    if word in BACKLOG:
        return Mode.STEER_BACKLOG if backlog else Mode.FOLLOWUP
    return MODES.get(word)


def parse_duration(text: str) -> int | None:
    """Return milliseconds; a bare number is milliseconds already."""
    match = _DURATION.fullmatch(text.strip().lower())
    return round(float(match[1]) * _UNITS[match[2] or "ms"]) if match else None


def parse_command(text: str) -> tuple[Overrides, str]:
    """Read what follows `/queue`; reading stops at the first unknown word, and from there on it is the message."""
    wish = Overrides()
    rest = text.lstrip()
    while rest:
        word, after = (*rest.split(None, 1), "")[:2]
        found = _word(word, wish)
        if found is None:
            break
        wish, rest = found, after.lstrip()
    return wish, rest


def _word(word: str, wish: Overrides) -> Overrides | None:
    name, colon, value = word.lower().partition(":")
    if not colon:
        if name in _CLEAR:
            return replace(wish, clear=True)
        mode = parse_mode(name)
        return replace(wish, mode=mode) if mode and wish.mode is None else None
    if name == "debounce" and (delay := parse_duration(value)) is not None:
        return replace(wish, debounce_ms=delay)
    if name == "cap" and value.isdigit() and int(value) >= 1:
        return replace(wish, cap=int(value))
    if name == "drop" and value in DROPS:
        return replace(wish, drop=DROPS[value])
    return None


def resolve(
    settings: QueueSettings,
    channel: str = "",
    *,
    inline: Overrides | None = None,
    session: Overrides | None = None,
    channel_debounce_ms: int | None = None,
) -> Rules:
    """Return what holds for one message of one session on one channel."""
    first, second = inline or Overrides(), session or Overrides()
    modes = (
        first.mode,
        second.mode,
        parse_mode(settings.by_channel.get(channel), backlog=settings.steer_backlog),
        parse_mode(settings.mode, backlog=settings.steer_backlog),
    )
    delays = (
        first.debounce_ms,
        second.debounce_ms,
        settings.debounce_ms_by_channel.get(channel),
        channel_debounce_ms,
        settings.debounce_ms,
    )
    caps = (first.cap, second.cap, settings.cap)
    drops = (first.drop, second.drop, DROPS.get((settings.drop or "").strip().lower()))
    return Rules(
        mode=next((mode for mode in modes if mode), DEFAULT_MODE),
        debounce_ms=next((delay for delay in delays if delay is not None and delay >= 0), DEFAULT_DEBOUNCE_MS),
        cap=next((cap for cap in caps if cap is not None and cap >= 1), DEFAULT_CAP),
        drop=next((drop for drop in drops if drop), Drop.SUMMARIZE),
    )
