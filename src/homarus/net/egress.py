"""The one way out: a guarded HTTP client for addresses that a model or a page chose.

Names are resolved here, every address found must be public, and the connection goes to exactly the address that was
checked. Each redirect starts over. No proxy, no cookies, no headers but our own.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from urllib.parse import SplitResult, urljoin, urlsplit

from msgspec import Struct

from homarus.core.cancel import Cancel
from homarus.core.errors import Denied, ToolError
from homarus.core.text import single_line
from homarus.net.addresses import is_public, parse_url
from homarus.net.client import HttpClient
from homarus.net.errors import HttpError
from homarus.net.trust import SYSTEM, Trust

Resolve = Callable[[str, int], Awaitable[list[str]]]
HEADERS = frozenset({"accept", "accept-language", "user-agent", "x-subscription-token", "content-type"})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Limits(Struct, frozen=True):
    max_bytes: int = 2_000_000
    seconds: float = 30.0
    redirects: int = 5
    # Whether a redirect may lead to another host. What was allowed is one host, and an address can carry words out.
    elsewhere: bool = True


DEFAULTS = Limits()


class Fetched(Struct, frozen=True):
    """A page: where it really came from, what it is, and its first bytes."""

    url: str
    status: int
    content_type: str
    body: bytes
    truncated: bool = False


async def resolve_name(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(item[4][0]) for item in found))


class Egress:
    """Fetches pages. `own` names hosts (`host:port`) that the owner configured, such as a search engine at home."""

    def __init__(
        self, *, resolve: Resolve = resolve_name, own: frozenset[str] = frozenset(), trust: Trust = SYSTEM
    ) -> None:
        self._resolve = resolve
        self._own = own
        self._trust = trust

    async def fetch(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        limits: Limits = DEFAULTS,
        cancel: Cancel,
        heard: Callable[[], None] = lambda: None,
    ) -> Fetched:
        """Fetch a page and follow its redirects, each checked as if it had been asked for.

        `heard` is called when a server first answers: from then on even the words of an error may be that server's.
        """
        kept = {name.lower(): value for name, value in (headers or {}).items() if name.lower() in HEADERS}
        try:
            with cancel.interrupting():
                async with asyncio.timeout(limits.seconds):
                    # Redirects never lead from a public host to an own one or back, so this holds for all of them.
                    own = self._is_own(urlsplit(url))
                    client = HttpClient(trust=self._trust, choose=partial(self._address, own=own))
                    try:
                        return await self._follow(client, url, kept, limits, heard)
                    finally:
                        await client.aclose()
        except TimeoutError:
            raise ToolError(
                f"{_shown(url)} did not answer within {limits.seconds:g} seconds", cure="try another page"
            ) from None
        except HttpError as problem:
            raise ToolError(f"{_shown(url)}: {single_line(str(problem), 200)}", cure="check the address") from None
        except ValueError:  # of the parser of addresses, for what a server named
            raise ToolError(f"{_shown(url)} leads to something that is no address", cure="fetch another page") from None

    async def _follow(
        self, client: HttpClient, url: str, headers: dict[str, str], limits: Limits, heard: Callable[[], None]
    ) -> Fetched:
        first = urlsplit(url)
        for _ in range(limits.redirects + 1):
            parts = urlsplit(url)
            parts = parts if self._is_own(parts) else parse_url(url)
            crossed = parts.hostname != first.hostname
            sent = {name: value for name, value in headers.items() if not (crossed and name.startswith("x-"))}
            found = await _once(client, parts, sent, limits.max_bytes, heard)
            if isinstance(found, Fetched):
                return found
            target = urljoin(url, found)
            if not limits.elsewhere and _bare(urlsplit(target).hostname) != _bare(first.hostname):
                cure = "fetch that address itself, if it is worth a question to the owner"
                raise Denied(f"{_shown(url)} leads to another host: {_shown(target)}", cure=cure)
            if parts.scheme == "https" and urlsplit(target).scheme == "http":
                raise Denied(f"{_shown(url)} leads from https to http", cure="fetch another page")
            if self._is_own(parts) and not self._is_own(urlsplit(target)):
                raise Denied("a local service leads elsewhere", cure="fetch that address itself")
            if not self._is_own(parts) and self._is_own(urlsplit(target)):
                raise Denied(f"{_shown(url)} leads to a local service", cure="fetch another page")
            url = target
        raise ToolError(f"{_shown(url)} redirects more than {limits.redirects} times", cure="fetch the final address")

    def _is_own(self, parts: SplitResult) -> bool:
        try:
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            return False
        return parts.scheme in {"http", "https"} and "@" not in parts.netloc and f"{parts.hostname}:{port}" in self._own

    async def _address(self, host: str, port: int, *, own: bool) -> str:
        """Return the one address that a connection may go to: the names are looked up here, and nobody asks again."""
        try:
            found = await self._resolve(host, port)
        except (OSError, UnicodeError):
            found = []
        if not found:
            raise ToolError(f"there is no host {single_line(host, 100)}", cure="check the address") from None
        if not own and not all(map(is_public, found)):
            raise Denied(
                f"{single_line(host, 100)} leads into a private network", cure="only public addresses can be fetched"
            )
        return found[0]


async def _once(
    client: HttpClient, parts: SplitResult, headers: dict[str, str], limit: int, heard: Callable[[], None]
) -> Fetched | str:
    """Send one request; return the page, or where it leads."""
    response = await client.request("GET", parts._replace(fragment="").geturl(), headers=headers)
    heard()
    try:
        location = response.headers.get("location", "")
        if response.status in _REDIRECTS and location:
            return location
        body = await response.read(limit + 1)
        return Fetched(parts.geturl(), response.status, response.kind, body[:limit], len(body) > limit)
    finally:
        await response.close()


def _bare(host: str | None) -> str:
    return (host or "").lower().rstrip(".").removeprefix("www.")


def _shown(url: str) -> str:
    return single_line(url, 200)
