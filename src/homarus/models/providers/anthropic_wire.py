"""Anthropic message requests as bytes. Pure: what may change comes last, and history is joined from fragments made once.

Cache breakpoints stand after the stable part of the system prompt, after its session part, and on the newest user turn.
The last one moves forward with the conversation; apart from it, a request's bytes are a prefix of the next one's.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from homarus.core.messages import Assistant, Image, Message, Text, Thinking, ToolCall, User
from homarus.core.patterns import late
from homarus.models.info import ModelInfo
from homarus.models.levels import BUDGETS
from homarus.models.provider import ModelRequest
from homarus.models.wire import closing, encode, wrote

API = "anthropic-messages"
NO_OUTPUT = "(no output)"
BLIND = "[image left out: this model takes text only]"
# The server looks back 20 blocks from a breakpoint for an earlier one; a longer step needs a second mark in between.
LOOKBACK = 18
MIN_BUDGET = 1_024
ANSWER_ROOM = 4_096
DEFAULT_MAX_TOKENS = 16_384
_ID = late(r"[A-Za-z0-9_-]{1,64}")


class Fragment(msgspec.Struct, frozen=True, gc=False):
    """The content blocks of one message; neighbours of the same role become one message on the wire."""

    role: str
    blocks: tuple[bytes, ...]


def encode_message(message: Message, info: ModelInfo) -> Fragment:
    """Return one message as content blocks; one that says nothing has none."""
    if isinstance(message, User):
        blocks = [_visible(part, info) for part in message.parts if isinstance(part, Text | Image)]
        if message.context:
            blocks.append({"type": "text", "text": message.context})
        blocks = [block for block in blocks if block.get("text") != ""] or [{"type": "text", "text": NO_OUTPUT}]
        return Fragment("user", tuple(map(encode, blocks)))
    if isinstance(message, Assistant):
        own = wrote(message, API, info)
        return Fragment("assistant", tuple(encode(block) for part in message.parts for block in _said(part, own=own)))
    content = [_visible(part, info) for part in message.parts if isinstance(part, Text | Image)]
    result: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": wire_id(message.call_id),
        "content": [block for block in content if block.get("text") != ""] or NO_OUTPUT,
    }
    if message.is_error:
        result["is_error"] = True
    return Fragment("user", (encode(result),))


def _visible(part: Text | Image, info: ModelInfo) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if not info.sees:
        return {"type": "text", "text": BLIND}
    source = {"type": "base64", "media_type": part.mime_type, "data": part.data}
    return {"type": "image", "source": source}


def _said(part: Any, *, own: bool) -> list[dict[str, Any]]:
    if isinstance(part, Text):
        # A text block of blanks alone is refused by the server.
        return [{"type": "text", "text": part.text}] if part.text.strip() else []
    if isinstance(part, ToolCall):
        return [{"type": "tool_use", "id": wire_id(part.id), "name": part.name, "input": part.arguments}]
    if isinstance(part, Thinking) and own and part.signature:
        if part.redacted:
            return [{"type": "redacted_thinking", "data": part.signature}]
        return [{"type": "thinking", "thinking": part.text, "signature": part.signature}]
    # A server refuses signatures that another provider or model made, and every later turn with them: such reasoning stays here.
    return []


def wire_id(call_id: str) -> str:
    """Return a tool-call id in the form the server takes; deterministic, so call and result still belong together."""
    if _ID.fullmatch(call_id):
        return call_id
    return "call_" + hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:24]


def messages(fragments: list[Fragment], *, mark: dict[str, Any] | None, spare: int = 1) -> bytes:
    """Join fragments into the messages array's content, with cache marks on the newest user turn."""
    marked = breakpoints(fragments, spare) if mark else frozenset()
    out: list[bytes] = []
    role = ""
    for index, fragment in enumerate(fragments):
        blocks = fragment.blocks
        if not blocks:
            continue
        if index in marked and mark:
            blocks = (*blocks[:-1], with_mark(blocks[-1], mark))
        if fragment.role == role:
            out.append(b"," + b",".join(blocks))
            continue
        closing = b"]}," if role else b""
        out.append(b'%b{"role":"%b","content":[' % (closing, fragment.role.encode()) + b",".join(blocks))
        role = fragment.role
    return b"".join(out) + (b"]}" if role else b"")


