"""The configuration block `messages.queue` and `messages.inbound`, with all defaults in one place."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Struct

from homarus.config.convert import one_of


class Mode(StrEnum):
    """What happens to a message that arrives while its session is busy."""

    STEER = "steer"
    STEER_BACKLOG = "steer-backlog"  # January 2026: it joins the running turn, and has a turn of its own besides
    FOLLOWUP = "followup"
    COLLECT = "collect"
    INTERRUPT = "interrupt"


class Drop(StrEnum):
    NEW = "new"
    OLD = "old"
    SUMMARIZE = "summarize"


# Every spelling of every era. What a backlog is, a setting says.
BACKLOG = frozenset({"steer-backlog", "steer+backlog"})
MODES = {
    "queue": Mode.STEER,
    "queued": Mode.STEER,
    "steering": Mode.STEER,
    "follow-ups": Mode.FOLLOWUP,
    "follow-up": Mode.FOLLOWUP,
    "followups": Mode.FOLLOWUP,
    "coalesce": Mode.COLLECT,
    "interrupts": Mode.INTERRUPT,
    "abort": Mode.INTERRUPT,
} | {mode.value: mode for mode in Mode if mode is not Mode.STEER_BACKLOG}
DROPS = {"summarise": Drop.SUMMARIZE} | {drop.value: drop for drop in Drop}
ModeWord = Annotated[str, one_of(Mode, also=(*MODES, *BACKLOG))]

DEFAULT_MODE = Mode.STEER  # 2026.9; January 2026 had collect
DEFAULT_DEBOUNCE_MS = 500  # 2026.9; January 2026 had 1,000
DEFAULT_CAP = 20
# Telegram splits long texts, and its pieces come close together (2026.9).
CHANNEL_DEBOUNCE_MS = {"telegram": 300}


class QueueSettings(Struct, frozen=True, rename="camel"):
    """`messages.queue`: modes stay text here, because a channel may spell one in an older way."""

    mode: ModeWord | None = None
    debounce_ms: int | None = None
    cap: int | None = None
    drop: Annotated[str, one_of(Drop, also=DROPS)] | None = None
    by_channel: dict[str, ModeWord] = {}
    debounce_ms_by_channel: dict[str, int] = {}
    steer_boundary: Literal["tool", "model"] = "tool"
    steer_drain: Literal["one-at-a-time", "all"] = "one-at-a-time"
    # Whether `steer-backlog` means what it meant in January 2026; today's OpenClaw reads it as followup.
    steer_backlog: bool = False


class InboundSettings(Struct, frozen=True, rename="camel"):
    """`messages.inbound`: how long to wait for a sender who types in pieces."""

    debounce_ms: int | None = None
    by_channel: dict[str, int] = {}

    def delay_ms(self, channel: str) -> int:
        """Return how long to wait on a channel: as configured for it, as configured for all, or as is usual there."""
        usual = CHANNEL_DEBOUNCE_MS.get(channel, 0) if self.debounce_ms is None else self.debounce_ms
        return self.by_channel.get(channel, usual)
