"""What OpenAI's clients send, read into a conversation: instructions, what was said before, and what is said now. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from homarus.agent.toolkit import HANDED_OVER
from homarus.core.errors import HomarusError
from homarus.core.messages import Assistant, Image, Message, Part, StopReason, Text, ToolCall, ToolResult, User
from homarus.core.text import single_line
from homarus.core.tools import ToolSpec

MAX_IMAGES, MAX_MESSAGES, MAX_TOOLS = 8, 2_000, 128
_TEXTS = frozenset({"text", "input_text", "output_text", "refusal"})
_MAX_NAME = 64


class Problem(HomarusError):
    """The caller acts. `status` and `kind` are what OpenAI's clients make their exceptions of."""

    def __init__(
        self, message: str, *, status: int = 400, kind: str = "invalid_request_error", code: str = "", param: str = ""
    ) -> None:
        super().__init__(single_line(message, 500))
        self.status = status
        self.kind = kind
        self.code = code
        self.param = param

    def body(self) -> dict[str, Any]:
        facts = {"message": self.message, "type": self.kind, "param": self.param or None, "code": self.code or None}
        return {"error": facts}


class Said(Struct, frozen=True, kw_only=True):
    """One message of a request, whichever endpoint it came to."""

    role: str
    text: str = ""
    images: tuple[Image, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""


class Conversation(Struct, frozen=True, kw_only=True):
    text: str
    images: tuple[Image, ...] = ()
    instructions: str = ""
    history: tuple[Message, ...] = ()
    # Results of the caller's functions are in the text; what they hold was written by whoever.
    taint: tuple[str, ...] = ()


def conversation(said: Sequence[Said]) -> Conversation:
    """Split messages into instructions, history, and what is to be answered: the last user's words, or results."""
    if len(said) > MAX_MESSAGES:
        raise Problem(f"more than {MAX_MESSAGES} messages", param="messages")
    instructions = "\n\n".join(each.text for each in said if each.role in {"system", "developer"} and each.text)
    rest = [each for each in said if each.role not in {"system", "developer"}]
    start = len(rest)
    while start and rest[start - 1].role == "tool":
        start -= 1
    results = rest[start:]
    if results:
        names = {call.id: call.name for each in rest for call in each.calls}
        text = "\n\n".join(_result(each, names) for each in results)
        taint = tuple(dict.fromkeys(f"program:{names.get(each.call_id, 'function')}" for each in results))
        return Conversation(text=text, instructions=instructions, history=_history(rest[:start]), taint=taint)
    if not rest or rest[-1].role != "user":
        raise Problem("the last message must be the user's, or the result of a tool", param="messages")
    now = rest[-1]
    if len(now.images) > MAX_IMAGES:
        raise Problem(f"more than {MAX_IMAGES} images", param="messages")
    if not now.text.strip() and not now.images:
        raise Problem("the last message is empty", param="messages")
    return Conversation(text=now.text, images=now.images, instructions=instructions, history=_history(rest[:-1]))


def _result(said: Said, names: Mapping[str, str]) -> str:
    name = names.get(said.call_id, "")
    return f"Result of {name or 'the call'} ({said.call_id}):\n{said.text}"


def _history(said: Sequence[Said]) -> tuple[Message, ...]:
    """Return what was said before. Every call has its result right behind it; one that is missing comes later."""
    answers = {each.call_id: each.text for each in said if each.role == "tool"}
    found: list[Message] = []
    for each in said:
        parts: list[Part] = [Text(each.text)] if each.text else []
        if each.role == "user" and (parts or each.images):
            found.append(User((*parts, *each.images)))
        elif each.role == "assistant" and (parts or each.calls):
            reason = StopReason.TOOL_USE if each.calls else StopReason.STOP
            found.append(Assistant((*parts, *each.calls), stop_reason=reason))
            found += [ToolResult(call.id, call.name, (Text(answers.get(call.id, HANDED_OVER)),)) for call in each.calls]
    return tuple(found)


def chat_messages(messages: Any) -> list[Said]:
    """Read the `messages` of a chat completion."""
    if not isinstance(messages, list) or not messages:
        raise Problem("messages must be a list that is not empty", param="messages")
    return [_chat_message(each, f"messages[{at}]") for at, each in enumerate(messages)]


def _chat_message(message: Any, where: str) -> Said:
    if not isinstance(message, dict):
        raise Problem(f"{where} is no object", param=where)
    role = {"function": "tool"}.get(str(message.get("role")), str(message.get("role")))
    if role not in {"system", "developer", "user", "assistant", "tool"}:
        raise Problem(f"{where}.role is none that is known", param=f"{where}.role")
    text, images = _content(message.get("content"), f"{where}.content")
    calls = []
    for at, call in enumerate(_listed(message.get("tool_calls"), f"{where}.tool_calls")):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            raise Problem(f"{where}.tool_calls[{at}] names no function", param=f"{where}.tool_calls")
        calls.append(_call(call.get("id"), function.get("name"), function.get("arguments"), where))
    call_id = str(message.get("tool_call_id") or message.get("name") or "") if role == "tool" else ""
    return Said(role=role, text=text, images=images, calls=tuple(calls), call_id=call_id)


def response_items(given: Any) -> list[Said]:
    """Read the `input` of a response: a text, or items."""
    if isinstance(given, str):
        return [Said(role="user", text=given)]
    if not isinstance(given, list) or not given:
        raise Problem("input must be a text or a list that is not empty", param="input")
    found: list[Said] = []
    for at, item in enumerate(given):
        where = f"input[{at}]"
        kind = item.get("type", "message") if isinstance(item, dict) else ""
        if kind == "message":
            found.append(_chat_message(item, where))
        elif kind == "function_call":
            call = _call(item.get("call_id"), item.get("name"), item.get("arguments"), where)
            if found and found[-1].role == "assistant":
                before = found.pop()
                found.append(Said(role="assistant", text=before.text, calls=(*before.calls, call)))
            else:
                found.append(Said(role="assistant", calls=(call,)))
        elif kind == "function_call_output":
            text, _ = _content(item.get("output"), f"{where}.output")
            found.append(Said(role="tool", text=text, call_id=str(item.get("call_id") or "")))
        elif kind != "reasoning":  # what another model thought is not for this one
            raise Problem(f"{where}: items of the type '{single_line(str(kind), 40)}' are not taken here", param=where)
    return found


def _content(content: Any, where: str) -> tuple[str, tuple[Image, ...]]:
    if content is None or isinstance(content, str):
        return content or "", ()
    texts, images = [], []
    for at, part in enumerate(_listed(content, where)):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in _TEXTS:
            texts.append(str(part.get("text") or part.get("refusal") or ""))
        elif kind in {"image_url", "input_image"}:
            url = part.get("image_url")
            images.append(_image(url.get("url") if isinstance(url, dict) else url, f"{where}[{at}]"))
        elif kind in {"file", "input_file"}:
            inner = part.get("file")
            texts.append(_file(inner if isinstance(inner, dict) else part, f"{where}[{at}]"))
        else:
            shown = single_line(str(kind), 40)
            raise Problem(f"{where}[{at}]: parts of the type '{shown}' are not taken here", param=where)
    return "\n".join(texts), tuple(images)


def _image(url: Any, where: str) -> Image:
    kind, data = _data(url, where)
    if not kind.startswith("image/"):
        raise Problem(f"{where} is no picture but {kind}", param=where)
    return Image(data, kind)


def _file(part: Mapping[str, Any], where: str) -> str:
    """Return a text file as the model reads it: named, and no words of the caller's own."""
    _, data = _data(part.get("file_data"), where)
    name = single_line(str(part.get("filename") or "file"), 80).replace('"', "'")
    try:
        text = base64.b64decode(data).decode("utf-8")
    except UnicodeDecodeError:
        raise Problem(f"{where} is no text file", param=where) from None
    return f'<file name="{name}">\n{text.rstrip()}\n</file>'


def _data(url: Any, where: str) -> tuple[str, str]:
    """Read a data: address. Nothing is fetched for a caller: what an address leads to is theirs to send."""
    head, found, data = str(url or "").partition(",")
    if not head.startswith("data:") or not found or not head.endswith(";base64"):
        raise Problem(f"{where} must be a data: address in base64; nothing is fetched here", param=where)
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise Problem(f"{where} is no base64", param=where) from None
    return head.removeprefix("data:").partition(";")[0], data


def _call(ident: Any, name: Any, arguments: Any, where: str) -> ToolCall:
    try:
        found = msgspec.json.decode(arguments) if isinstance(arguments, str) and arguments else arguments or {}
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not ident or not name:
        raise Problem(f"{where}: a call needs an id, a name and arguments that are a JSON object", param=where)
    return ToolCall(str(ident), str(name), found)


def caller_tools(given: Any) -> tuple[ToolSpec, ...]:
    """Read `tools` of either endpoint: functions alone."""
    found = []
    for at, each in enumerate(_listed(given, "tools")):
        where = f"tools[{at}]"
        kind = each.get("type", "function") if isinstance(each, dict) else None
        if kind != "function":
            shown = single_line(str(kind), 40)
            raise Problem(f"{where}: tools of the type '{shown}' are not taken here, only functions", param=where)
        inner = each.get("function")
        function = inner if isinstance(inner, dict) else each
        name, schema = str(function.get("name")), function.get("parameters") or {"type": "object", "properties": {}}
        usable = isinstance(function.get("name"), str) and name.isascii() and len(name) <= _MAX_NAME
        if not usable or not name.replace("-", "_").isidentifier() or not isinstance(schema, dict):
            raise Problem(f"{where} needs a name of letters, digits, _ and -, and an object of parameters", param=where)
        found.append(ToolSpec(name, str(function.get("description") or ""), schema))
    if len(found) > MAX_TOOLS:
        raise Problem(f"more than {MAX_TOOLS} tools", param="tools")
    return tuple(found)


def tool_choice(given: Any, tools: Sequence[ToolSpec]) -> str:
    """Return empty for the model's own choice, `none`, `required`, or the name that is demanded."""
    if given in (None, "", "auto"):
        return ""
    if isinstance(given, dict):
        inner = given.get("function")
        given = (inner if isinstance(inner, dict) else given).get("name")
        if given in {spec.name for spec in tools}:
            return str(given)
    elif given in {"none", "required"} and (tools or given == "none"):
        return str(given)
    raise Problem("tool_choice names none of the tools", param="tool_choice")


def output_schema(given: Any, where: str) -> str:
    """Return the form that the answer must have, from `response_format` or `text.format`."""
    if not isinstance(given, dict) or given.get("type") in (None, "text"):
        return ""
    if given["type"] == "json_object":
        return '{"type":"object"}'
    inner = given.get("json_schema", given)
    schema = inner.get("schema") if isinstance(inner, dict) else None
    if given["type"] != "json_schema" or not isinstance(schema, dict):
        raise Problem(f"{where} must be text, json_object, or a json_schema with its schema", param=where)
    return msgspec.json.encode(schema).decode()


def _listed(given: Any, where: str) -> list[Any]:
    if given is None:
        return []
    if not isinstance(given, list):
        raise Problem(f"{where} must be a list", param=where)
    return given
