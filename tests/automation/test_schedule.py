"""When jobs are due: two readings agree, clocks that jump cost nothing, and no input breaks the reader."""

import itertools
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homarus.automation.schedule import duration_ms, hours_begin, in_hours, moment_ms, read_schedule
from homarus.core.clock import epoch_ms
from homarus.core.errors import ConfigError

BERLIN = ZoneInfo("Europe/Berlin")


def ms(*parts: int, zone: object = UTC, fold: int = 0) -> int:
    return epoch_ms(datetime(*parts, tzinfo=zone, fold=fold))


def cron(expr: str, **more: object):
    return read_schedule({"kind": "cron", "expr": expr, "tz": "Europe/Berlin", "staggerMs": 0, **more}, job_id="j")


def local(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1000, BERLIN).strftime("%m-%d %H:%M%z")


def test_a_daily_time_in_the_hour_that_is_left_out_comes_once_at_its_end():
    schedule = cron("30 2 * * *")
    found = list(itertools.islice(schedule.times(ms(2026, 3, 28, 12)), 2))
    assert [local(due) for due in found] == ["03-29 03:00+0200", "03-30 02:30+0200"]


def test_a_daily_time_in_the_hour_that_comes_twice_comes_once():
    schedule = cron("30 2 * * *")
    found = list(itertools.islice(schedule.times(ms(2026, 10, 24, 12)), 2))
    assert [local(due) for due in found] == ["10-25 02:30+0200", "10-26 02:30+0100"]
    # Asked in the second of the two hours, it does not name the first one.
    second = ms(2026, 10, 25, 2, 10, zone=BERLIN, fold=1)
    assert local(schedule.after(second)) == "10-26 02:30+0100"


def test_every_half_hour_goes_on_in_both_hours():
    found = list(itertools.islice(cron("*/30 * * * *").times(ms(2026, 10, 24, 23, 59)), 4))
    assert [b - a for a, b in itertools.pairwise(found)] == [1_800_000] * 3


@given(
    st.sampled_from(["*/7 * * * *", "30 2 * * *", "0 9 * * 1-5", "15 2-3 * * *", "0 0 1 * *", "*/20 * * * * *"]),
    st.integers(ms(2026, 3, 28), ms(2026, 3, 30)) | st.integers(ms(2026, 10, 24), ms(2026, 10, 26)),
    st.integers(0, 400),
)
def test_the_next_time_is_the_same_wherever_one_begins_to_count(expr: str, start: int, step: int) -> None:
    schedule = cron(expr)
    first, second = itertools.islice(schedule.times(start), 2)
    assert start < first < second
    between = min(first, start + step * 1000)
    assert schedule.after(between) == (second if between == first else first)


@given(st.integers(1000, 10**9), st.integers(0, 2 * 10**12), st.integers(0, 2 * 10**12))
def test_every_is_counted_from_its_anchor(every: int, anchor: int, now: int) -> None:
    schedule = read_schedule({"kind": "every", "everyMs": every, "anchorMs": anchor})
    due = schedule.after(now)
    assert due > now
    assert (due - anchor) % every == 0
    assert due - now <= every or due == anchor


def test_how_many_times_were_missed():
    assert cron("0 * * * *").missed(ms(2026, 5, 1, 10), ms(2026, 5, 2, 10)) == 24
    assert read_schedule({"everyMs": 60_000}).missed(0, 3_600_000) == 60
    assert read_schedule({"at": "2026-05-01T10:00:00Z"}).missed(ms(2026, 5, 1, 10), ms(2026, 6, 1)) == 0


def test_moments_in_every_spelling():
    at = ms(2026, 12, 24, 18)
    assert moment_ms("2026-12-24T18:00:00Z", 0) == moment_ms("2026-12-24T18:00", 0) == at  # without a zone: UTC
    assert moment_ms("2026-12-24T19:00+01:00", 0) == moment_ms(str(at), 0) == at
    assert moment_ms("20m", 1000) == moment_ms("+20m", 1000) == 1_201_000
    assert moment_ms("tomorrow", 0) is None
    assert duration_ms("1h30m") == 5_400_000
    assert duration_ms("90") is None
    assert read_schedule({"kind": "at", "atMs": at}).at_ms == read_schedule({"at": "2026-12-24T18:00Z"}).at_ms == at


@pytest.mark.parametrize(
    "raw",
    [None, [], "0 9 * * *", {}, {"kind": "sometimes"}, {"kind": "cron", "expr": "61 * * * *"}, {"kind": "cron"},
     {"kind": "cron", "expr": "0 0 31 2 *"}, {"kind": "cron", "expr": "* * * * *", "tz": "Mars/Base"},
     {"kind": "cron", "expr": "* * * * *", "tz": "../../etc/passwd"}, {"kind": "every", "everyMs": 0},
     {"kind": "every", "everyMs": True}, {"kind": "every", "everyMs": 10**30}, {"kind": "at", "at": "soon"},
     {"kind": "at", "at": "20m"}, {"kind": "at", "at": -5}, {"kind": "on-exit", "command": "true"}],
)  # fmt: skip
def test_what_is_no_schedule_says_so(raw: object) -> None:
    with pytest.raises(ConfigError) as problem:
        read_schedule(raw)
    assert problem.value.cure


@given(st.dictionaries(st.sampled_from(["kind", "at", "atMs", "everyMs", "anchorMs", "expr", "tz", "staggerMs"]),
                       st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text())))  # fmt: skip
def test_no_object_breaks_the_reader(raw: dict[str, object]) -> None:
    try:
        schedule = read_schedule(raw, job_id="j")
    except ConfigError:
        return
    due = schedule.after(ms(2026, 1, 1))
    assert due is None or due > ms(2026, 1, 1)


def test_jobs_at_the_full_hour_are_spread_and_each_keeps_its_place():
    offsets = {read_schedule({"expr": "0 * * * *"}, job_id=f"job-{n}").offset_ms for n in range(50)}
    assert len(offsets) > 40
    assert max(offsets) < 300_000
    assert read_schedule({"expr": "0 9 * * *"}, job_id="a").offset_ms == 0
    assert read_schedule({"expr": "0 * * * *", "staggerMs": 0}, job_id="a").offset_ms == 0
    spread = read_schedule({"expr": "0 * * * *"}, job_id="a")
    found = list(itertools.islice(spread.times(0), 3))
    assert [due - spread.offset_ms for due in found] == [0, 3_600_000, 7_200_000] or found[0] > 0


def test_hours_of_the_day():
    def at(hour: int, minute: int = 0) -> datetime:
        return datetime(2026, 5, 1, hour, minute)

    assert in_hours("08:00", "22:00", at(8))
    assert not in_hours("08:00", "22:00", at(22))
    assert in_hours("22:00", "06:00", at(23))
    assert in_hours("22:00", "06:00", at(5, 59))
    assert in_hours("09:00", "09:00", at(3))  # equal ones are the whole day
    assert in_hours("08:00", "24:00", at(23, 59))
    assert hours_begin("08:00", "22:00", at(23)) == datetime(2026, 5, 2, 8)
    with pytest.raises(ConfigError):
        in_hours("8am", "22:00", at(3))
