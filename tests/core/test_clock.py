from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from homarus.core.clock import CountingIds, ManualClock, SystemClock, SystemIds, epoch_ms, iso_ms

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


async def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(START)
    await clock.sleep(90)
    assert clock.now() == START + timedelta(seconds=90)
    assert clock.monotonic() == 90


def test_a_jump_back_does_not_turn_monotonic_time_back() -> None:
    clock = ManualClock(START)
    clock.advance(10)
    clock.set(START - timedelta(days=1))
    clock.advance(-5)
    assert clock.now() < START
    assert clock.monotonic() == 10


def test_moments_are_written_in_utc_with_milliseconds() -> None:
    moment = datetime(2026, 3, 1, 14, 0, 0, 5000, tzinfo=timezone(timedelta(hours=2)))
    assert iso_ms(moment) == "2026-03-01T12:00:00.005Z"
    assert epoch_ms(START) == 1_772_366_400_000


def test_counted_ids_repeat_between_runs() -> None:
    first, second = CountingIds(), CountingIds()
    assert [first.short(), first.uuid()] == [second.short(), second.uuid()]
    assert first.short() == "00000003"


async def test_the_machine_has_a_clock_and_fresh_ids() -> None:
    clock, ids = SystemClock(), SystemIds()
    before = clock.monotonic()
    await clock.sleep(0)
    assert clock.monotonic() >= before
    assert clock.now().tzinfo is UTC
    assert ids.uuid() != ids.uuid()
    assert len(ids.short()) == 8


@given(st.datetimes(timezones=st.just(UTC) | st.timezones() | st.just(timezone(timedelta(minutes=-30)))))
def test_moments_as_text(moment: datetime) -> None:
    try:
        expected = moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    except OverflowError:
        return
    assert iso_ms(moment) == expected
