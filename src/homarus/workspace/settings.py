"""The workspace's part of `agents.defaults` and of each agent's entry: limits, seeding, injection, daily notes."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from homarus.config.keypath import KeyPath
from homarus.core.text import single_line

MAX_FILE_BYTES = 2 * 1024 * 1024
MAX_CHARS = 20_000
# OpenClaw's value of early 2026; it was lowered to 60,000 later.
TOTAL_MAX_CHARS = 150_000


class Injection(StrEnum):
    """Whether a turn that continues a session carries the workspace files again."""

    ALWAYS = "always"
    SKIP = "continuation-skip"
    LIGHT = "continuation-light"
    NEVER = "never"


_ALIASES = {"lightweight": Injection.LIGHT, "limited": Injection.LIGHT}


class StartupContext(Struct, frozen=True, rename="camel"):
    """`startupContext`: the daily notes that ride on the first turn after a new session or a reset."""

    enabled: bool = True
    apply_on: tuple[Literal["new", "reset"], ...] = ("new", "reset")
    daily_memory_days: int = 2
    max_file_bytes: int = 16_384
    max_file_chars: int = 1_200
    max_total_chars: int = 2_800

    @property
    def days(self) -> int:
        return _clamp(self.daily_memory_days, 1, 14)

    @property
    def file_bytes(self) -> int:
        return _clamp(self.max_file_bytes, 1, 65_536)

    @property
    def file_chars(self) -> int:
        return _clamp(self.max_file_chars, 1, 10_000)

    @property
    def total_chars(self) -> int:
        return _clamp(self.max_total_chars, 1, 50_000)


class FileLimits(Struct, frozen=True):
    file: int = MAX_CHARS
    total: int = TOTAL_MAX_CHARS
    user_file: int | None = None
    digest: bool = False


class WorkspaceSettings(Struct, frozen=True, rename="camel"):
    """What an agent's configuration says about its workspace. Everything else in that block belongs to others."""

    workspace: str | None = None
    skip_bootstrap: bool = False
    skip_optional_bootstrap_files: tuple[str, ...] = ()
    bootstrap_max_chars: int = MAX_CHARS
    bootstrap_total_max_chars: int = TOTAL_MAX_CHARS
    # Ours: keep the rules from the middle of an AGENTS.md that is too long.
    bootstrap_digest: bool = False
    # Ours: OpenClaw's newest fixed cap of 4,000 for USER.md, as a choice.
    user_file_max_chars: int | None = None
    context_injection: Literal[
        "always", "continuation-skip", "continuation-light", "lightweight", "limited", "never"
    ] = "always"
    cron_bootstrap: Literal["minimal", "persona"] = "minimal"
    startup_context: StartupContext = StartupContext()
    user_timezone: str | None = None
    # For the clock that `session_status` shows; a prompt has none.
    time_format: Literal["auto", "12", "24", 12, 24] = "auto"
    repo_root: str | None = None

    @property
    def warnings(self) -> Iterator[tuple[KeyPath, str]]:
        if (zone := self.user_timezone) and zone.strip() and not is_zone(zone.strip()):
            yield ("userTimezone",), f"'{single_line(zone, 40)}' is no time zone that this machine knows"

    @property
    def injection(self) -> Injection:
        return _ALIASES.get(self.context_injection) or Injection(self.context_injection)

    def for_window(self, tokens: int) -> WorkspaceSettings:
        """Return the settings for a small window: all files may take about a fifth of it, and no file all of that."""
        total, file = min(self.limits.total, tokens * 3 // 4), min(self.limits.file, tokens // 4)
        return replace(self, bootstrap_total_max_chars=total, bootstrap_max_chars=file)

    @property
    def limits(self) -> FileLimits:
        """Return the limits; a number that makes no sense means the default."""
        return FileLimits(
            file=self.bootstrap_max_chars if self.bootstrap_max_chars > 0 else MAX_CHARS,
            total=self.bootstrap_total_max_chars if self.bootstrap_total_max_chars > 0 else TOTAL_MAX_CHARS,
            user_file=self.user_file_max_chars if (self.user_file_max_chars or 0) > 0 else None,
            digest=self.bootstrap_digest,
        )


def is_zone(name: str) -> bool:
    """Say whether this machine knows a time zone of that name."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return name == "UTC" or bool(ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False


def _clamp(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)
