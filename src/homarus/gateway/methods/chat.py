"""Talking as a page does: send and return at once, what happens then is told by events; read what was said."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from homarus.commands.command import Need, split_command
from homarus.core.cancel import STOPPED
from homarus.core.messages import Image
from homarus.core.routes import SessionKey
from homarus.gateway.methods import Call, Method, Params, passed
from homarus.gateway.protocol import Code, Refused
from homarus.gateway.rows import history, row_of
from homarus.gateway.runs import CHANNEL, Run
from homarus.gateway.scopes import ADMIN, APPROVALS, READ, WRITE
from homarus.queue.modes import Overrides, parse_mode
from homarus.runtime.client import RunOptions

MAX_TEXT, MAX_IMAGES = 1_000_000, 8
_LIMIT = 200
# Commands that change what the agent may do; their need is the table's, these have it in their text.
_FAR_REACHING = frozenset({"elevated", "elev", "exec", "bash", "config", "debug", "restart", "allowlist", "send"})


class Attachment(Struct, frozen=True, rename="camel"):
    type: str = ""
    mime_type: str = ""
    file_name: str = ""
    content: Any = None


class SendParams(Params, frozen=True, kw_only=True):
    session_key: str
    message: str
    idempotency_key: str
    agent_id: str = ""
    thinking: str = ""
    queue_mode: str = ""
    timeout_ms: int | None = None
    attachments: tuple[Attachment, ...] = ()
    PASSED = passed(
        "sessionId mentions workContext intent fastMode fastAutoOnSeconds deliver originatingChannel originatingTo "
        "originatingAccountId originatingThreadId replyToId toolBindings systemInputProvenance systemProvenanceReceipt "
        "suppressCommandInterpretation expectedLeafEntryId expectedSessionRoutingContract expectedPermissionMode "
        "expectedToolOverrides"
    )


class HistoryParams(Params, frozen=True, kw_only=True):
    session_key: str
    agent_id: str = ""
    limit: int = _LIMIT
    offset: int = 0
    cursor: str = ""
    max_chars: int = 200_000
    message_id: str = ""
    PASSED = passed("maxBytes pendingBefore inputRunIds sessionId")


class AbortParams(Params, frozen=True, kw_only=True):
    session_key: str
    run_id: str = ""
    agent_id: str = ""
    PASSED = passed("preserveSideRuns")


class MetadataParams(Params, frozen=True):
    agent_id: str = ""
    session_key: str = ""
    auth_profile_id: str = ""


class MessageParams(Params, frozen=True, kw_only=True):
    session_key: str
    message_id: str
    agent_id: str = ""
    max_chars: int = 200_000


class InjectParams(Params, frozen=True, kw_only=True):
    session_key: str
    message: str
    label: str = ""
    agent_id: str = ""


def command_scope(message: str) -> str:
    """Return the scope that a command in a message needs beyond that of sending."""
    from homarus.commands.table import ALL

    name, _ = split_command(message) or ("", "")
    if name == "approve":
        return APPROVALS
    owned = any(row.need is Need.OWNER and name in {row.name, *row.aliases} for row in ALL)
    return ADMIN if name and (owned or name in _FAR_REACHING) else ""


async def send(call: Call, params: SendParams) -> dict[str, Any]:
    key = call.gateway.key(params.session_key, params.agent_id)
    options = RunOptions(
        images=images(params.attachments),
        thinking=params.thinking,
        seconds=params.timeout_ms / 1000 if params.timeout_ms else None,
        queue=Overrides(mode=parse_mode(params.queue_mode)) if params.queue_mode else None,
    )
    return await hand_in(call, key, params.message, params.idempotency_key, options)


async def hand_in(call: Call, key: SessionKey, text: str, ident: str, options: RunOptions) -> dict[str, Any]:
    """Take a message in and say under which run it is answered. The same id a second time sends nothing."""
    gateway = call.gateway
    check_text(text, options.images, ident)
    known = gateway.runs.get(ident)
    if known and known.taken:
        return _again(known)
    run = known or gateway.runs.begin(ident, key, gateway.now_ms, call.trace)
    gateway.feed.attend(key)
    try:
        await gateway.turnstile()
        taken = await gateway.client.send(key, text, as_client(options, ident))
    except BaseException:  # also when whoever asked goes meanwhile: nobody knows then whether it is durable
        gateway.runs.forget(run)
        raise
    if taken.refused and not accepted_before(call, run):
        gateway.runs.forget(run)
        raise Refused(taken.refused, Code.UNAVAILABLE, retry_ms=1000)
    run.taken = True
    if taken.refused:
        return _again(run)
    if taken.text:
        gateway.feed.chat(ident, key, 1, "final", message=said(taken.text, gateway.now_ms))
    elif taken.item is None:
        gateway.feed.chat(ident, key, 1, "final")
    if taken.item is None:
        run.end("ok", gateway.now_ms, text=taken.text)
        gateway.runs.close(run)
    gateway.feed.changed(key, "send")
    return {"runId": ident, "status": "started"}


def accepted_before(call: Call, run: Run) -> bool:
    """Say whether an earlier process took this very message in, whose sender was not told so; then the run is about that one."""
    lane = call.gateway.runtime.open_lane(run.session)
    if lane is None or not lane.knows(run.key):
        return False
    if not lane.owes(run.key) and not run.awaited:
        run.end("ok", call.gateway.now_ms)
        call.gateway.runs.close(run)
    return True


def as_client(options: RunOptions, ident: str) -> RunOptions:
    return replace(options, message_id=ident, run_id=ident, channel=CHANNEL)


def check_text(text: str, pictures: tuple[Image, ...], ident: str) -> None:
    if not text.strip() and not pictures:
        raise Refused("message or attachment required")
    if len(text) > MAX_TEXT:
        raise Refused(f"message is longer than {MAX_TEXT} characters")
    if not 0 < len(ident) <= 200 or not ident.isprintable():
        raise Refused("idempotencyKey must be 1 to 200 printable characters")


def _again(run: Run) -> dict[str, Any]:
    if not run.ended:
        return {"runId": run.id, "status": "in_flight"}
    return {"runId": run.id, "status": run.status, **({"error": run.error} if run.error else {})}


def said(text: str, now_ms: int) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}], "timestamp": now_ms}


def images(attachments: tuple[Attachment, ...]) -> tuple[Image, ...]:
    """Return the pictures that came with a message. Raises Refused for anything that is none."""
    found = []
    for each in attachments:
        content = each.content if isinstance(each.content, str) else ""
        head, _, data = content.rpartition(",") if content.startswith("data:") else ("", "", content)
        kind = each.mime_type or head.removeprefix("data:").partition(";")[0]
        if not kind.startswith("image/"):
            raise Refused(f"attachments other than pictures are not taken here: {kind or 'no type'}")
        try:
            base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise Refused("an attachment is no base64") from None
        found.append(Image(data, kind))
    if len(found) > MAX_IMAGES:
        raise Refused(f"more than {MAX_IMAGES} pictures")
    return tuple(found)


async def read(call: Call, params: HistoryParams) -> dict[str, Any]:
    gateway = call.gateway
    key = gateway.key(params.session_key, params.agent_id)
    lines = await gateway.client.operations.transcript(key)
    if params.message_id:
        lines = [line for line in lines if line.id == params.message_id]
    limit, row = max(1, min(params.limit, 1000)), row_of(gateway, key)
    newest = lines[-1].id if lines else "start"
    if params.cursor:
        return _since(params.cursor, lines, newest, row, params.max_chars)
    end = len(lines) - max(0, params.offset)
    shown = history(lines[max(0, end - limit) : max(0, end)], max_chars=max(20, params.max_chars))
    return {
        "sessionKey": str(key),
        "sessionId": row.get("sessionId", ""),
        "messages": shown,
        "hasMore": end > limit,
        "totalMessages": len(lines),
        "defaults": await defaults(call, key),
        "sessionInfo": row,
        "pendingInputs": {"items": [], "total": 0},
        "deltaCursor": newest,
        **{name: row[name] for name in ("thinkingLevel", "verboseLevel") if name in row},
    }


def _since(cursor: str, lines: Any, newest: str, row: dict[str, Any], max_chars: int) -> dict[str, Any]:
    place = next((at for at, line in enumerate(lines) if line.id == cursor), None)
    if place is None and cursor != "start":
        return {"kind": "reset"}
    fresh = history(lines[(-1 if place is None else place) + 1 :], max_chars=max(20, max_chars))
    return {"kind": "delta", "messages": fresh, "deltaCursor": newest, "sessionInfo": row}


async def defaults(call: Call, key: SessionKey) -> dict[str, Any]:
    """Return what a session without choices of its own has."""
    primary = str(call.client.home.config.agent(key.agent_id).get("model.primary") or "")
    provider, _, model = primary.partition("/")
    found: dict[str, Any] = {"modelProvider": provider, "model": model} if model else {}
    infos = {f"{info.provider}/{info.id}": info for info in call.client.operations.models()}
    if primary in infos:
        found["contextTokens"] = infos[primary].window
    return found


async def metadata(call: Call, params: MetadataParams) -> dict[str, Any]:
    from homarus.gateway.methods.catalog import command_rows, model_rows

    key = call.gateway.key(params.session_key or "main", params.agent_id)
    return {"models": model_rows(call), "commands": await command_rows(call, key)}


async def abort(call: Call, params: AbortParams) -> dict[str, Any]:
    key = call.gateway.key(params.session_key, params.agent_id)
    return await stop(call, key, params.run_id)


async def stop(call: Call, key: SessionKey, run_id: str) -> dict[str, Any]:
    """End what runs in a session; with a run's id, only if that one does."""
    running = call.gateway.runs.open_in(key)
    if run_id and not any(run.id == run_id for run in running):
        return {"ok": True, "aborted": False, "runIds": []}
    stopped = call.client.abort(key, STOPPED)
    # A run whose message was forgotten before its turn began has no event that ends it.
    await asyncio.sleep(0)
    for run in running:
        lost = not call.client.operations.waits(key, run.key) and not call.client.operations.is_busy(key)
        if lost and not run.ended and not run.awaited:
            call.gateway.feed.chat(run.id, key, 1, "aborted", stopReason="rpc")
            run.end("error", call.gateway.now_ms, error="aborted", stop_reason="rpc")
            call.gateway.runs.close(run)
    return {"ok": True, "aborted": stopped, "runIds": [run.id for run in running] if stopped else []}


