"""A section of the prompt and its tier: how long its text stays the same decides where it may stand."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from homarus.core.routes import SessionKey, SessionKind


class Tier(StrEnum):
    """How long a section's text holds.

    STABLE and SESSION make up the system message. VOLATILE never enters it: it rides on the newest user turn, because
    one changed byte in the system message makes the provider read, and the user pay for, the whole conversation again.
    """

    STABLE = "stable"
    SESSION = "session"
    VOLATILE = "volatile"


class Section(Struct, frozen=True):
    """One section as rendered. `name` is its title, unique in a prompt; an absent section is no `Section` at all.

    A volatile section holds until it is said differently or withdrawn, except with `once`: then it speaks of one turn.
    """

    name: str
    text: str
    tier: Tier
    once: bool = False


class Mode(StrEnum):
    """How much of the prompt a run gets."""

    FULL = "full"
    MINIMAL = "minimal"
    # For a small window: the rules, the files as far as they fit, and nothing that the tools say themselves.
    LEAN = "lean"
    NONE = "none"


SMALL_WINDOW = 16_000
_SMALL = frozenset({SessionKind.SUBAGENT, SessionKind.HEARTBEAT})


def mode_for(session: SessionKey | None, window: int = 0) -> Mode:
    """Return the mode of a session: helpers and isolated heartbeats work on one task and need few sections.

    A window of 0 is one that nobody knows.
    """
    if session is not None and session.kind in _SMALL:
        return Mode.MINIMAL
    return Mode.LEAN if is_small(window) else Mode.FULL


def is_small(window: int) -> bool:
    """Say whether the prompt has to be short, so that there is room for a conversation."""
    return 0 < window < SMALL_WINDOW
