"""One stored message as JSON and as a value. Reading accepts every known spelling and never raises."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from sys import intern
from typing import Any

import msgspec
from msgspec.structs import replace

from homarus.core.clock import epoch_ms
from homarus.core.messages import (
    COLLECTED,
    Assistant,
    Cost,
    Image,
    Message,
    Part,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    User,
)
from homarus.core.patterns import late
from homarus.storage.record import encode

Json = dict[str, Any]

# Marks a result that nobody computed; OpenClaw reads the same mark.
SYNTHETIC = "openclawSyntheticMissingToolResult"
# `details` are for people and logs; a large one would be read again with every turn.
MAX_DETAILS = 16_384

_CALLS = frozenset({"toolCall", "toolUse", "functionCall", "tool_call", "tool_use", "function_call"})
_STOPS = {reason.value: reason for reason in StopReason} | {
    "tool_use": StopReason.TOOL_USE,
    "tool_calls": StopReason.TOOL_USE,
    "end_turn": StopReason.STOP,
    "max_tokens": StopReason.LENGTH,
}
_FINISHED = "toolUse"
# Where a call, and where a result, keeps the id of the call: the names that OpenClaw and its providers used over time.
_RESULT_IDS = ("toolCallId", "toolUseId", "tool_call_id", "tool_use_id", "callId", "call_id")
_CALL_IDS = ("id", *_RESULT_IDS)
# What stood for a missing result before results of that kind had a mark (2026.3 and 2026.4), under any product name.
_UNMARKED = late(
    r"\[\w[\w-]*\] missing tool result in session history; inserted synthetic error result for transcript repair\."
)
_COUNTS = ("input", "output", "cacheRead", "cacheWrite")
_FREE = Cost()
_NUMBERS = frozenset({int, float})  # and not bool, which is an int to Python
_FENCE = late("`{3,}")


def to_message(data: Mapping[str, Any], written: str = "") -> Message | None:
    """Return what a stored message says to a model, or None for a role that says nothing to it.

    `written` is when its line was written: the moment of a message that has none of its own.
    """
    time = to_ms(data.get("timestamp")) or to_ms(written)
    role = _text(data.get("role"))
    if role == "user":
        return _user(data, _parts(data.get("content")), time)
    if role == "assistant":
        return _assistant(data, time)
    if role in {"toolResult", "tool_result", "tool"}:
        return _result(data, time)
    if role == "bashExecution":
        return User(parts=(Text(_shell_text(data)),), timestamp=time)
    if role in {"custom", "hookMessage"}:
        return User(parts=_parts(data.get("content")), timestamp=time)
    if role in {"compactionSummary", "branchSummary"}:
        return User(parts=(Text(summary_text(_text(data.get("summary")))),), timestamp=time)
    return None


def from_message(message: Message, moment: int | None = None) -> Json:
    """Return the JSON under which a message is stored, fields in the order of the file; absent values are left out.

    `moment` is when it was said, where the message itself does not know.
    """
    content = [_block(part) for part in message.parts]
    time = message.timestamp if moment is None else moment
    if isinstance(message, ToolResult):
        given = {} if message.details is None else {"details": message.details}
        head = {"role": "toolResult", "toolCallId": message.call_id, "toolName": message.tool_name, "content": content}
        return {**head, **given, "isError": message.is_error, "timestamp": time}
    if isinstance(message, Assistant):
        failed = {"errorMessage": message.error} if message.error else {}
        made = {"api": message.api, "provider": message.provider, "model": message.model}
        ended = {"usage": _stored_usage(message.usage), "stopReason": message.stop_reason, **failed}
        return {"role": "assistant", "content": content, **made, **ended, "timestamp": time}
    body: Json = {"role": "user", "content": content, "timestamp": time}
    if message.idempotency_key:
        body["idempotencyKey"] = message.idempotency_key
    if message.provenance is not None:
        body["provenance"] = message.provenance
    return body


def _block(part: Part) -> Json:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, ToolCall):
        return {"type": "toolCall", "id": part.id, "name": part.name, "arguments": part.arguments}
    if isinstance(part, Image):
        return {"type": "image", "data": part.data, "mimeType": part.mime_type}
    block: Json = {"type": "thinking", "thinking": part.text}
    if part.signature is not None:
        block["thinkingSignature"] = part.signature
    if part.redacted:
        block["redacted"] = True
    return block


def _stored_usage(usage: Usage) -> Json:
    counts = dict(zip(_COUNTS, (usage.input, usage.output, usage.cache_read, usage.cache_write), strict=True))
    cost = usage.cost
    money = dict(zip(_COUNTS, (cost.input, cost.output, cost.cache_read, cost.cache_write), strict=True))
    return {**counts, "totalTokens": usage.total, "cost": {**money, "total": cost.total}}


def cap_details(result: ToolResult) -> ToolResult:
    """Return a result whose `details` are not larger than a note; what is cut says so."""
    details = result.details
    if details is None or len(encode(details)) <= MAX_DETAILS:
        return result
    kept: Json = {}
    room = MAX_DETAILS
    for name, value in details.items():
        size = len(encode({name: value}))
        if size <= room:
            kept[name] = value
            room -= size
    return replace(result, details={**kept, "persistedDetailsTruncated": True})


def summary_text(summary: str) -> str:
    """Return a summary as the model reads it: data about what came before, not a new request."""
    return f"The earlier part of this conversation was summarised to save room:\n\n<summary>\n{summary}\n</summary>"


def content_text(content: Any) -> str:
    return "".join(part.text for part in _parts(content) if isinstance(part, Text))


def to_ms(value: Any) -> int:
    """Return a stored moment in milliseconds, in UTC where it names no zone; 0 for what is no moment."""
    if type(value) in _NUMBERS:
        return int(value) if 0 < value < 1e16 else 0
    try:
        moment = datetime.fromisoformat(value.strip()) if isinstance(value, str) else None
    except ValueError:
        return 0
    if moment is None or not 1970 <= moment.year < 9999:
        return 0
    return epoch_ms(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def is_synthetic(message: Message) -> bool:
    """Say whether a result was put in by a repair and so gives way to a real one."""
    if not isinstance(message, ToolResult):
        return False
    marked = bool((message.details or {}).get(SYNTHETIC))
    return marked or (message.is_error and _UNMARKED.fullmatch(message.text) is not None)


def keys_of(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys of the messages that a stored user message stands for; several, where they were collected."""
    key = data.get("idempotencyKey")
    if key is None and isinstance(extra := data.get("__openclaw"), dict):
        key = extra.get("idempotencyKey")
    provenance = data.get("provenance")
    more = provenance.get(COLLECTED) if isinstance(provenance, dict) else None
    keys = (key, *(more if isinstance(more, list) else ()))
    return tuple(text for text in keys if isinstance(text, str) and text)


