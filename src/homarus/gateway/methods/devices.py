"""Devices: who is paired, who waits, and what becomes of them. Nobody gives what they do not hold."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from homarus.gateway.devices import CODE_SECONDS, setup_code_of, shown
from homarus.gateway.methods import Call, Method, Params, passed
from homarus.gateway.protocol import Close, Refused
from homarus.gateway.scopes import ADMIN, PAIRING, narrowed


class RequestParams(Params, frozen=True, kw_only=True):
    request_id: str
    PASSED = passed("silent")


class DeviceParams(Params, frozen=True, kw_only=True):
    device_id: str
    PASSED = passed("role")


class RenameParams(Params, frozen=True, kw_only=True):
    device_id: str
    # The page of ours says `displayName`, the original's clients say `label`.
    display_name: str = ""
    label: str = ""


class RotateParams(Params, frozen=True, kw_only=True):
    device_id: str
    role: Literal["operator", "node"] = "operator"
    scopes: tuple[str, ...] | None = None


class SetupParams(Params, frozen=True):
    public_url: str = ""
    PASSED = passed("preferRemoteUrl includeQr")


async def listed(call: Call, _params: Params) -> dict[str, Any]:
    book = call.gateway.devices.read()
    pending = [msgspec.to_builtins(wish) for wish in sorted(book.pending.values(), key=lambda each: -each.ts)]
    paired = [shown(device) for device in (*book.paired.values(), *book.nodes.values())]
    return {"pending": pending, "paired": paired}


async def approve(call: Call, params: RequestParams) -> dict[str, Any]:
    device = call.gateway.devices.approve(params.request_id, call.principal)
    _resolved(call, params.request_id, device.device_id, "approved")
    return {"requestId": params.request_id, "device": shown(device)}


async def reject(call: Call, params: RequestParams) -> dict[str, Any]:
    wish = call.gateway.devices.reject(params.request_id)
    _resolved(call, params.request_id, wish.device_id, "rejected")
    return {"requestId": params.request_id, "deviceId": wish.device_id}


def _resolved(call: Call, request_id: str, device_id: str, decision: str) -> None:
    told = {"requestId": request_id, "deviceId": device_id, "decision": decision, "ts": call.gateway.now_ms}
    call.gateway.hub.tell("device.pair.resolved", told)


async def remove(call: Call, params: DeviceParams) -> dict[str, Any]:
    device = call.gateway.devices.remove(params.device_id, call.principal)
    _cut_off(call, params.device_id)
    return {"deviceId": device.device_id, "removed": True}


async def rename(call: Call, params: RenameParams) -> dict[str, Any]:
    name = params.display_name or params.label
    if not name.strip():
        raise Refused("invalid device.pair.rename params: must have required property 'label'")
    return {"device": shown(call.gateway.devices.rename(params.device_id, name, call.principal))}


async def rotate(call: Call, params: RotateParams) -> dict[str, Any]:
    device, token = call.gateway.devices.rotate(params.device_id, params.scopes, call.principal, params.role)
    _cut_off(call, params.device_id)
    scopes = list(device.token.scopes) if device.token else []
    return {"deviceId": device.device_id, "role": device.role, "token": token, "scopes": scopes}


async def revoke(call: Call, params: RotateParams) -> dict[str, Any]:
    device = call.gateway.devices.revoke(params.device_id, call.principal, params.role)
    _cut_off(call, params.device_id)
    return {"deviceId": device.device_id, "role": device.role, "revokedAtMs": call.gateway.now_ms}


async def setup_code(call: Call, params: SetupParams) -> dict[str, Any]:
    """Invite a device to what both the shared secret and the caller may do."""
    gateway = call.gateway
    token = gateway.devices.invite(narrowed(gateway.live.settings.auth.secret_scopes, call.principal.scopes))
    url = params.public_url or f"ws://127.0.0.1:{gateway.port or gateway.live.settings.port}"
    return {
        "setupCode": setup_code_of(url, token),
        "gatewayUrl": url,
        "expiresAtMs": gateway.now_ms + int(CODE_SECONDS * 1000),
    }


def _cut_off(call: Call, device_id: str) -> None:
    """Close the sockets of a device whose rights changed; the caller's own hears its answer first."""
    for connection in list(call.gateway.hub.connections.values()):
        if connection.principal.device_id == device_id and connection is not call.connection:
            connection.close(Close.POLICY, "device credential changed")


METHODS = {
    "device.pair.list": Method(PAIRING, listed),
    "device.pair.approve": Method(PAIRING, approve, RequestParams, write=True),
    "device.pair.reject": Method(PAIRING, reject, RequestParams, write=True),
    "device.pair.remove": Method(PAIRING, remove, DeviceParams, write=True),
    "device.pair.rename": Method(PAIRING, rename, RenameParams, write=True),
    "device.pair.setupCode": Method(ADMIN, setup_code, SetupParams, write=True),
    "device.token.rotate": Method(PAIRING, rotate, RotateParams, write=True),
    "device.token.revoke": Method(PAIRING, revoke, RotateParams, write=True),
}
