"""Sessions: list, describe, create, change, start over, compact, delete, count what they took."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from homarus.commands.settings import Caller
from homarus.core.errors import Unknown
from homarus.core.routes import SessionKey, SessionKind, named_session
from homarus.delivery.sanitize import shape
from homarus.gateway.methods import Call, Method, Params, passed
from homarus.gateway.methods.chat import Attachment, command_scope, defaults, hand_in, images, stop
from homarus.gateway.protocol import Code, Refused
from homarus.gateway.rows import empty_row, row_of, session_row
from homarus.gateway.scopes import ADMIN, READ, WRITE
from homarus.models.levels import parse_level
from homarus.models.ref import split_ref
from homarus.queue.modes import Overrides
from homarus.queue.settings import Mode
from homarus.runtime.client import RunOptions
from homarus.sessions.home import SessionHome
from homarus.sessions.maintenance import tidy

_MOST, _SHOWN = 1000, 200


class ListParams(Params, frozen=True):
    limit: int = _SHOWN
    offset: int = 0
    agent_id: str = ""
    search: str = ""
    label: str = ""
    spawned_by: str = ""
    active_minutes: int = 0
    active_only: bool = False
    exclude_subagents: bool = False
    exclude_cron: bool = False
    pinned: bool | None = None
    archived: bool | str | None = None
    include_last_message: bool = False
    PASSED = passed(
        "requireLastInteraction sortBy includeGlobal includeUnknown excludeSystem configuredAgentsOnly "
        "includeDerivedTitles includeActivitySummary projectId workspaceDir group boardFace hasBoard creatorId ownerId "
        "ownerFirst involvingMe profileRelation involvingProfileId includePeople"
    )


class KeyParams(Params, frozen=True, kw_only=True):
    key: str
    agent_id: str = ""
    PASSED = passed("includeDerivedTitles includeLastMessage includeApprovals")


class AbortParams(Params, frozen=True):
    key: str = ""
    run_id: str = ""
    agent_id: str = ""
    PASSED = passed("clearQueued")


class CreateParams(Params, frozen=True):
    key: str = ""
    agent_id: str = ""
    label: str = ""
    model: str = ""
    message: str = ""
    thinking_level: str = ""
    idempotency_key: str = ""
    attachments: tuple[Attachment, ...] = ()
    parent_session_key: str = ""
    fork: bool = False
    PASSED = passed(
        "displayName titleSource category contextWindow fastMode permissionMode visibility catalogId emitCommandHooks "
        "succeedsParent timeoutMs task mentions projectId cwd"
    )


Choice = str | None | UnsetType
_PLAIN = (
    *("label", "verbose_level", "trace_level", "reasoning_level", "response_usage", "elevated_level", "exec_host"),
    *("exec_security", "exec_ask", "send_policy", "group_activation", "fast_mode"),
)


class PatchParams(Params, frozen=True, kw_only=True):
    """What is absent stays, and null takes a choice back."""

    key: str
    agent_id: str = ""
    label: Choice = UNSET
    model: Choice = UNSET
    thinking_level: Choice = UNSET
    verbose_level: Choice = UNSET
    trace_level: Choice = UNSET
    reasoning_level: Choice = UNSET
    response_usage: Choice = UNSET
    elevated_level: Choice = UNSET
    exec_host: Choice = UNSET
    exec_security: Choice = UNSET
    exec_ask: Choice = UNSET
    send_policy: Choice = UNSET
    group_activation: Choice = UNSET
    fast_mode: bool | str | UnsetType | None = UNSET
    pinned: bool | UnsetType = UNSET
    PASSED = passed(
        "expectedSessionId expectedLifecycleRevision expectedPermissionMode expectedSandboxMode expectedToolOverrides "
        "expectedNativeRuntimeConsent expectedMarkedUnreadAt unread autoLabel icon color category boardFace statusNote"
    )


class SendParams(Params, frozen=True, kw_only=True):
    key: str
    message: str
    agent_id: str = ""
    idempotency_key: str = ""
    thinking: str = ""
    attachments: tuple[Attachment, ...] = ()
    timeout_ms: int | None = None
    PASSED = passed("mentions")


class ResetParams(Params, frozen=True, kw_only=True):
    key: str
    agent_id: str = ""
    reason: str = "reset"
    PASSED = passed("expectedSessionId")


class CompactParams(Params, frozen=True, kw_only=True):
    key: str
    agent_id: str = ""
    PASSED = passed("maxLines")


class DeleteParams(Params, frozen=True, kw_only=True):
    key: str
    agent_id: str = ""
    PASSED = passed(
        "deleteTranscript expectedSessionId expectedLifecycleRevision expectedSessionUpdatedAt emitLifecycleHooks "
        "archivedOnly"
    )


class CleanupParams(Params, frozen=True):
    agent: str = ""
    all_agents: bool = False
    enforce: bool = False
    PASSED = passed("activeKey fixMissing fixDmScope")


class PreviewParams(Params, frozen=True, kw_only=True):
    keys: tuple[str, ...]
    limit: int = 12
    max_chars: int = 240


class ResolveParams(Params, frozen=True):
    key: str = ""
    session_id: str = ""
    label: str = ""
    short_id: str = ""
    agent_id: str = ""
    allow_missing: bool = False
    PASSED = passed("reference slugHint spawnedBy includeGlobal includeUnknown")


class SteerParams(Params, frozen=True, kw_only=True):
    key: str
    message: str
    agent_id: str = ""
    idempotency_key: str = ""
    attachments: tuple[Attachment, ...] = ()


class SearchParams(Params, frozen=True, kw_only=True):
    query: str
    limit: int = 10
    agent_id: str = ""
    PASSED = passed("sessionKeys scope")


async def listed(call: Call, params: ListParams) -> dict[str, Any]:
    gateway, config = call.gateway, call.client.home.config
    agents = [config.agent_named(params.agent_id)] if params.agent_id else config.agents
    infos = [info for agent in agents for info in await call.client.sessions(agent.id)]
    infos.sort(key=lambda info: info.entry.updated_at, reverse=True)
    rows = [session_row(gateway, info) for info in infos]
    known = {row["key"] for row in rows}
    # A session that was never written in is there all the same: it is where a new conversation begins.
    for agent in agents:
        key = gateway.key("main", agent.id)
        if str(key) not in known and not (params.search or params.spawned_by):
            rows.append(empty_row(gateway, key))
    found = [row for row in rows if _wanted(row, params, gateway.now_ms)]
    limit, offset = max(1, min(params.limit, _MOST)), max(0, params.offset)
    page = found[offset : offset + limit]
    more = offset + limit < len(found)
    if params.include_last_message:
        for row in page[:20]:
            await _preview(call, row)
    return {
        "ts": gateway.now_ms,
        "path": str(call.client.home.store(config.default_agent.id).folder),
        "count": len(page),
        "totalCount": len(found),
        "hasMore": more,
        **({"nextOffset": offset + limit} if more else {}),
        "owners": [],
        "defaults": await defaults(call, gateway.key("main", params.agent_id)),
        "sessions": page,
    }


def _wanted(row: dict[str, Any], params: ListParams, now_ms: int) -> bool:
    text = f"{row['key']} {row.get('label', '')} {row.get('displayName', '')}".lower()
    kind = SessionKey.parse(row["key"])
    archived = bool(row.get("archived"))
    return not (
        (params.search and params.search.lower() not in text)
        or (params.label and row.get("label") != params.label)
        or (params.spawned_by and row.get("spawnedBy") != params.spawned_by)
        or (params.active_minutes and now_ms - row["updatedAt"] > params.active_minutes * 60_000)
        or (params.active_only and not row["hasActiveRun"])
        or (params.exclude_subagents and kind.is_subagent)
        or (params.exclude_cron and kind.is_cron)
        or (params.pinned is not None and params.pinned != bool(row.get("pinned")))
        or (isinstance(params.archived, bool) and params.archived != archived)
        or (params.archived is None and archived)
    )


async def _preview(call: Call, row: dict[str, Any]) -> None:
    lines = await call.client.operations.transcript(call.gateway.key(row["key"]))
    text = next((shape(line.message.text).text for line in reversed(lines) if line.message.text), "")
    if text:
        row["lastMessagePreview"] = text[:200]


async def described(call: Call, params: KeyParams) -> dict[str, Any]:
    return {"session": row_of(call.gateway, call.gateway.key(params.key, params.agent_id))}


async def subscribed(call: Call, _params: Params) -> dict[str, Any]:
    if call.connection is not None:
        call.connection.wants_sessions = True
    return {"subscribed": True}


async def follow(call: Call, params: KeyParams) -> dict[str, Any]:
    key = str(call.gateway.key(params.key, params.agent_id))
    if call.connection is not None:
        if len(call.connection.messages_of) >= _MOST:
            raise Refused("too many sessions are followed", Code.UNAVAILABLE)
        call.connection.messages_of.add(key)
    return {"subscribed": True, "key": key}


async def unfollow(call: Call, params: KeyParams) -> dict[str, Any]:
    key = str(call.gateway.key(params.key, params.agent_id))
    if call.connection is not None:
        call.connection.messages_of.discard(key)
    return {"subscribed": False, "key": key}


async def create(call: Call, params: CreateParams) -> dict[str, Any]:
    gateway, home = call.gateway, call.client.home
    agent = home.config.agent_named(params.agent_id).id
    if params.key:
        key = gateway.key(params.key, params.agent_id)
    else:
        key = named_session(agent, SessionKind.DASHBOARD, gateway.ids.uuid())
    if params.fork and params.parent_session_key:
        parent = gateway.client.operations.find(gateway.key(params.parent_session_key))
        if parent is None:
            raise Refused("the session to fork is not there")
        home.store(agent).fork(parent.place, key=key, label=params.label)
    fields = {"label": params.label or None, **_model(params.model or UNSET)}
    if params.thinking_level:
        fields["thinking_level"] = _level(params.thinking_level)
    if params.parent_session_key:
        fields["parent_session_key"] = params.parent_session_key
    await call.client.patch(key, **{name: value for name, value in fields.items() if value is not None})
    started = {}
    if params.message:
        ident = params.idempotency_key or gateway.ids.uuid()
        options = RunOptions(images=images(params.attachments))
        started = await hand_in(call, key, params.message, ident, options)
    gateway.feed.changed(key, "create")
    row = row_of(gateway, key)
    facts = {"ok": True, "key": str(key), "sessionId": row.get("sessionId", ""), "entry": row}
    run = {"runId": started["runId"]} if started else {}
    return {**facts, "runStarted": bool(started), **run, "resolved": await _resolved(call, key)}


async def patch(call: Call, params: PatchParams) -> dict[str, Any]:
    gateway, key = call.gateway, call.gateway.key(params.key, params.agent_id)
    fields = {name: getattr(params, name) for name in _PLAIN if getattr(params, name) is not UNSET}
    fields |= _model(params.model)
    if params.thinking_level is not UNSET:
        fields["thinking_level"] = _level(params.thinking_level)
    if params.pinned is not UNSET:
        fields["pinned_at"] = gateway.now_ms if params.pinned else 0
    if fields:
        await call.client.patch(key, **fields)
        gateway.feed.changed(key, "patch")
    folder = str(call.client.home.store(key.agent_id).folder)
    facts = {"ok": True, "path": folder, "key": str(key), "entry": row_of(gateway, key)}
    return {**facts, "resolved": await _resolved(call, key)}


def _patch_scope(params: PatchParams) -> str:
    """Return what a change needs: names and the model are the writer's, what the agent may do is not."""
    own = {"key", "agent_id", "label", "model", "pinned", "thinking_level", "verbose_level", "reasoning_level"}
    own |= {"response_usage", "fast_mode", "trace_level"}
    wider = [name for name in params.__struct_fields__ if name not in own and getattr(params, name) is not UNSET]
    return ADMIN if wider else ""


