"""When a request is made again, and when not."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.core.clock import ManualClock
from homarus.core.errors import DeliveryError, DeliveryFailure
from homarus.delivery.retry import PATIENCE_S, RetrySettings, attempt

START = datetime(2026, 1, 1, tzinfo=UTC)


class Request:
    def __init__(self, *failures: DeliveryError) -> None:
        self.failures = list(failures)
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        return "shown"


def failure(kind: str, retry_after: float | None = None) -> DeliveryError:
    return DeliveryError(DeliveryFailure(kind), "no", retry_after=retry_after)


async def waits(request: Request, settings: RetrySettings = RetrySettings(), usual_ms: int = 400) -> float:  # noqa: B008
    clock = ManualClock(START)
    await attempt(request, clock, settings, usual_ms=usual_ms, roll=lambda: 0.5)
    return clock.monotonic()


async def test_a_request_that_did_not_arrive_is_made_three_times_with_doubled_pauses() -> None:
    request = Request(failure("transient"), failure("rate_limit"))
    assert await waits(request) == pytest.approx(0.4 + 0.8)
    assert request.calls == 3


async def test_the_third_failure_is_raised() -> None:
    request = Request(*[failure("transient")] * 3)
    with pytest.raises(DeliveryError):
        await waits(request)
    assert request.calls == 3


@pytest.mark.parametrize("kind", ["markup", "refused", "unknown"])
async def test_what_would_be_the_same_or_may_have_arrived_is_never_repeated(kind: str) -> None:
    request = Request(failure(kind))
    with pytest.raises(DeliveryError):
        await waits(request)
    assert request.calls == 1


async def test_what_the_platform_says_about_waiting_wins() -> None:
    assert await waits(Request(failure("rate_limit", 45.0), failure("transient", 0.0))) == 45.0


async def test_no_request_waits_for_hours() -> None:
    request = Request(failure("rate_limit", PATIENCE_S + 1))
    with pytest.raises(DeliveryError):
        await waits(request)


async def test_attempts_and_pauses_are_as_configured() -> None:
    settings = RetrySettings(attempts=5, min_delay_ms=1000, max_delay_ms=3000, jitter=0)
    assert await waits(Request(*[failure("transient")] * 4), settings) == pytest.approx(1 + 2 + 3 + 3)
    request = Request(failure("transient"))
    with pytest.raises(DeliveryError):
        await waits(request, RetrySettings(attempts=0))
    assert request.calls == 1


@given(st.integers(1, 10_000), st.floats(0, 1), st.floats(-5, 5), st.integers(-10, 10**6), st.integers(-10, 10**6))
def test_a_pause_is_never_shorter_than_the_least_nor_longer_than_the_cap(
    failures: int, chance: float, jitter: float, least: int, most: int
) -> None:
    delay = RetrySettings(min_delay_ms=least, max_delay_ms=most, jitter=jitter).delay(failures, chance=chance)
    assert max(least, 0) / 1000 <= delay <= max(least, most, 0) / 1000
