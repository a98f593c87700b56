"""The contract with a language model: one request in, a stream of events out, and no exception for a failed call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol

from msgspec import Struct

from homarus.core.cancel import Cancel
from homarus.core.errors import ModelError
from homarus.core.events import TextDelta, ThinkingDelta
from homarus.core.messages import Assistant, Message
from homarus.core.prompt import SystemPrompt
from homarus.core.tools import ToolSpec


class ModelRequest(Struct, frozen=True):
    """Everything a model is asked. The same request gives the same bytes on the wire, in this process and the next."""

    model: str
    system: SystemPrompt
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    thinking: str = "off"
    max_tokens: int | None = None
    # None leaves the choice to the model; "none", "required" or the name of a tool constrain it.
    tool_choice: str | None = None
    response_schema: dict[str, Any] | None = None
    cache: bool = True
    session_id: str = ""
    # Seconds without a byte before the stream counts as dead; None is the provider's own limit.
    idle_timeout: float | None = None
    # Per-model request settings of the user (`agents.defaults.models.<ref>.params`), passed on where they are known.
    params: dict[str, Any] | None = None


class ToolCallDelta(Struct, frozen=True, tag="toolcall_delta"):
    """More of a tool call that is being written. For display only: a call counts when it stands in the final message."""

    index: int
    id: str
    name: str
    arguments_fragment: str


class Stop(Struct, frozen=True, tag="stop"):
    """The end of a stream: always the last event, exactly once.

    `message` is complete and fit to be stored. When `error` is set, it holds the text that arrived before the failure and
    never a tool call: a call that was cut off must not run.
    """

    message: Assistant
    error: ModelError | None = None


StreamEvent = TextDelta | ThinkingDelta | ToolCallDelta | Stop


class ModelProvider(Protocol):
    """One way to reach models."""

    def stream(self, request: ModelRequest, *, cancel: Cancel) -> AsyncIterator[StreamEvent]:
        """Ask the model.

        Must not raise for a failure of the model, the network or the provider: the stream ends with one `Stop` that carries
        a typed error. When `cancel` trips, it ends within 100 ms with stop reason `aborted`.
        """
        ...
