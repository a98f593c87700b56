"""Shorten old tool results, and leave out old images, in what is sent, never in what is stored. Decisions are remembered and replayed byte for byte.

A result that was shortened once is shortened in the same way in every later request, also after a restart; otherwise
each request would decide anew, and the provider's cached prefix would flip to and fro.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from homarus.context.settings import PruningSettings
from homarus.core.messages import Assistant, Image, Message, Part, Text, ToolResult, User

IMAGE_CHARS = 8_000
CUSTOM_TYPE = "openclaw.cache-ttl"

Kind = Literal["soft", "clear"]
SOFT: Kind = "soft"
LONG_CHARS = 4_000
NOTE_CHARS = 100  # what says that a result was shortened


class PruneState(Struct, frozen=True):
    """What was shortened so far, by the place of the result: its call id and how often that id came before."""

    touched_at: int = field(default=0, name="timestamp")
    cuts: dict[str, Kind] = {}
    head: int = 1_500
    tail: int = 1_500
    placeholder: str = "[Old tool result content cleared]"

    def to_data(self) -> dict[str, Any]:
        data: dict[str, Any] = msgspec.to_builtins(self)
        return data

    @classmethod
    def from_data(cls, data: Any) -> PruneState:
        """Read a state back from a transcript's custom entry; what is not ours or not understood is an empty state."""
        try:
            return msgspec.convert(data, cls) if isinstance(data, dict) and "cuts" in data else cls()
        except msgspec.ValidationError:
            return cls()


def apply_cuts(messages: Sequence[Message], state: PruneState) -> tuple[Message, ...]:
    """Return the history with everything shortened that was ever decided on."""
    if not state.cuts:
        return tuple(messages)
    keys = _keys(messages)
    return tuple(
        _shortened(message, state.cuts[keys[place]], state)
        if isinstance(message, ToolResult) and keys.get(place) in state.cuts
        else message
        for place, message in enumerate(messages)
    )


def decide(
    messages: Sequence[Message], state: PruneState, settings: PruningSettings, *, window: int, now: int
) -> PruneState:
    """Return the state after looking once more; the same object when nothing changes.

    Nothing is pruned while the provider still holds the prefix: that would cost more than it saves.
    """
    if settings.mode != "cache-ttl":
        return state
    # When a model last answered, its provider had this history in its cache.
    answers = (message.timestamp for message in reversed(messages) if isinstance(message, Assistant))
    touched = max(state.touched_at, next(answers, 0))
    if now - touched < settings.ttl_seconds * 1000:
        return state
    end = _protected_from(messages, settings.keep_last_assistants)
    start = next((place for place, message in enumerate(messages) if isinstance(message, User)), len(messages))
    keys = _keys(messages)
    room = window * 4
    cuts = dict(state.cuts)
    base = replace(
        state,
        head=settings.soft_trim.head_chars,
        tail=settings.soft_trim.tail_chars,
        placeholder=settings.hard_clear.placeholder,
    )
    shown = list(apply_cuts(messages, state))
    prunable = [place for place in range(start, end) if _prunable(messages[place], settings)]
    total = sum(map(_chars, shown))
    if total < settings.soft_trim_ratio * room:
        return state
    for place in prunable:
        if keys[place] not in cuts and _chars(shown[place]) > settings.soft_trim.max_chars:
            cuts[keys[place]] = "soft"
            total -= _replace(shown, place, messages[place], "soft", base)
    enough = sum(_chars(shown[place]) for place in prunable) >= settings.min_prunable_tool_chars
    if settings.hard_clear.enabled and enough:
        for place in prunable:
            if total < settings.hard_clear_ratio * room:
                break
            if cuts.get(keys[place]) != "clear":
                cuts[keys[place]] = "clear"
                total -= _replace(shown, place, messages[place], "clear", base)
    return replace(base, touched_at=now, cuts=cuts) if cuts != state.cuts else state


