"""How the gateway describes itself: what a client is told when it connects, and its health. Facts of the home, in the shapes that clients know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from homarus.automation.heartbeat import beating, prompt_for
from homarus.automation.settings import HeartbeatSettings
from homarus.core.routes import main_session
from homarus.gateway.methods import table
from homarus.gateway.methods.channels import status_of
from homarus.gateway.protocol import MAX_BUFFERED, MAX_PAYLOAD, PROTOCOL, TICK_SECONDS
from homarus.gateway.scopes import ADMIN, EVENTS

if TYPE_CHECKING:
    from homarus.gateway.auth import Admission
    from homarus.gateway.connection import Connection
    from homarus.gateway.scopes import Principal
    from homarus.gateway.server import Gateway

RECENT = 5


async def hello(gateway: Gateway, connection: Connection, admission: Admission) -> dict[str, Any]:
    principal = admission.principal
    auth: dict[str, Any] = {"role": principal.role, "scopes": sorted(principal.scopes), "method": principal.method}
    if admission.device_token:
        auth |= {"deviceToken": admission.device_token, "issuedAtMs": gateway.now_ms}
    if admission.tokens:
        auth["deviceTokens"] = admission.tokens
    return {
        "type": "hello-ok",
        "protocol": PROTOCOL,
        "server": {"version": gateway.version, "connId": connection.id},
        "features": {"methods": sorted(table()), "events": sorted(EVENTS)},
        "snapshot": await _snapshot(gateway, principal),
        "auth": auth,
        "policy": {
            "maxPayload": MAX_PAYLOAD,
            "maxBufferedBytes": MAX_BUFFERED,
            "tickIntervalMs": int(TICK_SECONDS * 1000),
        },
    }


async def _snapshot(gateway: Gateway, principal: Principal) -> dict[str, Any]:
    home = gateway.client.home
    if principal.role == "node":  # it does what it is told, and need not know whom it serves
        version = dict(gateway.hub.version)
        return {"presence": [], "health": {"ok": True}, "stateVersion": version, "uptimeMs": gateway.uptime_ms}
    agent = home.config.default_agent
    key = gateway.client.resolve("", "main")
    defaults = {
        "defaultAgentId": agent.id,
        "mainKey": key.peer or "main",
        "mainSessionKey": str(main_session(agent.id)),
        "scope": "per-sender",
        "modelConfigured": True,
    }
    found: dict[str, Any] = {
        "presence": gateway.hub.presence(),
        "health": await health(gateway),
        "stateVersion": dict(gateway.hub.version),
        "uptimeMs": gateway.uptime_ms,
        "sessionDefaults": defaults,
    }
    if principal.may(ADMIN):
        paths = home.config.paths
        found |= {"configPath": str(paths.config_path), "stateDir": str(paths.state_dir)}
        found["authMode"] = gateway.live.settings.auth.mode
    return found


_NO_BEAT: dict[str, Any] = {
    "enabled": False,
    "every": "disabled",
    "everyMs": None,
    "prompt": "",
    "target": "none",
    "ackMaxChars": 300,
}


def _beat(settings: HeartbeatSettings) -> dict[str, Any]:
    told = {"enabled": True, "every": f"{settings.seconds / 60:g}m", "everyMs": round(settings.seconds * 1000)}
    words = {"prompt": prompt_for(settings), "target": settings.target, "ackMaxChars": settings.ack_max_chars}
    return {**told, **words}


async def health(gateway: Gateway) -> dict[str, Any]:
    home, began = gateway.client.home, gateway.clock.monotonic()
    agents, beats = [], {agent_id: _beat(found) for agent_id, found in beating(home.config).items()}
    for agent in home.config.agents:
        listed = await gateway.client.sessions(agent.id)
        sessions = {
            "path": str(home.store(agent.id).folder),
            "count": len(listed),
            "recent": [
                {"key": info.name, "updatedAt": info.entry.updated_at, "age": gateway.now_ms - info.entry.updated_at}
                for info in listed[:RECENT]
            ],
        }
        facts: dict[str, Any] = {
            "agentId": agent.id,
            "isDefault": agent.default,
            "heartbeat": beats.get(agent.id, _NO_BEAT),
        }
        agents.append({**facts, "sessions": sessions})
    main = next(each for each in agents if each["isDefault"])
    channels = await status_of(gateway.switchboard)
    return {
        "ok": True,
        "ts": gateway.now_ms,
        "durationMs": round((gateway.clock.monotonic() - began) * 1000),
        **{name: channels[name] for name in ("channels", "channelOrder", "channelLabels")},
        "heartbeatSeconds": round((main["heartbeat"]["everyMs"] or 0) / 1000),
        "defaultAgentId": main["agentId"],
        "agents": agents,
        "sessions": main["sessions"],
    }
