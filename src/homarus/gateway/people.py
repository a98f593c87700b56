"""Who could answer a question right now. Where nobody attends to a session, every question is answered no, at once."""

from __future__ import annotations

from collections.abc import Callable

from homarus.core.events import ApprovalAsked, RunEvent
from homarus.core.routes import SessionKey
from homarus.tools.approval import Request

Emit = Callable[[RunEvent], None]


class People:
    """Puts the gate's questions to whoever attends to a session. It never answers by itself."""

    def __init__(self) -> None:
        self._here: dict[str, list[Emit]] = {}

    def arrive(self, session: SessionKey, emit: Emit) -> Callable[[], None]:
        """Note that a person watches this session and can answer; returns what notes that they left."""
        attending = self._here.setdefault(str(session), [])
        attending.append(emit)
        return lambda: attending.remove(emit) if emit in attending else None

    def reachable(self, request: Request) -> bool:
        """Say whether somebody attends to the session that asks."""
        return bool(self._here.get(request.session))

    async def announce(self, request: Request) -> None:
        """Show the question to everybody who attends."""
        asked = ApprovalAsked(request.id, request.summary, request.reason, request.expires_ms)
        for emit in tuple(self._here.get(request.session, ())):
            emit(asked)
