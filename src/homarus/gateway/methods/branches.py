"""Where a session was: the whole of it, going back in it, and going on from there elsewhere. Nothing that was said is lost."""

from __future__ import annotations

from typing import Any

from homarus.core.routes import SessionKind, named_session
from homarus.gateway.methods import Call, Method, Params
from homarus.gateway.protocol import Code, Refused
from homarus.gateway.rows import history
from homarus.gateway.scopes import ADMIN, READ, WRITE

MOST = 1000


class BranchParams(Params, frozen=True, kw_only=True):
    session_key: str
    agent_id: str = ""


class EntryParams(Params, frozen=True, kw_only=True):
    session_key: str
    entry_id: str
    agent_id: str = ""


class GetParams(Params, frozen=True, kw_only=True):
    key: str
    agent_id: str = ""
    limit: int = 200


async def branches(call: Call, params: BranchParams) -> dict[str, Any]:
    """Return the branch that is in view; others are not shown here."""
    lines = await call.client.operations.transcript(call.gateway.key(params.session_key, params.agent_id))
    if not lines:
        return {"branches": []}
    first = next((line.message.text for line in lines if line.message.text), "")
    row = {"leafEntryId": lines[-1].id, "headline": first[:80], "messageCount": len(lines), "active": True}
    return {"branches": [row]}


async def get(call: Call, params: GetParams) -> dict[str, Any]:
    """Return all that is kept of a session's choices and counts, and its newest messages."""
    key = call.gateway.key(params.key, params.agent_id)
    info = call.client.operations.find(key)
    if info is None:
        raise Refused("No session found")
    lines = await call.client.operations.transcript(key)
    row = {name: value for name, value in info.row.items() if name != "sessionFile"}
    shown = history(lines[-max(1, min(params.limit, MOST)) :])
    return {"key": str(key), "agentId": key.agent_id, "session": row, "messages": shown}


async def fork(call: Call, params: EntryParams) -> dict[str, Any]:
    key = call.gateway.key(params.session_key, params.agent_id)
    into = named_session(key.agent_id, SessionKind.DASHBOARD, call.gateway.ids.uuid())
    text = await call.client.operations.fork(key, params.entry_id, into)
    await call.client.patch(into, parent_session_key=str(key))
    call.gateway.feed.changed(into, "create")
    return {"sessionKey": str(into), **({"editorText": text} if text else {})}


async def rewind(call: Call, params: EntryParams) -> dict[str, Any]:
    key = call.gateway.key(params.session_key, params.agent_id)
    if call.client.operations.is_busy(key):
        raise Refused("the session is at work; stop it first", Code.UNAVAILABLE, retry_ms=1_000)
    text = await call.client.operations.rewind(key, params.entry_id)
    call.gateway.feed.changed(key, "rewind")
    return {"editorText": text} if text else {}


METHODS = {
    "sessions.branches.list": Method(READ, branches, BranchParams),
    "sessions.get": Method(READ, get, GetParams),
    "sessions.fork": Method(WRITE, fork, EntryParams),
    "sessions.rewind": Method(ADMIN, rewind, EntryParams),
}
