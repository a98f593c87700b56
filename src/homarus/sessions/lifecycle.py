"""When a conversation starts over, and what of its settings lives on. Pure: the clock and the zone are passed in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Literal

from msgspec import Struct

from homarus.core.clock import epoch_ms
from homarus.core.patterns import late
from homarus.core.routes import SessionKey
from homarus.sessions.codec import Json
from homarus.sessions.settings import ResetPolicy, SessionSettings

DEFAULT_IDLE_MINUTES = 60.0  # January 2026; 2026.9 reads an unset value as never

_MENTION = late(r"\s*<?@[^\s>]{1,64}>?[,:]?(?=\s|$)")

# What belongs to one transcript and not to the conversation: it does not survive a new one.
_PER_TRANSCRIPT = """
sessionFile systemSent abortedLastRun status compactionCount memoryFlush memoryFlushAt memoryFlushCompactionCount
inputTokens outputTokens cacheRead cacheWrite totalTokens totalTokensFresh totalTokensVersion contextTokens
contextBudgetStatus estimatedCostUsd label skillsSnapshot systemPromptReport cliSessionIds claudeCliSessionId
activeWriterRunId archivedAt importedFrom modelProvider model lastHeartbeatText lastHeartbeatSentAt
authProfileOverrideCompactionCount lifecycleRevision
"""
_MODEL_PIN = ("providerOverride", "modelOverride", "modelOverrideSource")
_AUTH_PIN = ("authProfileOverride", "authProfileOverrideSource")


class ResetCommand(Struct, frozen=True):
    """A message that asks for a fresh conversation. `rest` is what it says besides."""

    trigger: str
    rest: str = ""
    soft: bool = False


class Age(Struct, frozen=True):
    """What is known of a session's age, in milliseconds; 0 where it is not known."""

    started_at: int = 0
    last_interaction_at: int = 0
    header_at: int = 0
    updated_at: int = 0


def reset_command(
    text: str, triggers: Sequence[str], *, authorised: bool = True, group: bool = False
) -> ResetCommand | None:
    """Return the reset that a message asks for, or None. From a sender without the right it is plain text."""
    if not authorised:
        return None
    body = text.strip()
    if group:
        body = strip_mentions(body)
    for trigger in sorted((t.strip() for t in triggers if t.strip()), key=len, reverse=True):
        head, rest = body[: len(trigger)], body[len(trigger) :]
        if head.lower() == trigger.lower() and (not rest or rest[0].isspace()):
            rest = rest.strip()
            first, _, after = rest.partition(" ")
            if trigger.lower() == "/reset" and first.lower() == "soft":
                return ResetCommand(trigger.lower(), after.strip(), soft=True)
            return ResetCommand(trigger.lower(), rest)
    return None


def strip_mentions(text: str) -> str:
    while match := _MENTION.match(text):
        text = text[match.end() :]
    return text.strip()


def model_hint(rest: str, resolve: Callable[[str], str | None]) -> tuple[str | None, str]:
    """Split `/new <model> text` into the model, if its first word names one, and the prompt."""
    words = rest.split(maxsplit=1)
    found = resolve(words[0]) if words else None
    return (found, words[1] if len(words) > 1 else "") if found else (None, rest)


def policy_for(settings: SessionSettings, key: SessionKey, channel: str = "", *, threaded: bool = False) -> ResetPolicy:
    """Return the rule for a conversation: its channel's outright, else its type's, else the general one."""
    # A chat's own channel counts, also when somebody talks in it from the terminal.
    channel = (key.channel or channel).lower()
    by_channel = {name.lower(): policy for name, policy in settings.reset_by_channel.items()}
    kind = "thread" if threaded else key.chat_type
    by_type = settings.reset_by_type.get(kind) or (settings.reset_by_type.get("dm") if kind == "direct" else None)
    return by_channel.get(channel) or by_type or settings.reset or ResetPolicy(mode="none")


def stale(age: Age, policy: ResetPolicy, now: datetime, zone: tzinfo) -> Literal["daily", "idle"] | None:
    """Say why a session is over, or None while it is not. `updatedAt` alone never keeps a session alive."""
    mode = policy.mode or "daily"
    if mode in {"none", "never", "off"}:
        return None
    present = epoch_ms(now)
    started = _first_past(present, age.started_at, age.header_at, age.updated_at)
    touched = _first_past(present, age.last_interaction_at, started)
    if mode == "daily" and started and started < epoch_ms(daily_boundary(now, zone, policy.at_hour)):
        return "daily"
    minutes = policy.idle_minutes
    if minutes is None and mode == "idle":
        minutes = DEFAULT_IDLE_MINUTES
    if minutes and touched and present > touched + minutes * 60_000:
        return "idle"
    return None


def daily_boundary(now: datetime, zone: tzinfo, hour: int) -> datetime:
    local = now.astimezone(zone)
    at = time(max(0, min(23, hour)))
    boundary = datetime.combine(local.date(), at, tzinfo=zone)
    if boundary.astimezone(UTC) > now.astimezone(UTC):
        boundary = datetime.combine(local.date() - timedelta(days=1), at, tzinfo=zone)
    return boundary


def _first_past(now: int, *moments: int) -> int:
    return next((moment for moment in moments if 0 < moment <= now), 0)


def fresh_row(old: Json, session_id: str, now: int) -> Json:
    """Return the row of a conversation that starts over: the user's choices stay, what the old transcript said goes."""
    gone = set(_PER_TRANSCRIPT.split())
    kept = {name: value for name, value in old.items() if name not in gone}
    for pin, source in ((_MODEL_PIN, "modelOverrideSource"), (_AUTH_PIN, "authProfileOverrideSource")):
        # A pin without a source is from before the runtime pinned anything by itself: the user made it.
        if kept.get(source, "user") != "user":
            for name in pin:
                kept.pop(name, None)
    return kept | {"sessionId": session_id, "sessionStartedAt": now, "lastInteractionAt": now, "updatedAt": now}


def soft_row(old: Json, now: int) -> Json:
    """Return the row after `/reset soft`: the transcript stays, only what a backend remembers of it is dropped."""
    dropped = {"cliSessionIds", "claudeCliSessionId", "systemSent"}
    return {name: value for name, value in old.items() if name not in dropped} | {"updatedAt": now}
