"""Where one request stands on its way through models and credentials. Decides by `failover`, remembers in `auth`; asks nobody."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.clock import Clock, epoch_ms
from homarus.core.errors import ModelError, ModelFailure
from homarus.core.events import Notice
from homarus.core.messages import Assistant, StopReason
from homarus.models import failover
from homarus.models.auth import AuthStore
from homarus.models.info import ModelInfo
from homarus.models.levels import nearest, weaker
from homarus.models.provider import Stop
from homarus.models.ref import ModelRef
from homarus.models.rotation import Credential, Pin
from homarus.models.select import Chain
from homarus.storage.cache import BoundedCache

# A rest that ends this soon is not worth another model.
NEARLY_AWAKE_MS = 10_000


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
        self._told = False
        self.attempts = 0
        self._enter(0)

    def _enter(self, position: int) -> None:
        self._position = position
        self._tried: failover.Tried | None = None
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
            known = _fitted(self._wanted, self._lookups.info(self.ref))
            self._lookups.levels.put((self.key, self._wanted), known)
        return known

    def blocked(self) -> ModelError | None:
        """Return why the current model need not even be called, or None."""
        if not self._credentials:
            return ModelError(ModelFailure.AUTH, f"no key for {self.ref.provider}")
        if self.models_left and all(map(self._rests, self._credentials)):
            return ModelError(ModelFailure.RATE_LIMIT, f"{self.ref} rests after earlier failures")
        return None

    def _rests(self, credential: Credential) -> bool:
        now = epoch_ms(self._lookups.clock.now())
        return self._lookups.auth.stats(credential.id).resting_until(self.ref.model, now) > now + NEARLY_AWAKE_MS

    def succeeded(self) -> None:
        self._lookups.auth.succeeded(self.credential)

    def failed(self, error: ModelError, *, called: bool, shown: bool) -> tuple[failover.Step, list[Notice]]:
        """Decide what follows a failure and move there; return the step and what people should know about it.

        `called` is false for a model that was not even asked, `shown` true when some of its words were passed on.
        """
        from homarus.models.errors import about_history

        step = self._decide(error) if called else self._next_model()
        if isinstance(step, failover.LowerLevel) and not self.bare and about_history(error):
            self.bare, step = True, failover.LowerLevel(self.level)
        notices = self._notices(step, error, shown=shown)
        leaving = isinstance(step, failover.NextCredential | failover.NextModel | failover.GiveUp)
        if called and leaving and not (error.kind is ModelFailure.TIMEOUT and shown):
            self._lookups.auth.failed(self.credential, error.kind, self.ref.model)
        if isinstance(step, failover.LowerLevel):
            self.level = step.level
            self._lookups.levels.put((self.key, self._wanted), step.level)
        elif isinstance(step, failover.NextCredential):
            self._index += 1
        elif isinstance(step, failover.NextModel):
            self._enter(self._position + 1)
        return step, notices

    def _decide(self, error: ModelError) -> failover.Step:
        left = failover.Left(
            credentials=len(self._credentials) - self._index - 1,
            models=self.models_left,
            weaker_level=weaker(self.level, self._lookups.info(self.ref).levels),
            now=self._lookups.clock.monotonic(),
            deadline=self._deadline,
            dice=self._lookups.dice(),
        )
        step, self._tried = failover.decide(_failure(error), self._tried or failover.Tried(), left)
        return step

    def _next_model(self) -> failover.Step:
        return failover.NextModel() if self.models_left else failover.GiveUp()

    def _notices(self, step: failover.Step, error: ModelError, *, shown: bool) -> list[Notice]:
        notices = []
        short = error.kind.value.replace("_", " ")
        if shown and not isinstance(step, failover.GiveUp | failover.Compact):
            notices.append(Notice(f"{self.ref} broke off; what it said so far is void", "restart"))
        if isinstance(step, failover.Retry) and not self._told:
            self._told = True
            notices.append(Notice(f"{self.ref}: {short}; trying again in {step.delay:.0f} s", "retry"))
        if isinstance(step, failover.NextModel):
            following = self._chain.models[self._position + 1]
            notices.append(Notice(f"{self.ref} failed ({short}); going on with {following}", "fallback"))
        return notices

    def stop(self, error: ModelError) -> Stop:
        aborted = error.kind is ModelFailure.ABORTED
        message = Assistant(
            parts=(),
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
        if error is None or count == 1 or self.models_left or error.kind in failover.FINAL:
            return stop
        whole = ModelError(
            error.kind,
            f"all {count} models failed; the last one: {error.message}",
            status=error.status,
            retry_after=error.retry_after,
            cure=error.cure,
        )
        return Stop(replace(stop.message, error=whole.message), whole)


def _fitted(wanted: str, info: ModelInfo) -> str:
    if not info.levels:
        # Nobody knows what an undescribed model takes, so it gets what was asked for; a described one has no levels.
        return "" if info.known else wanted
    return nearest(wanted, info.levels) if wanted else ""


def _failure(error: ModelError) -> failover.Failure:
    if error.kind is not ModelFailure.RATE_LIMIT:
        return failover.Failure(error.kind, error.retry_after)
    from homarus.models.errors import exhausted

    return failover.Failure(error.kind, error.retry_after, exhausted(error))
