"""Where a connection comes from, as the transport saw it: its address, its page, a proxy before it. Never a reason for trust by itself."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from homarus.gateway.settings import GatewaySettings

_FORWARDING = ("forwarded", "x-real-ip")
_MAX_HEADER = 4096
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Peer(Struct, frozen=True):
    # The socket's other end; behind a listed proxy, the client that it names.
    address: str = ""
    # Our own Unix socket, by a process of this user: the kernel said so.
    local: bool = False
    loopback: bool = False
    # A proxy was in between that is not listed, or does not say for whom it speaks.
    unattributed: bool = False
    proxied: bool = False
    origin: str = ""
    same_origin: bool = False
    headers: Mapping[str, str] = {}

    @property
    def direct(self) -> bool:
        """Say whether it is a program on this machine, with neither a browser nor a proxy in between."""
        return self.local or (self.loopback and not self.origin and not self.proxied and not self.unattributed)

    @property
    def name(self) -> str:
        """Return by what its failures are counted: a page in a local browser is known by its origin."""
        if self.origin and self.loopback:
            return self.origin[:200]
        return self.address or ("local" if self.local else "unknown")


def peer_of(scope: Mapping[str, Any], settings: GatewaySettings) -> Peer:
    """Read what the transport knows of a connection."""
    headers = {
        name.decode("latin-1").lower(): value.decode("latin-1")[:_MAX_HEADER]
        for name, value in scope.get("headers", ())
    }
    if scope.get("state", {}).get("local"):
        return Peer(local=True, headers=headers, origin=headers.get("origin", ""))
    client = scope.get("client") or ("", 0)
    socket_address, server = literal(str(client[0])), scope.get("server") or ("", None)
    forwarded = any(name in headers for name in _FORWARDING) or any(name.startswith("x-forwarded") for name in headers)
    address, proxied, unattributed = socket_address, False, False
    if forwarded:
        named = client_of(headers)
        listed = is_listed(socket_address, settings.trusted_proxies)
        here = socket_address is not None and socket_address.is_loopback
        # A proxy on this machine vouches for names only where that is said: any program here could pose as one.
        refused = here and settings.auth.mode == "trusted-proxy" and not settings.auth.trusted_proxy.allow_loopback
        proxied = listed and not refused and named is not None and not named.is_loopback
        unattributed = not proxied
        address = named if proxied else socket_address
    origin = headers.get("origin", "")
    return Peer(
        address=str(address or ""),
        loopback=bool(address and address.is_loopback),
        unattributed=unattributed,
        proxied=proxied,
        origin=origin,
        same_origin=bool(origin) and is_own(origin, headers.get("host", ""), str(server[0]), settings),
        headers=headers,
    )


def literal(text: str) -> Address | None:
    """Return an address that is written as one; a name is never an address, however it begins."""
    try:
        address = ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address


def is_own(origin: str, host: str, server: str, settings: GatewaySettings) -> bool:
    """Say whether a page may speak to us: one that is listed, or our own page under a name that cannot be anybody else's.

    A page that merely names its own host is not ours: anybody can let a name point to this machine. A server's own end is an
    address, or a name that a fleet knows to be this home's.
    """
    allowed = {each.rstrip("/").lower() for each in settings.control_ui.allowed_origins if each != "*"}
    if origin.rstrip("/").lower() in allowed:
        return True
    try:
        page, asked = urlsplit(origin), urlsplit(f"//{host}")
        same = page.scheme in {"http", "https"} and (page.hostname, page.port) == (asked.hostname, asked.port)
    except ValueError:
        return False
    name, here = page.hostname or "", literal(server)
    address = literal(name)
    known = name in {"localhost", server.lower()} or (address is not None and (address.is_loopback or address == here))
    return same and known and bool(name)


def client_of(headers: Mapping[str, str]) -> Address | None:
    """Return for whom the nearest proxy says that it speaks."""
    chain = headers.get("x-forwarded-for", "") or headers.get("x-real-ip", "")
    return literal(chain.rpartition(",")[2].strip()) if chain else None


def is_listed(address: Address | None, networks: Sequence[str]) -> bool:
    for network in networks if address else ():
        try:
            if address in ipaddress.ip_network(network, strict=False):
                return True
        except (ValueError, TypeError):
            continue
    return False
