"""Jobs, wake-ups and heartbeats: what clients ask of automation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import msgspec

from homarus.automation.jobs import Job
from homarus.automation.scheduler import Automation
from homarus.core.errors import ConfigError, ToolError
from homarus.gateway.methods import Call, Method, Params, passed
from homarus.gateway.protocol import Refused
from homarus.gateway.scopes import ADMIN, READ, WRITE

Json = dict[str, Any]
MOST = 200


class ListParams(Params, frozen=True):
    include_disabled: bool = False
    limit: int = 50
    offset: int = 0
    query: str = ""
    enabled: Literal["all", "enabled", "disabled"] = "all"
    schedule_kind: Literal["all", "at", "every", "cron", "on-exit", "stream"] = "all"
    agent_id: str = ""
    PASSED = passed("sortBy sortDir lastRunStatus compact includeDeliveryPreviews trigger sessionKey sessionAgentId")


class JobParams(Params, frozen=True):
    id: str = ""
    job_id: str = ""
    PASSED = passed("includeSensitive")

    @property
    def word(self) -> str:
        if not (self.id or self.job_id):
            raise Refused("id is missing")
        return self.id or self.job_id


class UpdateParams(JobParams, frozen=True, kw_only=True):
    patch: Json


class RunParams(JobParams, frozen=True):
    mode: Literal["due", "force", "if-enabled"] = "force"
    PASSED = passed("expectedProcessInstanceId")


class RunsParams(Params, frozen=True):
    id: str = ""
    job_id: str = ""
    run_id: str = ""
    limit: int = 50
    PASSED = passed("scope offset statuses status deliveryStatuses deliveryStatus query sortDir agentId")


class WakeParams(Params, frozen=True):
    text: str
    mode: Literal["now", "next-heartbeat"] = "now"
    agent_id: str = ""
    session_key: str = ""
    PASSED = passed("reason")


class EventParams(Params, frozen=True):
    text: str
    session_key: str = ""
    wake: bool = False
    idempotency_key: str = ""
    # What a client says of its machine; `mode` is what kind of client it is.
    PASSED = passed(
        "deviceId deviceFamily modelIdentifier host ip mode version platform lastInputSeconds instanceId roles scopes tags reason"
    )


class SwitchParams(Params, frozen=True):
    enabled: bool


def _automation(call: Call) -> Automation:
    return call.gateway.runtime.automation


@contextmanager
def _said() -> Iterator[None]:
    """What is wrong with a job is told to whoever asked for it."""
    try:
        yield
    except (ConfigError, ToolError) as problem:
        raise Refused(str(problem)) from None


async def status(call: Call, _params: Params) -> Json:
    return {key: value for key, value in _automation(call).status().items() if value is not None}


async def list_jobs(call: Call, params: ListParams) -> Json:
    wanted = "all" if params.include_disabled and params.enabled == "all" else params.enabled
    found = []
    for raw in _automation(call).jobs():
        job = Job(raw)
        on = job.enabled
        if (wanted == "disabled" and on) or (wanted == "enabled" and not on):
            continue
        if wanted == "all" and not params.include_disabled and not on:
            continue
        kind = raw["schedule"].get("kind") if isinstance(raw.get("schedule"), dict) else ""
        if params.schedule_kind not in {"all", kind} or (params.agent_id and params.agent_id != job.agent_id):
            continue
        if params.query.lower() in f"{job.name} {job.text} {job.id}".lower():
            found.append(raw)
    limit, offset = max(1, min(params.limit, MOST)), max(0, params.offset)
    more = offset + limit < len(found)
    return {
        "jobs": found[offset : offset + limit],
        "total": len(found),
        "offset": offset,
        "limit": limit,
        "hasMore": more,
        "nextOffset": offset + limit if more else None,
        # Pages of one list belong together as long as this is the same.
        "snapshotRevision": hashlib.sha256(msgspec.json.encode(found)).hexdigest()[:16],
    }


async def get(call: Call, params: JobParams) -> Json:
    with _said():
        return _automation(call).job(params.word)


async def add(call: Call, params: Any) -> Json:
    with _said():
        return _automation(call).add(dict(params))


async def update(call: Call, params: UpdateParams) -> Json:
    with _said():
        return _automation(call).update(params.word, params.patch)


async def remove(call: Call, params: JobParams) -> Json:
    with _said():
        _automation(call).remove(params.word)
        return {"ok": True, "removed": True}


async def run(call: Call, params: RunParams) -> Json:
    automation = _automation(call)
    with _said():
        if params.mode == "if-enabled" and not Job(automation.job(params.word)).enabled:
            return {"ok": True, "enqueued": False, "ran": False, "reason": "disabled"}
        run_id = automation.run(params.word, force=params.mode != "due")
    return (
        {"ok": True, "enqueued": bool(run_id), "runId": run_id}
        if run_id
        else {"ok": True, "ran": False, "reason": "not-due"}
    )


async def runs(call: Call, params: RunsParams) -> Json:
    with _said():
        entries = _automation(call).runs(params.id or params.job_id, max(1, min(params.limit, MOST)))
    found = [row for row in entries if not params.run_id or row.get("runId") == params.run_id]
    return {"entries": found, "total": len(found), "offset": 0, "limit": params.limit, "hasMore": False}


async def wake(call: Call, params: WakeParams) -> Json:
    if not params.text.strip():
        raise Refused("text is missing")
    with _said():
        _automation(call).wake(
            params.text, now=params.mode == "now", agent_id=params.agent_id, session=params.session_key
        )
    return {"ok": True}


async def event(call: Call, params: EventParams) -> Json:
    if not params.text.strip():
        raise Refused("text is missing")
    with _said():
        _automation(call).wake(
            params.text, now=params.wake, session=params.session_key, ident=params.idempotency_key[:200]
        )
    return {"ok": True}


async def set_heartbeats(call: Call, params: SwitchParams) -> Json:
    _automation(call).set_heartbeats(params.enabled)
    return {"ok": True, "enabled": params.enabled}


async def last_heartbeat(call: Call, _params: Params) -> Json | None:
    return _automation(call).last_heartbeat() or None


METHODS = {
    "cron.status": Method(READ, status),
    "cron.list": Method(READ, list_jobs, ListParams),
    "cron.get": Method(READ, get, JobParams),
    "cron.runs": Method(READ, runs, RunsParams),
    "cron.add": Method(ADMIN, add, dict[str, Any], write=True),
    "cron.update": Method(ADMIN, update, UpdateParams, write=True),
    "cron.remove": Method(ADMIN, remove, JobParams, write=True),
    "cron.run": Method(ADMIN, run, RunParams, write=True),
    "wake": Method(WRITE, wake, WakeParams),
    "system-event": Method(ADMIN, event, EventParams),
    "set-heartbeats": Method(ADMIN, set_heartbeats, SwitchParams),
    "last-heartbeat": Method(READ, last_heartbeat),
}
