"""When a job is due: `at`, `every` and `cron`, read from a job and asked for the next time. Pure; moments are milliseconds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Literal

from msgspec import Struct

from homarus.core.clock import epoch_ms
from homarus.core.errors import ConfigError
from homarus.core.patterns import late
from homarus.prompt.gather import find_zone

STAGGER_MS = 300_000  # jobs at the full hour would otherwise all ask their models in one second
SHORTEST_MS = 1_000
MOST_MISSED = 1_000
_DURATION = late(r"\+?\s*((?:\d+(?:\.\d+)?\s*(?:ms|s|m|h|d|w)\s*)+)")
_PIECE = late(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)")
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_LATEST = 253_402_300_799_000  # the year 9999
_NAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


class Schedule(Struct, frozen=True):
    """When a job runs. Every due time is a number that two readings of the same job agree on: it is a run's identity."""

    kind: Literal["at", "every", "cron"]
    at_ms: int = 0
    every_ms: int = 0
    anchor_ms: int = 0
    expr: str = ""
    zone: tzinfo = UTC
    offset_ms: int = 0

    def after(self, moment_ms: int) -> int | None:
        """Return the first due time after a moment; None when there is none any more."""
        return next(self.times(moment_ms), None)

    def times(self, moment_ms: int) -> Iterator[int]:
        """Yield due times after a moment, in order."""
        if self.kind == "at":
            if self.at_ms > moment_ms:
                yield self.at_ms
        elif self.kind == "every":
            step = max(0, (moment_ms - self.anchor_ms) // self.every_ms + 1)
            while True:
                yield self.anchor_ms + step * self.every_ms
                step += 1
        else:
            yield from self._cron(moment_ms)

    def _cron(self, moment_ms: int) -> Iterator[int]:
        from cronsim import CronSim

        start = datetime.fromtimestamp((moment_ms - self.offset_ms) / 1000, UTC)
        last = moment_ms
        # In the hour that a clock repeats the next match may lie before the moment: it was due the first time round.
        for found in CronSim(self.expr, start.astimezone(self.zone)):
            due = epoch_ms(found) + self.offset_ms
            if due > last:
                yield due
                last = due

    def missed(self, first_ms: int, now_ms: int) -> int:
        """Return how many due times came after the first one, up to now: they are made up for with it."""
        if self.kind == "every":
            return max(0, (now_ms - first_ms) // self.every_ms)
        count = 0
        for due in self.times(first_ms):
            if due > now_ms or count >= MOST_MISSED:
                break
            count += 1
        return count


def whole(value: Any) -> int | None:
    """Return a number of a file as an integer; None for what is none, endless, or no date that a computer can have."""
    usable = isinstance(value, int | float) and not isinstance(value, bool) and -_LATEST < value < _LATEST
    return int(value) if usable else None


def duration_ms(text: str) -> int | None:
    """Return a length of time such as `90s`, `1h30m` or `2d` in milliseconds; None for anything else."""
    match = _DURATION.fullmatch(text.strip().lower())
    found = sum(float(n) * _UNITS[u] for n, u in _PIECE.findall(match[1])) if match else 0.0
    return round(found) if match and found < _LATEST else None


def moment_ms(text: str, now_ms: int) -> int | None:
    """Return a moment given as ISO text (without a zone: UTC), as milliseconds, or as a length of time from now."""
    text = text.strip()
    if text.isdecimal():
        return int(text)
    length = duration_ms(text)
    if length is not None:
        return now_ms + length
    try:
        found = datetime.fromisoformat(text.upper().replace("Z", "+00:00") if text[-1:] in "zZ" else text)
    except ValueError:
        return None
    return epoch_ms(found if found.tzinfo else found.replace(tzinfo=UTC))


def read_schedule(raw: Any, *, job_id: str = "", created_ms: int = 0, host: tzinfo = UTC) -> Schedule:
    """Read the `schedule` of a job. Raises ConfigError that names the key and the cure."""
    if not isinstance(raw, dict):
        raise ConfigError("schedule is no object", cure='write {"kind": "cron", "expr": "0 9 * * *"}')
    kind = raw.get("kind") or _guess(raw)
    if kind == "at":
        return Schedule("at", at_ms=_at(raw))
    if kind == "every":
        every, anchor = whole(raw.get("everyMs")), whole(raw.get("anchorMs"))
        if every is None or every < SHORTEST_MS:
            raise ConfigError(
                f"schedule.everyMs is {raw.get('everyMs')!r}", cure=f"milliseconds, {SHORTEST_MS} at least"
            )
        return Schedule("every", every_ms=every, anchor_ms=anchor if anchor is not None and anchor >= 0 else created_ms)
    if kind == "cron":
        return _read_cron(raw, job_id, host)
    raise ConfigError(f"schedule.kind is {kind!r}", cure="use at, every or cron")


def _guess(raw: dict[str, Any]) -> str:
    words = {"at": "at", "atMs": "at", "everyMs": "every", "expr": "cron", "cron": "cron"}
    return next((kind for key, kind in words.items() if key in raw), "")


def _at(raw: dict[str, Any]) -> int:
    given = raw.get("at", raw.get("atMs"))
    found = whole(given)
    if isinstance(given, str) and given.strip() and duration_ms(given) is None:
        found = moment_ms(given, 0)
    if found is None or not 0 < found < _LATEST:
        raise ConfigError(f"schedule.at is {given!r}", cure="write a moment such as 2026-12-24T18:00:00+01:00")
    return found


def _read_cron(raw: dict[str, Any], job_id: str, host: tzinfo) -> Schedule:
    from cronsim import CronSim, CronSimError

    expr = raw.get("expr", raw.get("cron"))
    zone = host
    if name := raw.get("tz"):
        found = find_zone(str(name).strip())
        if found is None:
            raise ConfigError(
                f"schedule.tz {str(name)[:80]!r} is no time zone", cure="use a name such as Europe/Vienna"
            )
        zone = found
    text = _NAMES.get(str(expr).strip().lower(), str(expr).strip())
    try:
        next(CronSim(text, datetime(2026, 1, 1, tzinfo=UTC)))
    except (CronSimError, StopIteration) as problem:
        reason = str(problem) or "it never comes"
        cure = "five fields: minute hour day month weekday (six with seconds first), such as 0 9 * * 1-5"
        raise ConfigError(f"schedule.expr {str(expr)[:120]!r}: {reason}", cure=cure) from None
    return Schedule("cron", expr=text, zone=zone, offset_ms=_offset(raw, text, job_id))


def _offset(raw: dict[str, Any], expr: str, job_id: str) -> int:
    """Return by how much a job is put off so that not all of them begin at once: always the same for the same job."""
    given = whole(raw.get("staggerMs"))
    if given is not None:
        most = max(0, min(given, 3_600_000))
    else:
        fields = expr.split()
        most = STAGGER_MS if set(fields[:-4]) == {"0"} and "*" in fields[-4] else 0
    return int.from_bytes(hashlib.sha256(job_id.encode()).digest()[:6]) % most if most > 1 else 0


def in_hours(start: str, end: str, local: datetime) -> bool:
    """Say whether a time of day lies between two others, `HH:MM` each; an end before the start is after midnight."""
    first, last = minutes(start), minutes(end)
    now = local.hour * 60 + local.minute
    if first == last:
        return True
    return first <= now < last if first < last else now >= first or now < last


def hours_begin(start: str, end: str, local: datetime) -> datetime:
    """Return when the hours begin next, in the same zone."""
    begin = local.replace(hour=minutes(start) // 60 % 24, minute=minutes(start) % 60, second=0, microsecond=0)
    return begin if begin > local else begin + timedelta(days=1)


def minutes(text: str) -> int:
    """Return a time of day in minutes. Raises ConfigError for what is none."""
    hour, colon, minute = text.strip().partition(":")
    if not (hour.isdecimal() and (minute.isdecimal() or not colon)):
        raise ConfigError(f"'{text[:20]}' is no time of day", cure="write HH:MM, such as 08:00")
    found = int(hour) * 60 + int(minute or 0)
    if found > 1440:
        raise ConfigError(f"'{text[:20]}' is no time of day", cure="write HH:MM, 24:00 at most")
    return found
