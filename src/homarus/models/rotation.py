"""Credentials: in which order they are tried, and how long one rests after a failure. Pure.

Numbers are milliseconds, as OpenClaw's file stores them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
_ORDINARY_KINDS = {F.AUTH, F.OVERLOADED, F.TIMEOUT, F.NO_CONNECTION, F.SERVER}
_MODEL_KINDS = {F.RATE_LIMIT, F.OVERLOADED, F.TIMEOUT, F.NO_CONNECTION, F.SERVER}


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


def after_success(now: int) -> Stats:
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


_KINDS = {"oauth": 0, "token": 1, "api_key": 2}


class Credential(Struct, frozen=True):
    """One way to prove who we are. `id` is the profile's, or says where a key without a profile came from."""

    id: str
    provider: str
    # oauth, token, api_key, or none (a server that asks for nothing)
    kind: str = "api_key"
    secret: str = ""
    # Milliseconds since 1970; 0 never expires.
    expires: int = 0

    def __repr__(self) -> str:
        return f"Credential({self.id})"


class Pin(Struct, frozen=True):
    """A credential that was chosen for a session: by a person, or kept so that the provider's cache stays warm."""

    id: str
    by_user: bool = False


def ordered(
    credentials: Sequence[Credential],
    stats: Mapping[str, Stats],
    *,
    model: str,
    now: int,
    explicit: Sequence[str] | None = None,
    pin: Pin | None = None,
) -> tuple[Credential, ...]:
    """Return the usable credentials, best first; those that rest come last, the one that wakes first in front.

    An expired token is left out. An expired OAuth login stays, behind the others: its owner may have renewed it elsewhere.
    A pin goes first, also one that a person set, unless it rests.
    """
    usable = [item for item in credentials if item.kind != "token" or not item.expires or item.expires > now]
    if explicit:
        rank = {name: position for position, name in enumerate(explicit)}
        usable = sorted((item for item in usable if item.id in rank), key=lambda item: rank[item.id])
    else:
        usable = sorted(usable, key=lambda item: _preference(item, stats.get(item.id, Stats()), now))

    def resting(item: Credential) -> int:
        return stats.get(item.id, Stats()).resting_until(model, now)

    awake = [item for item in usable if not resting(item)]
    asleep = sorted((item for item in usable if resting(item)), key=resting)
    if pin is not None:
        awake.sort(key=lambda item: item.id != pin.id)
        if pin.by_user and not any(item.id == pin.id for item in usable):
            found = [item for item in credentials if item.id == pin.id]
            awake = found + awake
    return (*awake, *asleep)


def _preference(item: Credential, stats: Stats, now: int) -> tuple[bool, int, int, str]:
    expired = bool(item.expires) and item.expires <= now
    return (expired, _KINDS.get(item.kind, 3), stats.last_used, item.id)