async def message(call: Call, params: MessageParams) -> dict[str, Any]:
    key = call.gateway.key(params.session_key, params.agent_id)
    lines = [line for line in await call.client.operations.transcript(key) if line.id == params.message_id]
    shown = history(lines, max_chars=max(20, params.max_chars))
    if not shown:
        raise Refused("no such message in this session")
    return {"ok": True, "message": shown[0]}


async def inject(call: Call, params: InjectParams) -> dict[str, Any]:
    key = call.gateway.key(params.session_key, params.agent_id)
    check_text(params.message, (), "inject")
    text = f"[{params.label}]\n\n{params.message}" if params.label else params.message
    ident = await call.client.operations.inject(key, text)
    call.gateway.feed.chat(f"inject-{ident}", key, 1, "final", message=said(text, call.gateway.now_ms))
    return {"ok": True, "messageId": ident}


METHODS = {
    "chat.send": Method(WRITE, send, SendParams, raised=lambda params: command_scope(params.message)),
    "chat.history": Method(READ, read, HistoryParams),
    "chat.startup": Method(READ, read, HistoryParams),
    "chat.metadata": Method(READ, metadata, MetadataParams),
    "chat.abort": Method(WRITE, abort, AbortParams),
    "chat.message.get": Method(READ, message, MessageParams),
    "chat.inject": Method(ADMIN, inject, InjectParams),
}
