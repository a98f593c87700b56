"""What automation needs of the running program: to run a turn, to reach people, and little more."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol

from msgspec import Struct

from homarus.core.messages import Inbound, Usage
from homarus.core.routes import SessionKey


class Ran(Struct, frozen=True, kw_only=True):
    """How a turn ended, with what matters to whoever ordered it."""

    status: str  # ok, error, aborted or timeout
    text: str = ""
    error: str = ""
    usage: Usage = Usage()
    calls: int = 0
    seconds: float = 0.0
    session_id: str = ""
    model: str = ""
    # The agent wrote to somebody itself, so its last words need not be brought to anybody.
    sent: bool = False
    # A person spoke into the turn: they have the answer.
    joined: bool = False
    # It used tools, so it is more than an acknowledgement.
    acted: bool = False

    @property
    def ok(self) -> bool:
        return self.status == "ok"


class Starter(Protocol):
    """Filled by the composition root. None of these raises for a failure of a model or of a channel."""

    def start(self, key: SessionKey, inbound: Inbound, *, fresh: bool = False) -> Awaitable[Ran]:
        """Accept a message into its session; the result is how its turn ended. It is durable when this returns.

        With `fresh` the conversation begins with it. The same message id runs once, in whichever process: asked again, this
        waits for that run or finds its answer in the log.
        """
        ...

    def busy(self, key: SessionKey) -> bool:
        """Say whether a turn runs or waits in a session."""
        ...

    async def deliver(
        self, session: SessionKey, target: dict[str, Any], text: str, ident: str, *, said: SessionKey | None = None
    ) -> str:
        """Bring words to a person, once per `ident`; return why that was not possible, or nothing.

        `target` has `channel` (`last` is where the session was talked in last), `to`, `accountId` and `threadId`. `said` is
        the session whose transcript has the words already.
        """
        ...

    def delivered(self, ident: str) -> bool:
        """Say whether words went to a person under this id, in this process or before a crash; they are durable then."""
        ...

    def reaches(self, session: SessionKey, target: dict[str, Any]) -> str:
        """Return why nobody can be reached there, or nothing."""
        ...

    async def take_back(self, key: SessionKey, inbound: Inbound) -> None:
        """Take a message and its answer out of what the next turn sees; nothing happens if somebody spoke since."""
        ...

    async def release(self, key: SessionKey) -> None:
        """Let go of a session that nobody will talk in again."""
        ...
