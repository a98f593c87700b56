"""Which network addresses a fetch may reach: only those that the whole world can. Pure."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit

from homarus.core.errors import Denied, ToolError
from homarus.core.patterns import late

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
# Ranges through which an inner IPv4 address could be reached, or that only look public.
_TUNNELS = tuple(
    ipaddress.ip_network(text)
    for text in (
        "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "2001:10::/28", "2001:20::/28", "fec0::/10",
        "::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "100::/64", "192.88.99.0/24", "192.0.0.0/24", "198.18.0.0/15",
        "100.64.0.0/10", "240.0.0.0/4", "0.0.0.0/8",
    )
)  # fmt: skip
_LOCAL = (
    "localhost", "local", "internal", "intranet", "lan", "home", "corp", "private", "localdomain", "home.arpa",
    "onion",
)  # fmt: skip
_PORTS = {80, 443}
# Letters, digits and dashes of any alphabet, and the dots that mean a dot. An IPv6 address has colons instead.
_HOST = late(r"[\w.\-\u3002\uff0e\uff61]+")


def is_public(text: str) -> bool:
    """Say whether an address belongs to the public internet, whatever it is wrapped in."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if "%" in text:
        return False
    if address.is_multicast or not address.is_global or address.is_reserved or address.is_unspecified:
        return False
    return not any(address in network for network in _TUNNELS if network.version == address.version)


def parse_url(url: str) -> SplitResult:
    """Return the parts of an address that may be fetched, or raise: only http and https, no credentials, no tricks."""
    cleaned = url.strip()
    if any(char.isspace() or ord(char) < 32 or char == "\\" for char in cleaned) or len(cleaned) > 4_000:
        raise ToolError(
            "the address holds spaces, backslashes or control characters, or is too long",
            cure="give a plain http(s) URL",
        )
    try:
        parts = urlsplit(cleaned)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        raise ToolError("the address is not a URL", cure="give one such as https://example.com/page") from None
    if parts.scheme not in {"http", "https"} or not host or not (":" in host or _HOST.fullmatch(host)):
        raise ToolError(
            "only http and https addresses can be fetched", cure="give one such as https://example.com/page"
        )
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise Denied("an address with a user name is not fetched", cure="leave the part before @ out")
    if port is not None and port not in _PORTS and port < 1024:
        raise Denied(f"port {port} is not fetched", cure="use a web port")
    lowered = host.lower()
    labels = lowered.split(".")
    numeric = all(re.fullmatch(r"0x[0-9a-f]*|\d+", label) for label in labels)
    if ":" not in host and (
        any(lowered == name or lowered.endswith("." + name) for name in _LOCAL) or (len(labels) == 1 and not numeric)
    ):
        raise Denied(f"{host} is a name of the local network", cure="only public addresses can be fetched")
    return parts
