"""Which proxy a request goes through, by the usual variables; the environment itself is read at the edge."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from urllib.parse import SplitResult, unquote

from msgspec import Struct


class Proxies(Struct, frozen=True):
    """Proxy addresses by scheme, and the hosts that go without."""

    http: str = ""
    https: str = ""
    exempt: tuple[str, ...] = ()

    def find(self, target: SplitResult) -> str:
        """Return the proxy for an address, or nothing; this machine is never reached through a proxy."""
        proxy = self.https if target.scheme == "https" else self.http
        host = (target.hostname or "").lower()
        if not proxy or host in {"localhost", "127.0.0.1", "::1"} or "*" in self.exempt:
            return ""
        port = f":{target.port}" if target.port else ""
        for rule in self.exempt:
            bare = rule.lstrip("*").lstrip(".")
            if bare and (host + port == bare or host == bare or host.endswith("." + bare)):
                return ""
        return proxy


NO_PROXY = Proxies()


def proxies_from(env: Mapping[str, str]) -> Proxies:
    """Read HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY in either case."""

    def look(name: str) -> str:
        return (env.get(name.lower()) or env.get(name.upper()) or "").strip()

    def address(name: str) -> str:
        text = look(name) or look("all_proxy")
        return text if "://" in text or not text else f"http://{text}"

    exempt = tuple(part.strip().lower() for part in look("no_proxy").split(",") if part.strip())
    # Only http proxies: a SOCKS address is left alone rather than misread.
    http, https = (
        text if text.startswith("http://") else "" for text in (address("http_proxy"), address("https_proxy"))
    )
    return Proxies(http, https, exempt)


def connect_request(to: tuple[str, int], proxy: SplitResult) -> bytes:
    """Return the bytes that ask a proxy for a tunnel."""
    lines = [f"CONNECT {to[0]}:{to[1]} HTTP/1.1", f"host: {to[0]}:{to[1]}"]
    if proxy.username:
        pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        lines.append(f"proxy-authorization: Basic {base64.b64encode(pair.encode()).decode()}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
