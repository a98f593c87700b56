"""How the gateway is: health, status, who is here."""

from __future__ import annotations

from typing import Any

from homarus.gateway.methods import Call, Method, Params
from homarus.gateway.scopes import READ


class HealthParams(Params, frozen=True):
    probe: bool = False


class StatusParams(Params, frozen=True):
    include_channel_summary: bool = True


async def health(call: Call, _params: HealthParams) -> dict[str, Any]:
    return await call.gateway.health()


async def presence(call: Call, _params: Params) -> list[dict[str, Any]]:
    return call.gateway.hub.presence()


METHODS = {
    "health": Method(READ, health, HealthParams),
    "system-presence": Method(READ, presence),
}
