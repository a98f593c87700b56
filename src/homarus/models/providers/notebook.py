"""`builtin/notebook`: the model that is always there. It drives the real loop with real tool calls, by fixed rules."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

from homarus.core.cancel import Cancel
from homarus.core.clock import Clock, epoch_ms
from homarus.core.errors import ModelError, ModelFailure
from homarus.core.events import TextDelta
from homarus.core.messages import Assistant, Part, StopReason, Text, Usage
from homarus.core.patterns import late
from homarus.core.text import estimate_tokens
from homarus.models.notebook.minilm import reader_in
from homarus.models.notebook.turn import Step, next_step
from homarus.models.provider import ModelRequest, Stop, StreamEvent, ToolCallDelta
from homarus.models.wire import encode

PROVIDER, MODEL, API = "builtin", "notebook", "builtin"
CURE = "choose one with `homarus models set provider/model`, or put a key into the environment"
_CHUNK = late(r".{1,40}(?:\s+|\Z)|.{1,40}", re.DOTALL)


class NotebookProvider:
    """Answers without key, network or download; the same conversation always gets the same reply."""

    def __init__(self, *, clock: Clock, models: Path | None = None) -> None:
        """`models` is the folder of model files: a reader that lies there is used."""
        self._clock = clock
        self._reader = reader_in(models)

    async def stream(self, request: ModelRequest, *, cancel: Cancel) -> AsyncIterator[StreamEvent]:
        if cancel.cancelled:
            error = ModelError(ModelFailure.ABORTED, cancel.reason)
            yield Stop(self._message((), request, StopReason.ABORTED, error.message), error)
            return
        if beyond := _beyond(request):
            # A program wants data or a certain call from a model that understands; made-up ones would be worse than none.
            error = ModelError(ModelFailure.FORMAT, f"builtin/notebook {beyond}: it is no language model", cure=CURE)
            yield Stop(self._message((), request, StopReason.ERROR, error.message), error)
            return
        tools = () if request.tool_choice == "none" else request.tools
        # To read some lines takes a tenth of a second: others need not wait for it.
        now = self._clock.now()
        step = await asyncio.to_thread(next_step, request.messages, tools, request.system.text, now, self._reader)
        said: list[str] = []
        for chunk in _CHUNK.findall(step.text):
            said.append(chunk)
            yield TextDelta(chunk)
            if cancel.reason:
                error = ModelError(ModelFailure.ABORTED, cancel.reason)
                parts = (Text("".join(said)),)
                yield Stop(self._message(parts, request, StopReason.ABORTED, error.message), error)
                return
        for index, call in enumerate(step.calls):
            yield ToolCallDelta(index, call.id, call.name, encode(call.arguments).decode())
        yield Stop(self._finished(step, request))

    def _finished(self, step: Step, request: ModelRequest) -> Assistant:
        parts: tuple[Part, ...] = (*([Text(step.text)] if step.text else []), *step.calls)
        return self._message(parts, request, StopReason.TOOL_USE if step.calls else StopReason.STOP)

    def _message(
        self, parts: tuple[Part, ...], request: ModelRequest, reason: StopReason, error: str = ""
    ) -> Assistant:
        # Nobody bills for these tokens; they are estimated so that the window is watched as with any other model.
        prompt = estimate_tokens(request.system.text) + sum(_size(message) for message in request.messages)
        output = sum(estimate_tokens(part.text) for part in parts if isinstance(part, Text))
        return Assistant(
            parts=parts,
            timestamp=epoch_ms(self._clock.now()),
            api=API,
            provider=PROVIDER,
            model=MODEL,
            usage=Usage(input=prompt, output=output),
            stop_reason=reason,
            error=error,
        )


def _beyond(request: ModelRequest) -> str:
    if request.response_schema is not None:
        return "cannot fill a schema"
    if request.tool_choice not in (None, "auto", "none"):
        return f"cannot be made to call a tool ({request.tool_choice})"
    return ""


def _size(message: object) -> int:
    return estimate_tokens(str(getattr(message, "text", "")))
