"""Ask a chain of models: retries, other credentials, other models, until one answers or nothing is left.

It goes on from the messages it was given, so a retry neither repeats the user's words nor runs a finished tool again.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing

from msgspec.structs import replace

from homarus.core.cancel import Cancel
from homarus.core.clock import Clock, epoch_ms
from homarus.core.errors import Cancelled, ConfigError, ModelError, ModelFailure
from homarus.core.events import ModelCalled, Notice
from homarus.core.messages import Assistant, StopReason
from homarus.models import failover
from homarus.models.auth import AuthStore, candidates
from homarus.models.info import ModelInfo
from homarus.models.levels import nearest, weaker
from homarus.models.provider import ModelRequest, Stop, StreamEvent
from homarus.models.ref import ModelRef
from homarus.models.registry import Registry
from homarus.models.rotation import Credential, Pin
from homarus.models.select import Chain
from homarus.models.settings import AuthSettings
from homarus.storage.cache import BoundedCache

# A rest that ends this soon is not worth another model.
NEARLY_AWAKE_MS = 10_000

ClientEvent = StreamEvent | ModelCalled | Notice


class ModelClient:
    """The models of one agent. `ModelCalled` starts each attempt: text shown since the last one is void then."""

    def __init__(
        self,
        registry: Registry,
        auth: AuthStore,
        *,
        clock: Clock,
        settings: AuthSettings | None = None,
        last_resort: Callable[[str], list[Credential]] = lambda _: [],
        dice: Callable[[], float] = random.random,
    ) -> None:
        self.registry = registry
        self.auth = auth
        self._clock = clock
        self._settings = settings or AuthSettings()
        self._last_resort = last_resort
        self._dice = dice
        # Levels that a model turned out not to take, and the model that each session was last answered by.
        self._levels: BoundedCache[tuple[str, str], str] = BoundedCache(256)
        self._answered: BoundedCache[str, str] = BoundedCache(256)

    def info(self, ref: ModelRef) -> ModelInfo:
        """Return what is known about a model."""
        return self.registry.info(ref)

    def credentials(self, ref: ModelRef, pin: Pin | None = None) -> tuple[Credential, ...]:
        """Return what a model can be called with, best first; empty when it needs a key and there is none."""
        if ref.profile:
            pin = Pin(ref.profile, by_user=True)
        found = candidates(
            self.auth,
            ref.provider,
            model=ref.model,
            last_resort=self._last_resort(ref.provider),
            settings=self._settings,
            now=epoch_ms(self._clock.now()),
            pin=pin,
        )
        if found or self.registry.needs_key(ref.provider):
            return found
        return (Credential("none", ref.provider, "none"),)

    async def stream(
        self,
        request: ModelRequest,
        chain: Chain,
        *,
        cancel: Cancel,
        pin: Pin | None = None,
        deadline: float | None = None,
    ) -> AsyncIterator[ClientEvent]:
        """Ask the chain; the last event is the only `Stop`. `deadline` is a moment of the monotonic clock."""
        run = _Run(self, request, chain, cancel, deadline)
        last: Stop | None = None
        for position, ref in enumerate(chain.models):
            run.models_left = len(chain.models) - position - 1
            async with aclosing(self._model(run, ref, pin)) as events:
                async for event in events:
                    if isinstance(event, Stop):
                        last = event
                    else:
                        yield event
            if last is None or not isinstance(run.step, failover.NextModel):
                break
            following = chain.models[position + 1]
            yield Notice(f"{ref} failed ({_short(last.error)}); going on with {following}", "fallback")
        assert last is not None, "a chain holds at least one model"
        if last.error is None:
            for notice in self._settled(request.session_id, chain, last.message):
                yield notice
        yield run.summed_up(last)

    def _settled(self, session: str, chain: Chain, message: Assistant) -> list[Notice]:
        """Say once when a session is answered by its first choice again."""
        now, first = f"{message.provider}/{message.model}", chain.primary.key
        before = self._answered.get(session)
        if session:
            self._answered.put(session, now)
        return [Notice(f"back on {now}", "fallback")] if before not in {None, now} and now == first else []

    async def _model(self, run: _Run, ref: ModelRef, pin: Pin | None) -> AsyncGenerator[ClientEvent, None]:
        """Ask one model with all its credentials; `run.step` says afterwards what comes next."""
        credentials = list(self.credentials(ref, pin))
        if not credentials:
            error = ModelError(
                ModelFailure.AUTH,
                f"no key for {ref.provider}",
                cure=f"set {_key_name(self.registry, ref.provider)}, or models.providers.{ref.provider}.apiKey",
            )
            run.step = failover.NextModel() if run.models_left else failover.GiveUp()
            yield run.stop(ref, error)
            return
        if run.models_left and self._all_resting(ref, credentials):
            run.step = failover.NextModel()
            yield run.stop(ref, ModelError(ModelFailure.RATE_LIMIT, f"{ref} is resting after earlier failures"))
            return
        run.level = self._level(ref, run.request.thinking)
        tried, index = failover.Tried(), 0
        while True:
            credential = credentials[index]
            run.attempts += 1
            yield ModelCalled(ref.key, run.attempts)
            shown, stop = False, run.stop(ref, ModelError(ModelFailure.UNKNOWN, f"{ref} ended without a word"))
            async with aclosing(self._ask(run, ref, credential)) as events:
                async for event in events:
                    if isinstance(event, Stop):
                        stop = event
                    else:
                        shown = True
                        yield event
            if stop.error is None:
                run.step = None
                self.auth.succeeded(credential)
                yield stop
                return
            left = run.left(self.info(ref), len(credentials) - index - 1, self._dice())
            run.step, tried = failover.decide(_failure(stop.error), tried, left)
            if isinstance(run.step, failover.Retry):
                for notice in run.waiting(ref, stop.error, run.step.delay):
                    yield notice
                if await self._wait(run, run.step.delay):
                    continue
                run.step = failover.GiveUp()
                yield run.stop(ref, ModelError(ModelFailure.ABORTED, run.cancel.reason or "stopped"))
                return
            if isinstance(run.step, failover.LowerLevel):
                run.level = run.step.level
                self._levels.put((ref.key, run.request.thinking), run.level)
                continue
            if not (stop.error.kind is ModelFailure.TIMEOUT and shown):
                self.auth.failed(credential, stop.error.kind, ref.model)
            if isinstance(run.step, failover.NextCredential):
                index += 1
                continue
            yield stop
            return

    async def _ask(self, run: _Run, ref: ModelRef, credential: Credential) -> AsyncGenerator[StreamEvent, None]:
        try:
            provider = self.registry.provider(ref, credential)
        except ConfigError as problem:
            yield run.stop(ref, ModelError(ModelFailure.MODEL_NOT_FOUND, problem.message, cure=problem.cure))
            return
        asked = replace(run.request, model=ref.model, thinking=run.level)
        stream = provider.stream(asked, cancel=run.cancel)
        try:
            async for event in stream:
                yield event
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    async def _wait(self, run: _Run, seconds: float) -> bool:
        try:
            with run.cancel.interrupting():
                await self._clock.sleep(seconds)
        except Cancelled:
            return False
        return True

    def _level(self, ref: ModelRef, wanted: str) -> str:
        known = self._levels.get((ref.key, wanted))
        if known is not None:
            return known
        info = self.info(ref)
        return nearest(wanted, info.levels) if wanted and info.levels else wanted if not info.known else ""

    def _all_resting(self, ref: ModelRef, credentials: list[Credential]) -> bool:
        now = epoch_ms(self._clock.now())
        return all(
            self.auth.stats(item.id).resting_until(ref.model, now) > now + NEARLY_AWAKE_MS for item in credentials
        )


class _Run:
    """What one call of `stream` remembers while it goes from attempt to attempt."""

    def __init__(
        self, client: ModelClient, request: ModelRequest, chain: Chain, cancel: Cancel, deadline: float | None
    ) -> None:
        self.request = request
        self.cancel = cancel
        self.step: failover.Step | None = None
        self.level = request.thinking
        self.models_left = 0
        self.attempts = 0
        self._clock = client._clock  # noqa: SLF001 - the two classes are one thought
        self._deadline = deadline
        self._chain = chain
        self._told = False
        self._failed: list[str] = []

    def left(self, info: ModelInfo, credentials: int, dice: float) -> failover.Left:
        """Return what remains to be tried."""
        return failover.Left(
            credentials=credentials,
            models=self.models_left,
            weaker_level=weaker(self.level, info.levels),
            now=self._clock.monotonic(),
            deadline=self._deadline,
            dice=dice,
        )

    def waiting(self, ref: ModelRef, error: ModelError, delay: float) -> list[Notice]:
        """Return the one notice about waiting that a step gets."""
        if self._told:
            return []
        self._told = True
        return [Notice(f"{ref}: {_short(error)}; trying again in {delay:.0f} s", "retry")]

    def stop(self, ref: ModelRef, error: ModelError) -> Stop:
        """Return an end that no provider made."""
        aborted = error.kind is ModelFailure.ABORTED
        message = Assistant(
            parts=(),
            timestamp=epoch_ms(self._clock.now()),
            provider=ref.provider,
            model=ref.model,
            stop_reason=StopReason.ABORTED if aborted else StopReason.ERROR,
            error=error.message,
        )
        self._failed.append(f"{ref}: {error.message}")
        return Stop(message, error)

    def summed_up(self, stop: Stop) -> Stop:
        """Return the final stop; when a whole chain failed, it says so."""
        if stop.error is None or len(self._chain.models) == 1 or not isinstance(self.step, failover.GiveUp):
            return stop
        if stop.error.kind is ModelFailure.ABORTED:
            return stop
        error = ModelError(
            stop.error.kind,
            f"all {len(self._chain.models)} models failed; the last one: {stop.error.message}",
            status=stop.error.status,
            retry_after=stop.error.retry_after,
            cure=stop.error.cure,
        )
        return Stop(replace(stop.message, error=error.message), error)


def _failure(error: ModelError) -> failover.Failure:
    from homarus.models.errors import exhausted

    return failover.Failure(error.kind, error.retry_after, exhausted(error))


def _short(error: ModelError | None) -> str:
    return error.kind.value.replace("_", " ") if error else "no reply"


def _key_name(registry: Registry, provider: str) -> str:
    names = registry.catalog.provider(provider).env
    return names[0] if names else f"{provider.upper().replace('-', '_')}_API_KEY"
