"""What to do after a model call failed: `decide`, one pure function over the error, what was tried, and what is left.

Whether its answer is right can be read off the table in the tests. `FailoverState` is where one request stands on its way through
models and credentials: it decides by that function, remembers in `auth`, and asks nobody.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.clock import Clock, epoch_ms
from homarus.core.errors import ModelError
from homarus.core.errors import ModelFailure as F
from homarus.core.events import Notice
from homarus.core.messages import Assistant, StopReason, Text
from homarus.models.auth import AuthStore
from homarus.models.info import ModelInfo
from homarus.models.levels import nearest, weaker
from homarus.models.provider import Stop
from homarus.models.ref import ModelRef
from homarus.models.rotation import Credential, Pin
from homarus.models.select import Chain
from homarus.storage.cache import BoundedCache

RATE_ATTEMPTS = 10
TRANSIENT_RETRIES = 8
TRANSIENT_WINDOW = 90.0
UNKNOWN_RETRIES = 2
BACKOFF_FIRST, BACKOFF_MOST = 1.0, 30.0
JITTER = 0.2
# A server that asks for more patience than this is left for the next model, if there is one.
PATIENCE = 60.0
# A rest that ends this soon is not worth another model.
NEARLY_AWAKE_MS = 10_000

TRANSIENT = frozenset({F.OVERLOADED, F.TIMEOUT, F.NO_CONNECTION, F.SERVER})
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
    in_time = left.deadline is None or left.now + delay < left.deadline
    if in_time and _may_retry(failure, noted, left):
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


def _advance(left: Left) -> tuple[Step, Tried]:
    return (NextModel() if left.models else GiveUp()), Tried()


class Lookups(Struct, frozen=True):
    auth: AuthStore
    clock: Clock
    info: Callable[[ModelRef], ModelInfo]
    credentials: Callable[[ModelRef, Pin | None], tuple[Credential, ...]]
    dice: Callable[[], float]
    # The level that a model takes in place of a wanted one, by model and wanted level.
    levels: BoundedCache[tuple[str, str], str]


class FailoverState:
    """One request's way: `ref`, `credential` and `level` say what to try now, `failed` moves on."""

    def __init__(
        self, lookups: Lookups, wanted: str, chain: Chain, *, pin: Pin | None = None, deadline: float | None = None
    ) -> None:
        self._lookups = lookups
        self._chain = chain
        self._wanted = wanted
        self._pin = pin
        self._deadline = deadline
        self.attempts = 0
        self._enter(0)

    def _enter(self, position: int) -> None:
        self._position = position
        self._tried: Tried | None = None
        self._index = 0
        # Whether the history goes out without its reasoning, because the server does not take it back.
        self.bare = False
        self.ref = self._chain.models[position]
        self.key = self.ref.key
        self._credentials = self._lookups.credentials(self.ref, self._pin)
        self.level = self._fitting()

    @property
    def credential(self) -> Credential:
        return self._credentials[self._index]

    @property
    def models_left(self) -> int:
        return len(self._chain.models) - self._position - 1

    def _fitting(self) -> str:
        known = self._lookups.levels.get((self.key, self._wanted))
        if known is None:
            info = self._lookups.info(self.ref)
            # Nobody knows what an undescribed model takes, so it gets what was asked for; a described one has no levels.
            known = "" if info.known else self._wanted
            if info.levels:
                known = nearest(self._wanted, info.levels) if self._wanted else ""
            self._lookups.levels.put((self.key, self._wanted), known)
        return known

    def blocked(self) -> ModelError | None:
        """Return why the current model need not even be called, or None."""
        if not self._credentials:
            return ModelError(F.AUTH, f"no key for {self.ref.provider}")
        if self.models_left and all(map(self._rests, self._credentials)):
            return ModelError(F.RATE_LIMIT, f"{self.ref} rests after earlier failures")
        return None

    def _rests(self, credential: Credential) -> bool:
        now = epoch_ms(self._lookups.clock.now())
        return self._lookups.auth.stats(credential.id).resting_until(self.ref.model, now) > now + NEARLY_AWAKE_MS

    def succeeded(self) -> None:
        self._lookups.auth.succeeded(self.credential)

    def failed(self, error: ModelError, *, called: bool, shown: bool) -> tuple[Step, list[Notice]]:
        """Decide what follows a failure and move there; return the step and what people should know about it.

        `called` is false for a model that was not even asked, `shown` true when some of its words were passed on.
        """
        from homarus.models.errors import about_history

        skipped = NextModel() if self.models_left else GiveUp()
        step = self._decide(error) if called else skipped
        if isinstance(step, LowerLevel) and not self.bare and about_history(error):
            self.bare, step = True, LowerLevel(self.level)
        notices = self._notices(step, error, shown=shown)
        leaving = isinstance(step, NextCredential | NextModel | GiveUp)
        if called and leaving and not (error.kind is F.TIMEOUT and shown):
            self._lookups.auth.failed(self.credential, error.kind, self.ref.model)
        if isinstance(step, LowerLevel):
            self.level = step.level
            self._lookups.levels.put((self.key, self._wanted), step.level)
        elif isinstance(step, NextCredential):
            self._index += 1
        elif isinstance(step, NextModel):
            self._enter(self._position + 1)
        return step, notices

    def _decide(self, error: ModelError) -> Step:
        left = Left(
            credentials=len(self._credentials) - self._index - 1,
            models=self.models_left,
            weaker_level=weaker(self.level, self._lookups.info(self.ref).levels),
            now=self._lookups.clock.monotonic(),
            deadline=self._deadline,
            dice=self._lookups.dice(),
        )
        step, self._tried = decide(_failure(error), self._tried or Tried(), left)
        return step

    def _notices(self, step: Step, error: ModelError, *, shown: bool) -> list[Notice]:
        notices = []
        short = error.kind.value.replace("_", " ")
        if shown and not isinstance(step, GiveUp | Compact):
            notices.append(Notice(f"{self.ref} broke off; what it said so far is void", "restart"))
        if isinstance(step, Retry):
            notices.append(Notice(f"{self.ref}: {short}; trying again in {step.delay:.0f} s", "retry"))
        if isinstance(step, NextModel):
            following = self._chain.models[self._position + 1]
            notices.append(Notice(f"{self.ref} failed ({short}); going on with {following}", "fallback"))
        return notices

    def stop(self, error: ModelError, said: str = "") -> Stop:
        aborted = error.kind is F.ABORTED
        message = Assistant(
            parts=(Text(said),) if said else (),
            timestamp=epoch_ms(self._lookups.clock.now()),
            provider=self.ref.provider,
            model=self.ref.model,
            stop_reason=StopReason.ABORTED if aborted else StopReason.ERROR,
            error=error.message,
        )
        return Stop(message, error)

    def given_up(self, stop: Stop) -> Stop:
        """Return the final stop; when a whole chain failed, it says so."""
        count, error = len(self._chain.models), stop.error
        if error is None or count == 1 or self.models_left or error.kind in FINAL:
            return stop
        said = f"all {count} models failed; the last one: {error.message}"
        whole = ModelError(error.kind, said, status=error.status, retry_after=error.retry_after, cure=error.cure)
        return Stop(replace(stop.message, error=whole.message), whole)


def _failure(error: ModelError) -> Failure:
    if error.kind is not F.RATE_LIMIT:
        return Failure(error.kind, error.retry_after)
    from homarus.models.errors import exhausted

    return Failure(error.kind, error.retry_after, exhausted(error))