def breakpoints(fragments: list[Fragment], spare: int) -> frozenset[int]:
    """Return which fragments carry a mark: the newest user turn, and an older one where the step to it was long."""
    users = [index for index, fragment in enumerate(fragments) if fragment.role == "user" and fragment.blocks]
    if not users:
        return frozenset()
    chosen, newest = [users[-1]], users[-1]
    # The end of the request before this one: the last user turn in front of the newest assistant message.
    answered = max((i for i in range(newest) if fragments[i].role == "assistant" and fragments[i].blocks), default=-1)
    before = [index for index in users if index < answered]
    if before and spare > 0:
        between = sum(len(fragment.blocks) for fragment in fragments[before[-1] + 1 : newest + 1])
        if between > LOOKBACK:
            chosen.append(before[-1])
    return frozenset(chosen)


def with_mark(block: bytes, mark: dict[str, Any]) -> bytes:
    """Return a block with a cache mark; the block's own bytes stay as they are."""
    return block[:-1] + b',"cache_control":' + encode(mark) + b"}"


def head(request: ModelRequest, info: ModelInfo, mark: dict[str, Any] | None) -> dict[str, Any]:
    """Return what stands before the messages, in a fixed order: what the calls of a session share."""
    body: dict[str, Any] = {"model": request.model, "stream": True}
    if not info.reasons:
        body |= limits(request, info)
    if request.tools:
        body["tools"] = [
            {"name": spec.name, "description": spec.description, "input_schema": spec.parameters}
            for spec in request.tools
        ]
    texts = [text for text in (request.system.stable, request.system.session) if text]
    if texts:
        extra = {"cache_control": mark} if mark else {}
        body["system"] = [{"type": "text", "text": text, **extra} for text in texts]
    return body


def tail(request: ModelRequest, info: ModelInfo) -> dict[str, Any]:
    """Return what stands behind the messages: what a single call of a session may ask for."""
    body = limits(request, info) if info.reasons else {}
    if request.response_schema is not None:
        form = {"type": "json_schema", "schema": request.response_schema}
        body["output_config"] = {**body.get("output_config", {}), "format": form}
    choice = _choice(request.tool_choice, forced_ok="thinking" not in body) if request.tools else None
    if choice:
        body["tool_choice"] = choice
    if tier := (request.params or {}).get("serviceTier"):
        body["service_tier"] = tier
    return body


def limits(request: ModelRequest, info: ModelInfo) -> dict[str, Any]:
    """Return what a thinking level decides: the level itself, the room for the answer, and whether chance may be set."""
    most = request.max_tokens or min(info.max_output, DEFAULT_MAX_TOKENS)
    thinking, most = thinking_fields(request.thinking, info, most)
    temperature = (request.params or {}).get("temperature")
    if temperature is None or thinking.get("thinking", {}).get("type", "disabled") != "disabled":
        return {"max_tokens": most, **thinking}
    return {"max_tokens": most, **thinking, "temperature": temperature}


def _choice(choice: str | None, *, forced_ok: bool) -> dict[str, Any] | None:
    if choice is None or choice == "auto":
        return None
    if choice == "none":
        return {"type": "none"}
    if not forced_ok:
        # The server refuses a forced tool while the model thinks.
        return {"type": "auto"}
    return {"type": "any"} if choice == "required" else {"type": "tool", "name": choice}


def thinking_fields(level: str, info: ModelInfo, most: int) -> tuple[dict[str, Any], int]:
    """Return the fields that carry a thinking level, and the output limit that leaves room for it."""
    if not level or not info.reasons:
        return {}, most
    if level == "off":
        return ({"thinking": {"type": "disabled"}} if "off" in info.levels else {}), most
    if info.thinking == "adaptive":
        fields: dict[str, Any] = {"thinking": {"type": "adaptive"}}
        if level != "adaptive":
            fields["output_config"] = {"effort": {"minimal": "low", "ultra": "max"}.get(level, level)}
        return fields, min(info.max_output, most + BUDGETS.get(level, MIN_BUDGET))
    total = min(info.max_output, most + BUDGETS[level])
    budget = min(BUDGETS[level], total - min(most, ANSWER_ROOM))
    if budget < MIN_BUDGET:
        return {}, most
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}, total


def body(request: ModelRequest, fragments: list[Fragment], info: ModelInfo) -> list[bytes]:
    """Return a whole request: settings, tools and the system prompt, the messages, and what only this call asks for."""
    mark, system = _mark(request), request.system
    start = encode(head(request, info, mark))[:-1] + b',"messages":['
    spare = 3 - bool(system.stable) - bool(system.session)
    return [start, messages(fragments, mark=mark, spare=spare), closing(tail(request, info))]


def _mark(request: ModelRequest) -> dict[str, Any] | None:
    retention = (request.params or {}).get("cacheRetention", "short")
    if not request.cache or retention == "none":
        return None
    return {"type": "ephemeral", "ttl": "1h"} if retention == "long" else {"type": "ephemeral"}
