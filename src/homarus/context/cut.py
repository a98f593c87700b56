"""Where a history is cut for a compaction: what is summarised, and what stays word for word. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from homarus.context.budget import estimate
from homarus.core.messages import Message, ToolResult
from homarus.sessions.entry import RUNTIME_CONTEXT, BranchSummary, Compaction, CustomMessage, Entry, MessageEntry
from homarus.sessions.view import View


class Cut(Struct, frozen=True):
    """A plan. `prefix` is the beginning of a turn that is itself too long; it is summarised apart from `history`."""

    first_kept: str
    history: tuple[Entry, ...]
    prefix: tuple[Entry, ...] = ()
    previous: str = ""

    @property
    def is_split(self) -> bool:
        return bool(self.prefix)

    @property
    def left_out(self) -> tuple[Entry, ...]:
        return (*self.history, *self.prefix)


def plan(view: View, keep_tokens: int, *, force: bool = False, again: bool = False) -> Cut | str:
    """Return the cut, or why there is none. With `force` a short history is cut, too: its newest turn alone is kept.

    With `again` also what the last compaction kept is cut, though nothing was said since: it was too much.
    """
    if isinstance(view.boundary, Compaction) and not (again or any(map(_speaks, view.after))):
        return "nothing was said since the last compaction"
    entries = (*view.kept, *view.after)
    place = _place(entries, keep_tokens)
    if force and (place is None or not any(map(_speaks, entries[:place]))):
        place = next((at for at in range(len(entries) - 1, -1, -1) if _is_user(entries[at])), None)
    if place is None or not any(map(_speaks, entries[:place])):
        return "there is nothing old enough to summarise"
    previous = view.boundary.summary if isinstance(view.boundary, Compaction) else ""
    start = _turn_start(entries, place)
    if start is not None and any(map(_speaks, entries[:start])) and _tokens(entries[start:place]) <= keep_tokens // 4:
        place, start = start, None  # a few words more, and the turn stays whole
    if start is None or start == place:
        return Cut(entries[place].id, entries[:place], (), previous)
    return Cut(entries[place].id, entries[:start], entries[start:place], previous)


def _place(entries: Sequence[Entry], keep_tokens: int) -> int | None:
    """Walk back until the tail is long enough, then go forward to the nearest entry where a cut is allowed."""
    total = 0
    reached = None
    for place in range(len(entries) - 1, -1, -1):
        message = said(entries[place])
        if message is not None:
            total += estimate(message)
        if total >= keep_tokens:
            reached = place
            break
    if reached is None:
        return None
    # Results that stand last cannot begin a tail: then their call does.
    places = (*range(reached, len(entries)), *range(reached - 1, -1, -1))
    valid: int | None = next((place for place in places if _may_begin(entries[place])), None)
    if valid is None:
        return None
    # Notes that stand right before the message belong to it.
    while valid > 0 and said(entries[valid - 1]) is None and not _is_carrier(entries[valid - 1]):
        valid -= 1
    return valid


def _turn_start(entries: Sequence[Entry], place: int) -> int | None:
    """Return where the turn began that the cut goes through, or None when the cut is between turns."""
    here = next((entry for entry in entries[place:] if _speaks(entry)), None)
    if here is None or _is_user(here):
        return None
    return next((start for start in range(place - 1, -1, -1) if _is_user(entries[start])), None)


def _tokens(entries: Sequence[Entry]) -> int:
    return sum(estimate(message) for entry in entries if (message := said(entry)) is not None)


def said(entry: Entry) -> Message | None:
    if isinstance(entry, MessageEntry | BranchSummary | CustomMessage):
        return entry.message
    return None


def _speaks(entry: Entry) -> bool:
    return said(entry) is not None


def _is_user(entry: Entry) -> bool:
    return isinstance(entry, MessageEntry) and entry.role == "user"


def _is_carrier(entry: Entry) -> bool:
    return isinstance(entry, CustomMessage) and entry.custom_type == RUNTIME_CONTEXT


def _may_begin(entry: Entry) -> bool:
    # A result without its call, or a turn's context without its message, cannot stand first.
    message = said(entry)
    return message is not None and not isinstance(message, ToolResult) and not _is_carrier(entry)
