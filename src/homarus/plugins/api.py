"""All that a plugin can do. Its function `register(api)` is called once; what it adds must stand in its manifest.

A plugin that only adds tools and hooks runs in a process of its own unless its owner says otherwise, and then gets `tool`, `hook` and `config`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from msgspec import Struct

from homarus.channels.channel import Channel, Host
from homarus.context.engine import Factory as EngineFactory
from homarus.memory.backend import Factory as MemoryFactory
from homarus.models.registry import Factory as ProviderFactory

# Takes the arguments of a call and returns what the model reads. An exception is a failed call.
ToolFunction = Callable[[dict[str, Any]], str | Awaitable[str]]
ChannelFactory = Callable[[Host], Channel]
HookFunction = Callable[[Any], Any]


class Call(Struct, frozen=True):
    """A call of a tool that is about to run."""

    tool: str
    arguments: dict[str, Any]
    session_key: str = ""


class Decision(Struct, frozen=True):
    """What a plugin says about a call: it does not run, runs with other arguments, or only if the owner, who is told why
    in `ask`, says yes. The gate decides after it, as ever.
    """

    block: bool = False
    reason: str = ""
    arguments: dict[str, Any] | None = None
    ask: str = ""


class PluginApi(Protocol):
    config: dict[str, Any]  # `plugins.entries.<id>.config`

    def tool(self, name: str, function: ToolFunction) -> None:
        """Say what runs a tool of the manifest."""

    def provider(self, name: str, factory: ProviderFactory) -> None:
        """Answer for the models `name/…`. A failure ends a stream with a `Stop`; it is never raised."""

    def context_engine(self, name: str, factory: EngineFactory) -> None:
        """Offer an engine that `plugins.slots.contextEngine` may choose."""

    def memory(self, name: str, factory: MemoryFactory) -> None:
        """Offer an index of the notes that `plugins.slots.memory` may choose. It says where an answer stands, not what it is."""

    def hook(self, name: str, function: HookFunction, *, order: int = 0) -> None:
        """Hear of moments that the manifest names under `hooks`, the lowest order first.

        At `before_tool_call` it is given a `Call` and may return a `Decision`; what fails there keeps the call from running.
        Elsewhere it is given the event that hooks get, and may change in its context what docs/hooks.md says.
        """

    def channel(self, name: str, factory: ChannelFactory) -> None:
        """Serve the accounts of a chat platform that the manifest describes, as our own platforms do."""
