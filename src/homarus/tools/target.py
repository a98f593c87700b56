"""What a call would touch: the files that it names, and where it would send something: a host, or a person.

The conversation that a turn answers is home.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from homarus.core.errors import HomarusError
from homarus.core.patterns import late
from homarus.core.routes import Route
from homarus.tools.paths import absolute, where
from homarus.tools.tool import ToolContext

# An address as people write it; what ends a sentence or a bracket behind it may not be part of it.
_ADDRESS = late(r"https?://[^\s<>\"`]+", re.IGNORECASE)
_PORTS = {"http": 80, "https": 443}
_SEARCH = "web search"


class Target(Struct, frozen=True):
    """A destination: `kind` is host or recipient. `home` means that it is where the turn's own answer goes."""

    kind: str
    subject: str
    home: bool = False
    # The whole of it, for what is fetched: a path and a query can carry words out, too.
    address: str = ""


def full_url(text: str) -> str:
    """Return an address as it will be fetched: one without a scheme means https."""
    text = text.strip()
    return text if "://" in text else f"https://{text}"


def is_url(text: str) -> bool:
    return text.strip().lower().startswith(("http://", "https://"))


def address_of(url: str) -> str:
    """Return an address in the one form in which two are compared; nothing for what is none."""
    try:
        parts = urlsplit(full_url(url))
        host, scheme = (parts.hostname or "").rstrip("."), parts.scheme.lower()
        port = parts.port or _PORTS.get(scheme)
    except ValueError:
        return ""
    if scheme not in _PORTS or not host or "@" in parts.netloc:
        return ""
    return f"{scheme}://{host}:{port}{parts.path or '/'}" + (f"?{parts.query}" if parts.query else "")


def _host(url: str) -> Target:
    try:
        return Target("host", (urlsplit(url.strip()).hostname or url[:200]).lower(), address=address_of(url))
    except ValueError:
        return Target("host", url[:200])


def names(text: str, address: str) -> bool:
    """Say whether a text holds exactly this address, written out in full. What it only looks like does not count."""
    ends = ("", ".,;:!?'", ".,;:!?')]}*_")
    found = {address_of(each[0].rstrip(end)) for each in _ADDRESS.finditer(text) for end in ends}
    # A page that is fetched in a safer way than was written is still that page.
    safer = address.replace("https:", "http:", 1).replace(":443/", ":80/", 1)
    return bool(address) and not found.isdisjoint({address, safer})


def touched(tool: str, arguments: Mapping[str, Any], context: ToolContext) -> tuple[str, ...]:
    """Return the paths that a call names, made absolute. A path that makes no sense is left to the tool to refuse."""
    names = [arguments[word] for word in ("path", "image", "media") if isinstance(arguments.get(word), str)]
    if tool in {"grep", "find", "ls"}:
        names = [where(arguments)]
    elif tool == "image":
        names = [name for name in names if not is_url(name)]
    elif tool == "apply_patch":
        from homarus.tools.patchtext import parse

        try:
            names = [name for each in parse(arguments.get("input", "")) for name in (each.path, each.move_to) if name]
        except HomarusError:
            names = []
    found = []
    for name in names:
        try:
            found.append(absolute(name, str(context.cwd), context.env.get("HOME", "")))
        except HomarusError:
            continue
    return tuple(found)


def target_of(tool: str, arguments: Mapping[str, Any], route: Route) -> Target | None:
    """Return the destination of a call, None for a call that sends nothing anywhere."""
    if tool == "web_fetch":
        return _host(full_url(str(arguments.get("url") or "")))
    if tool == "web_search":
        # Which engine it is, the owner has chosen. What it is asked is not.
        return Target("host", _SEARCH)
    if tool == "image":
        where = str(arguments.get("image") or "")
        return _host(where) if is_url(where) else None
    if tool == "message":
        channel = str(arguments.get("channel") or route.channel)
        to = str(arguments.get("target") or route.to)
        account = str(arguments.get("accountId") or route.account)
        home = (channel, account, to) == (route.channel, route.account, route.to)
        return Target("recipient", f"{channel}:{to}", home)
    if tool == "sessions_send":
        to = str(arguments.get("sessionKey") or arguments.get("label") or arguments.get("agentId") or "")
        return Target("recipient", f"session:{to}")
    return None