def _model(value: Choice) -> dict[str, Any]:
    if value is UNSET:
        return {}
    ref = split_ref(value) if value else None
    if value and ref is None:
        raise Refused(f"invalid model: {value}; write provider/model")
    if ref is None:
        return {"provider_override": None, "model_override": None, "model_override_source": None}
    return {"provider_override": ref.provider, "model_override": ref.model, "model_override_source": "user"}


def _level(value: Choice) -> str | None:
    level = parse_level(value) if isinstance(value, str) and value else None
    if value and level is None:
        raise Refused(f"invalid thinking level: {value}")
    return level


async def _resolved(call: Call, key: SessionKey) -> dict[str, Any]:
    row, usual = row_of(call.gateway, key), await defaults(call, key)
    facts = {name: row.get(name, usual.get(name)) for name in ("modelProvider", "model", "thinkingLevel")}
    return {name: value for name, value in facts.items() if value}


async def send(call: Call, params: SendParams) -> dict[str, Any]:
    key = call.gateway.key(params.key, params.agent_id)
    options = RunOptions(images=images(params.attachments), thinking=params.thinking)
    return await hand_in(call, key, params.message, params.idempotency_key or call.gateway.ids.uuid(), options)


async def abort(call: Call, params: AbortParams) -> dict[str, Any]:
    run = call.gateway.runs.get(params.run_id) if params.run_id else None
    if not params.key and run is None:
        return {"ok": True, "aborted": False, "runIds": [], "status": "no-active-run"}
    key = call.gateway.key(params.key, params.agent_id) if params.key else run.session if run else None
    assert key is not None
    return await stop(call, key, params.run_id)


