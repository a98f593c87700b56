"""A section of the prompt and its tier: how long its text stays the same decides where it may stand."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


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
