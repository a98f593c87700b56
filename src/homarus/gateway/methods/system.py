"""How the gateway is: health, status, who is here, its log. And what a home has none of, said as empty lists."""

from __future__ import annotations

import os
import resource
import sys
from typing import Any

from homarus.channels.manager import Status
from homarus.gateway.logs import log_path
from homarus.gateway.methods import Call, Method, Params, passed
from homarus.gateway.rows import session_row
from homarus.gateway.scopes import READ

RECENT = 10
_SCALE = 1 if sys.platform == "darwin" else 1024


class HealthParams(Params, frozen=True):
    probe: bool = False
    PASSED = passed("includeSensitive")


class StatusParams(Params, frozen=True):
    include_channel_summary: bool = True


class TailParams(Params, frozen=True):
    cursor: int | None = None
    limit: int = 500
    max_bytes: int = 250_000


class TaskParams(Params, frozen=True):
    PASSED = passed("status agentId sessionKey limit cursor sortBy")


async def health(call: Call, _params: HealthParams) -> dict[str, Any]:
    return await call.gateway.health()


async def presence(call: Call, _params: Params) -> list[dict[str, Any]]:
    return call.gateway.hub.presence()


async def status(call: Call, _params: StatusParams) -> dict[str, Any]:
    from homarus.gateway.methods.chat import defaults

    gateway, config = call.gateway, call.client.home.config
    by_agent, recent, paths = [], [], []
    for agent in config.agents:
        listed = await call.client.sessions(agent.id)
        rows = [_recent(session_row(gateway, info), gateway.now_ms) for info in listed[:RECENT]]
        path = str(call.client.home.store(agent.id).folder)
        by_agent.append({"agentId": agent.id, "path": path, "count": len(listed), "recent": rows})
        paths.append(path)
        recent += rows
    usual = await defaults(call, gateway.key("main"))
    heartbeats = (await gateway.health())["agents"]
    beats = [{"agentId": row["agentId"], **row["heartbeat"]} for row in heartbeats]
    recent.sort(key=lambda row: -row["updatedAt"])
    return {
        "runtimeVersion": gateway.version,
        "pid": os.getpid(),
        "uptimeMs": gateway.uptime_ms,
        "processMemory": {"rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _SCALE},
        "heartbeat": {"defaultAgentId": config.default_agent.id, "agents": beats},
        "channelSummary": [_summary(each) for each in gateway.switchboard.status()],
        "queuedSystemEvents": [],
        "sessions": {
            "paths": paths,
            "count": sum(row["count"] for row in by_agent),
            "defaults": {"model": usual.get("model"), "contextTokens": usual.get("contextTokens")},
            "recent": recent[:RECENT],
            "byAgent": by_agent,
        },
    }


def _summary(status: Status) -> str:
    state = (
        "connected" if status.connected else "running" if status.running else "off" if not status.enabled else "down"
    )
    return f"{status.channel}/{status.account_id}: {state}" + (f" ({status.last_error})" if status.last_error else "")


def _recent(row: dict[str, Any], now_ms: int) -> dict[str, Any]:
    used, window = row.get("totalTokens"), row.get("contextTokens")
    percent = round(100 * used / window) if used and window else None
    return {**row, "age": now_ms - row["updatedAt"], "flags": [], "percentUsed": percent}


async def tail(call: Call, params: TailParams) -> dict[str, Any]:
    """Return the newest lines of the log, or those after a place in it."""
    path = log_path(call.client.home.config)
    most = max(1, min(params.max_bytes, 1_000_000))
    try:
        size = path.stat().st_size
    except OSError:
        return {"file": str(path), "cursor": 0, "size": 0, "lines": []}
    start = params.cursor if params.cursor is not None else max(0, size - most)
    reset = start > size or start < 0
    start = max(0, size - most) if reset else start
    skipped = max(0, size - start - most)
    with path.open("rb") as file:
        file.seek(start + skipped)
        data = file.read(most)
    lines = data.decode("utf-8", "replace").splitlines()
    if start + skipped and lines and params.cursor is None:
        lines = lines[1:]  # the first may be half a line
    kept = lines[-max(1, min(params.limit, 5000)) :]
    facts = {"truncated": skipped > 0 or len(kept) < len(lines), "reset": reset, "skippedBytes": skipped}
    return {"file": str(path), "cursor": start + skipped + len(data), "size": size, "lines": kept, **facts}


async def tasks(call: Call, _params: TaskParams) -> dict[str, Any]:
    """Return the sub-agents that are at work."""
    return {"tasks": call.client.operations.children()}


async def info(call: Call, _params: Params) -> dict[str, Any]:
    uname = os.uname()
    facts = {"hostname": call.gateway.host, "platform": sys.platform, "arch": uname.machine, "release": uname.release}
    return {**facts, "version": call.gateway.version, "pid": os.getpid(), "uptimeMs": call.gateway.uptime_ms}


async def usage(call: Call, _params: Params) -> dict[str, Any]:
    return {"updatedAt": call.gateway.now_ms, "providers": []}


async def themes(_call: Call, _params: Params) -> dict[str, Any]:
    """Say that the page has its own looks and no others."""
    built_in = {"theme": {"id": "claw", "source": "builtin"}, "definition": {}}
    return {"themes": [], "current": {"requestedId": None, **built_in}, **built_in}


async def nodes(call: Call, _params: Params) -> dict[str, Any]:
    return {"ts": call.gateway.now_ms, "nodes": []}


METHODS = {
    "health": Method(READ, health, HealthParams),
    "status": Method(READ, status, StatusParams),
    "system-presence": Method(READ, presence),
    "system.info": Method(READ, info),
    "logs.tail": Method(READ, tail, TailParams),
    "tasks.list": Method(READ, tasks, TaskParams),
    "usage.status": Method(READ, usage),
    "node.list": Method(READ, nodes),
    "themes.list": Method(READ, themes),
}
