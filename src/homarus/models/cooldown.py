"""How long a credential rests after a failure. Pure: numbers in milliseconds, as OpenClaw's file stores them."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from homarus.core.errors import ModelFailure as F

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

# Ladders of 2026.9; January 2026 waited 1, 5, 25 and 60 minutes, and 5 hours and more after a billing failure.
ORDINARY = (30 * SECOND, 60 * SECOND, 300 * SECOND)
RATE_FIRST, RATE_MOST = 30 * SECOND, DAY
BILLING_FIRST, BILLING_MOST = 10 * MINUTE, DAY
GONE_FIRST, GONE_MOST = 10 * MINUTE, HOUR
WINDOW = DAY

# Failures that say something about this credential or this model for a while; the others are about one request.
_ORDINARY_KINDS = {F.AUTH, F.OVERLOADED, F.TIMEOUT, F.SERVER}
_MODEL_KINDS = {F.RATE_LIMIT, F.OVERLOADED, F.TIMEOUT, F.SERVER}


class Stats(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What happened to one credential; field for field an entry of `usageStats`."""

    last_used: int = 0
    cooldown_until: int = 0
    cooldown_reason: str = ""
    # The model that the cooldown is about; without it the whole credential rests.
    cooldown_model: str = ""
    disabled_until: int = 0
    disabled_reason: str = ""
    error_count: int = 0
    failure_counts: dict[str, int] | UnsetType = UNSET
    last_failure_at: int = 0

    def resting_until(self, model: str, now: int) -> int:
        """Return when this credential may be used for a model again; 0 when it may now."""
        until = self.disabled_until if self.disabled_until > now else 0
        if self.cooldown_until > now and self.cooldown_model in {"", model}:
            until = max(until, self.cooldown_until)
        return until


def after_failure(stats: Stats, kind: F, model: str, now: int) -> Stats:
    """Return the stats after a failure. One that comes while the credential rests changes nothing but its date:
    requests that were under way together must not climb the ladder together."""
    if kind not in _ORDINARY_KINDS | {F.RATE_LIMIT, F.BILLING, F.AUTH_PERMANENT}:
        return stats
    if stats.resting_until(model, now):
        return replace(stats, last_failure_at=now)
    forgotten = now - stats.last_failure_at > WINDOW or stats.failure_counts is UNSET
    seen = {} if forgotten or stats.failure_counts is UNSET else dict(stats.failure_counts)
    counts = {**seen, kind.value: seen.get(kind.value, 0) + 1}
    noted = replace(stats, error_count=sum(counts.values()), failure_counts=counts, last_failure_at=now)
    rest, disabled = _rest(kind, counts)
    if disabled:
        return replace(noted, disabled_until=now + rest, disabled_reason=kind.value)
    scope = model if kind in _MODEL_KINDS else ""
    until = now + rest
    if stats.cooldown_until > now:
        # A second model fails while the first one rests: there is room for one name, so the whole credential rests.
        scope, until = "", max(until, stats.cooldown_until)
    return replace(noted, cooldown_until=until, cooldown_reason=kind.value, cooldown_model=scope)


def after_success(stats: Stats, now: int) -> Stats:
    """Return clean stats: a success forgives everything."""
    return Stats(last_used=now)


def _rest(kind: F, counts: dict[str, int]) -> tuple[int, bool]:
    """Return how long to rest, and whether the credential is disabled rather than cooling."""
    times = counts[kind.value] - 1
    if kind is F.RATE_LIMIT:
        return min(RATE_MOST, RATE_FIRST * 2 ** min(times, 20)), False
    if kind is F.BILLING:
        return min(BILLING_MOST, BILLING_FIRST * 2 ** min(times, 20)), True
    if kind is F.AUTH_PERMANENT:
        return min(GONE_MOST, GONE_FIRST * 2 ** min(times, 20)), True
    ordinary = sum(counts.get(each.value, 0) for each in _ORDINARY_KINDS)
    return ORDINARY[min(ordinary, len(ORDINARY)) - 1], False
