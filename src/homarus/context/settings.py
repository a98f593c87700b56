"""The configuration blocks `agents.defaults.compaction` and `agents.defaults.contextPruning`, defaults in one place."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from homarus.sessions.settings import seconds

MAX_RECENT_TURNS = 12


class QualityGuard(Struct, frozen=True, rename="camel"):
    """The audit of a summary, and how often a failed one is tried again."""

    enabled: bool = True
    max_retries: int = 1


class MidTurnPrecheck(Struct, frozen=True, rename="camel"):
    """Whether the size is checked between tool results and the next call as well.

    OpenClaw leaves this off. Ours is on: it costs an estimate, and without it the provider has to refuse the call first.
    """

    enabled: bool = True


# What the silent turn is asked, where the configuration has no words of its own.
FLUSH_PROMPT = """\
The older part of this conversation will soon be condensed. Save now what should not be lost: decisions and their reasons, promises, \
facts about people and projects, open questions. Call memory_retain for each, or append them to memory/{date}.md below the heading \
"## Retain", one line each: "- W @Name: sentence." for what is so, "- B: sentence." for what was done, "- O(c=0.8) @Name: sentence." \
for what somebody prefers or thinks (c says how sure that is). Write sentences that make sense without this conversation. Change no other file, and repeat nothing that is in your notes already. If there is nothing \
worth saving, answer NO_REPLY. When you have saved it, answer NO_REPLY."""


class FlushSettings(Struct, frozen=True, rename="camel"):
    """The silent turn that saves what is worth keeping before a compaction."""

    enabled: bool = True
    soft_threshold_tokens: int = 4_000
    force_flush_transcript_bytes: int | str = 2 << 20
    model: str | None = None
    prompt: str | None = None
    system_prompt: str | None = None


class CompactionSettings(Struct, frozen=True, rename="camel"):
    """`compaction`. `enabled: false` stops compaction by threshold only; overflow and `/compact` stay."""

    enabled: bool = True
    mode: Literal["safeguard", "default"] = "safeguard"
    reserve_tokens: int = 16_384
    reserve_tokens_floor: int = 20_000
    keep_recent_tokens: int = 20_000
    recent_turns_preserve: int = 3
    identifier_policy: Literal["strict", "off"] = "strict"
    quality_guard: QualityGuard | bool = QualityGuard()
    model: str | None = None
    timeout_seconds: float = 180.0
    max_active_transcript_bytes: int | str | None = None
    mid_turn_precheck: MidTurnPrecheck = MidTurnPrecheck()
    post_compaction_sections: list[str] = []
    notify_user: bool = False
    memory_flush: FlushSettings = FlushSettings()

    @property
    def is_safeguard(self) -> bool:
        return self.mode == "safeguard"

    @property
    def recent_turns(self) -> int:
        """Return how many of the last exchanges before the cut are quoted behind the summary."""
        return max(0, min(MAX_RECENT_TURNS, self.recent_turns_preserve)) if self.is_safeguard else 0

    @property
    def audit_retries(self) -> int:
        """Return how often a summary that fails the audit is asked for again; -1 when there is no audit."""
        if not self.is_safeguard:
            return -1
        guard = self.quality_guard
        if isinstance(guard, bool):
            return 1 if guard else -1
        return max(0, min(3, guard.max_retries)) if guard.enabled else -1


class SoftTrim(Struct, frozen=True, rename="camel"):
    max_chars: int = 4_000
    head_chars: int = 1_500
    tail_chars: int = 1_500


class HardClear(Struct, frozen=True, rename="camel"):
    enabled: bool = True
    placeholder: str = "[Old tool result content cleared]"


class PruneTools(Struct, frozen=True, rename="camel"):
    """Which tools' results may be pruned: `*` globs, deny wins."""

    allow: list[str] = []
    deny: list[str] = []


class PruningSettings(Struct, frozen=True, rename="camel"):
    """`contextPruning`. Off unless set, but for Anthropic: every pruning step moves the cached prefix once."""

    mode: Literal["off", "cache-ttl"] | None = None
    ttl: int | str | None = None
    keep_last_assistants: int = 3
    soft_trim_ratio: float = 0.3
    hard_clear_ratio: float = 0.5
    min_prunable_tool_chars: int = 50_000
    soft_trim: SoftTrim = SoftTrim()
    hard_clear: HardClear = HardClear()
    tools: PruneTools = PruneTools()

    def for_provider(self, provider: str) -> PruningSettings:
        """Return the settings as they hold for a provider: Anthropic's cache is worth pruning for, once it has expired."""
        if self.mode is not None or provider != "anthropic":
            return self
        return replace(self, mode="cache-ttl", ttl="1h" if self.ttl is None else self.ttl)

    @property
    def ttl_seconds(self) -> float:
        """Return the waiting time; a bare number is minutes."""
        found = seconds("5m" if self.ttl in {None, ""} else self.ttl, unit="m")
        return 300.0 if found is None else found
