"""Every other provider (Bedrock, Vertex, Azure, Cohere …) through pydantic-ai, the `providers` extra.

The library costs more than a second to import, so it is imported for the first request and not before.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any

from homarus.core.cancel import Cancel
from homarus.core.clock import Clock, epoch_ms
from homarus.core.errors import Cancelled, ConfigError, ModelError, ModelFailure, installing
from homarus.core.events import TextDelta, ThinkingDelta
from homarus.core.messages import (  # fmt: skip
    Assistant,
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
from homarus.models.info import Endpoint, ModelInfo, priced
from homarus.models.provider import ModelRequest, Stop, StreamEvent, ToolCallDelta
from homarus.models.providers.base import watchdog
from homarus.models.providers.reading import BrokenArguments, Fault, parse_arguments, was_cut
from homarus.models.wire import inert, wrote
from homarus.net.client import HttpClient

# OpenClaw's names for protocols, and pydantic-ai's for the providers that speak them.
NAMES = {
    "google-generative-ai": "google",
    "google-vertex": "google-cloud",
    "bedrock-converse-stream": "bedrock",
    "azure-openai-responses": "azure",
    "mistral-conversations": "mistral",
}
_THINKING = {"off": False, "adaptive": True, "xhigh": "high", "max": "high", "ultra": "high"}
OpenModel = Callable[[Endpoint, ModelInfo], Any]


class LibraryProvider:
    def __init__(
        self,
        endpoint: Endpoint,
        info: ModelInfo,
        *,
        clock: Clock,
        http: HttpClient | None = None,  # the library has its own
        open_model: OpenModel | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.info = info
        self._clock = clock
        self._open = open_model or infer
        self._model: Any = None
        self._where = f"{endpoint.provider}/{info.id}"

    async def stream(self, request: ModelRequest, *, cancel: Cancel) -> AsyncIterator[StreamEvent]:
        error: ModelError | None = None
        response: Any = None
        try:
            async with aclosing(self._events(request, cancel)) as events:
                async for event in events:
                    if isinstance(event, TextDelta | ThinkingDelta | ToolCallDelta):
                        yield event
                    else:
                        response = event
            parts = _parts(response)
            was_cut(getattr(response, "finish_reason", None) or "", empty=not parts)
        except Fault as problem:
            error = ModelError(problem.kind or ModelFailure.UNKNOWN, f"{self._where}: {problem.text}")
        except Cancelled as problem:
            error = ModelError(ModelFailure.ABORTED, problem.message)
        except Exception as problem:  # noqa: BLE001 - a dozen SDKs, each with its own exceptions
            error = self._failure(problem)
        if error is not None:
            kept = _parts(response, calls=False)
            reason = StopReason.ABORTED if error.kind is ModelFailure.ABORTED else StopReason.ERROR
            yield Stop(self._message(kept, response, reason, error.message), error)
            return
        yield Stop(self._message(parts, response, _reason(parts, response), ""))

    async def _events(self, request: ModelRequest, cancel: Cancel) -> AsyncGenerator[Any, None]:
        """Yield deltas and, after each, the response so far."""
        cancel.check()
        if self._model is None:
            self._model = self._open(self.endpoint, self.info)
        from pydantic_ai.direct import model_request_stream

        idle = request.idle_timeout or self.endpoint.idle_timeout
        stream = model_request_stream(
            self._model,
            messages(request, self.endpoint.api, self.info),
            model_settings=settings(request, self.info),
            model_request_parameters=parameters(request),
        )
        async with stream as streamed:
            events = aiter(streamed)
            while True:
                async with watchdog(cancel, idle):
                    event = await anext(events, None)
                if event is None:
                    break
                for delta in _deltas(event):
                    yield delta
                yield streamed.get()

    def _failure(self, problem: Exception) -> ModelError:
        from homarus.models.errors import error_text, failure, hidden

        where = self._where
        if isinstance(problem, ConfigError | ImportError):
            cure = getattr(problem, "cure", "") or installing("homarus[providers]")
            return ModelError(ModelFailure.MODEL_NOT_FOUND, f"{where}: {problem}", cure=cure)
        if isinstance(problem, BrokenArguments):
            return ModelError(ModelFailure.UNKNOWN, f"{where}: broken tool arguments: {problem}")
        body = getattr(problem, "body", None)
        text = error_text(body) if body else str(problem) or "no answer in time (timed out)"
        text = hidden(text, self.endpoint.secrets)
        status = getattr(problem, "status_code", None)
        found = failure(status, text, where=where)
        found.retry_after = getattr(problem, "retry_after", None) or found.retry_after
        return found

    def _message(self, parts: tuple[Part, ...], response: Any, reason: StopReason, error: str) -> Assistant:
        return Assistant(
            parts=parts,
            timestamp=epoch_ms(self._clock.now()),
            api=self.endpoint.api,
            provider=self.endpoint.provider,
            model=self.info.id,
            usage=priced(_usage(response), self.info.price),
            stop_reason=reason,
            error=error,
        )


open_provider = LibraryProvider


def infer(endpoint: Endpoint, info: ModelInfo) -> Any:
    """Open a model by the library's own names; the key and address of our configuration win over its environment."""
    try:
        from pydantic_ai.models import infer_model
        from pydantic_ai.providers import infer_provider, infer_provider_class
    except ImportError as problem:
        raise ConfigError(
            f"the protocol '{endpoint.api}' of provider '{endpoint.provider}' needs the 'providers' extra",
            cure=installing("homarus[providers]"),
        ) from problem
    name = NAMES.get(endpoint.api, endpoint.provider)

    def provider(kind: str) -> Any:
        given = {"api_key": endpoint.key, "base_url": endpoint.base_url}
        given = {key: value for key, value in given.items() if value}
        try:
            known = infer_provider_class(kind)
        except ValueError:
            raise ConfigError(
                f"'{endpoint.api}' is no protocol that is known here, and pydantic-ai has no provider '{kind}'",
                cure=f"correct models.providers.{endpoint.provider}.api; 'homarus config validate' says what is near",
            ) from None
        return known(**given) if given else infer_provider(kind)

    return infer_model(f"{name}:{info.id}", provider_factory=provider)


