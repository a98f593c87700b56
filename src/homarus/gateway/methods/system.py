"""How the gateway is: health, status, who is here, its log. And what a home has none of, said as empty lists."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from datetime import datetime
from typing import Any

from homarus.channels.manager import Status
from homarus.core.routes import SessionKey
from homarus.core.text import single_line
from homarus.gateway.logs import LEDGER, log_path, read_ledger
from homarus.gateway.methods import Call, Method, Params, passed
from homarus.gateway.protocol import Refused
from homarus.gateway.rows import session_row
from homarus.gateway.scopes import ADMIN, READ, WRITE

RECENT, MAX_AUDIT = 10, 5_000
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


class UpdateParams(Params, frozen=True):
    PASSED = passed("refreshCheckout")


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


class TaskIdParams(Params, frozen=True, kw_only=True):
    task_id: str


class CancelParams(TaskIdParams, frozen=True, kw_only=True):
    reason: str = "cancelled by a client"


class AuditParams(Params, frozen=True):
    agent_id: str = ""
    session_key: str = ""
    run_id: str = ""
    kind: str = ""
    status: str = ""
    after: int | None = None
    before: int | None = None
    limit: int = 100


class RestartParams(Params, frozen=True):
    PASSED = passed("reason note sessionKey deliveryContext delayMs restartDelayMs safe target force")


def _task(call: Call, task_id: str) -> dict[str, Any] | None:
    return next((row for row in call.client.operations.children() if row["id"] == task_id), None)


async def task(call: Call, params: TaskIdParams) -> dict[str, Any]:
    found = _task(call, params.task_id)
    if found is None:
        raise Refused("no such task is at work")
    return {"task": found}


async def cancel_task(call: Call, params: CancelParams) -> dict[str, Any]:
    found = _task(call, params.task_id)
    if found is None:
        return {"found": False, "cancelled": False, "reason": "no such task is at work"}
    done = call.client.children.cancel(params.task_id, single_line(params.reason, 200), quiet=False)
    return {"found": True, "cancelled": done, "task": {**found, "status": "cancelled" if done else found["status"]}}


_OUTCOMES = {"ok": "succeeded", "error": "failed", "aborted": "cancelled", "timeout": "timed_out"}
_KINDS = {"run": ("agent_run", "agent.run.started"), "run-ended": ("agent_run", "agent.run.finished")}


async def audit(call: Call, params: AuditParams) -> dict[str, Any]:
    """Return runs and tools from the ledger, the newest first: who did what, never what was said."""
    gateway = call.gateway
    rows = await asyncio.to_thread(read_ledger, call.client.home.config.paths.own_dir / LEDGER, MAX_AUDIT)
    found = []
    for number, row in enumerate(rows, 1):
        kind, action = _KINDS.get(row["what"], ("tool_action", "tool.action.finished"))
        if row["what"] not in {*_KINDS, "tool"}:
            continue
        moment = int(datetime.fromisoformat(row["time"]).timestamp() * 1000)
        session = str(row.get("session", ""))
        agent = SessionKey.parse(session).agent_id if session else gateway.client.home.config.default_agent.id
        event = {
            "eventId": f"{row['time']}#{number}",
            "sequence": number,
            "sourceSequence": number,
            "occurredAt": moment,
            "kind": kind,
            "action": action,
            "status": "started" if row["what"] == "run" else _OUTCOMES.get(str(row.get("outcome")), "unknown"),
            "actor": {"type": "agent", "id": agent},
            "agentId": agent,
            "sessionKey": session,
            "runId": str(row.get("run", "")),
            "redaction": "metadata_only",
        } | ({"toolName": row["tool"]} if "tool" in row else {})
        if _asked_for(event, params):
            found.append(event)
    return {"events": found[::-1][: max(1, min(params.limit, 500))]}


def _asked_for(event: dict[str, Any], params: AuditParams) -> bool:
    wanted = {"agentId": params.agent_id, "sessionKey": params.session_key, "runId": params.run_id}
    wanted |= {"kind": params.kind, "status": params.status}
    return (
        all(event[key] == value for key, value in wanted.items() if value)
        and (params.after is None or event["occurredAt"] > params.after)
        and (params.before is None or event["occurredAt"] < params.before)
    )


async def restart(call: Call, _params: RestartParams) -> dict[str, Any]:
    return {"ok": True, "status": "scheduled", "message": call.gateway.life.restart()}


async def update(_call: Call, _params: UpdateParams) -> dict[str, Any]:
    """Say that nobody looks for a newer version here: the package manager does."""
    return {"sentinel": None, "updateAvailable": None}


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


METHODS = {
    "health": Method(READ, health, HealthParams),
    "status": Method(READ, status, StatusParams),
    "system-presence": Method(READ, presence),
    "system.info": Method(READ, info),
    "logs.tail": Method(READ, tail, TailParams),
    "tasks.list": Method(READ, tasks, TaskParams),
    "tasks.get": Method(READ, task, TaskIdParams),
    "tasks.cancel": Method(WRITE, cancel_task, CancelParams),
    "audit.list": Method(READ, audit, AuditParams),
    "update.status": Method(ADMIN, update, UpdateParams),
    "gateway.restart.request": Method(ADMIN, restart, RestartParams, write=True),
    "usage.status": Method(READ, usage),
    "themes.list": Method(READ, themes),
}