def shorten(messages: Sequence[Message], state: PruneState, *, now: int, keep: int | None = None) -> PruneState:
    """Return the state with every long result shortened: what is left to do when a history does not fit.

    `keep` is how many characters of a result may stay where that is less than usual; it holds for all that were shortened
    before, too. The same object comes back when there is nothing to gain.
    """
    keys = _keys(messages)
    most = LONG_CHARS if keep is None else keep + NOTE_CHARS
    long = {
        keys[place]: SOFT
        for place, message in enumerate(messages)
        if keys.get(place, "") not in state.cuts and isinstance(message, ToolResult) and len(message.text) > most
    }
    closer = keep is not None and keep < state.head + state.tail and bool(long or state.cuts)
    if not (long or closer):
        return state
    head = state.head if keep is None or not closer else keep - keep // 2
    tail = state.tail if keep is None or not closer else keep // 2
    return replace(state, touched_at=now, cuts={**state.cuts, **long}, head=head, tail=tail)


def _replace(shown: list[Message], place: int, original: Message, kind: Kind, state: PruneState) -> int:
    """Put the shortened form in place and return how many characters that saved."""
    assert isinstance(original, ToolResult)
    before = _chars(shown[place])
    shown[place] = _shortened(original, kind, state)
    return before - _chars(shown[place])


def _protected_from(messages: Sequence[Message], keep: int) -> int:
    """Return the place of the assistant message that is `keep`-th from the end; with fewer of them nothing is prunable.

    To keep none protects nothing.
    """
    if keep <= 0:
        return len(messages)
    places = [place for place, message in enumerate(messages) if isinstance(message, Assistant)]
    return places[-keep] if len(places) >= keep else 0


def _keys(messages: Sequence[Message]) -> dict[int, str]:
    seen: dict[str, int] = {}
    keys = {}
    for place, message in enumerate(messages):
        if isinstance(message, ToolResult):
            number = seen.get(message.call_id, 0)
            seen[message.call_id] = number + 1
            keys[place] = f"{message.call_id}#{number}"
    return keys


def _prunable(message: Message, settings: PruningSettings) -> bool:
    if not isinstance(message, ToolResult) or any(isinstance(part, Image) for part in message.parts):
        return False
    name = message.tool_name.lower()

    def matches(patterns: Sequence[str]) -> bool:
        return any(fnmatchcase(name, pattern.lower()) for pattern in patterns)

    return not matches(settings.tools.deny) and (not settings.tools.allow or matches(settings.tools.allow))


def _chars(message: Message) -> int:
    return sum(IMAGE_CHARS if isinstance(part, Image) else len(getattr(part, "text", "")) for part in message.parts)


def _shortened(result: ToolResult, kind: Kind, state: PruneState) -> ToolResult:
    if kind == "clear":
        return replace(result, parts=(Text(state.placeholder),))
    text = result.text
    if len(text) <= state.head + state.tail:
        return result
    note = f"[Shortened: the first {state.head:,} and last {state.tail:,} of {len(text):,} characters.]"
    tail = text[len(text) - state.tail :] if state.tail else ""
    return replace(result, parts=(Text(f"{text[: state.head]}\n...\n{tail}\n\n{note}"),))


KEEP_TURNS = 3
FADED = "[image data removed - already processed by model]"


def fade_images(messages: Sequence[Message], keep: int = KEEP_TURNS) -> tuple[Message, ...]:
    starts = [place for place, message in enumerate(messages) if isinstance(message, User)]
    if len(starts) <= keep + 1:
        return tuple(messages)
    edge = starts[-(keep + 1)]
    return tuple(_faded(message) if place < edge else message for place, message in enumerate(messages))


def _faded(message: Message) -> Message:
    if not any(isinstance(part, Image) for part in message.parts):
        return message
    parts: tuple[Part, ...] = tuple(Text(FADED) if isinstance(part, Image) else part for part in message.parts)
    return replace(message, parts=parts)
