"""Which proxy a request goes through, by the usual variables; the environment itself is read at the edge. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from homarus.net.errors import Refused

SCHEMES = ("http", "https", "socks5", "socks5h")


class Proxies(Struct, frozen=True):
    """Proxy addresses by scheme, and the hosts that go without."""

    http: str = ""
    https: str = ""
    exempt: tuple[str, ...] = ()

    def find(self, target: SplitResult) -> str:
        """Return the proxy for an address, or nothing; this machine is never reached through a proxy.

        A proxy of a kind that we do not speak is an error and never a reason to go without: the owner set it to be used.
        """
        proxy = self.https if target.scheme == "https" else self.http
        host = (target.hostname or "").lower().rstrip(".")
        port = target.port or (443 if target.scheme == "https" else 80)
        if not proxy or is_here(host) or any(_matches(rule, host, port) for rule in self.exempt):
            return ""
        parts = urlsplit(proxy)
        if parts.scheme not in SCHEMES or not parts.hostname:
            shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
            raise Refused(
                f"'{shown}' is no proxy that can be used", f"set one that begins with {'://, '.join(SCHEMES)}://"
            )
        return proxy


NO_PROXY = Proxies()


def proxies_from(env: Mapping[str, str]) -> Proxies:
    """Read HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY in either case."""

    def look(name: str) -> str:
        return (env.get(name.lower()) or env.get(name.upper()) or "").strip()

    def address(name: str) -> str:
        text = look(name) or look("all_proxy")
        return text if "://" in text or not text else f"http://{text}"

    exempt = tuple(rule.lower() for rule in re.split(r"[\s,;]+", look("no_proxy")) if rule)
    return Proxies(address("http_proxy"), address("https_proxy"), exempt)


def is_here(host: str) -> bool:
    """Say whether a host is this machine itself."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def _matches(rule: str, host: str, port: int) -> bool:
    """Say whether a rule of NO_PROXY names a host: `*`, a domain with what is below it, an address, a network, a pattern; with a port."""
    if "/" in rule:
        address = _address(host)
        try:
            return address is not None and address in ipaddress.ip_network(rule, strict=False)
        except ValueError:
            return False
    found = re.fullmatch(r"(\[[^\]]*\]|[^:]*):(\d+)", rule)
    if found:
        rule = found[1]
        if int(found[2]) != port:
            return False
    rule = rule.strip("[]").rstrip(".")
    literal = _address(rule)
    if literal is not None:
        return literal == _address(host)
    bare = rule.removeprefix("*").removeprefix(".")
    if not bare:
        return rule == "*"
    return host == bare or host.endswith("." + bare) or ("*" in bare and fnmatchcase(host, rule))
