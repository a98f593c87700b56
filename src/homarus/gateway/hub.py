"""Everybody who is connected: who they are, and who of them is told what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from homarus.core.text import single_line
from homarus.gateway.protocol import Close, event_head
from homarus.gateway.scopes import EVENTS

if TYPE_CHECKING:
    from homarus.gateway.connection import Connection
    from homarus.gateway.server import Gateway

# What a client can fetch again: dropped while it reads too slowly.
_FETCHABLE = frozenset(
    {"agent", "chat", "presence", "session.message", "session.tool", "sessions.changed", "health", "page.event"}
)


PRESENCE_SECONDS = 0.2
_DEAF = frozenset({"cli", "probe", "backend", "node"})  # kinds of clients that show nobody who is here
MAX_PRESENT = 200  # clients in a list of who is here; the newest


class Hub:
    """The connections that have shaken hands."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.connections: dict[str, Connection] = {}
        self.version = {"presence": 1, "health": 1}
        self._timer: asyncio.TimerHandle | None = None

    def join(self, connection: Connection) -> None:
        self.connections[connection.id] = connection
        self._present()

    def leave(self, connection: Connection) -> None:
        if self.connections.pop(connection.id, None) is not None:
            self._gateway.feed.left()
            self._present()

    def _present(self) -> None:
        """Tell soon who is here: once, however many come and go at the same time."""
        self.version["presence"] += 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PRESENCE_SECONDS, self._tell_presence)

    def _tell_presence(self) -> None:
        self._timer = None
        listeners = [each for each in self.connections.values() if each.client.mode not in _DEAF]
        if listeners:
            head = event_head("presence", {"presence": self.presence()})
            for connection in listeners:
                connection.tell(head, fetchable=True, version=dict(self.version))

    def presence(self) -> list[dict[str, Any]]:
        """Return who is here; this gateway first."""
        gateway = self._gateway
        own = {"host": gateway.host, "mode": "gateway", "reason": "self", "version": gateway.version}
        return [
            own | {"ts": gateway.now_ms, "text": f"Gateway: {gateway.host}"},
            *(_entry(each) for each in list(self.connections.values())[-MAX_PRESENT:]),
        ]

    def tell(self, name: str, payload: Any, *, to: Callable[[Connection], bool] | None = None) -> None:
        """Tell an event to everybody who may know of it, or to those among them that `to` picks."""
        scope = EVENTS.get(name)
        if scope is None:
            raise ValueError(f"no rule says who may hear of {name}")
        head = b""
        for connection in list(self.connections.values()):
            if connection.principal.may(scope) and (to is None or to(connection)):
                head = head or event_head(name, payload)
                connection.tell(head, fetchable=name in _FETCHABLE)

    @property
    def anybody(self) -> bool:
        return bool(self.connections)

    async def tick(self) -> None:
        """Show that we are alive, and close the sockets whose credential is none any more."""
        for connection in list(self.connections.values()):
            if not await self._gateway.door.still_holds(connection.principal):
                connection.close(Close.POLICY, "credential changed")
        self.tell("tick", {"ts": self._gateway.now_ms})

    def close(self, reason: str, *, restart_ms: int | None = None) -> None:
        expected = {} if restart_ms is None else {"restartExpectedMs": restart_ms}
        self.tell("shutdown", {"reason": reason, **expected})
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self.connections.values()):
            connection.close(Close.RESTART, "service restart")


def _entry(connection: Connection) -> dict[str, Any]:
    client, principal = connection.client, connection.principal
    facts = {
        "host": client.display_name or client.id,
        "ip": connection.peer.address,
        "version": client.version,
        "platform": client.platform,
        "mode": client.mode,
        "clientId": client.id,
        "instanceId": client.instance_id,
        "deviceId": principal.device_id,
    }
    shown = {key: single_line(value, 120) for key, value in facts.items() if value}
    roles = {"roles": [principal.role], "scopes": sorted(principal.scopes)}
    return {**shown, **roles, "reason": "connect", "ts": connection.since, "onlineSince": connection.since}
