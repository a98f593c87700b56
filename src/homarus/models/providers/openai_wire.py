"""Chat-completion requests as bytes. Pure: the same request gives the same bytes.

What a session never changes comes first, then the messages, then what a single call may change. So the bytes of one
turn's request are a prefix of the next one's, up to the bracket that closes the messages.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from homarus.core.messages import Assistant, Image, Message, Text, Thinking, ToolCall, ToolResult, User
from homarus.core.patterns import late
from homarus.core.prompt import SystemPrompt
from homarus.models.info import Endpoint, ModelInfo, Quirks
from homarus.models.provider import ModelRequest
from homarus.models.wire import closing, encode, wrote

API = "openai-completions"
NO_OUTPUT = "(no output)"
BLIND = "[image left out: this model takes text only]"
FROM_TOOL = "[image from the tool result above]"
MARK = {"type": "ephemeral"}

# Settings of the user that go into the request under the same name.
_PASSED = {
    "temperature": "temperature", "topP": "top_p", "seed": "seed", "provider": "provider",
    "frequencyPenalty": "frequency_penalty", "presencePenalty": "presence_penalty",
}  # fmt: skip
# What an id may look like for a server, and how one is made that does.
_ID_RULES = {
    "any": (late(r"[A-Za-z0-9_.:|-]{1,64}"), "call_", 24),
    "mistral": (late(r"[A-Za-z0-9]{9}"), "", 9),
    "alnum": (late(r"[A-Za-z0-9]{1,40}"), "call", 24),
}


class Fragment(msgspec.Struct, frozen=True, gc=False):
    """One message on the wire; `later` waits until all results of a batch are out, as the protocol wants them together."""

    role: str
    data: bytes
    later: bytes = b""


def encode_message(message: Message, quirks: Quirks, info: ModelInfo) -> Fragment:
    """Return one message as bytes; an assistant message that says nothing gives an empty fragment."""
    if type(message) is Assistant:
        return _assistant(message, quirks, info)
    if type(message) is ToolResult:
        return _result(message, quirks, info)
    assert type(message) is User
    text = f"{message.text}\n\n{message.context}" if message.context else message.text
    content = _content(text, message.parts, sees=info.sees)
    return Fragment("user", encode({"role": "user", "content": content}))


def _assistant(message: Assistant, quirks: Quirks, info: ModelInfo) -> Fragment:
    text = thinking = ""
    thought = False
    calls: list[dict[str, Any]] = []
    for part in message.parts:
        if type(part) is ToolCall:
            function = {"name": part.name, "arguments": encode(part.arguments).decode()}
            calls.append({"id": wire_id(part.id, quirks.tool_call_ids), "type": "function", "function": function})
        elif type(part) is Text:
            text += part.text
        elif type(part) is Thinking:
            thinking += part.text
            thought = True
    wire: dict[str, Any] = {"role": "assistant", "content": text or None}
    if thought and (message.api, message.provider) == (API, info.provider):
        # Plain words are any model's of this provider; what is signed goes back to the model that signed it.
        if quirks.replay_reasoning and thinking:
            wire[quirks.replay_reasoning] = thinking
        details, extra = unpack(message) if wrote(message, API, info) else ([], {})
        if details:
            wire["reasoning_details"] = details
        for call, source in zip(calls, message.calls, strict=True):
            if source.id in extra:
                call["extra_content"] = extra[source.id]
    if calls:
        wire["tool_calls"] = calls
    return Fragment("assistant", encode(wire) if calls or text else b"")


def _result(message: ToolResult, quirks: Quirks, info: ModelInfo) -> Fragment:
    text, images = "", []
    for part in message.parts:
        if type(part) is Text:
            text += part.text
        elif type(part) is Image:
            images.append(part)
    later = b""
    if images and info.sees:
        later = encode({"role": "user", "content": _content(FROM_TOOL, tuple(images), sees=True)})
    elif images:
        text = text or BLIND
    ident = wire_id(message.call_id, quirks.tool_call_ids)
    return Fragment("tool", encode({"role": "tool", "tool_call_id": ident, "content": text or NO_OUTPUT}), later)


def _content(text: str, parts: tuple[Any, ...], *, sees: bool) -> str | list[dict[str, Any]]:
    images = [part for part in parts if isinstance(part, Image)]
    if not images:
        return text or NO_OUTPUT
    if not sees:
        return f"{text}\n\n{BLIND}" if text else BLIND
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    return blocks + [
        {"type": "image_url", "image_url": {"url": f"data:{image.mime_type};base64,{image.data}"}} for image in images
    ]


def wire_id(call_id: str, rule: str) -> str:
    """Return a tool-call id in the form a server takes. Deterministic, so call and result still belong together."""
    known = _ID_RULES.get(rule)
    if known is None or known[0].fullmatch(call_id):
        return call_id
    _, prefix, length = known
    return prefix + hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:length]


def join_messages(fragments: list[Fragment], quirks: Quirks) -> list[bytes]:
    """Return the messages in order, with images of tool results after their batch."""
    out: list[bytes] = []
    waiting: list[bytes] = []
    previous = ""
    for fragment in fragments:
        if waiting and fragment.role != "tool":
            out += waiting
            waiting = []
        if not fragment.data:
            continue
        if quirks.bridge_after_tool and previous == "tool" and fragment.role == "user":
            out.append(b'{"role":"assistant","content":"Noted."}')
        if quirks.alternate_roles and previous == fragment.role == "user":
            out[-1] = _joined(out[-1], fragment.data)
        else:
            out.append(fragment.data)
        previous = fragment.role
        if fragment.later:
            waiting.append(fragment.later)
    return out + waiting


def _joined(first: bytes, second: bytes) -> bytes:
    one, other = (msgspec.json.decode(message)["content"] for message in (first, second))
    if isinstance(one, str) and isinstance(other, str):
        return encode({"role": "user", "content": f"{one}\n\n{other}"})
    blocks = [[{"type": "text", "text": part}] if isinstance(part, str) else part for part in (one, other)]
    return encode({"role": "user", "content": blocks[0] + blocks[1]})


def head(request: ModelRequest, endpoint: Endpoint, info: ModelInfo) -> dict[str, Any]:
    """Return what stands before the messages, in a fixed order: what the calls of a session share."""
    quirks = endpoint.quirks
    name = request.model if "/" in request.model else quirks.own_models + request.model
    body: dict[str, Any] = {"model": name, "stream": True}
    if quirks.supports_usage_in_streaming:
        body["stream_options"] = {"include_usage": True}
    if quirks.cache_key and request.cache and request.session_id:
        body["prompt_cache_key"] = request.session_id[:64]
    if request.max_tokens:
        body[quirks.max_tokens_field] = request.max_tokens
    params = request.params or {}
    body |= {wire: params[name] for name, wire in _PASSED.items() if name in params}
    if request.tools and quirks.supports_tools:
        specs = ({"name": it.name, "description": it.description, "parameters": it.parameters} for it in request.tools)
        body["tools"] = [{"type": "function", "function": spec} for spec in specs]
    return body


def tail(request: ModelRequest, quirks: Quirks, info: ModelInfo) -> dict[str, Any]:
    """Return what stands behind the messages: what a single call of a session may ask for."""
    body = thinking_fields(request.thinking, quirks, info)
    if tier := (request.params or {}).get("serviceTier"):
        body["service_tier"] = tier
    if request.tools and quirks.supports_tools and (choice := request.tool_choice):
        plain = choice in {"auto", "none", "required"}
        body["tool_choice"] = choice if plain else {"type": "function", "function": {"name": choice}}
    if request.response_schema is not None:
        schema = {"name": "reply", "schema": request.response_schema}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def thinking_fields(level: str, quirks: Quirks, info: ModelInfo) -> dict[str, Any]:
    """Return the fields that carry a thinking level; none for a model without levels, and none for the empty level."""
    form = info.thinking or quirks.thinking_format
    if not level or not info.reasons or form == "none" or (level == "off" and "off" not in info.levels):
        return {}
    off = level == "off"
    effort = {"off": "none", "adaptive": "high", "ultra": "max"}.get(level, level)
    switch = {"thinking": {"type": "disabled" if off else "enabled"}}
    match form:
        case "openrouter":
            return {"reasoning": {"enabled": False} if off else {"effort": effort}}
        case "thinking":
            return switch
        case "thinking+effort":
            return switch if off else {**switch, "reasoning_effort": effort}
        case "qwen":
            return {"enable_thinking": not off}
        case _:
            return {"reasoning_effort": effort}


def body(request: ModelRequest, fragments: list[Fragment], endpoint: Endpoint, info: ModelInfo) -> list[bytes]:
    """Return a whole request: settings, tools and the system prompt, the messages, and what only this call asks for."""
    marks = request.cache and request.model.startswith(endpoint.quirks.cache_markers_for or ("\0",))
    messages = join_messages(fragments, endpoint.quirks)
    if marks and messages:
        messages[-1] = marked(messages[-1])
    system = _system(request.system, marks=marks)
    start = encode(head(request, endpoint, info))[:-1] + b',"messages":['
    said = b",".join([*([system] if system else []), *messages])
    return [start, said, closing(tail(request, endpoint.quirks, info))]


def _system(system: SystemPrompt, *, marks: bool) -> bytes:
    if not system.text:
        return b""
    if not marks:
        return encode({"role": "system", "content": system.text})
    texts = [text for text in (system.stable, system.session) if text]
    blocks = [{"type": "text", "text": text, "cache_control": MARK} for text in texts]
    return encode({"role": "system", "content": blocks})


def marked(message: bytes) -> bytes:
    """Put the cache marker of the newest turn on its last block."""
    value = msgspec.json.decode(message)
    content = value.get("content")
    if isinstance(content, str):
        value["content"] = [{"type": "text", "text": content, "cache_control": MARK}]
    elif content:
        content[-1] = {**content[-1], "cache_control": MARK}
    return encode(value)


class ReasoningState:
    """Opaque reasoning data that a server wants back, kept in the signature of a thinking part.

    Two kinds exist: OpenRouter's `reasoning_details` and Google's thought signatures on tool calls (`extra_content`). Without
    them Gemini refuses the next step of a tool loop. They go back only to the model that made them.
    """

    def __init__(self) -> None:
        self._details: list[dict[str, Any]] = []
        self._extra: dict[int, Any] = {}

    def details(self, items: Any) -> None:
        """Take streamed reasoning details; pieces of the same item are joined."""
        for item in items if isinstance(items, list) else ():
            if not isinstance(item, dict):
                continue
            last = self._details[-1] if self._details else None
            if last and (last.get("type"), last.get("index")) == (item.get("type"), item.get("index")):
                joined = {
                    key: f"{last.get(key) or ''}{item[key]}"
                    for key in ("text", "summary", "data")
                    if isinstance(item.get(key), str)
                }
                self._details[-1] = {**last, **{k: v for k, v in item.items() if v is not None}, **joined}
            else:
                self._details.append(item)

    @staticmethod
    def words(items: Any) -> str:
        found = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
        return "".join(str(item.get("text") or item.get("summary") or "") for item in found)

    def hang(self, index: int, content: Any) -> None:
        """Take what a server hung on one tool call."""
        if content:
            self._extra[index] = content

    def signature(self, ids: dict[int, str]) -> str | None:
        """Return all of it as one text, by the ids that the calls have; None when the server sent nothing of the kind."""
        extra = {ids[index]: content for index, content in self._extra.items() if index in ids}
        kept = {key: value for key, value in (("details", self._details), ("extra", extra)) if value}
        return encode(kept).decode() if kept else None


def unpack(message: Assistant) -> tuple[list[Any], dict[str, Any]]:
    """Return the reasoning details and the per-call extras of a stored reply."""
    for part in message.parts:
        if isinstance(part, Thinking) and part.signature and part.signature.startswith("{"):
            try:
                value = msgspec.json.decode(part.signature)
            except ValueError:
                continue
            if isinstance(value, dict):
                details, extra = value.get("details"), value.get("extra")
                return details if isinstance(details, list) else [], extra if isinstance(extra, dict) else {}
    return [], {}
