"""What model servers send, read with care: objects, tool arguments, how a reply ended, and failures inside a reply. Pure."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from homarus.core.errors import ModelFailure
from homarus.core.patterns import late

_decode = msgspec.json.Decoder().decode
_FENCE = late(r"\A```(?:json)?\s*\n(.*?)\n?```\Z", re.DOTALL)


class Fault(Exception):
    """A failure that the server reported inside the stream, before it is classified."""

    def __init__(self, text: str, status: int | None = None, kind: ModelFailure | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.status = status
        self.kind = kind


# Why a reply ended, by the words of the many servers that speak one of the two protocols.
_ENDED = frozenset(
    {"stop", "end", "end_turn", "eos", "eos_token", "stop_sequence", "stop_token", "tool_calls", "tool_call", "tool_use",
     "function_call", "complete", "completed", "finished", "done", "pause_turn", "stop_str", "null", "none"}
)  # fmt: skip
_CUT = frozenset({"length", "max_tokens", "max_output_tokens", "max_length", "model_length", "token_limit"})
_FAILED: tuple[tuple[str, ModelFailure, str], ...] = (
    (r"context", ModelFailure.CONTEXT_OVERFLOW, "prompt is too long: the context window is full"),
    (r"filter|safety|sensitive|refus|prohibit|block|guardrail|moderat|policy|recitation|spii|violat",
     ModelFailure.REFUSAL, "the provider or the model declined to answer"),
    (r"resource|overload|capacity|busy", ModelFailure.OVERLOADED, "the server lacks the resources to answer"),
    (r"network|abort|time|disconnect|cancel|interrupt", ModelFailure.TIMEOUT, "the server broke the reply off"),
    (r"malformed|invalid|unexpected|repetition", ModelFailure.UNKNOWN, "the model wrote something unreadable"),
    (r"error|fail", ModelFailure.SERVER, "the server failed in the middle of the reply"),
)  # fmt: skip


def was_cut(reason: str, *, empty: bool) -> bool:
    """Say whether a reply ended because it hit its limit; raises `Fault` where its end is a failure.

    A word that nobody knows ends a reply well if there is one.
    """
    word = reason.strip().lower()
    if word in _ENDED or word in _CUT:
        return word in _CUT
    for pattern, kind, said in _FAILED:
        if re.search(pattern, word):
            raise Fault(f"{said} (finish reason: {word})", kind=kind)
    if empty and word:
        raise Fault(f"no reply (finish reason: {word})", kind=ModelFailure.UNKNOWN)
    return False


def reported(value: dict[str, Any]) -> Fault | None:
    """Return the failure that an object tells of, in one of the shapes that servers have for it under status 200."""
    bare = not value.keys() & {"choices", "content", "usage", "delta", "message_id"}
    if (
        value.get("error")
        or value.get("errors")
        or "error" in (value.get("object"), value.get("type"))
        or fields(value.get("base_resp")).get("status_code")
        or value.get("success") is False
        or (bare and value.keys() & {"detail", "message", "msg", "status_msg", "error_msg"} and "type" not in value)
    ):
        return no_reply(value)
    return None


def no_reply(value: dict[str, Any]) -> Fault:
    """Return the failure of a body that is no reply, in its own words."""
    from homarus.models.errors import error_text

    codes = [fields(value.get("error")).get("code"), value.get("code"), value.get("status")]
    status = next((code for code in codes if isinstance(code, int) and 400 <= code < 600), None)
    return Fault(error_text(value), status=status)


def fields(value: Any) -> dict[str, Any]:
    """Return an object that a server sent, and an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def text_of(value: Any) -> str:
    """Return a text that a server sent, and an empty one for anything else."""
    return value if isinstance(value, str) else ""


def json_object(data: bytes) -> dict[str, Any]:
    """Return what an event holds, `null` as an empty object; raises `Fault` for one that is no JSON object."""
    try:
        value = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise Fault(f"an event that is no JSON: {problem}", kind=ModelFailure.SERVER) from problem
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Fault("an event that is no object", kind=ModelFailure.SERVER)
    return value


class BrokenArguments(ValueError):
    """The text is no JSON object and cannot be read as one without guessing."""


def parse_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call. Nothing is completed or guessed: half a call must not run as a whole one."""
    try:
        value = _decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return _repaired(text.strip())
    return value if type(value) is dict else _repaired(text.strip())


def _repaired(text: str) -> dict[str, Any]:
    if not text or text == "null":
        return {}
    try:
        value = _decode(text.encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        value = _lenient(text, problem)
    if isinstance(value, str) and value.strip().startswith("{"):
        # Encoded twice.
        return parse_arguments(value)
    if not isinstance(value, dict):
        raise BrokenArguments(f"expected an object, got {type(value).__name__}")
    return value


def _lenient(text: str, problem: Exception) -> Any:
    """Read JSON5 (trailing commas, single quotes, bare line breaks in strings) or an object inside a code fence."""
    import json

    import pyjson5

    fenced = _FENCE.match(text)
    inner = fenced.group(1) if fenced else text
    try:
        return json.loads(inner, strict=False)
    except ValueError:
        pass
    try:
        return pyjson5.decode(inner)
    except (pyjson5.Json5DecoderException, ValueError):
        raise BrokenArguments(f"{problem} in {text[:80]!r}") from problem
