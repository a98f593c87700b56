"""The repaired history of a growing branch: what is settled is not repaired again, so a turn costs what it adds."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from homarus.core.messages import Assistant, Message, ToolCall, ToolResult, User
from homarus.sessions.codec import is_synthetic
from homarus.sessions.entry import BranchSummary, Compaction, CustomMessage, Entry, Leaf, MessageEntry, Reset
from homarus.sessions.repair import STRICT, Fitting, Rules, has_calls, repair
from homarus.sessions.view import View, project, speak


class History:
    """Equal at any time to `repair(project(view))` of all that it was given, for one set of rules."""

    def __init__(self, view: View, rules: Rules = STRICT) -> None:
        self.rules = rules
        self._later = replace(rules, user_first=False)
        self._settled: list[Message] = []
        self._used: set[str] = set()
        self._noted: set[str] = set()  # settled calls whose result is a note: a real one may still come for them
        self._open: list[Message] = []  # the turn that still goes on, not repaired
        # The beginning of both, as it was given last: a history of thousands of messages is not put together anew.
        self._told: tuple[Message, ...] = ()
        # How far the open turn was looked at, and the calls in it; None where it must be looked at anew.
        self._seen: _Seen | None = None
        self._asked: set[str] | None = None
        self._start(project(view))

    def _start(self, messages: list[Message]) -> None:
        """Settle everything before the last turn at once."""
        turns = (i for i in range(len(messages) - 1, 0, -1) if isinstance(messages[i], User))
        start = next((i for i in turns if isinstance(messages[i - 1], Assistant)), 0)
        self._open = messages[:start]
        self._settle()
        rest = messages if self._open else messages[start:]
        self._open, self._seen, self._asked = [], None, None
        if not all(self._take(message) for message in rest):
            # A result of an earlier turn's call: only all messages together tell where it belongs.
            self._settled, self._used, self._noted = [], set(), set()
            self._open, self._seen, self._asked = messages, None, None

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return the history as a provider takes it."""
        if not self._sound_so_far():
            return (*self._settled, *self._repaired())
        told, settled = len(self._told), len(self._settled)
        if told < settled:
            self._told += (*self._settled[told:], *self._open)
        elif told < settled + len(self._open):
            self._told += tuple(self._open[told - settled :])
        return self._told

    def extend(self, entry: Entry) -> bool:
        """Take one more entry of the branch; False when it changes what stands before it and a new history is due."""
        if type(entry) is MessageEntry:
            return entry.message is None or self._take(entry.message)
        if isinstance(entry, Compaction | Reset | Leaf):
            return False
        if not isinstance(entry, BranchSummary | CustomMessage):
            return True
        said = self._open[-1:]
        known = len(said)
        speak((entry,), said)
        if said[:known] != self._open[-1:]:
            self._open[-1:] = said[:known]  # the volatile text of a turn joins its user message
            self._seen = self._asked = None
            self._told = ()
        return all(self._take(message) for message in said[known:])

    def _take(self, message: Message) -> bool:
        if type(message) is ToolResult:
            if message.call_id in self._noted or not self._called(message.call_id):
                return False
        elif type(message) is User:
            self._settle()
        elif self._asked is not None:
            for part in message.parts:
                if type(part) is ToolCall:
                    self._asked.add(part.id)
        self._open.append(message)
        return True

    def _called(self, call_id: str) -> bool:
        if self._asked is None:
            self._asked = _ids(self._open)
        return call_id in self._asked

    def _settle(self) -> None:
        """Close the turn if nothing that comes later can change how it reads."""
        if not self._open or not isinstance(self._open[-1], Assistant):
            return
        whole = self._sound_so_far()
        if not whole:
            self._told = ()
            if not _sound(self._open):
                return
        done = self._open if whole else self._repaired()
        if done and isinstance(done[-1], Assistant) and not done[-1].calls:
            self._settled += done
            self._used |= _ids(done)
            self._noted |= {m.call_id for m in self._open if isinstance(m, ToolResult) and is_synthetic(m)}
            self._open, self._seen, self._asked = [], None, None

    def _repaired(self) -> tuple[Message, ...]:
        return repair(self._open, self._rules_now, used=self._used)

    def _sound_so_far(self) -> bool:
        """Say whether the open turn may be sent as it is, looking only at what came since the last time."""
        if self._seen is None:
            self._seen = _Seen(Fitting(self._rules_now, self._used))
        return self._seen.all(self._open)

    @property
    def _rules_now(self) -> Rules:
        return self._later if self._settled else self.rules


class _Seen:
    """How far a growing list of messages was looked at."""

    def __init__(self, fitting: Fitting) -> None:
        self._fitting = fitting
        self._count = 0
        self._fine = True

    def all(self, messages: list[Message]) -> bool:
        """Look at what is new and say whether all of it may be sent as it is."""
        while self._fine and self._count < len(messages):
            self._fine = self._fitting.take(messages[self._count])
            self._count += 1
        return self._fine and self._fitting.closed


def _ids(messages: Iterable[Message]) -> set[str]:
    """Return the ids of the calls."""
    return {
        part.id
        for message in messages
        if type(message) is Assistant
        for part in message.parts
        if type(part) is ToolCall
    }


def _sound(messages: list[Message]) -> bool:
    """Say whether each call and each result has its other half in the same frame, so that none can go elsewhere."""
    called: list[str] = []
    owed: list[str] = []
    for message in messages:
        if isinstance(message, Assistant) and has_calls(message):
            if owed:
                return False
            called = [call.id for call in message.calls]
            owed = list(called)
        elif isinstance(message, ToolResult):
            if message.call_id not in called:
                return False
            if message.call_id in owed:
                owed.remove(message.call_id)
    return not owed
