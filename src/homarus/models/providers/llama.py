"""A GGUF model inside this process, through llama.cpp (`xllamacpp`, the `local` extra). No network is used.

The library also opens a loopback port that we do not need and cannot turn off, so it gets a random key that nobody learns.

A small model cannot make tool calls by itself. So it writes one object, either `{"reply": "…"}` or `{"tool": "…", "arguments": {…}}`,
and a grammar leaves it no other choice: its calls parse, and its reply still streams.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec

from homarus.core.cancel import Cancel
from homarus.core.clock import Clock, epoch_ms
from homarus.core.errors import Cancelled, ConfigError, ModelError, ModelFailure, installing
from homarus.core.events import TextDelta, ThinkingDelta
from homarus.core.messages import Assistant, Message, Part, StopReason, Text, ToolCall, ToolResult, Usage, User
from homarus.core.patterns import late
from homarus.core.tools import ToolSpec
from homarus.models.gguf import NotGguf, locate, read_info
from homarus.models.info import ModelInfo
from homarus.models.provider import ModelRequest, Stop, StreamEvent, ToolCallDelta
from homarus.models.providers.openai import OpenAIDecoder
from homarus.models.providers.reading import Fault
from homarus.models.wire import encode, inert
from homarus.net.sse import SseEvent

PROVIDER, API = "local", "llama.cpp"
# More context costs memory and time to first word; small models get worse with it anyway.
MOST_CONTEXT = 16_384
DEFAULT_OUTPUT = 1_024
IDLE_SECONDS = 300.0
UNLOAD_SECONDS = 600.0
Loader = Callable[[Path, int, int], Any]
_OPENING = late(r'\s*\{\s*"reply"\s*:\s*"')
# An escape that is still being written, or the first half of a surrogate pair.
_UNFINISHED = late(r"\\(?:u[0-9a-fA-F]{0,3})?\Z|\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?\Z")
_KEPT = ("type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "minimum", "maximum", "minItems", "maxItems")  # fmt: skip


def describe(name: str, models_dir: Path | None) -> ModelInfo:
    """Return what a local model can hold, from its file's head."""
    path = locate(name, models_dir)
    try:
        found = read_info(path)
    except NotGguf as problem:
        raise ConfigError(str(problem), cure="delete the file and fetch it again") from problem
    window = min(found.context_length or MOST_CONTEXT, MOST_CONTEXT)
    return ModelInfo(provider=PROVIDER, id=name, name=found.name, context_window=window, max_output=window // 2)


def open_gguf(name: str, models_dir: Path | None, *, clock: Clock, load: Loader | None = None) -> LlamaProvider:
    """Return a provider for a local model; nothing is loaded before the first request."""
    info = describe(name, models_dir)
    return LlamaProvider(locate(name, models_dir), info, clock=clock, load=load or load_server)


def load_server(path: Path, context: int, threads: int) -> Any:
    """Load a model into memory; blocks for as long as reading the weights takes."""
    try:
        import xllamacpp
    except ImportError as problem:
        raise ConfigError("local models need the 'local' extra", cure=installing("homarus[local]")) from problem
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = context
    params.n_parallel = 1
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    # Repacked weights would cost as much memory again (630 MB on a 1.5B model).
    params.no_extra_bufts = True
    params.warmup = False
    params.verbosity = -1
    params.api_keys = [secrets.token_urlsafe(32)]
    return xllamacpp.Server(params)


class LlamaProvider:
    """One GGUF file. It is loaded for the first request and let go after ten quiet minutes."""

    def __init__(self, path: Path, info: ModelInfo, *, clock: Clock, load: Loader, threads: int | None = None) -> None:
        self.path = path
        self.info = info
        self._clock = clock
        self._load = load
        self._threads = threads or max(1, (os.cpu_count() or 2) - 1)
        self._server: Any = None
        self._lock = threading.Lock()
        self._uses = 0

    def unload(self) -> None:
        """Free the weights; the next request loads them again."""
        with self._lock:
            self._server = None

    def _answer(self, body: bytes, give: Callable[[bytes], bool]) -> None:
        """Run one completion to its end or until `give` says stop; blocks, so it has a thread of its own."""
        with self._lock:
            if self._server is None:
                self._server = self._load(self.path, self.info.context_window, self._threads)
            self._server.handle_chat_completions(body, give)

    def body(self, request: ModelRequest) -> dict[str, Any]:
        tools = () if request.tool_choice == "none" else request.tools
        system = f"{request.system.text}\n\n{instructions(tools)}" if tools else request.system.text
        body: dict[str, Any] = {
            "messages": plain_messages(system, request.messages, tooled=bool(tools)),
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": min(request.max_tokens or DEFAULT_OUTPUT, self.info.max_output),
            "cache_prompt": True,
        }
        body |= {key: value for key, value in (request.params or {}).items() if key in {"temperature", "seed"}}
        schema = request.response_schema or (output_schema(tools, request.tool_choice) if tools else None)
        if schema is not None:
            body["response_format"] = {"type": "json_schema", "json_schema": {"schema": schema}}
        return body

    async def stream(self, request: ModelRequest, *, cancel: Cancel) -> AsyncIterator[StreamEvent]:
        """Ask the model; see `ModelProvider`. An abort ends the stream at once and the engine at its next token."""
        decoder = OpenAIDecoder()
        tooled = bool(request.tools) and request.tool_choice != "none" and request.response_schema is None
        reader = Reader() if tooled else None
        error: ModelError | None = None
        parts: tuple[Part, ...] = ()
        reason = StopReason.STOP
        call_id = f"call_{len(request.messages)}"
        stopped = threading.Event()
        try:
            async with aclosing(self._chunks(encode(self.body(request)), request, cancel, stopped)) as chunks:
                async for chunk in chunks:
                    for event in decoder.feed(SseEvent("", chunk)):
                        shown = _shown(event, reader)
                        if shown is not None:
                            yield shown
            reply = decoder.reply()
            parts, reason = _finished(reply.parts, reply.stop_reason, reader, call_id)
        except Cancelled as problem:
            error = ModelError(ModelFailure.ABORTED, problem.message)
        except (Fault, TimeoutError, ConfigError, ValueError, RuntimeError) as problem:
            error = self._failure(problem)
        finally:
            stopped.set()
            self._let_go_later()
        if error is not None:
            parts = decoder.so_far()[0] if reader is None else ((Text(reader.reply),) if reader.reply else ())
            reason = StopReason.ABORTED if error.kind is ModelFailure.ABORTED else StopReason.ERROR
        elif reader is not None and reason is StopReason.TOOL_USE:
            for call in self._message(parts, reason, Usage(), "").calls:
                yield ToolCallDelta(0, call.id, call.name, encode(call.arguments).decode())
        yield Stop(self._message(parts, reason, decoder.so_far()[1], error.message if error else ""), error)

    async def _chunks(
        self, body: bytes, request: ModelRequest, cancel: Cancel, stopped: threading.Event
    ) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()

        def put(item: bytes | Exception | None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(queue.put_nowait, item)

        def give(chunk: bytes) -> bool:
            put(chunk)
            return stopped.is_set()

        def work() -> None:
            try:
                self._answer(body, give)
            except Exception as problem:  # noqa: BLE001 - whatever the engine throws ends this one stream
                put(problem)
            else:
                put(None)

        cancel.check()
        threading.Thread(target=work, name="llama", daemon=True).start()
        while True:
            with cancel.interrupting():
                async with asyncio.timeout(request.idle_timeout or IDLE_SECONDS):
                    item = await queue.get()
            if item is None:
                return
            if isinstance(item, Exception):
                raise item
            yield item

    def _failure(self, problem: Exception) -> ModelError:
        from homarus.models.errors import failure

        where = f"{PROVIDER}/{self.info.id}"
        if isinstance(problem, ConfigError):
            return ModelError(ModelFailure.MODEL_NOT_FOUND, f"{where}: {problem.message}", cure=problem.cure)
        if isinstance(problem, Fault):
            if problem.kind is not None:
                return ModelError(problem.kind, f"{where}: {problem.text}")
            return failure(problem.status, problem.text, where=where)
        return failure(None, str(problem) or "no word from the model in time (timed out)", where=where)

    def _message(self, parts: tuple[Part, ...], reason: StopReason, usage: Usage, error: str) -> Assistant:
        return Assistant(
            parts=parts,
            timestamp=epoch_ms(self._clock.now()),
            api=API,
            provider=PROVIDER,
            model=self.info.id,
            usage=usage,
            stop_reason=reason,
            error=error,
        )

    def _let_go_later(self) -> None:
        self._uses += 1
        seen = self._uses

        def quiet() -> None:
            if self._uses == seen and self._lock.acquire(blocking=False):
                self._server = None
                self._lock.release()

        asyncio.get_running_loop().call_later(UNLOAD_SECONDS, quiet)


def _shown(event: StreamEvent, reader: Reader | None) -> StreamEvent | None:
    if reader is None or isinstance(event, ThinkingDelta):
        return event
    if isinstance(event, TextDelta):
        text = reader.feed(event.text)
        return TextDelta(text) if text else None
    return None


def _finished(
    parts: tuple[Part, ...], reason: StopReason, reader: Reader | None, call_id: str
) -> tuple[tuple[Part, ...], StopReason]:
    if reader is None:
        return parts, reason
    call = reader.call(call_id)
    if call is not None:
        return (call,), StopReason.TOOL_USE
    return ((Text(reader.reply),) if reader.reply else ()), reason


def output_schema(tools: Sequence[ToolSpec], choice: str | None) -> dict[str, Any]:
    """Return the schema of what the model may write: a reply, unless a tool is demanded, or a call of a tool."""
    options: list[dict[str, Any]] = []
    if choice in {None, "auto", "none"}:
        options.append(_object({"reply": {"type": "string"}}))
    if choice != "none":
        for spec in tools:
            if choice in {None, "auto", "required", spec.name}:
                arguments = _simple({"type": "object", **spec.parameters})
                options.append(_object({"tool": {"const": spec.name}, "arguments": arguments}))
    return options[0] if len(options) == 1 else {"anyOf": options}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _simple(schema: Any) -> Any:
    """Keep of a tool's schema what shapes a grammar; descriptions, patterns and references only make it fail or slow."""
    if isinstance(schema, list):
        return [_simple(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for key in _KEPT:
        if key not in schema:
            continue
        value = schema[key]
        if key == "properties":
            kept[key] = {name: _simple(item) for name, item in value.items()} if isinstance(value, dict) else {}
        else:
            kept[key] = value if key in {"enum", "const", "required"} else _simple(value)
    if kept.get("type") == "object" and "properties" in kept:
        kept["additionalProperties"] = False
    return kept


def instructions(tools: Sequence[ToolSpec]) -> str:
    """Return what the model is told about this form; part of the system prompt, so the same for every turn."""
    lines = [
        'Answer with one JSON object: {"reply": "your words"} to talk, or {"tool": "name", "arguments": {}} to act.',
        "Tools:",
    ]
    for spec in tools:
        names = ", ".join(spec.parameters.get("properties") or {})
        lines.append(f"- {spec.name}({names}): {(spec.summary or spec.description).splitlines()[0][:160]}")
    return "\n".join(lines)


def plain_messages(system: str, messages: Sequence[Message], *, tooled: bool) -> list[dict[str, str]]:
    """Return a conversation in the two roles that every chat template knows, calls and results as text."""
    out = [{"role": "system", "content": system}] if system else []
    for message in map(inert, messages):
        role, text = _plain(message, tooled=tooled)
        if not text:
            continue
        if out and out[-1]["role"] == role:
            out[-1] = {"role": role, "content": f"{out[-1]['content']}\n\n{text}"}
        else:
            out.append({"role": role, "content": text})
    return out


def _plain(message: Message, *, tooled: bool) -> tuple[str, str]:
    if isinstance(message, User):
        return "user", f"{message.text}\n\n{message.context}" if message.context else message.text
    if isinstance(message, ToolResult):
        return "user", f"Result of {message.tool_name}:\n{message.text or '(no output)'}"
    assert isinstance(message, Assistant)
    calls = [encode({"tool": call.name, "arguments": call.arguments}).decode() for call in message.calls]
    if calls:
        return "assistant", "\n".join(calls)
    return "assistant", encode({"reply": message.text}).decode() if tooled and message.text else message.text


class Reader:
    """Reads constrained output as it arrives: gives the reply's new text at once, and a call only when it is whole."""

    def __init__(self) -> None:
        self._raw = ""
        self._start: int | None = None
        self._given = ""

    def feed(self, text: str) -> str:
        self._raw += text
        if self._start is None:
            opened = _OPENING.match(self._raw)
            if opened is None:
                return ""
            self._start = opened.end()
        decoded = self._decoded()
        new, self._given = decoded[len(self._given) :], decoded
        return new

    def _decoded(self) -> str:
        rest = self._raw[self._start :]
        closed = re.search(r'(?<!\\)(?:\\\\)*"', rest)
        body = rest[: closed.end() - 1] if closed else _UNFINISHED.sub("", rest)
        try:
            return str(json.loads(f'"{body}"', strict=False))
        except ValueError:
            return self._given

    @property
    def reply(self) -> str:
        return self._given

    def call(self, call_id: str) -> ToolCall | None:
        """Return the call that the output is, or None when it is a reply or was cut."""
        try:
            value = msgspec.json.decode(self._raw.encode("utf-8", "replace"))
        except ValueError:
            return None
        if isinstance(value, dict) and isinstance(value.get("tool"), str) and isinstance(value.get("arguments"), dict):
            return ToolCall(call_id, value["tool"], value["arguments"])
        return None
