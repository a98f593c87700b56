"""What "yesterday" and its like mean to somebody: in three zones, around midnight and where the clock is set."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from homarus.core.clock import ManualClock
from homarus.memory import Memory
from homarus.memory.timex import find_spans

# (moment in UTC, zone, the day it is there): just before and after midnight, and around both changes of the clock
MOMENTS = [
    ("2026-06-15T23:59", "UTC", "2026-06-15"),
    ("2026-06-16T00:30", "UTC", "2026-06-16"),
    ("2026-03-29T00:30", "Europe/Berlin", "2026-03-29"),
    ("2026-03-28T23:30", "Europe/Berlin", "2026-03-29"),
    ("2026-10-24T22:30", "Europe/Berlin", "2026-10-25"),
    ("2026-03-08T04:59", "America/New_York", "2026-03-07"),
    ("2026-03-08T05:01", "America/New_York", "2026-03-08"),
    ("2026-11-02T04:30", "America/New_York", "2026-11-01"),
]
# phrase, first and last day counted from today
PHRASES = [
    ("today", 0, 0), ("tonight", 0, 0), ("yesterday", -1, -1), ("tomorrow", 1, 1), ("3 days ago", -3, -3), ("two days ago", -2, -2),
    ("a week ago", -10, -4), ("2 weeks ago", -17, -11), ("the past week", -7, 0), ("the last 3 days", -3, 0), ("past month", -31, 0),
    ("a couple of days ago", -2, -2), ("a few days ago", -3, -3), ("ten days ago", -10, -10), ("the past 2 weeks", -14, 0),
    ("last 7 days", -7, 0), ("an hour after tomorrow", 1, 1), ("several days ago", -4, -4), ("12 days ago", -12, -12), ("past year", -366, 0),
]  # fmt: skip


@pytest.mark.parametrize(("moment", "zone", "day"), MOMENTS)
def test_days_are_those_of_the_person(tmp_path, moment, zone, day):
    clock = ManualClock(datetime.fromisoformat(moment).replace(tzinfo=UTC))
    with Memory.open(tmp_path, provider="none", clock=clock, tz=ZoneInfo(zone)) as memory:
        today = memory.today()
        assert today.isoformat() == day
        assert memory.day("1d") == today - timedelta(days=1)
        for phrase, first, last in PHRASES:
            (span,) = find_spans(f"what happened {phrase}?", today)
            assert (span.first, span.last) == (today + timedelta(days=first), today + timedelta(days=last)), phrase
