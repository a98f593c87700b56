"""What commands on the host may do: what the settings say, what a session asks for (`/elevated`, `/exec`), and what it gets. Pure.

Leaving the sandbox needs `tools.elevated`, the owner, and still the gate's question; the older pair of security and ask can only
make the configured mode stricter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

from homarus.core.messages import Trust

# From the strictest to the widest. A list that nobody may add to is stricter than a question.
MODES = ("deny", "allowlist", "ask", "full")
# Channels whose sender is whoever sits at the machine.
_LOCAL = frozenset({"terminal"})


class ExecSettings(Struct, frozen=True, rename="camel"):
    """`tools.exec`: what commands on the host may do. OpenClaw's default was `full`; ours is `ask`."""

    mode: Literal["", "deny", "allowlist", "ask", "auto", "full"] = ""
    security: Literal["", "deny", "allowlist", "full"] = ""
    ask: Literal["", "off", "on-miss", "always"] = ""
    approval_timeout_sec: int = 120

    @classmethod
    def disabled(cls) -> ExecSettings:
        """A block that cannot be read must not open anything."""
        return cls(mode="deny")

    @property
    def effective(self) -> str:
        """Return deny, allowlist, ask or full: the mode, or what the older pair of settings amounts to."""
        if self.mode:
            # There is no reviewer but the owner.
            return "ask" if self.mode == "auto" else self.mode
        if self.security == "deny":
            return "deny"
        if self.security == "full" and self.ask == "off":
            return "full"
        if self.security == "allowlist" and self.ask == "off":
            return "allowlist"
        return "ask"


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


class ExecRequest(Struct, frozen=True):
    """What one session asks for its commands. The default asks for nothing."""

    elevated: str = "off"
    host: str = ""
    security: str = ""
    ask: str = ""

    @property
    def outside(self) -> bool:
        """Say whether commands go to the host unless a call says otherwise; the gate asks for each of them."""
        return self.elevated in {"on", "ask", "full"} or self.host in {"host", "gateway"}


def granted(
    request: ExecRequest, gates: Iterable[ElevatedSettings], trust: Trust, *, channel: str, sender: str
) -> ExecRequest:
    """Return the part of a request that policy grants: outside of the sandbox only where every gate admits the owner."""
    if not request.outside:
        return request
    if trust is Trust.OWNER and all(gate.admits(channel, sender) for gate in gates):
        return request
    return ExecRequest("off", "", request.security, request.ask)


def stricter(mode: str, request: ExecRequest) -> str:
    """Return the configured mode, or what the session asks for where that is stricter."""
    asked = "full"
    if request.security in {"deny", "allowlist"}:
        asked = "deny" if request.security == "deny" else "ask" if request.ask in {"on-miss", "always"} else "allowlist"
    elif request.ask == "always" or (request.ask == "on-miss" and request.security != "full"):
        asked = "ask"
    # A mode that nobody knows counts as the strictest one.
    return min((mode, asked), key=lambda name: MODES.index(name) if name in MODES else -1)
