"""Questions of running turns: what waits for the owner, and the owner's answer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from homarus.core.cancel import Cancel
from homarus.core.errors import HomarusError
from homarus.core.text import single_line
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


class AskParams(Params, frozen=True, kw_only=True):
    """What a program wants to run that asks first, as a node or an editor does."""

    id: str | None = None
    command: str | None = None
    command_argv: list[str] | None = None
    system_run_plan: dict[str, Any] | None = None
    cwd: str | None = None
    host: str | None = None
    warning_text: str | None = None
    agent_id: str | None = None
    session_key: str | None = None
    timeout_ms: int | None = None
    two_phase: bool = False
    PASSED = passed(
        "env nodeId security ask scope unavailableDecisions commandSpans resolvedPath sessionId runId toolCallId "
        "turnSourceChannel turnSourceTo turnSourceAccountId turnSourceThreadId approvalReviewerDeviceIds "
        "requireDeliveryRoute suppressDelivery deliverToApprovalClientsOnly"
    )


class RulesFile(Params, frozen=True, kw_only=True):
    version: Literal[1]
    defaults: dict[str, Any] = msgspec.field(default_factory=dict)
    agents: dict[str, Any] = msgspec.field(default_factory=dict)
    socket: Any = None  # where the original's own helper listens; there is none here


class RulesParams(Params, frozen=True, kw_only=True):
    file: RulesFile
    base_hash: str = ""


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


class _Reviewers:
    """Those who may answer and are connected, apart from whoever asks."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def reachable(self, request: Request) -> bool:
        others = (each for each in self._call.gateway.hub.connections.values() if each is not self._call.connection)
        return any(each.principal.may(APPROVALS) for each in others)

    async def announce(self, request: Request) -> None:
        if self._call.connection is not None:
            self._call.gateway.hub.tell("exec.approval.requested", _row(request))


async def ask(call: Call, params: AskParams) -> dict[str, Any]:
    """Put a question of a program to those who may answer it. Nobody there, or no answer in time, is a no."""
    plan = params.system_run_plan or {}
    argv = params.command_argv or plan.get("argv") or []
    command = params.command or str(plan.get("commandText") or "") or " ".join(map(str, argv))
    if not command.strip():
        raise Refused("exec.approval.request: command or systemRunPlan is required")
    agent = call.gateway.key(params.session_key or "", params.agent_id or "").agent_id
    exact = [command, argv, params.cwd or plan.get("cwd"), params.host]
    approvals = call.client.home.toolkit.approvals
    request = approvals.new_request(
        seconds=(params.timeout_ms or 0) / 1000,
        digest=hashlib.sha256(msgspec.json.encode(exact)).hexdigest(),
        kind="exec",
        subject=command,
        summary=single_line(command, 2000),
        reason=single_line(params.warning_text or "a program that is connected asks", 500),
        agent_id=agent,
        session=params.session_key or "",
    )
    if params.id:
        book = approvals.read()
        if params.id in {each.id for each in (*book.pending, *(old.request for old in book.decided))}:
            raise Refused("an approval with this id was asked for already")
        request = msgspec.structs.replace(request, id=single_line(params.id, 100))
    about = {"id": request.id, "createdAtMs": request.created_ms, "expiresAtMs": request.expires_ms}
    if params.two_phase:
        call.answer({"status": "accepted", **about})
    decision = await approvals.ask(request, _Reviewers(call), Cancel())
    return {**about, "decision": decision}


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


async def wait(call: Call, params: IdParams) -> dict[str, Any]:
    """Wait until a question is answered; one that nobody answers in time is a no."""
    approvals = call.client.home.toolkit.approvals
    while True:
        book = approvals.read()
        waiting = next((each for each in book.pending if each.id == params.id), None)
        decided = next((each for each in reversed(book.decided) if each.request.id == params.id), None)
        if waiting is None and decided is None:
            raise Refused("unknown or expired approval id", Code.APPROVAL_NOT_FOUND)
        if waiting is None and decided is not None:
            asked = decided.request
            facts = {"createdAtMs": asked.created_ms, "expiresAtMs": asked.expires_ms, "resolvedAtMs": decided.at_ms}
            return {"id": params.id, "decision": decided.decision, **facts}
        await call.gateway.clock.sleep(0.25)


def _file(call: Call) -> dict[str, Any]:
    agents: dict[str, Any] = {}
    for rule in call.client.operations.lasting_approvals():
        entry = {"id": rule.id, "pattern": rule.subject, "lastUsedAt": rule.used_ms}
        agents.setdefault(rule.agent_id, {"allowlist": []})["allowlist"].append(entry)
    return {"version": 1, "defaults": {}, "agents": agents}


def _shown(call: Call) -> dict[str, Any]:
    file = _file(call)
    fallback = {"security": "allowlist", "ask": "on-miss", "askFallback": "deny", "autoAllowSkills": False}
    path = str(call.client.home.config.paths.own_dir / "approvals.json")
    kept = hashlib.sha256(msgspec.json.encode(file, order="sorted")).hexdigest()
    return {"path": path, "exists": bool(file["agents"]), "hash": kept, "file": file, "resolvedDefaults": fallback}


async def rules(call: Call, _params: Params) -> dict[str, Any]:
    """Return what may always run, in the shape of the original's file."""
    return _shown(call)


async def set_rules(call: Call, params: RulesParams) -> dict[str, Any]:
    """Take back what the new file does not name. Nothing is allowed this way: a rule is an exact command that somebody was asked about."""
    now = _shown(call)
    if params.base_hash and params.base_hash != now["hash"]:
        raise Refused("the rules changed since they were read; re-run exec.approvals.get and retry")
    if any(value not in (None, "", now["resolvedDefaults"].get(key)) for key, value in params.file.defaults.items()):
        raise Refused("the usual rules are those of tools.exec in the configuration")
    known = {each["id"]: (agent, each["pattern"]) for agent, each in _entries(now["file"]["agents"])}
    patterns = {place: ident for ident, place in known.items()}
    kept = set()
    for agent, each in _entries(params.file.agents):
        ident = each.get("id") if each.get("id") in known else patterns.get((agent, each.get("pattern")))
        if ident is None:
            raise Refused("a command is allowed for good by answering 'allow-always' when it is asked, not from here")
        kept.add(ident)
    for ident in known.keys() - kept:
        call.client.home.toolkit.approvals.revoke(ident)
    return _shown(call)


def _entries(agents: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for agent, entry in agents.items():
        listed = entry.get("allowlist") if isinstance(entry, dict) else None
        for each in listed if isinstance(listed, list) else ():
            yield agent, each if isinstance(each, dict) else {"pattern": each}


async def nothing(_call: Call, _params: Params) -> list[Any]:
    return []


async def no_questions(_call: Call, _params: Params) -> dict[str, Any]:
    return {"questions": []}


METHODS = {
    "exec.approval.list": Method(APPROVALS, waiting),
    "exec.approval.request": Method(APPROVALS, ask, AskParams),
    "exec.approval.get": Method(APPROVALS, one, IdParams),
    "exec.approval.resolve": Method(APPROVALS, resolve, ResolveParams),
    "exec.approval.waitDecision": Method(APPROVALS, wait, IdParams),
    "exec.approvals.get": Method(ADMIN, rules),
    "exec.approvals.set": Method(ADMIN, set_rules, RulesParams, write=True),
    "plugin.approval.list": Method(APPROVALS, nothing),
    "openclaw.approval.list": Method(APPROVALS, nothing),
    "question.list": Method(QUESTIONS, no_questions),
}
