"""What to do after a model call failed: one pure function over the error, what was tried, and what is left.

Whether the answer is right can be read off the table in the tests. Nothing here waits, rolls dice or knows a provider.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.errors import ModelFailure as F

RATE_ATTEMPTS = 10
TRANSIENT_RETRIES = 8
TRANSIENT_WINDOW = 90.0
UNKNOWN_RETRIES = 2
BACKOFF_FIRST, BACKOFF_MOST = 1.0, 30.0
JITTER = 0.2
# A server that asks for more patience than this is left for the next model, if there is one.
PATIENCE = 60.0

TRANSIENT = frozenset({F.OVERLOADED, F.TIMEOUT, F.SERVER})
FINAL = frozenset({F.ABORTED, F.REFUSAL, F.REQUEST_TOO_LARGE})
# The same request fails again in the same way; another model may take it.
NOT_HERE = frozenset({F.FORMAT, F.MODEL_NOT_FOUND, F.UNREACHABLE})
CREDENTIAL = frozenset({F.AUTH, F.AUTH_PERMANENT, F.BILLING})


class Tried(Struct, frozen=True):
    """What was tried with the current model in this step."""

    # Failures in a row with this model and credential.
    failures: int = 0
    # When the current outage began, by the monotonic clock; a completed reply ends it, half a stream does not.
    outage_since: float | None = None
    # Credentials that were left because of a rate limit or an overload: one rotation, then the next model.
    rotations: int = 0


class Failure(Struct, frozen=True):
    kind: F
    retry_after: float | None = None
    # A used-up day, week or month: trying again within minutes is pointless.
    exhausted: bool = False


class Left(Struct, frozen=True):
    """What remains to be tried, and how much time there is."""

    credentials: int = 0
    models: int = 0
    # A lower thinking level that could be tried instead; None when there is none.
    weaker_level: str | None = None
    now: float = 0.0
    deadline: float | None = None
    # A number in [0, 1) for the jitter.
    dice: float = 0.0


class Retry(Struct, frozen=True):
    delay: float


class LowerLevel(Struct, frozen=True):
    level: str


class NextCredential(Struct, frozen=True):
    """Ask the same model with another credential."""


class NextModel(Struct, frozen=True):
    """Ask the next model of the chain."""


class Compact(Struct, frozen=True):
    """The conversation does not fit: shorten it and ask again."""


class GiveUp(Struct, frozen=True):
    """Nothing is left to try."""


Step = Retry | LowerLevel | NextCredential | NextModel | Compact | GiveUp


def decide(failure: Failure, tried: Tried, left: Left) -> tuple[Step, Tried]:
    """Return the next step after a failure, and what has been tried then."""
    kind = failure.kind
    if kind in FINAL or (left.deadline is not None and left.now >= left.deadline):
        return GiveUp(), tried
    if kind is F.CONTEXT_OVERFLOW:
        return Compact(), tried
    if kind is F.THINKING_LEVEL:
        return (LowerLevel(left.weaker_level), tried) if left.weaker_level is not None else _advance(left)
    if kind in CREDENTIAL:
        return (NextCredential(), Tried()) if left.credentials else _advance(left)
    if kind in NOT_HERE:
        return _advance(left)
    since = tried.outage_since if tried.outage_since is not None else left.now
    noted = replace(tried, failures=tried.failures + 1, outage_since=since)
    delay = _delay(failure, noted.failures, left.dice)
    if _may_retry(failure, noted, left) and _fits(delay, left):
        return Retry(delay), noted
    if left.credentials and not tried.rotations and kind is not F.UNKNOWN:
        return NextCredential(), Tried(rotations=1)
    return _advance(left)


def _may_retry(failure: Failure, tried: Tried, left: Left) -> bool:
    if failure.exhausted:
        return False
    if (failure.retry_after or 0.0) > PATIENCE and (left.models or left.credentials):
        return False
    if failure.kind is F.RATE_LIMIT:
        return tried.failures < RATE_ATTEMPTS
    if failure.kind in TRANSIENT:
        since = left.now if tried.outage_since is None else tried.outage_since
        return tried.failures <= TRANSIENT_RETRIES and left.now - since < TRANSIENT_WINDOW
    return tried.failures <= UNKNOWN_RETRIES


def _delay(failure: Failure, failures: int, dice: float) -> float:
    backoff: float = min(BACKOFF_MOST, BACKOFF_FIRST * 2.0 ** min(failures - 1, 10))
    return max(min(BACKOFF_MOST, backoff * (1 + JITTER * dice)), failure.retry_after or 0.0)


def _fits(delay: float, left: Left) -> bool:
    return left.deadline is None or left.now + delay < left.deadline


def _advance(left: Left) -> tuple[Step, Tried]:
    return (NextModel() if left.models else GiveUp()), Tried()
