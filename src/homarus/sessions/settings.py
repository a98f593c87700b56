"""The configuration block `session`, with all defaults in one place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct

from homarus.config.keypath import KeyPath
from homarus.core.patterns import late
from homarus.core.routes import MAIN, DmScope
from homarus.core.text import single_line

_DURATION = late(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)?", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_SIZE = late(r"(\d+(?:\.\d+)?)\s*(b|[kmgt](?:i?b)?)?", re.IGNORECASE)
_POWERS = {"b": 0, "k": 1, "m": 2, "g": 3, "t": 4}


class ResetPolicy(Struct, frozen=True, rename="camel"):
    """When a conversation starts over by itself. A block without a mode means `daily`."""

    mode: Literal["none", "never", "off", "daily", "idle"] | None = None
    at_hour: Annotated[int, Meta(ge=0, le=23)] = 4
    idle_minutes: float | None = None


class MaintenanceSettings(Struct, frozen=True, rename="camel"):
    mode: Literal["enforce", "warn"] = "enforce"
    prune_after: str | int = "30d"
    max_entries: int = 5000  # 2026.9; 500 as late as August 2026
    max_disk_bytes: int | str | None = None
    high_water_bytes: int | str | None = None  # 80 % of max_disk_bytes when not set
    reset_archive_retention: str | int | bool | None = None  # False keeps archives for ever; unset means prune_after


class SessionSettings(Struct, frozen=True, rename="camel"):
    """`session`: which messages share a session, and when it starts over."""

    scope: Literal["per-sender", "global"] = "per-sender"
    dm_scope: DmScope = DmScope.MAIN
    group_scope: Literal["per-group", "main"] = "per-group"
    main_key: str = MAIN  # January 2026 let it be chosen; later it is fixed
    identity_links: dict[str, list[str]] = {}
    reset_triggers: tuple[str, ...] = ("/new", "/reset")
    reset: ResetPolicy | None = None  # no automatic reset (2026.9); daily at four in January 2026
    reset_by_type: dict[str, ResetPolicy] = {}
    reset_by_channel: dict[str, ResetPolicy] = {}
    maintenance: MaintenanceSettings = MaintenanceSettings()

    @property
    def warnings(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield the durations and sizes of the maintenance that nobody understands: they are as good as not set."""
        kept = self.maintenance
        for key, value in (("pruneAfter", kept.prune_after), ("resetArchiveRetention", kept.reset_archive_retention)):
            if isinstance(value, str) and value.strip() and seconds(value) is None:
                yield ("maintenance", key), f"'{single_line(value, 40)}' is no duration such as 30d or 12h"
        for key, most in (("maxDiskBytes", kept.max_disk_bytes), ("highWaterBytes", kept.high_water_bytes)):
            if isinstance(most, str) and most.strip() and size(most) is None:
                yield ("maintenance", key), f"'{single_line(most, 40)}' is no size such as 500mb"


def seconds(value: str | int | None, *, unit: str = "d") -> float | None:
    """Return a duration like `30d` or `12h` in seconds; a bare number counts in `unit`. None for what is none."""
    if value is None or isinstance(value, bool):
        return None
    match = _DURATION.fullmatch(str(value).strip())
    return float(match[1]) * _SECONDS[(match[2] or unit).lower()] if match else None


def size(value: str | int | None) -> int | None:
    """Return a size like `500mb` in bytes; None for what is none."""
    if value is None or isinstance(value, bool):
        return None
    match = _SIZE.fullmatch(str(value).strip())
    return int(float(match[1]) * 1024 ** _POWERS[(match[2] or "b")[0].lower()]) if match else None
