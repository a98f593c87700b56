"""What a session asks for its commands (`/elevated`, `/exec`), and how much of it policy grants. Pure.

A wish is never more than a wish: leaving the sandbox needs `tools.elevated`, the owner, and still the gate's question;
the older pair of security and ask can only make the configured mode stricter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from homarus.core.messages import Trust

_STRICT = ("deny", "allowlist", "ask", "full")
# Channels whose sender is whoever sits at the machine.
_LOCAL = frozenset({"terminal"})


class ElevatedSettings(Struct, frozen=True, rename="camel"):
    """`tools.elevated`, of everyone or of one agent: who may ask for commands outside of the sandbox."""

    enabled: bool = False
    allow_from: dict[str, list[Any]] = {}

    @classmethod
    def disabled(cls) -> ElevatedSettings:
        """A block that cannot be read must not open anything."""
        return cls()

    def admits(self, channel: str, sender: str) -> bool:
        """Say whether somebody may; an empty list admits nobody."""
        if not self.enabled:
            return False
        listed = {str(item).strip().casefold() for item in self.allow_from.get(channel, ())}
        return channel in _LOCAL or "*" in listed or (bool(sender) and sender.casefold() in listed)


class ExecWish(Struct, frozen=True):
    """What one session wishes for its commands. The default wishes nothing."""

    elevated: str = "off"
    host: str = ""
    security: str = ""
    ask: str = ""

    @property
    def outside(self) -> bool:
        """Say whether commands go to the host unless a call says otherwise; the gate asks for each of them."""
        return self.elevated in {"on", "ask", "full"} or self.host in {"host", "gateway"}


def granted(wish: ExecWish, gates: Iterable[ElevatedSettings], trust: Trust, *, channel: str, sender: str) -> ExecWish:
    """Return the part of a wish that policy grants: outside of the sandbox only where every gate admits the owner."""
    if not wish.outside:
        return wish
    if trust is Trust.OWNER and all(gate.admits(channel, sender) for gate in gates):
        return wish
    return ExecWish("off", "", wish.security, wish.ask)


def stricter(mode: str, wish: ExecWish) -> str:
    """Return the configured mode, or what the session wishes where that is stricter."""
    wished = "full"
    if wish.security in {"deny", "allowlist"}:
        wished = "deny" if wish.security == "deny" else "ask" if wish.ask in {"on-miss", "always"} else "allowlist"
    elif wish.ask == "always" or (wish.ask == "on-miss" and wish.security != "full"):
        wished = "ask"
    # A mode that nobody knows counts as the strictest one.
    return min((mode, wished), key=lambda name: _STRICT.index(name) if name in _STRICT else -1)
