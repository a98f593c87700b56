"""Asking an agent and waiting for the answer: two responses to one request, the first at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

import msgspec

from homarus.commands.command import split_command
from homarus.core.errors import HomarusError
from homarus.core.events import MessageEnded, RunEnded
from homarus.core.routes import SessionKey
from homarus.gateway.methods import Call, Method, Params, passed
from homarus.gateway.methods.chat import Attachment, accepted_before, as_client, check_text, command_scope, images
from homarus.gateway.protocol import Code, Refused, failure, response, where
from homarus.gateway.runs import Run
from homarus.gateway.scopes import ADMIN, READ, WRITE
from homarus.models.levels import parse_level
from homarus.runtime.client import RunOptions
from homarus.runtime.local import Events
from homarus.runtime.operations import reply_in_log
from homarus.runtime.reply import Reply, ReplyFold
from homarus.runtime.starter import CUT_OFF, TurnStarter

_log = logging.getLogger(__name__)
_WAIT_MS, _LONGEST_WAIT = 30_000, 3_600_000


class AgentParams(Params, frozen=True, kw_only=True):
    message: str
    idempotency_key: str
    agent_id: str = ""
    session_key: str = ""
    session_id: str = ""
    model: str = ""
    provider: str = ""
    thinking: str = ""
    extra_system_prompt: str = ""
    timeout: int | None = None
    attachments: tuple[Attachment, ...] = ()
    # Whether the answer is also sent to a chat, and to which; without one, to where the session was talked in last.
    deliver: bool = False
    channel: str = ""
    to: str = ""
    account_id: str = ""
    thread_id: str | int = ""
    PASSED = passed(
        "replyTo replyChannel replyAccountId groupId groupChannel groupSpace "
        "bestEffortDeliver lane label cwd promptMode bootstrapContextMode bootstrapContextRunKind inputProvenance "
        "expectedExistingSessionId cleanupBundleMcpOnRunEnd modelRun sessionEffects"
    )


class WaitParams(Params, frozen=True, kw_only=True):
    run_id: str
    timeout_ms: int = _WAIT_MS


class IdentityParams(Params, frozen=True):
    agent_id: str = ""
    session_key: str = ""


def _scope(params: AgentParams) -> str:
    name, _ = split_command(params.message) or ("", "")
    return ADMIN if name in {"new", "reset"} else command_scope(params.message)


def _session(call: Call, params: AgentParams) -> SessionKey:
    if params.session_key or not params.session_id:
        return call.gateway.key(params.session_key or "main", params.agent_id)
    agent = call.client.home.config.agent_named(params.agent_id).id
    info = call.client.home.store(agent).by_id(params.session_id)
    return info.key if info else call.gateway.key(params.session_id, params.agent_id)


async def ask(call: Call, params: AgentParams) -> Any:
    """Accept a message; its answer is the second response, whoever else is told meanwhile."""
    gateway, ident, key = call.gateway, params.idempotency_key, _session(call, params)
    pictures = images(params.attachments)
    check_text(params.message, pictures, ident)
    known = gateway.runs.get(ident)
    if known is not None and known.taken:
        if known.ended and known.result is not None:
            return known.result
        gateway.spawn(_tell_later(call, known))
        return {"runId": ident, "status": "in_flight", "sessionKey": str(known.session)}
    if params.thinking and parse_level(params.thinking) is None:
        raise Refused(f"invalid thinking level: {params.thinking}")
    model = f"{params.provider}/{params.model}" if params.provider and params.model else params.model
    options = RunOptions(
        images=pictures,
        model=model,
        thinking=params.thinking,
        seconds=params.timeout,
        instructions=params.extra_system_prompt,
    )
    run = known or gateway.runs.begin(ident, key, gateway.now_ms, call.trace)
    run.awaited = True
    gateway.feed.attend(key)
    options = as_client(options, ident)
    # A command is never durable, and may take long.
    begun = None if split_command(params.message) else await _begun(call, run, params.message, options)
    run.taken = True
    gateway.spawn(_run(call, run, params, options, begun))
    facts = {"runId": ident, "sessionKey": str(key), "agentId": key.agent_id}
    return {**facts, "status": "accepted", "acceptedAt": gateway.now_ms}


async def _begun(call: Call, run: Run, text: str, options: RunOptions) -> Events:
    """Make a message durable and return what then happens. Raises Refused, and then nothing is left of the run."""
    gateway = call.gateway
    try:
        await gateway.turnstile()
        taken, events = await gateway.client.begin(run.session, text, options)
        if not taken.refused:
            return events
        with contextlib.suppress(HomarusError):
            async for _ in events:
                pass
        if accepted_before(call, run):
            return _before(call, run)
        raise Refused(taken.refused, Code.UNAVAILABLE, retry_ms=1000)
    except BaseException:  # also when whoever asked goes meanwhile: nobody knows then whether it is durable
        gateway.runs.forget(run)
        raise


async def _before(call: Call, run: Run) -> Events:
    """Tell how a message ends that an earlier process took in."""
    lane, home = call.gateway.runtime.lane(run.session), call.client.home
    while lane.owes(run.key) and lane.busy:
        await lane.idle()
    found = await asyncio.to_thread(reply_in_log, home, run.session, run.key)
    if found is None:
        yield RunEnded(run.id, "error", error=CUT_OFF)
    else:
        yield MessageEnded(found[0])
        yield RunEnded(run.id, "error" if found[0].error else "ok", found[0].text, found[0].error)


async def _run(call: Call, run: Run, params: AgentParams, options: RunOptions, begun: Events | None) -> None:
    gateway, fold = call.gateway, ReplyFold()
    try:
        async for event in begun or await _begun(call, run, params.message, options):
            fold.take(event)
    except Exception as problem:  # noqa: BLE001 - whatever goes wrong, somebody waits for an answer
        if isinstance(problem, Refused):
            refused = problem
        elif isinstance(problem, HomarusError):
            refused = Refused(str(problem))
        else:
            refused = Refused("internal error", Code.UNAVAILABLE)
            _log.error("a run failed: %s", where(problem))
        run.end("error", gateway.now_ms, error=refused.message)
        gateway.runs.forget(run)
        if call.connection is not None:
            call.connection.answer(failure(call.id, refused))
        return
    reply = fold.reply()
    result = _result(run, reply)
    if params.deliver and reply.text:
        result["result"]["deliveryStatus"] = await _delivered(call, run, params, reply.text)
    run.result = msgspec.Raw(msgspec.json.encode(result))
    status = "ok" if reply.ok else "timeout" if reply.status == "timeout" else "error"
    aborted = reply.status == "aborted"
    error, reason = ("aborted", "rpc") if aborted else (reply.error, "")
    run.end(status, gateway.now_ms, error=error, stop_reason=reason, text=reply.text)
    gateway.runs.close(run)
    call.answer(run.result)


async def _delivered(call: Call, run: Run, params: AgentParams, text: str) -> dict[str, Any]:
    """Bring an answer to a chat, durably and once for its key; it never goes to another one instead."""
    target = {"channel": params.channel or "last", "to": params.to, "accountId": params.account_id}
    target |= {"threadId": str(params.thread_id)}
    starter = TurnStarter(call.gateway.runtime)
    problem = await starter.deliver(run.session, target, text, f"agent:{run.id}", said=run.session)
    return {"status": "failed", "error": problem} if problem else {"status": "sent"}


async def _tell_later(call: Call, run: Run) -> None:
    await call.gateway.runs.ended(run, _LONGEST_WAIT / 1000)
    if run.result is not None and call.connection is not None:
        call.connection.answer(response(call.id, run.result))


def _result(run: Run, reply: Reply[None]) -> dict[str, Any]:
    built = reply.to_json(str(run.session))
    summary = "completed" if reply.ok else reply.error or reply.status
    result = {"payloads": built["payloads"], "meta": built["meta"]}
    facts = {"runId": run.id, "status": "ok" if reply.ok else "error", "summary": summary, "result": result}
    return facts | ({} if reply.ok else {"error": reply.error or reply.status})


async def wait(call: Call, params: WaitParams) -> dict[str, Any]:
    run = call.gateway.runs.get(params.run_id)
    seconds = min(max(0, params.timeout_ms), _LONGEST_WAIT) / 1000
    if run is None or not await call.gateway.runs.ended(run, seconds):
        return {"runId": params.run_id, "status": "timeout"}
    facts = {"error": run.error, "stopReason": run.stop_reason, "terminalReply": run.text}
    told = {key: value for key, value in facts.items() if value}
    return {"runId": run.id, "status": run.status, "startedAt": run.started_ms, "endedAt": run.ended_ms, **told}


async def identity(call: Call, params: IdentityParams) -> dict[str, Any]:
    agent = call.gateway.key(params.session_key, params.agent_id).agent_id if params.session_key else params.agent_id
    found = call.client.home.config.agent_named(agent).id
    name = call.gateway.agent_name(found)
    return {"agentId": found, "name": name, "avatar": name[:1].upper(), "nameSource": "config"}


METHODS = {
    "agent": Method(WRITE, ask, AgentParams, raised=_scope),
    "agent.wait": Method(WRITE, wait, WaitParams),
    "agent.identity.get": Method(READ, identity, IdentityParams),
}
