"""The configuration block `commands`: who may give commands, and which of the far-reaching ones are on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from homarus.core.messages import Inbound, Trust

# Whoever types here sits at the machine; no list of senders can say more than that.
LOCAL_CHANNELS = frozenset({"terminal"})


class CommandSettings(Struct, frozen=True, rename="camel"):
    """`commands`. Everything that reaches beyond its conversation is off until it is switched on."""

    text: bool = True
    # A list, or lists by channel with `*` for all; where it is set it is the only list.
    allow_from: Any = None
    owner_allow_from: Any = None
    bash: bool = False
    config: bool = False
    debug: bool = False
    restart: bool = False
    send: bool = False
    activation: bool = False
    btw: bool = False


class Caller(Struct, frozen=True):
    """Who gives a command."""

    sender: str = ""
    channel: str = "terminal"
    trust: Trust = Trust.OWNER
    authorised: bool = True
    owner: bool = True

    @property
    def remote(self) -> bool:
        """Say whether they do not sit at this machine."""
        return self.channel not in LOCAL_CHANNELS

    @property
    def acting_trust(self) -> Trust:
        """Return on whose word a tool acts that this command calls."""
        return Trust.OWNER if self.owner else self.trust


def caller_of(inbound: Inbound, settings: CommandSettings) -> Caller:
    """Say what the sender of a message may do. Trust was decided by the channel, never by the text."""
    local = inbound.channel in LOCAL_CHANNELS
    names = {inbound.sender, f"{inbound.channel}:{inbound.sender}"} - {"", f"{inbound.channel}:"}
    owner = inbound.trust is Trust.OWNER or _listed(settings.owner_allow_from, inbound.channel, names, anybody=False)
    if settings.allow_from is not None and not local:
        authorised = _listed(settings.allow_from, inbound.channel, names)
    else:
        # Admission calls those `group` whom a list of that group names, and everybody else in it `external`.
        authorised = owner or inbound.trust in (Trust.PAIRED, Trust.GROUP)
    return Caller(inbound.sender, inbound.channel, inbound.trust, authorised, owner and authorised)


def _listed(value: Any, channel: str, names: set[str], *, anybody: bool = True) -> bool:
    if isinstance(value, dict):
        found = value.get(channel, value.get("*"))
        return _listed(found, channel, names, anybody=anybody)
    entries: Iterable[Any] = value if isinstance(value, list | tuple) else ()
    texts = {str(entry) for entry in entries if isinstance(entry, str | int)}
    # Everybody can be let in, and nobody becomes an owner by that.
    return (anybody and "*" in texts) or bool((texts - {"*"}) & names)
