"""One table: which methods there are, what scope each needs, and what does it. What is not in it cannot be called.

Each handler is a few lines over the client contract of `runtime`. A module of this package holds `METHODS`; adding one
means adding its name to `_MODULES`.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec import Struct

from homarus.gateway.protocol import Refused, read_params, response
from homarus.gateway.scopes import READ, Principal, require

if TYPE_CHECKING:
    from homarus.gateway.connection import Connection
    from homarus.gateway.server import Gateway
    from homarus.runtime.local import LocalClient

_MODULES = (
    *(
        "system",
        "chat",
        "agent",
        "agents",
        "sessions",
        "branches",
        "usage",
        "catalog",
        "skills",
        "memory",
        "config",
        "approvals",
    ),
    *("devices", "nodes", "cron", "home", "channels", "page", "page_home", "page_memory"),
)


class Params(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What a method is told: a closed object. `PASSED` are keys that clients send and that change nothing here."""

    PASSED: ClassVar[frozenset[str]] = frozenset()


def passed(names: str) -> frozenset[str]:
    return frozenset(names.split())


class Call(Struct, frozen=True):
    """One call of a method. Over HTTP there is no connection."""

    gateway: Gateway
    principal: Principal
    method: str
    connection: Connection | None = None
    id: str = ""
    trace: str = ""

    @property
    def client(self) -> LocalClient:
        return self.gateway.client

    def answer(self, payload: Any) -> None:
        """Answer before the handler is done: what it returns is then the second response to the same request."""
        if self.connection is not None:
            self.connection.answer(response(self.id, payload))


class Method(Struct, frozen=True):
    """`raised` may name a wider scope for what these parameters ask; `write` counts against the limit of changes."""

    scope: str
    run: Callable[[Call, Any], Awaitable[Any]]
    params: type[Any] = Params
    raised: Callable[[Any], str] | None = None
    write: bool = False


@cache
def table() -> Mapping[str, Method]:
    """Return every method that there is."""
    found: dict[str, Method] = {}
    for name in _MODULES:
        for method, row in importlib.import_module(f"{__name__}.{name}").METHODS.items():
            assert method not in found, f"{method} has two handlers"
            found[method] = row
    return found


def authorize(principal: Principal, method: Method, params: Any) -> None:
    """The one place where a call is allowed: by the table, and by what its parameters ask for. Raises Refused."""
    require(principal, method.scope)
    if method.raised is not None:
        require(principal, method.raised(params))


async def dispatch(call: Call, raw: msgspec.Raw) -> Any:
    """Do what a client asks, if it may. Whether it may at all is decided before its parameters are looked at."""
    if call.method == "connect":
        raise Refused("connect is only valid as the first request")
    method = table().get(call.method)
    if method is None:
        raise Refused(f"unknown method: {call.method}")
    require(call.principal, method.scope)
    params = read_params(call.method, raw, method.params)
    authorize(call.principal, method, params)
    if method.scope not in ("", READ):
        call.gateway.ledger.called(call.principal, call.method, "allowed")
    if method.write:
        call.gateway.writes.take(call.method, call.principal.device_id or call.principal.user or call.principal.method)
    return await method.run(call, params)
