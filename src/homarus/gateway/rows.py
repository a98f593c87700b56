"""Sessions and messages in the shapes that clients know. A display: what the model said to the program is left out, files stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from homarus.core.messages import Assistant, Message, Text, Thinking, ToolResult, User
from homarus.core.routes import SessionKey
from homarus.delivery.sanitize import shape
from homarus.gateway.runs import CHANNEL
from homarus.sessions.codec import from_message

if TYPE_CHECKING:
    from homarus.gateway.server import Gateway
    from homarus.runtime.operations import Line
    from homarus.sessions.store import SessionInfo

MAX_CHARS, MAX_ROW = 200_000, 1_000_000
_OWN = f"{CHANNEL}:default:"
_TOO_LARGE = "[message is too large to be shown here]"


def session_row(gateway: Gateway, info: SessionInfo) -> dict[str, Any]:
    """Return a session as a list of sessions shows it. Absent values are left out: clients take no null."""
    entry, key = info.entry, info.key
    active = [run.id for run in gateway.runs.open_in(key)]
    busy = gateway.client.operations.is_busy(key)
    # What the next turn asks: the session's own choice, the agent's, or whatever was found last time.
    provider, _, usual = str(gateway.client.home.config.agent(info.agent_id).get("model.primary") or "").partition("/")
    facts = {
        "label": entry.label,
        "displayName": entry.label or entry.display_name or entry.subject,
        "model": entry.model_override or usual or entry.model,
        "modelProvider": entry.provider_override or (provider if usual else entry.model_provider),
        "thinkingLevel": entry.thinking_level,
        "verboseLevel": entry.verbose_level,
        "reasoningLevel": entry.reasoning_level,
        "elevatedLevel": entry.elevated_level,
        "sendPolicy": entry.send_policy,
        "groupActivation": entry.group_activation,
        "queueMode": entry.queue_mode,
        "channel": entry.channel,
        "lastChannel": entry.last_channel,
        "spawnedBy": entry.spawned_by,
        "parentSessionKey": entry.parent_session_key,
        "contextTokens": entry.context_tokens or None,
        "inputTokens": entry.input_tokens or None,
        "outputTokens": entry.output_tokens or None,
        "totalTokens": entry.total_tokens or None,
        "estimatedCostUsd": entry.estimated_cost_usd or None,
    }
    return {
        "key": str(key),
        "sessionId": entry.session_id,
        "agentId": info.agent_id,
        "kind": "global" if str(key) == "global" else key.chat_type if key.is_shared else "direct",
        "updatedAt": entry.updated_at,
        "lastActivityAt": entry.last_interaction_at or entry.updated_at,
        "status": "running" if busy else "done",
        "hasActiveRun": busy,
        "activeRunIds": active if busy else [],
        "abortedLastRun": entry.aborted_last_run,
        "totalTokensFresh": entry.total_tokens_fresh,
        "isMain": key.is_main,
        "unread": False,
        "pinned": bool(entry.pinned_at),
        "archived": bool(info.row.get("archived")),
        **{name: value for name, value in facts.items() if value is not None},
    }


def empty_row(gateway: Gateway, key: SessionKey) -> dict[str, Any]:
    """Return the row of a session in which nothing was said yet."""
    busy = gateway.client.operations.is_busy(key)
    return {
        "key": str(key),
        "agentId": key.agent_id,
        "kind": "direct",
        "updatedAt": gateway.now_ms,
        "status": "running" if busy else "done",
        "hasActiveRun": busy,
        "activeRunIds": [run.id for run in gateway.runs.open_in(key)] if busy else [],
        "isMain": key.is_main,
    }


def row_of(gateway: Gateway, key: SessionKey) -> dict[str, Any]:
    info = gateway.client.operations.find(key)
    return session_row(gateway, info) if info else empty_row(gateway, key)


def history(lines: Sequence[Line], *, max_chars: int = MAX_CHARS) -> list[dict[str, Any]]:
    """Return messages as people see them, oldest first."""
    shown = []
    for line in lines:
        body = displayed(line.message, max_chars)
        if body is not None:
            shown.append(_placed(body, line))
    return shown


def displayed(message: Message, max_chars: int = MAX_CHARS) -> dict[str, Any] | None:
    """Return what may be shown of a message, or None for one that is for nobody's eyes."""
    if isinstance(message, User):
        body = from_message(message)
        if message.idempotency_key.startswith(_OWN):
            body["idempotencyKey"] = f"{message.idempotency_key.removeprefix(_OWN)}:user"
        body["content"] = [_cut(block, max_chars) for block in body["content"]]
        return body
    if isinstance(message, ToolResult):
        body = from_message(message)
        body.pop("details", None)
        body["content"] = [_cut(block, max_chars) for block in body["content"]]
        return body
    return _spoken(message, max_chars)


def _spoken(message: Assistant, max_chars: int) -> dict[str, Any] | None:
    body = from_message(message)
    text = shape(message.text).text
    blocks = [_cut({"type": "text", "text": text}, max_chars)] if text else []
    for part, block in zip(message.parts, body["content"], strict=True):
        if not isinstance(part, Text | Thinking):
            blocks.append(block)
    if not blocks and not message.error:
        return None
    return {**body, "content": blocks}


def _cut(block: dict[str, Any], limit: int) -> dict[str, Any]:
    text = block.get("text")
    if isinstance(text, str) and len(text) > limit:
        return {**block, "text": f"{text[:limit]}\n…(truncated)…"}
    if block.get("type") == "image" and len(block.get("data", "")) > MAX_ROW:
        return {"type": "text", "text": _TOO_LARGE}
    return block


def _placed(body: dict[str, Any], line: Line) -> dict[str, Any]:
    place: dict[str, Any] = {"id": line.id, "seq": line.seq}
    if line.time:
        place["recordTimestampMs"] = line.time
    if key := body.get("idempotencyKey"):
        place["idempotencyKey"] = key
        if key.endswith(":user"):
            place["runId"] = key.removesuffix(":user")
    body.setdefault("timestamp", line.time)
    body["timestamp"] = body["timestamp"] or line.time
    return {**body, "__openclaw": place}
