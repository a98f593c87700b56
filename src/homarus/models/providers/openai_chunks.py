"""Chat-completion events as values: exactly the fields that are used, whatever else a server sends. Pure.

Nearly every event has the types that the protocol names and is decoded straight into them. The others (a number where a
text should be, content in blocks, arguments as an object) are read as any JSON first and then field by field.
"""

# No postponed annotations: the decoder below reads these types, and as texts each would have to be compiled for that.

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from homarus.models.providers.base import json_object, no_reply, reported

_Count = Annotated[int, Meta(ge=0)] | None


class Details(Struct, gc=False):
    """What the prompt was made of."""

    cached_tokens: _Count = None
    cache_write_tokens: _Count = None


class Counts(Struct, gc=False):
    """Tokens as the server counted them, and what they cost where it says so."""

    prompt_tokens: _Count = None
    completion_tokens: _Count = None
    prompt_tokens_details: Details | None = None
    cached_tokens: _Count = None
    prompt_cache_hit_tokens: _Count = None
    cost: float | None = None


class Function(Struct, gc=False):
    """More of the name and the arguments of a call."""

    name: str | None = None
    arguments: str | None = None


class Call(Struct):
    """More of one tool call; `extra_content` is opaque and goes back to the server."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None
    extra_content: Any = None


class Delta(Struct):
    """What is new in a reply. Servers have three names for the reasoning."""

    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_text: str | None = None
    reasoning_details: Any = None
    tool_calls: list[Call] | None = None


class Choice(Struct):
    """One of the replies that were asked for; there is only one."""

    delta: Delta | None = None
    finish_reason: str | None = None
    usage: Counts | None = None


class Chunk(Struct):
    """One event of the stream."""

    choices: list[Choice] | None = None
    usage: Counts | None = None
    error: Any = None


_typed = msgspec.json.Decoder(Chunk).decode


def decode_chunk(data: bytes) -> Chunk:
    """Return an event; raises `Fault` for one that is no JSON object or reports a failure."""
    try:
        chunk = _typed(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return read_chunk(data)
    # What holds neither words nor counts may tell of a failure in some other shape.
    return read_chunk(data) if chunk.error or (not chunk.choices and chunk.usage is None) else chunk


def read_chunk(data: bytes, said: str = "delta") -> Chunk:
    """Return an event of any form; `said` names the field of a choice in which the words stand."""
    value = json_object(data)
    fault = reported(value)
    if fault is not None:
        raise fault
    if said == "message" and not value.get("choices"):
        raise no_reply(value)
    choices = value.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return Chunk([_choice(first, said)] if isinstance(first, dict) else None, _counts(value.get("usage")))


def _fields(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _choice(value: dict[str, Any], said: str) -> Choice:
    return Choice(_delta(_fields(value.get(said))), _text(value.get("finish_reason")), _counts(value.get("usage")))


def _delta(value: dict[str, Any]) -> Delta:
    content = value.get("content")
    if isinstance(content, list):
        content = "".join(str(block.get("text") or "") for block in content if isinstance(block, dict))
    calls = value.get("tool_calls")
    return Delta(
        content=_text(content),
        refusal=_text(value.get("refusal")),
        reasoning_content=_text(value.get("reasoning_content")),
        reasoning=_text(value.get("reasoning")),
        reasoning_text=_text(value.get("reasoning_text")),
        reasoning_details=value.get("reasoning_details"),
        tool_calls=[_call(_fields(call)) for call in calls] if isinstance(calls, list) else None,
    )


def _call(value: dict[str, Any]) -> Call:
    index, function = value.get("index"), _fields(value.get("function"))
    arguments = function.get("arguments")
    if arguments and not isinstance(arguments, str):
        arguments = msgspec.json.encode(arguments).decode()
    return Call(
        index if isinstance(index, int) else None,
        _text(value.get("id")),
        Function(_text(function.get("name")), _text(arguments)),
        value.get("extra_content"),
    )


def _counts(value: Any) -> Counts | None:
    if not isinstance(value, dict):
        return None
    details, cost = _fields(value.get("prompt_tokens_details")), value.get("cost")
    return Counts(
        _count(value, "prompt_tokens"),
        _count(value, "completion_tokens"),
        Details(_count(details, "cached_tokens"), _count(details, "cache_write_tokens")),
        _count(value, "cached_tokens"),
        _count(value, "prompt_cache_hit_tokens"),
        float(cost) if isinstance(cost, int | float) else None,
    )


def _count(value: dict[str, Any], key: str) -> int | None:
    found = value.get(key)
    return found if isinstance(found, int) and found > 0 else None
