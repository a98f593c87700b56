"""Ask a chain of models: retries, other credentials, other models, until one answers or nothing is left.

It goes on from the messages it was given, so a retry neither repeats the user's words nor runs a finished tool again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing

from msgspec.structs import replace

from homarus.core.cancel import Cancel
from homarus.core.clock import Clock, chance, epoch_ms
from homarus.core.errors import Cancelled, ConfigError, ModelError, ModelFailure, StorageError
from homarus.core.events import ModelCalled, Notice, TextDelta
from homarus.models.auth import AuthStore, candidates
from homarus.models.failover import Compact, FailoverState, GiveUp, Lookups, NextModel, Retry
from homarus.models.held import Overdue, held
from homarus.models.info import ModelInfo
from homarus.models.provider import ModelRequest, Stop, StreamEvent
from homarus.models.ref import ModelRef
from homarus.models.registry import Registry
from homarus.models.rotation import Credential, Pin
from homarus.models.select import Chain
from homarus.models.settings import AuthSettings
from homarus.models.wire import unreasoned
from homarus.storage.cache import BoundedCache

ClientEvent = StreamEvent | ModelCalled | Notice


class ModelClient:
    """The models of one agent.

    Besides the stream's own events there are `ModelCalled` before each attempt and notices: `retry` and `fallback` tell
    people what happens; `restart` says that the words since the last attempt began are void and will come anew.
    """

    def __init__(
        self,
        registry: Registry,
        auth: AuthStore,
        *,
        clock: Clock,
        settings: AuthSettings | None = None,
        last_resort: Callable[[str], Sequence[Credential]] = lambda _: (),
        dice: Callable[[], float] = chance,
    ) -> None:
        self.registry = registry
        self.auth = auth
        self._clock = clock
        self._settings = settings or AuthSettings()
        self._last_resort = last_resort
        levels: BoundedCache[tuple[str, str], str] = BoundedCache(256)
        self._lookups = Lookups(auth, clock, registry.info, self.credentials, dice, levels)
        # Told how the calls of each model ended, once it answered or was given up.
        self.heard: Callable[[ModelRef, ModelError | None], None] = _nobody
        # The model that each session was last answered by.
        self._answered: BoundedCache[str, str] = BoundedCache(256)

    def info(self, ref: ModelRef) -> ModelInfo:
        return self.registry.info(ref)

    def credentials(self, ref: ModelRef, pin: Pin | None = None) -> tuple[Credential, ...]:
        """Return what a model can be called with, best first; empty when it needs a key and there is none."""
        found = candidates(
            self.auth,
            ref.provider,
            model=ref.model,
            last_resort=self._last_resort(ref.provider),
            settings=self._settings,
            clock=self._clock,
            pin=Pin(ref.profile, by_user=True) if ref.profile else pin,
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
    ) -> AsyncGenerator[ClientEvent, None]:
        """Ask the chain; the last event is the only `Stop`. `deadline` is a moment of the monotonic clock."""
        state = FailoverState(self._lookups, request.thinking, chain, pin=pin, deadline=deadline)
        while True:
            shown, blocked = False, state.blocked()
            stop = state.stop(self._explained(blocked, state.ref)) if blocked else None
            if stop is None:
                state.attempts += 1
                yield ModelCalled(state.key, state.attempts)
                words: list[str] = []
                try:
                    async with aclosing(held(await self._ask(state, request, cancel), cancel)) as events:
                        async for event in events:
                            if isinstance(event, Stop):
                                stop = event
                                continue
                            if isinstance(event, TextDelta):
                                words.append(event.text)
                            shown = True
                            yield event
                except Overdue:
                    stop = stop or state.stop(ModelError(ModelFailure.ABORTED, cancel.reason), "".join(words))
            assert stop is not None, "a provider's stream ends with one Stop"
            if stop.error is None:
                state.succeeded()
                self.heard(state.ref, None)
                if notice := self._settled(request.session_id, chain, state):
                    yield notice
                yield stop
                return
            asked = state.ref
            step, notices = state.failed(stop.error, called=blocked is None, shown=shown)
            if blocked is None and isinstance(step, NextModel | GiveUp):
                self.heard(asked, stop.error)
            for notice in notices:
                # A session that already lives on this fallback knows; only a change of state is news.
                if notice.kind != "fallback" or self._answered.get(request.session_id) != state.key:
                    yield notice
            if isinstance(step, GiveUp | Compact):
                yield state.given_up(stop)
                return
            if isinstance(step, Retry) and not await self._waited(step.delay, cancel):
                yield state.stop(ModelError(ModelFailure.ABORTED, cancel.reason))
                return

    async def _ask(self, state: FailoverState, request: ModelRequest, cancel: Cancel) -> AsyncIterator[StreamEvent]:
        """Return the stream of one attempt; where nobody can be asked, one that only says so."""
        try:
            credential = state.credential
            if credential.kind == "oauth":
                credential = await self._current(credential, cancel)
            provider = self.registry.provider(state.ref, credential)
        except ConfigError as problem:
            return _only(state.stop(ModelError(ModelFailure.MODEL_NOT_FOUND, problem.message, cure=problem.cure)))
        except ModelError as problem:
            return _only(state.stop(problem))
        if request.model != state.ref.model or request.thinking != state.level:
            request = replace(request, model=state.ref.model, thinking=state.level)
        if state.bare:
            request = replace(request, messages=tuple(map(unreasoned, request.messages)))
        return provider.stream(request, cancel=cancel)

    async def _current(self, credential: Credential, cancel: Cancel) -> Credential:
        """Return a login to call with: one that is about to end is renewed first."""
        from homarus.models.oauth import is_due, renewed

        if not is_due(credential, epoch_ms(self._clock.now())):
            return credential
        store, client = self.auth.owner(credential.id), self._settings.oauth.get(credential.provider)
        try:
            with cancel.interrupting():
                return await renewed(credential, store, client, http=self.registry.http, clock=self._clock)
        except Cancelled as stop:
            raise ModelError(ModelFailure.ABORTED, stop.message or "stopped") from stop
        except StorageError as problem:
            raise ModelError(ModelFailure.AUTH, problem.message, cure=problem.cure) from problem

    async def _waited(self, seconds: float, cancel: Cancel) -> bool:
        try:
            with cancel.interrupting():
                await self._clock.sleep(seconds)
        except Cancelled:
            return False
        return True

    def _explained(self, error: ModelError, ref: ModelRef) -> ModelError:
        if error.kind is ModelFailure.AUTH:
            known = self.registry.catalog.provider(ref.provider)
            if not known.base_url and ref.provider not in self.registry.catalog.providers():
                try:
                    self.registry.endpoint(ref, Credential("none", ref.provider, "none"))
                except ConfigError as problem:
                    return ModelError(ModelFailure.MODEL_NOT_FOUND, problem.message, cure=problem.cure)
            names = known.env
            name = names[0] if names else f"{ref.provider.upper().replace('-', '_')}_API_KEY"
            error.cure = f"set {name}, or models.providers.{ref.provider}.apiKey"
        return error

    def _settled(self, session: str, chain: Chain, state: FailoverState) -> Notice | None:
        """Say once when a session is answered by its first choice again."""
        before, key = self._answered.get(session), state.key
        if before == key:
            return None
        if session:
            self._answered.put(session, key)
        return Notice(f"back on {key}", "fallback") if before is not None and key == chain.primary.key else None


def _nobody(_ref: ModelRef, _error: ModelError | None) -> None:
    """Hear nothing."""


async def _only(stop: Stop) -> AsyncIterator[StreamEvent]:
    yield stop