def _user(data: Mapping[str, Any], parts: tuple[Part, ...], time: int) -> User:
    provenance = data.get("provenance")
    return User(
        parts=parts,
        timestamp=time,
        idempotency_key=next(iter(keys_of(data)), ""),
        provenance=provenance if isinstance(provenance, dict) else None,
    )


def _assistant(data: Mapping[str, Any], time: int) -> Assistant:
    return Assistant(
        parts=_parts(data.get("content"), finished=data.get("stopReason") == _FINISHED),
        timestamp=time,
        api=intern(_text(data.get("api"))),  # the same few words in thousands of answers
        provider=intern(_text(data.get("provider"))),
        model=intern(_text(data.get("model"))),
        usage=to_usage(data.get("usage")),
        stop_reason=_STOPS.get(_text(data.get("stopReason")), StopReason.STOP),
        error=_text(data.get("errorMessage")),
    )


def _result(data: Mapping[str, Any], time: int) -> ToolResult:
    details = data.get("details")
    return ToolResult(
        call_id=_first(data, *_RESULT_IDS),
        tool_name=_first(data, "toolName", "name"),
        parts=_parts(data.get("content")),
        timestamp=time,
        is_error=bool(data.get("isError")),
        details=details if isinstance(details, dict) else None,
    )


def _parts(content: Any, *, finished: bool = False) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),)
    items = content if isinstance(content, list) else [content]
    return tuple([part for item in items if (part := _part(item, finished)) is not None])