def messages(request: ModelRequest, api: str, info: ModelInfo) -> list[Any]:
    from pydantic_ai.messages import ModelRequest as Asked
    from pydantic_ai.messages import ModelResponse, SystemPromptPart, TextPart, ThinkingPart, ToolCallPart

    out: list[Any] = []
    waiting: list[Any] = [SystemPromptPart(request.system.text)] if request.system.text else []
    for message in map(inert, request.messages):
        if not isinstance(message, Assistant):
            waiting += _asked(message)
            continue
        if waiting:
            out.append(Asked(waiting))
            waiting = []
        said: list[Any] = []
        for part in message.parts:
            if isinstance(part, Text):
                said.append(TextPart(part.text))
            elif isinstance(part, Thinking) and wrote(message, api, info):
                said.append(ThinkingPart(part.text, signature=part.signature, provider_name=message.provider))
            elif isinstance(part, ToolCall):
                said.append(ToolCallPart(part.name, part.arguments, part.id))
        if said:
            out.append(ModelResponse(said))
    return [*out, Asked(waiting)] if waiting else out


def _asked(message: Message) -> list[Any]:
    from pydantic_ai.messages import BinaryContent, ToolReturnPart, UserPromptPart

    images = [BinaryContent(base64.b64decode(part.data), media_type=part.mime_type) for part in message.parts if isinstance(part, Image)]  # fmt: skip
    if isinstance(message, ToolResult):
        outcome: Any = "failed" if message.is_error else "success"
        result = ToolReturnPart(message.tool_name, message.text or "(no output)", message.call_id, outcome=outcome)
        return [result, *([UserPromptPart(images)] if images else [])]
    assert isinstance(message, User)
    text = f"{message.text}\n\n{message.context}" if message.context else message.text
    return [UserPromptPart([text, *images] if images else text)]


def parameters(request: ModelRequest) -> Any:
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    tools = [
        ToolDefinition(name=spec.name, description=spec.description, parameters_json_schema=spec.parameters)
        for spec in request.tools
    ]
    return ModelRequestParameters(function_tools=tools)


def settings(request: ModelRequest, info: ModelInfo) -> Any:
    given: dict[str, Any] = {"max_tokens": request.max_tokens or info.max_output}
    if request.thinking and info.reasons:
        given["thinking"] = _THINKING.get(request.thinking, request.thinking)
    if request.tool_choice and request.tools:
        choice = request.tool_choice
        given["tool_choice"] = choice if choice in {"auto", "none", "required"} else [choice]
    return given | {k: v for k, v in (request.params or {}).items() if k in {"temperature", "seed"}}


def _deltas(event: Any) -> Sequence[StreamEvent]:
    part: Any = event.part if type(event).__name__ == "PartStartEvent" else getattr(event, "delta", None)
    match type(part).__name__:
        case "TextPart" if part.content:
            return [TextDelta(part.content)]
        case "TextPartDelta" if part.content_delta:
            return [TextDelta(part.content_delta)]
        case "ThinkingPart" if part.content:
            return [ThinkingDelta(part.content)]
        case "ThinkingPartDelta" if part.content_delta:
            return [ThinkingDelta(part.content_delta)]
        case "ToolCallPart":
            fragment = part.args if isinstance(part.args, str) else ""
            return [ToolCallDelta(event.index, part.tool_call_id, part.tool_name, fragment)]
        case "ToolCallPartDelta":
            fragment = part.args_delta if isinstance(part.args_delta, str) else ""
            return [ToolCallDelta(event.index, part.tool_call_id or "", part.tool_name_delta or "", fragment)]
        case _:
            return []


def _parts(response: Any, *, calls: bool = True) -> tuple[Part, ...]:
    found: list[Part] = []
    for part in response.parts if response is not None else ():
        match type(part).__name__:
            case "TextPart" if part.content:
                found.append(Text(part.content))
            case "ThinkingPart":
                found.append(Thinking(part.content, part.signature))
            case "ToolCallPart" if calls:
                args = part.args if isinstance(part.args, dict) else parse_arguments(part.args or "")
                found.append(ToolCall(part.tool_call_id, part.tool_name, args))
    return tuple(found)


def _reason(parts: tuple[Part, ...], response: Any) -> StopReason:
    if any(isinstance(part, ToolCall) for part in parts):
        return StopReason.TOOL_USE
    return StopReason.LENGTH if getattr(response, "finish_reason", None) == "length" else StopReason.STOP


def _usage(response: Any) -> Usage:
    usage = getattr(response, "usage", None)
    read, write = (int(getattr(usage, name, 0) or 0) for name in ("cache_read_tokens", "cache_write_tokens"))
    total, output = (int(getattr(usage, name, 0) or 0) for name in ("input_tokens", "output_tokens"))
    return Usage(input=max(0, total - read - write), output=output, cache_read=read, cache_write=write)
