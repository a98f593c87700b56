"""The three sizes of a prompt, and which one a session gets."""

from __future__ import annotations

from enum import StrEnum

from homarus.core.routes import SessionKey, SessionKind


class Mode(StrEnum):
    """How much of the prompt a run gets."""

    FULL = "full"
    MINIMAL = "minimal"
    NONE = "none"


_SMALL = frozenset({SessionKind.SUBAGENT, SessionKind.HEARTBEAT})


def mode_for(session: SessionKey | None) -> Mode:
    """Return the mode of a session: helpers and isolated heartbeats work on one task and need little of the house."""
    return Mode.MINIMAL if session is not None and session.kind in _SMALL else Mode.FULL
