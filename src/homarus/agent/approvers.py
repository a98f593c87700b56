"""Who could answer a question right now. Where nobody attends to a session, every question is answered no, at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from homarus.core.events import ApprovalAsked, RunEvent
from homarus.core.routes import SessionKey

if TYPE_CHECKING:
    from homarus.tools.approval import Request


Emit = Callable[[RunEvent], None]


class People:
    """Puts the gate's questions to whoever attends to a session. It never answers by itself.

    Nobody attends to a child: its questions go to whoever attends to the session that it works for. `root_of` says which
    one that is.
    """

    def __init__(self, root_of: Callable[[str], str] = lambda session: session) -> None:
        self._here: dict[str, list[Emit]] = {}
        self._root_of = root_of

    def arrive(self, session: SessionKey, emit: Emit) -> Callable[[], None]:
        """Note that a person watches this session and can answer; returns what notes that they left."""
        attending = self._here.setdefault(str(session), [])
        attending.append(emit)
        return lambda: attending.remove(emit) if emit in attending else None

    def reachable(self, request: Request) -> bool:
        """Say whether somebody attends to the session that asks, or to the one that it works for."""
        return bool(self._attending(request))

    async def announce(self, request: Request) -> None:
        """Show the question to everybody who attends: any one of them tells all who listen, so one is asked to."""
        own = bool(self._here.get(request.session))
        reason = request.reason if own else f"a sub-agent asks: {request.reason}"
        asked = ApprovalAsked(request.id, request.summary, reason, request.expires_ms)
        for emit in self._attending(request)[:1]:
            emit(asked)

    def _attending(self, request: Request) -> tuple[Emit, ...]:
        return tuple(self._here.get(request.session) or self._here.get(self._root_of(request.session)) or ())