async def reset(call: Call, params: ResetParams) -> dict[str, Any]:
    key = call.gateway.key(params.key, params.agent_id)
    event = "command:new" if params.reason == "new" else "command:reset"
    await call.client.start_over(key, event, Caller(channel="webchat"))
    call.gateway.feed.changed(key, params.reason)
    return {"ok": True, "key": str(key), "entry": row_of(call.gateway, key)}


async def compact(call: Call, params: CompactParams) -> dict[str, Any]:
    key = call.gateway.key(params.key, params.agent_id)
    if call.client.operations.find(key) is None:
        return {"ok": True, "key": str(key), "compacted": False, "reason": "no such session"}
    done = await call.client.compact(key, "")
    result = {name: value for name, value in msgspec.to_builtins(done, str_keys=True).items() if value is not None}
    call.gateway.feed.changed(key, "compact")
    return {"ok": True, "key": str(key), "compacted": done.ok, "result": result}


async def delete(call: Call, params: DeleteParams) -> dict[str, Any]:
    key = call.gateway.key(params.key, params.agent_id)
    if key.is_main:
        raise Refused(f"Cannot delete the main session ({key}).")
    archived = await call.client.operations.delete(key)
    call.gateway.feed.changed(key, "delete")
    return {"ok": True, "key": str(key), "deleted": archived is not None, "archived": [archived] if archived else []}


