"""How a turn ended, and how its log says so. The status is decided by what happened, never read from a text."""

from __future__ import annotations

from enum import StrEnum

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


def note_end(session: SessionWriter, outcome: Outcome) -> None:
    """Note in the log that a turn is over which does not end there with words of the model: who reads along waits for them."""
    data = {"status": outcome.status.value, "error": outcome.error}
    session.append("custom", {"customType": ENDED, "data": data}, durable=False)


def end_in(entry: Entry) -> Outcome | None:
    """Return the end of a turn that an entry notes; None for any other entry."""
    data = entry.data.get("data") if isinstance(entry, Custom) and entry.custom_type == ENDED else None
    if not isinstance(data, dict) or data.get("status") not in set(Status):
        return None
    return Outcome(Status(data["status"]), error=str(data.get("error") or ""))