def _part(block: Any, finished: bool) -> Part | None:
    if not isinstance(block, dict):
        return Text(block) if isinstance(block, str) else None
    kind = block.get("type")
    if kind == "text":
        return Text(_text(block.get("text")))
    if kind == "thinking" or kind == "redacted_thinking":
        signature = _first(block, "thinkingSignature", "signature", "data") or None
        redacted = kind == "redacted_thinking" or bool(block.get("redacted"))
        return Thinking(_text(block.get("thinking")), signature, redacted)
    if kind == "image":
        return _image(block)
    if isinstance(kind, str) and kind in _CALLS:
        return _call(block, finished)
    return Text(block["text"]) if isinstance(block.get("text"), str) else None


def _image(block: Mapping[str, Any]) -> Image | None:
    source = block.get("source")
    if isinstance(source, dict):
        block = source
    data, mime = block.get("data"), _first(block, "mimeType", "media_type", "mime_type")
    return Image(data, mime or "image/png") if isinstance(data, str) and data else None


def _call(block: Mapping[str, Any], finished: bool) -> ToolCall | None:
    """Return the call, or None when a cut stream left it incomplete."""
    if "arguments" not in block and "input" not in block:
        return None
    given = block.get("arguments", block.get("input"))
    arguments = {} if given is None else _object(given)
    if arguments is None:
        return None
    ident = _first(block, *_CALL_IDS)
    if isinstance(rest := block.get("partialJson"), str) and not (finished and _is_settled(ident, arguments, rest)):
        return None
    if isinstance(rest := block.get("partialArgs"), str) and _object(rest) is None:
        return None
    return ToolCall(ident, _text(block.get("name")), arguments)


def _is_settled(ident: str, arguments: Json, rest: str) -> bool:
    """Say whether a call is whole though the buffer of its stream was stored with it, as one transport did.

    That transport gave its calls two ids with a bar between them, and ended such an answer with `toolUse`.
    """
    first, _, second = ident.partition("|")
    whole = _object(rest) is not None if rest.strip() else not arguments
    return bool(first and second) and whole


def _object(value: Any) -> Json | None:
    if isinstance(value, str):
        if not value.strip():
            return {}
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def to_usage(value: Any) -> Usage:
    if not isinstance(value, dict):
        return Usage()
    counts = [_number(value.get(name)) for name in _COUNTS]
    if "input" not in value and "output" not in value:
        counts[:2] = [_number(value.get("inputTokens")), _number(value.get("outputTokens"))]
    fresh, out, read, written = map(int, counts)
    return Usage(fresh, out, read, written, _cost(value.get("cost")))


def _cost(value: Any) -> Cost:
    if not isinstance(value, dict) or not any(value.values()):
        return _FREE
    money = [_number(value.get(name)) for name in _COUNTS]
    return Cost(*money) if any(money) else Cost(output=_number(value.get("total")))


def _shell_text(data: Mapping[str, Any]) -> str:
    output = _text(data.get("output"))
    fence = "`" * max([3, *(len(run) + 1 for run in _FENCE.findall(output))])
    lines = [f"The user ran a command: {_text(data.get('command'))}"]
    lines.append(f"{fence}\n{output}\n{fence}" if output else "It printed nothing.")
    if data.get("cancelled"):
        lines.append("It was cancelled.")
    elif isinstance(code := data.get("exitCode"), int) and code:
        lines.append(f"It ended with exit code {code}.")
    if data.get("truncated") and (path := _text(data.get("fullOutputPath"))):
        lines.append(f"The output is cut; all of it is in {path}.")
    return "\n".join(lines)


def _first(data: Mapping[str, Any], *names: str) -> str:
    for name in names:
        if isinstance(value := data.get(name), str) and value:
            return value
    return ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> float:
    return float(value) if type(value) in _NUMBERS and 0 <= value < 1e15 else 0.0