async def cleanup(call: Call, params: CleanupParams) -> dict[str, Any]:
    """Put old sessions away by the rules of session.maintenance, or say what would go."""
    home = call.client.home
    chosen = home.config.agents if params.all_agents else [home.config.agent_named(params.agent)]
    tidied = [
        await asyncio.to_thread(tidy, home.config, home.store(agent.id), enforce=params.enforce) for agent in chosen
    ]
    return {"ok": True, "dryRun": not params.enforce, "agents": tidied}


async def preview(call: Call, params: PreviewParams) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    for name in params.keys[:64]:
        try:
            lines = await call.client.operations.transcript(call.gateway.key(name))
        except Refused:
            found.append({"key": name, "status": "missing", "items": []})
            continue
        items = [
            {"role": str(line.message.__struct_config__.tag), "text": shape(line.message.text).text} for line in lines
        ]
        cut = [{**item, "text": item["text"][: max(20, params.max_chars)]} for item in items if item["text"]]
        status = "ok" if cut else "empty"
        found.append({"key": name, "status": status, "items": cut[-max(1, min(params.limit, 100)) :]})
    return {"ts": call.gateway.now_ms, "previews": found}


async def resolve(call: Call, params: ResolveParams) -> dict[str, Any]:
    """Say which session is meant, by the rules that every other part of the program has; looking makes none."""
    home = call.client.home
    if params.key:
        key = call.gateway.key(params.key, params.agent_id)
        if call.client.operations.find(key) is not None or params.allow_missing or key.is_main:
            return {"ok": True, "key": str(key), "agentId": key.agent_id}
    word = params.key or params.session_id or params.short_id or params.label
    agent = home.config.agent_named(params.agent_id).id if params.agent_id else ""
    try:
        if not word:
            raise Refused("name the session: key, sessionId, shortId or label")
        found = SessionHome.of(home.config, clock=home.clock, ids=home.ids).resolve(word, agent)
    except Unknown as problem:
        if params.allow_missing and "could be any of" not in problem.message:
            return {"ok": False}
        raise Refused(f"No session found: {problem}") from None
    return {"ok": True, "key": str(found.key), "agentId": found.agent_id}


async def steer(call: Call, params: SteerParams) -> dict[str, Any]:
    """Say something that ends what runs and is answered at once."""
    key = call.gateway.key(params.key, params.agent_id)
    options = RunOptions(images=images(params.attachments), queue=Overrides(mode=Mode.INTERRUPT))
    return await hand_in(call, key, params.message, params.idempotency_key or call.gateway.ids.uuid(), options)


async def search(call: Call, params: SearchParams) -> dict[str, Any]:
    hits = await call.client.search(params.query, max(1, min(params.limit, 25)))
    return {"results": [msgspec.to_builtins(hit, builtin_types=(), enc_hook=str) for hit in hits]}


METHODS = {
    "sessions.list": Method(READ, listed, ListParams),
    "sessions.describe": Method(READ, described, KeyParams),
    "sessions.subscribe": Method(READ, subscribed),
    "sessions.messages.subscribe": Method(READ, follow, KeyParams),
    "sessions.messages.unsubscribe": Method(READ, unfollow, KeyParams),
    "sessions.preview": Method(READ, preview, PreviewParams),
    "sessions.resolve": Method(READ, resolve, ResolveParams),
    "sessions.search": Method(READ, search, SearchParams),
    "sessions.steer": Method(WRITE, steer, SteerParams, raised=lambda params: command_scope(params.message)),
    "sessions.create": Method(WRITE, create, CreateParams, raised=lambda params: command_scope(params.message)),
    "sessions.patch": Method(WRITE, patch, PatchParams, raised=_patch_scope),
    "sessions.send": Method(WRITE, send, SendParams, raised=lambda params: command_scope(params.message)),
    "sessions.abort": Method(WRITE, abort, AbortParams),
    "sessions.reset": Method(ADMIN, reset, ResetParams),
    "sessions.cleanup": Method(ADMIN, cleanup, CleanupParams, write=True),
    "sessions.compact": Method(ADMIN, compact, CompactParams),
    "sessions.delete": Method(ADMIN, delete, DeleteParams),
}
