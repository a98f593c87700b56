"""What of a branch a model sees: the part after its last boundary, as messages, and as a valid history. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.messages import Assistant, Message, Text, ToolCall, ToolResult, User
from homarus.sessions.codec import is_synthetic
from homarus.sessions.entry import (
    RUNTIME_CONTEXT,
    BranchSummary,
    Compaction,
    CustomMessage,
    Entry,
    Leaf,
    MessageEntry,
    Reset,
)
from homarus.sessions.repair import STRICT, Rules, repair


class View(Struct, frozen=True):
    """The part of a branch that is in view: its last boundary, what that keeps from before, and all that followed."""

    boundary: Compaction | Reset | None
    kept: tuple[Entry, ...]
    after: tuple[Entry, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (*self.kept, *((self.boundary,) if self.boundary else ()), *self.after)


def visible(branch: Sequence[Entry]) -> View:
    for place in range(len(branch) - 1, -1, -1):
        boundary = branch[place]
        if isinstance(boundary, Compaction | Reset):
            start = next((i for i in range(place) if branch[i].id == boundary.first_kept), place)
            kept = tuple(entry for entry in branch[start:place] if not isinstance(entry, Compaction | Reset))
            return View(boundary, kept, tuple(branch[place + 1 :]))
    return View(None, (), tuple(branch))


def project(view: View) -> list[Message]:
    messages: list[Message] = [view.boundary.message] if isinstance(view.boundary, Compaction) else []
    words = isinstance(view.boundary, Reset)
    speak(view.kept, messages, words_only=words)
    speak(view.after, messages)
    return messages


def speak(entries: Iterable[Entry], messages: list[Message], *, words_only: bool = False) -> None:
    """Add what entries say to a list. The volatile text of a turn joins the user message it rode on."""
    for entry in entries:
        if isinstance(entry, CustomMessage) and entry.custom_type == RUNTIME_CONTEXT:
            # A context that does not directly follow its user message is dropped.
            if messages and isinstance(last := messages[-1], User):
                joined = f"{last.context}\n\n{entry.text}" if last.context else entry.text
                messages[-1] = replace(last, context=joined)
        elif isinstance(entry, MessageEntry | BranchSummary | CustomMessage):
            message = entry.message
            if message is not None and words_only:
                message = _words_only(message)
            if message is not None:
                messages.append(message)


def _words_only(message: Message) -> Message | None:
    if isinstance(message, ToolResult):
        return None
    if isinstance(message, Assistant):
        words = tuple(part for part in message.parts if not isinstance(part, ToolCall))
        said = any(isinstance(part, Text) and part.text.strip() for part in words)
        return replace(message, parts=words) if said else None
    return message


class History:
    """The repaired history of a growing branch: equal at any time to `repair(project(view))` of all that it was given.

    A turn that nothing later can change is settled and not repaired again, so a turn costs what it adds.
    """

    def __init__(self, view: View, rules: Rules = STRICT) -> None:
        self._first, self._later = rules, replace(rules, user_first=False)
        self._told: tuple[Message, ...] | None = None
        self._begin([])
        messages = project(view)
        turns = (i for i in range(len(messages) - 1, 0, -1) if isinstance(messages[i], User))
        start = next((i for i in turns if isinstance(messages[i - 1], Assistant)), 0)
        self._open = messages[:start]
        self._settle()
        rest = messages[start:] if self._settled else messages
        self._open = []
        if not all(self._take(message) for message in rest):
            # A result of an earlier turn's call: only all messages together tell where it belongs.
            self._begin(messages)

    def _begin(self, messages: list[Message]) -> None:
        self._settled: list[Message] = []
        self._used: set[str] = set()
        self._noted: set[str] = set()  # settled calls whose result is a note: a real one may still come for them
        self._open = messages  # the turn that still goes on, not repaired
        self._asked = _call_ids(messages)

    @property
    def messages(self) -> tuple[Message, ...]:
        if self._told is None:
            self._told = (*self._settled, *self._repaired())
        return self._told

    def extend(self, entry: Entry) -> bool:
        """Take one more entry of the branch; False when it changes what stands before it and a new history is due."""
        if isinstance(entry, Compaction | Reset | Leaf):
            return False
        self._told = None
        said = self._open[-1:]
        known = len(said)
        speak((entry,), said)
        self._open[-1:] = said[:known]  # the volatile text of a turn joins its user message
        return all(self._take(message) for message in said[known:])

    def _take(self, message: Message) -> bool:
        if isinstance(message, ToolResult):
            if message.call_id in self._noted or message.call_id not in self._asked:
                return False
        elif isinstance(message, User):
            self._settle()
        else:
            self._asked.update(call.id for call in message.calls)
        self._open.append(message)
        return True

    def _settle(self) -> None:
        """Close the turn if nothing that comes later can change how it reads."""
        if not self._open or not isinstance(self._open[-1], Assistant) or not _is_sound(self._open):
            return
        done = self._repaired()
        if done and isinstance(done[-1], Assistant) and not done[-1].calls:
            self._settled += done
            self._used |= _call_ids(done)
            self._noted |= {m.call_id for m in self._open if isinstance(m, ToolResult) and is_synthetic(m)}
            self._open, self._asked = [], set()

    def _repaired(self) -> tuple[Message, ...]:
        return repair(self._open, self._later if self._settled else self._first, used=self._used)


def _call_ids(messages: Iterable[Message]) -> set[str]:
    return {call.id for message in messages if isinstance(message, Assistant) for call in message.calls}


def _is_sound(messages: list[Message]) -> bool:
    """Say whether each call and each result has its other half in the same frame, so that none can go elsewhere."""
    called: list[str] = []
    owed: list[str] = []
    for message in messages:
        if isinstance(message, Assistant) and (calls := message.calls):
            if owed:
                return False
            called = [call.id for call in calls]
            owed = list(called)
        elif isinstance(message, ToolResult):
            if message.call_id not in called:
                return False
            if message.call_id in owed:
                owed.remove(message.call_id)
    return not owed
