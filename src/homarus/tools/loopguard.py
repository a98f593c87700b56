"""Notice when a run goes in circles. Pure but for a short memory of the run's last calls.

OpenClaw has these detectors off by default; a night of identical calls costs real money, so ours are on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property
from itertools import islice, takewhile
from typing import Any

import msgspec
from msgspec import Struct

from homarus.core.messages import ToolCall, ToolResult
from homarus.core.patterns import late

HISTORY = 30
WARN, CRITICAL, UNKNOWN, BREAKER = 10, 20, 10, 30
AFTER_COMPACTION = 3
COMPACTION_LOOP = "compaction_loop_persisted"

_POLLS = {("process", "poll"), ("process", "log")}
_VOLATILE = frozenset({"durationMs", "pid", "sessionId", "cwd", "messageId", "startedAt", "endedAt", "runId"})
# What differs between equal outcomes: random marks, and how long something took.
_PASSING = late(
    r"\b(?:(?:id|nonce)=[\"']?[0-9a-f]{6,}[\"']?|[0-9a-f]{8}-[0-9a-f-]{27}\b|\d+(?:\.\d+)? ?(?:ms|s|seconds)\b)"
)
_CANONICAL = msgspec.json.Encoder(order="deterministic", enc_hook=str)


class LoopSettings(Struct, frozen=True, rename="camel"):
    """`tools.loopDetection`. Unset means on; an explicit false also switches the guard after a compaction off."""

    enabled: bool | None = None
    history_size: int = HISTORY
    warning_threshold: int = WARN
    critical_threshold: int = CRITICAL
    unknown_tool_threshold: int = UNKNOWN
    global_circuit_breaker_threshold: int = BREAKER


class Level(StrEnum):
    FINE = "fine"
    WARNING = "warning"
    CRITICAL = "critical"


class Verdict(Struct, frozen=True):
    """What to do about a call. A warning is told to the model; a critical call is not run."""

    level: Level = Level.FINE
    detector: str = ""
    text: str = ""


class _Past(Struct, frozen=True, dict=True):
    """One call that ran. What came of it is worked out only where two calls are compared: results can be long."""

    tool: str
    call: str
    result: ToolResult
    known: bool

    @cached_property
    def outcome(self) -> int:
        return outcome(self.result)


FINE = Verdict()


class LoopGuard:
    """The memory of one run's calls. `check` before a call, `note` after it."""

    def __init__(self, settings: LoopSettings) -> None:
        self._settings = settings
        self._on = settings.enabled is not False
        self._past: deque[_Past] = deque(maxlen=max(settings.history_size, settings.global_circuit_breaker_threshold))
        self._since_compaction: list[_Past] | None = None

    def check(self, call: ToolCall, *, known: bool) -> Verdict:
        """Judge a call before it runs; the most serious verdict wins."""
        if not self._on:
            return FINE
        now = signature(call)
        detectors = (self._unknown, self._breaker, self._repeat, self._ping_pong, self._churn)
        found = [detector(call, now, known) for detector in detectors]
        worst = [verdict for level in (Level.CRITICAL, Level.WARNING) for verdict in found if verdict.level is level]
        return worst[0] if worst else FINE

    def note(self, call: ToolCall, result: ToolResult, *, known: bool) -> str:
        """Remember a call and its outcome; return a reason when the run must end because a compaction did not help."""
        past = _Past(call.name, signature(call), result, known)
        self._past.append(past)
        if self._since_compaction is None or not self._on:
            return ""
        self._since_compaction.append(past)
        if len(self._since_compaction) < AFTER_COMPACTION:
            return ""
        window, self._since_compaction = self._since_compaction, None
        return COMPACTION_LOOP if len({(past.call, past.outcome) for past in window}) == 1 else ""

    def compacted(self) -> None:
        """Watch the next calls: a run that repeats itself right after a compaction will do so for ever."""
        self._since_compaction = []

    def _unknown(self, call: ToolCall, _now: str, known: bool) -> Verdict:
        if known:
            return FINE
        count = 1 + sum(not past.known and past.tool == call.name for past in self._past)
        if count < self._settings.unknown_tool_threshold:
            return FINE
        return _critical("unknown_tool_repeat", f"'{call.name}' was called {count} times and does not exist")

    def _breaker(self, _call: ToolCall, _now: str, _known: bool) -> Verdict:
        count = self._settings.global_circuit_breaker_threshold
        if len(self._past) < count:
            return FINE
        # From the newest back: a run that moves is told from one that does not by its last two calls.
        newest = self._past[-1]
        if any(
            past.tool != newest.tool or past.outcome != newest.outcome for past in islice(reversed(self._past), count)
        ):
            return FINE
        return _critical("global_circuit_breaker", f"the last {count} calls all had the same outcome")

    def _repeat(self, call: ToolCall, now: str, _known: bool) -> Verdict:
        same = [past for past in self._past if past.call == now]
        poll = (call.name, str(call.arguments.get("action", ""))) in _POLLS
        if poll:
            # Polling is repetition by nature: only a row of equal answers counts.
            same = list(takewhile(lambda past: past.outcome == same[-1].outcome, reversed(same)))
        name = "known_poll_no_progress" if poll else "generic_repeat"
        count = len(same) + 1
        if same and count >= self._settings.critical_threshold and _alike(same):
            return _critical(
                name, f"'{call.name}' was called {count} times with the same arguments and the same result"
            )
        if count >= self._settings.warning_threshold:
            return _warning(name, f"'{call.name}' was now called {count} times with the same arguments")
        return FINE

    def _ping_pong(self, call: ToolCall, now: str, _known: bool) -> Verdict:
        past = self._past
        if not past or past[-1].call == now:
            return FINE
        other = past[-1].call
        row: list[_Past] = []
        for item in reversed(past):
            if item.call != (now if len(row) % 2 else other):
                break
            row.append(item)
        count = len(row) + 1
        # The two sides take turns.
        if count >= self._settings.critical_threshold and _alike(row[::2]) and _alike(row[1::2]):
            return _critical(
                "ping_pong", f"the last {count} calls alternate between the same two, with the same results"
            )
        if count >= self._settings.warning_threshold:
            return _warning("ping_pong", f"the last {count} calls alternate between the same two")
        return FINE

    def _churn(self, call: ToolCall, now: str, _known: bool) -> Verdict:
        least = self._settings.warning_threshold - 1
        same = takewhile(lambda past: past.tool == call.name, reversed(self._past))
        row = list(takewhile(lambda past: past.outcome == self._past[-1].outcome, same))
        variants = {past.call for past in row} | {now}
        if len(row) < least or len(variants) < 3:
            return FINE
        return _warning(
            "argument_churn", f"'{call.name}' gave the same result {len(row)} times, whatever the arguments"
        )


def signature(call: ToolCall) -> str:
    """Return what makes two calls the same: the tool and its arguments in canonical order."""
    return f"{call.name}:{_digest(call.arguments)}"


def outcome(result: ToolResult) -> int:
    """Return what makes two results the same; durations, process ids and random marks do not count."""
    lasting = {key: value for key, value in (result.details or {}).items() if key not in _VOLATILE}
    return _digest([result.is_error, lasting, _PASSING.sub("", result.text)])


def _alike(items: Sequence[_Past]) -> bool:
    return all(item.outcome == items[0].outcome for item in items)


def _digest(value: Any) -> int:
    try:
        return hash(_CANONICAL.encode(value))
    except UnicodeEncodeError:  # half a character, which a model may well name
        return hash(repr(value))


def _warning(detector: str, what: str) -> Verdict:
    text = f"[Loop warning: {what}. If this brings nothing new, do something else or say what is missing.]"
    return Verdict(Level.WARNING, detector, text)


def _critical(detector: str, what: str) -> Verdict:
    text = f"Not run: {what}. Stop repeating this. Answer with what you have, or say what you need."
    return Verdict(Level.CRITICAL, detector, text)
