"""When one request to a platform is made again. Per request, never per message: what was done is not done twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec import Struct

from homarus.core.clock import Clock, chance
from homarus.core.errors import DeliveryError, DeliveryFailure

T = TypeVar("T")

# It surely did not arrive, and later it may.
LATER = frozenset({DeliveryFailure.RATE_LIMIT, DeliveryFailure.TRANSIENT})
# A platform that asks for more patience than this is asked again by the queue, not by the request.
PATIENCE_S = 600.0


class RetrySettings(Struct, frozen=True, rename="camel"):
    """`channels.<id>.retry`. `min_delay_ms` is the platform's own where nothing is set."""

    attempts: int = 3
    min_delay_ms: int | None = None
    max_delay_ms: int = 30_000
    jitter: float = 0.1

    def delay(self, failures: int, *, usual_ms: int = 500, chance: float = 0.5) -> float:
        """Return how many seconds to wait after so many failures: doubled each time, up to the cap, spread by the jitter."""
        least = max(0, usual_ms if self.min_delay_ms is None else self.min_delay_ms)
        most = max(least, self.max_delay_ms)
        waited = min(least << min(max(0, failures - 1), 40), most)
        spread = waited * min(max(self.jitter, 0.0), 1.0) * (2 * chance - 1)
        return min(max(waited + spread, least), most) / 1000


USUAL = RetrySettings()


async def attempt(
    call: Callable[[], Awaitable[T]],
    clock: Clock,
    settings: RetrySettings = USUAL,
    *,
    usual_ms: int = 500,
    roll: Callable[[], float] = chance,
) -> T:
    """Make a request, again while it surely did not arrive, and raise the last failure.

    What a platform says about waiting wins over everything but our patience. A refusal, wrong markup and a request that
    may have arrived are never repeated here.
    """
    failures = 0
    while True:
        try:
            return await call()
        except DeliveryError as error:
            failures += 1
            told = error.retry_after
            if error.kind not in LATER or failures >= max(1, settings.attempts) or (told or 0.0) > PATIENCE_S:
                raise
            own = settings.delay(failures, usual_ms=usual_ms, chance=roll())
            await clock.sleep(own if told is None else max(0.0, told))
