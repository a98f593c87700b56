"""How a turn ended. The status is decided by what happened, never read from a text."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from homarus.agent.budget import Spent


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
