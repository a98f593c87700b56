"""How often somebody may try: wrong credentials per address, writes per caller. Bounded, whoever asks."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable

from homarus.gateway.protocol import Code, Refused
from homarus.gateway.settings import RateLimit

MAX_KEYS = 10_000
WRITES, WRITES_SECONDS = 30, 60.0


class Failures:
    """Counts wrong credentials by whom and what. Success forgives only the matching kind."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._seen: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()
        self._locked: OrderedDict[tuple[str, str], float] = OrderedDict()

    def check(self, who: str, kind: str) -> None:
        """Raise Refused while somebody is locked out."""
        until = self._locked.get((who, kind), 0.0)
        left = until - self._now()
        if left > 0:
            details = {"code": "AUTH_RATE_LIMITED"}
            raise Refused("too many failed attempts; try again later", details=details, retry_ms=int(left * 1000) + 1)

    def failed(self, who: str, kind: str, rules: RateLimit) -> None:
        key, now = (who, kind), self._now()
        times = self._seen.setdefault(key, deque(maxlen=max(1, rules.max_attempts)))
        self._seen.move_to_end(key)
        while times and now - times[0] > rules.window_ms / 1000:
            times.popleft()
        times.append(now)
        if len(times) >= rules.max_attempts:
            self._locked[key] = now + rules.lockout_ms / 1000
            self._locked.move_to_end(key)
            del self._seen[key]
        for table in (self._seen, self._locked):
            while len(table) > MAX_KEYS:
                table.popitem(last=False)

    def forgive(self, who: str, kind: str) -> None:
        self._seen.pop((who, kind), None)


class Writes:
    """Keeps changes of the configuration and the like to thirty a minute for each method and caller."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._times: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()

    def take(self, method: str, who: str) -> None:
        now = self._now()
        times = self._times.setdefault((method, who), deque())
        self._times.move_to_end((method, who))
        while times and now - times[0] > WRITES_SECONDS:
            times.popleft()
        if len(times) >= WRITES:
            left = int((WRITES_SECONDS - (now - times[0])) * 1000) + 1
            raise Refused(f"{method} was called too often", Code.UNAVAILABLE, retry_ms=left)
        times.append(now)
        while len(self._times) > MAX_KEYS:
            self._times.popitem(last=False)
