"""Questions of running turns: what waits for the owner, and the owner's answer."""

from __future__ import annotations

from typing import Any

from homarus.core.errors import HomarusError
from homarus.gateway.methods import Call, Method, Params, passed
from homarus.gateway.protocol import Code, Refused
from homarus.gateway.scopes import ADMIN, APPROVALS, QUESTIONS
from homarus.tools.approval import Request


class IdParams(Params, frozen=True, kw_only=True):
    id: str


class ResolveParams(Params, frozen=True, kw_only=True):
    id: str
    decision: str
    PASSED = passed("reviewer grantExpiresInDays")


def _row(request: Request) -> dict[str, Any]:
    asked = {
        "command": request.summary,
        "agentId": request.agent_id,
        "sessionKey": request.session,
        "ask": request.kind,
    }
    return {"id": request.id, "request": asked, "createdAtMs": request.created_ms, "expiresAtMs": request.expires_ms}


async def waiting(call: Call, _params: Params) -> list[dict[str, Any]]:
    return [_row(request) for request in call.client.operations.questions()]


async def one(call: Call, params: IdParams) -> dict[str, Any]:
    for request in call.client.operations.questions():
        if request.id == params.id:
            return _row(request)
    raise Refused("unknown or expired approval id", Code.APPROVAL_NOT_FOUND)


async def resolve(call: Call, params: ResolveParams) -> dict[str, Any]:
    if params.decision not in {"allow-once", "allow-always", "deny"}:
        raise Refused("invalid decision")
    if params.id not in {request.id for request in call.client.operations.questions()}:
        raise Refused("unknown or expired approval id", Code.APPROVAL_NOT_FOUND)
    try:
        await call.client.answer(params.id, params.decision)
    except HomarusError as problem:
        raise Refused(str(problem), Code.APPROVAL_NOT_FOUND) from None
    told = {"id": params.id, "decision": params.decision, "ts": call.gateway.now_ms}
    call.gateway.hub.tell("exec.approval.resolved", told)
    return {"ok": True}


async def rules(call: Call, _params: Params) -> dict[str, Any]:
    """Return what may always run, in the shape of the original's file."""
    found = call.client.operations.lasting_approvals()
    agents: dict[str, Any] = {}
    for rule in found:
        entry = {"id": rule.id, "pattern": rule.subject, "lastUsedAt": rule.used_ms}
        agents.setdefault(rule.agent_id, {"allowlist": []})["allowlist"].append(entry)
    fallback = {"security": "allowlist", "ask": "on-miss", "askFallback": "deny", "autoAllowSkills": False}
    path = str(call.client.home.config.paths.own_dir / "approvals.json")
    file = {"version": 1, "defaults": {}, "agents": agents}
    return {"path": path, "exists": bool(found), "hash": "", "file": file, "resolvedDefaults": fallback}


async def nothing(_call: Call, _params: Params) -> list[Any]:
    return []


async def no_questions(_call: Call, _params: Params) -> dict[str, Any]:
    return {"questions": []}


METHODS = {
    "exec.approval.list": Method(APPROVALS, waiting),
    "exec.approval.get": Method(APPROVALS, one, IdParams),
    "exec.approval.resolve": Method(APPROVALS, resolve, ResolveParams),
    "exec.approvals.get": Method(ADMIN, rules),
    "plugin.approval.list": Method(APPROVALS, nothing),
    "openclaw.approval.list": Method(APPROVALS, nothing),
    "question.list": Method(QUESTIONS, no_questions),
}
