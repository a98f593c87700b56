"""In which order a provider's credentials are tried. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from homarus.models.cooldown import Stats

_KINDS = {"oauth": 0, "token": 1, "api_key": 2}


class Credential(Struct, frozen=True):
    """One way to prove who we are. `id` is the profile's, or says where a key without a profile came from."""

    id: str
    provider: str
    # oauth, token, api_key, or none (a server that asks for nothing)
    kind: str = "api_key"
    secret: str = ""
    # Milliseconds since 1970; 0 never expires.
    expires: int = 0

    def __repr__(self) -> str:
        return f"Credential({self.id})"


class Pin(Struct, frozen=True):
    """A credential that was chosen for a session: by a person, or kept so that the provider's cache stays warm."""

    id: str
    by_user: bool = False


def ordered(
    credentials: Sequence[Credential],
    stats: Mapping[str, Stats],
    *,
    model: str,
    now: int,
    explicit: Sequence[str] | None = None,
    pin: Pin | None = None,
) -> tuple[Credential, ...]:
    """Return the usable credentials, best first; those that rest come last, the one that wakes first in front.

    An expired token is left out. An expired OAuth login stays, behind the others: its owner may have renewed it elsewhere.
    A pin goes first, also one that a person set, unless it rests.
    """
    usable = [item for item in credentials if item.kind != "token" or not item.expires or item.expires > now]
    if explicit:
        rank = {name: position for position, name in enumerate(explicit)}
        usable = sorted((item for item in usable if item.id in rank), key=lambda item: rank[item.id])
    else:
        usable = sorted(usable, key=lambda item: _preference(item, stats.get(item.id, Stats()), now))

    def resting(item: Credential) -> int:
        return stats.get(item.id, Stats()).resting_until(model, now)

    awake = [item for item in usable if not resting(item)]
    asleep = sorted((item for item in usable if resting(item)), key=resting)
    if pin is not None:
        awake.sort(key=lambda item: item.id != pin.id)
        if pin.by_user and not any(item.id == pin.id for item in usable):
            found = [item for item in credentials if item.id == pin.id]
            awake = found + awake
    return (*awake, *asleep)


def _preference(item: Credential, stats: Stats, now: int) -> tuple[bool, int, int, str]:
    expired = bool(item.expires) and item.expires <= now
    return (expired, _KINDS.get(item.kind, 3), stats.last_used, item.id)
