"""Changing what is in view without losing anything: go back in the log, and say again what follows, changed.

The entries that were there stay in the file, on a branch that nobody reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from homarus.context.cut import said
from homarus.core.messages import Assistant, Message, ToolResult
from homarus.sessions.entry import Entry, MessageEntry
from homarus.sessions.writer import SessionWriter

_OWN_FIELDS = frozenset({"type", "id", "parentId", "timestamp"})


class Rewritten(Struct, frozen=True):
    """What came of it; `freed` counts the characters that are no longer in view."""

    changed: bool
    freed: int = 0
    entries: int = 0
    reason: str = ""


class Rewriter:
    """Lets an engine shorten answers and results of a session that has come to rest. It stops working when that goes on."""

    def __init__(self, session: SessionWriter) -> None:
        self._session = session
        self._leaf = session.leaf

    @property
    def entries(self) -> tuple[tuple[str, Message], ...]:
        """Return what may be rewritten: the messages since the last boundary, with their ids."""
        found = ((entry, said(entry)) for entry in self._session.view.after if isinstance(entry, MessageEntry))
        return tuple((entry.id, message) for entry, message in found if isinstance(message, Assistant | ToolResult))

    def rewrite(self, changes: Mapping[str, Message]) -> Rewritten:
        """Put other messages in the place of some. What people said, and which call has which result, cannot be changed."""
        if self._session.leaf != self._leaf or self._session.open_calls:
            return Rewritten(False, reason="the session went on")
        there = dict(self.entries)
        for ident, message in changes.items():
            _check(ident, there.get(ident), message)
        real = {ident: message for ident, message in changes.items() if message != there[ident]}
        if not real:
            return Rewritten(False, reason="nothing changes")
        branch = list(self._session.branch)
        first = next(place for place, entry in enumerate(branch) if entry.id in real)
        if branch[first].parent_id is None:
            return Rewritten(False, reason="there is nothing before it to go back to")
        self._session.move_leaf(str(branch[first].parent_id))
        say_again(self._session, branch[first:], real)
        self._leaf = self._session.leaf
        freed = sum(len(there[ident].text) - len(message.text) for ident, message in real.items())
        return Rewritten(True, freed, len(real))


def say_again(session: SessionWriter, later: Sequence[Entry], changes: Mapping[str, Message] | None = None) -> None:
    """Append entries of another branch behind the newest one, some of them changed."""
    for entry in later:
        message = (changes or {}).get(entry.id) or said(entry)
        if isinstance(entry, MessageEntry) and message is not None:
            session.append_message(message)
        elif entry.type not in {"message", "leaf", "session"}:
            session.append(entry.type, {key: value for key, value in entry.data.items() if key not in _OWN_FIELDS})


def _check(ident: str, before: Message | None, after: Message) -> None:
    if before is None:
        raise ValueError(f"{ident!r} is not an answer or a result since the last boundary")
    same = type(before) is type(after)
    if isinstance(before, Assistant) and isinstance(after, Assistant):
        same = [call.id for call in before.calls] == [call.id for call in after.calls]
    elif isinstance(before, ToolResult) and isinstance(after, ToolResult):
        same = before.call_id == after.call_id
    if not same:
        raise ValueError(f"the message in the place of {ident!r} must be of its kind, with the same calls")
