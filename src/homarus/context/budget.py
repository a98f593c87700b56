"""How many tokens a session has and may have. The provider's own count is the anchor; only what came later is estimated."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from homarus.context.settings import CompactionSettings
from homarus.core.messages import Assistant, Image, Message, Part, StopReason, Text, Thinking, ToolCall, User
from homarus.core.text import estimate_tokens

IMAGE_TOKENS = 2_000
OVERHEAD_TOKENS = 4
_LOW, _HIGH = 0.5, 2.0
_UNFINISHED = frozenset({StopReason.ERROR, StopReason.ABORTED})


# Below this a conversation goes on only where the prompt leaves room for one: for a question and what was said before, for
# one result of a tool, and for an answer.
SMALL_WINDOW = 4_096
LEAST_ROOM = 768
ANSWER_ROOM = 256


def most_for(window: int) -> int:
    """Return how many tokens a request may have: what is left of the window is the least that an answer needs."""
    return window - min(ANSWER_ROOM, window // 8)


def least_room(window: int) -> int:
    """Return how many tokens prompt and tools must leave of a window for a conversation to go on in it."""
    return LEAST_ROOM if window < SMALL_WINDOW else 1


class Budget(Struct, frozen=True):
    """The lines of one window: where memory is saved, where history is compacted, and what stays free for the answer."""

    window: int
    reserve: int
    soft: int

    @property
    def compact_above(self) -> int:
        """Return the size that a history may have at most before the next call."""
        return self.window - self.reserve

    @property
    def full_at(self) -> int:
        """Return the size from which on everything is done to make a history shorter, because estimates are not exact."""
        return self.window - min(2 * ANSWER_ROOM, self.window // 8)

    @property
    def most(self) -> int:
        """Return the size that no request may pass."""
        return most_for(self.window)

    @property
    def flush_at(self) -> int:
        """Return the size at which memory is saved, so that it happens before the compaction and not during it."""
        return self.window - self.reserve - self.soft


def budget_for(window: int, settings: CompactionSettings, fixed: int = 0) -> Budget:
    """Return the lines for a model's window; a small window gives a quarter of itself at most.

    `fixed` is the size of system prompt and tool schemas: memory is saved when half of what they leave is full, not before.
    """
    reserve = min(max(settings.reserve_tokens, settings.reserve_tokens_floor), window // 4)
    soft = min(settings.memory_flush.soft_threshold_tokens, max(0, window - reserve - fixed) // 2)
    return Budget(window, reserve, soft)


def estimate(message: Message) -> int:
    total = OVERHEAD_TOKENS
    for part in message.parts:
        total += estimate_tokens(part.text) if type(part) is Text else _part(part)
    return total + estimate_tokens(message.context) if type(message) is User and message.context else total


def _part(part: Part) -> int:
    match part:
        case Text(text=text) | Thinking(text=text):
            return estimate_tokens(text)
        case ToolCall(name=name, arguments=arguments):
            return estimate_tokens(name) + estimate_tokens(msgspec.json.encode(arguments, enc_hook=str).decode())
        case Image():
            return IMAGE_TOKENS


def measure(messages: Sequence[Message], *, fixed: int = 0, since: int = 0, line: int = 0) -> int:
    """Return the tokens of a history as its next request will have them.

    `fixed` is the size of system prompt and tool schemas; it counts only where no provider has counted it already. Counts
    from before the moment `since` are not believed: they belong to a history that was longer. Whoever wants to know only
    whether it is below a `line` gets the most that it can be, where that is.
    """
    anchor = _anchor(messages, len(messages), since)
    if anchor is None:
        return fixed + sum(map(estimate, messages))
    place, newest = anchor
    counted, later = newest.usage.total, sum(map(estimate, messages[place + 1 :]))
    most = counted + round(later * _HIGH)
    return most if most < line else counted + round(later * _ratio(messages, place, newest, since))


def _anchor(messages: Sequence[Message], end: int, since: int) -> tuple[int, Assistant] | None:
    """Return the newest answer before `end` whose usage can be trusted, and its place."""
    for place in range(end - 1, -1, -1):
        message = messages[place]
        if type(message) is not Assistant or not message.usage.total or message.stop_reason in _UNFINISHED:
            continue
        if not since or message.timestamp > since:
            return place, message
    return None


def _ratio(messages: Sequence[Message], place: int, newest: Assistant, since: int) -> float:
    """Return how far the provider's count was from ours between its last two answers, within bounds."""
    before = _anchor(messages, place, since)
    if before is None:
        return 1.0
    counted = newest.usage.prompt - before[1].usage.total
    guessed = sum(map(estimate, messages[before[0] + 1 : place]))
    if counted <= 0 or guessed < 50:
        return 1.0
    return max(_LOW, min(_HIGH, counted / guessed))
