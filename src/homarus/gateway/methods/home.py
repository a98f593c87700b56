"""The client contract on the wire, for our own programs: every event of a turn as it is, and nothing that a page would need.

`gateway.remote` is the other end. Who speaks is the connection's principal; nothing in a message can say otherwise.
"""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from homarus.core.cancel import STOPPED
from homarus.core.events import RunEvent
from homarus.core.messages import Trust
from homarus.core.routes import SessionKey
from homarus.gateway.methods import Call, Method, Params
from homarus.gateway.methods.chat import command_scope
from homarus.gateway.protocol import Refused, event_head
from homarus.gateway.runs import CHANNEL
from homarus.gateway.scopes import ADMIN, APPROVALS, READ, SESSIONS_WRITE, WRITE
from homarus.queue.collect import message_id
from homarus.runtime.client import RunOptions

MAX_LIMIT = 10_000
# Choices of a session that give nobody more rights.
_HARMLESS = frozenset({"label", "thinking_level", "verbose_level", "reasoning_level", "response_usage", "fast_mode"})


class SessionParams(Params, frozen=True):
    session: str


class SaidParams(Params, frozen=True, kw_only=True):
    session: str
    text: str
    stream: str = ""
    options: RunOptions = RunOptions()


class StreamParams(Params, frozen=True):
    session: str
    stream: str


class AbortParams(Params, frozen=True):
    session: str
    reason: str = STOPPED
    message: str = ""  # only the turn that answers it ends, and no other one


class AnswerParams(Params, frozen=True):
    approval: str
    decision: str


class PatchParams(Params, frozen=True):
    session: str
    fields: dict[str, Any]


class NameParams(Params, frozen=True):
    session: str
    label: str


class ListParams(Params, frozen=True, kw_only=True):
    session: str = ""
    agent: str = ""
    text: str = ""
    limit: int = 100


def _key(call: Call, session: str) -> SessionKey:
    return call.gateway.key(session)


def options_of(call: Call, given: RunOptions) -> RunOptions:
    if call.principal.method == "local":
        return replace(given, trust=Trust.OWNER, channel="terminal")
    # Folders of this machine are lent by those who sit at it.
    return replace(given, trust=Trust.OWNER, channel=CHANNEL, folders=(), cwd="")


def _wire(value: Any) -> dict[str, Any]:
    return {"value": to_builtins(value, enc_hook=str)}


def _tell(call: Call, stream: str, event: RunEvent) -> None:
    if call.connection is not None:
        call.connection.tell(event_head("home.event", {"stream": stream, "event": event}))


async def run(call: Call, params: SaidParams) -> dict[str, Any]:
    """Run a message; its events come before the response."""
    key = _key(call, params.session)
    async for event in call.client.run(key, params.text, options_of(call, params.options)):
        _tell(call, params.stream, event)
    return {}


async def send(call: Call, params: SaidParams) -> dict[str, Any]:
    return _wire(await call.client.send(_key(call, params.session), params.text, options_of(call, params.options)))


async def steer(call: Call, params: SaidParams) -> dict[str, Any]:
    return _wire(call.client.steer(_key(call, params.session), params.text))


async def abort(call: Call, params: AbortParams) -> dict[str, Any]:
    key = _key(call, params.session)
    if params.message and params.message not in map(message_id, call.client.runtime.answering(key)):
        return _wire(False)
    return _wire(call.client.abort(key, params.reason))


async def listen(call: Call, params: StreamParams) -> dict[str, Any]:
    return _until_left(call, params, call.client.listen(_key(call, params.session), _Teller(call, params.stream)))


async def attend(call: Call, params: StreamParams) -> dict[str, Any]:
    return _until_left(call, params, call.client.attend(_key(call, params.session)))


class _Teller:
    def __init__(self, call: Call, stream: str) -> None:
        self._call, self._stream = call, stream

    def __call__(self, event: RunEvent) -> None:
        _tell(self._call, self._stream, event)


def _until_left(call: Call, params: StreamParams, leave: Any) -> dict[str, Any]:
    """Keep something up until the client takes it back or goes."""
    if call.connection is None:
        leave()
        raise Refused("this needs a connection that stays")
    call.connection.streams[params.stream] = leave
    return {}


async def leave(call: Call, params: StreamParams) -> dict[str, Any]:
    if call.connection is not None and (end := call.connection.streams.pop(params.stream, None)):
        end()
    return {}


async def answer(call: Call, params: AnswerParams) -> dict[str, Any]:
    return _wire(await call.client.answer(params.approval, params.decision))


async def row(call: Call, params: SessionParams) -> dict[str, Any]:
    return _wire(await call.client.row(_key(call, params.session)))


async def status(call: Call, params: SessionParams) -> dict[str, Any]:
    return _wire(await call.client.status(_key(call, params.session)))


async def vocabulary(call: Call, params: SessionParams) -> dict[str, Any]:
    return _wire(await call.client.vocabulary(_key(call, params.session)))


async def history(call: Call, params: ListParams) -> dict[str, Any]:
    return _wire(await call.client.history(_key(call, params.session), max(1, min(params.limit, MAX_LIMIT))))


async def sessions(call: Call, params: ListParams) -> dict[str, Any]:
    return _wire(await call.client.sessions(params.agent))


async def search(call: Call, params: ListParams) -> dict[str, Any]:
    return _wire(await call.client.search(params.text, max(1, min(params.limit, MAX_LIMIT))))


async def patch(call: Call, params: PatchParams) -> dict[str, Any]:
    await call.client.patch(_key(call, params.session), **params.fields)
    return {}


async def rename(call: Call, params: NameParams) -> dict[str, Any]:
    key = _key(call, params.session)
    named = call.client.home.store(key.agent_id).rename(key, params.label)
    call.gateway.feed.changed(key, "patch")
    return {"key": named.name, "label": named.entry.label}


async def delete(call: Call, params: SessionParams) -> dict[str, Any]:
    key = _key(call, params.session)
    archive = await call.client.operations.delete(key)
    call.gateway.feed.changed(key, "delete")
    return {"key": str(key), "deleted": archive is not None, "archive": archive or None}


def _patch_scope(params: PatchParams) -> str:
    return "" if _HARMLESS.issuperset(params.fields) else ADMIN


def _text_scope(params: SaidParams) -> str:
    return command_scope(params.text)


METHODS = {
    "home.run": Method(WRITE, run, SaidParams, raised=_text_scope),
    "home.send": Method(WRITE, send, SaidParams, raised=_text_scope),
    "home.steer": Method(WRITE, steer, SaidParams, raised=_text_scope),
    "home.abort": Method(WRITE, abort, AbortParams),
    "home.listen": Method(READ, listen, StreamParams),
    "home.attend": Method(APPROVALS, attend, StreamParams),
    "home.leave": Method(READ, leave, StreamParams),
    "home.answer": Method(APPROVALS, answer, AnswerParams),
    "home.row": Method(READ, row, SessionParams),
    "home.status": Method(READ, status, SessionParams),
    "home.vocabulary": Method(READ, vocabulary, SessionParams),
    "home.history": Method(READ, history, ListParams),
    "home.sessions": Method(READ, sessions, ListParams),
    "home.search": Method(READ, search, ListParams),
    "home.rename": Method(SESSIONS_WRITE, rename, NameParams),
    "home.delete": Method(ADMIN, delete, SessionParams),
    "home.patch": Method(SESSIONS_WRITE, patch, PatchParams, raised=_patch_scope),
}
