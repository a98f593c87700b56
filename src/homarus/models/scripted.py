"""A model that says what a script says: for the tests of programs that use homarus, without a key or a network."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from homarus.core.cancel import Cancel
from homarus.core.events import TextDelta
from homarus.core.messages import Assistant, StopReason, Text, ToolCall
from homarus.models.provider import ModelRequest, Stop, StreamEvent


class ScriptedModel:
    """Gives its answers one after another: a text, or the call of a tool as a pair of its name and its arguments."""

    def __init__(self, *answers: str | tuple[str, dict[str, Any]]) -> None:
        self._answers = answers
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest, *, cancel: Cancel) -> AsyncIterator[StreamEvent]:
        number = len(self.requests)
        self.requests.append(request)
        answer = self._answers[number] if number < len(self._answers) else "(the script is over)"
        if isinstance(answer, str):
            yield TextDelta(answer)
            yield Stop(Assistant((Text(answer),)))
        else:
            call = ToolCall(f"call_{number}", *answer)
            yield Stop(Assistant((call,), stop_reason=StopReason.TOOL_USE))
