"""How a turn ended, and how its log says so. The status is decided by what happened, never read from a text."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from homarus.agent.budget import Spent
from homarus.sessions.entry import Custom, Entry
from homarus.sessions.writer import SessionWriter

ENDED = "homarus.turn-ended"


class Status(StrEnum):
    OK = "ok"
    ERROR = "error"
    ABORTED = "aborted"
    TIMEOUT = "timeout"


class Outcome(Struct, frozen=True):
    """What a turn came to. `text` is the last visible text, before delivery shapes it."""

    status: Status
    text: str = ""
    error: str = ""
    spent: Spent = Spent()
    ended_by_tool: str = ""

    @property
    def ok(self) -> bool:
        return self.status is Status.OK


def note_end(session: SessionWriter, outcome: Outcome, unheard: Sequence[str] = ()) -> None:
    """Note in the log that a turn is over which does not end there with words of the model: who reads along waits for them.

    `unheard` are the keys of messages that are not there, because the turn ended before it began.
    """
    data: dict[str, Any] = {"status": outcome.status.value, "error": outcome.error}
    if unheard:
        data["unheard"] = list(unheard)
    session.append("custom", {"customType": ENDED, "data": data}, durable=False)


def end_in(entry: Entry) -> Outcome | None:
    """Return the end of a turn that an entry notes; None for any other entry."""
    data = entry.data.get("data") if isinstance(entry, Custom) and entry.custom_type == ENDED else None
    if not isinstance(data, dict) or data.get("status") not in set(Status):
        return None
    return Outcome(Status(data["status"]), error=str(data.get("error") or ""))


def unheard_in(entry: Entry) -> tuple[str, ...]:
    """Return the keys of the messages of a turn that ended before it began, where an entry notes that."""
    keys = entry.data["data"].get("unheard") if isinstance(entry, Custom) and end_in(entry) is not None else None
    return tuple(key for key in keys if isinstance(key, str)) if isinstance(keys, list) else ()
