"""What a running home offers to its tools: each contract of `tools.services` that can be filled here, filled."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from homarus.agent.vision import Vision
from homarus.core.errors import ConfigError, ToolError
from homarus.runtime.tool_backends.config import ConfigBackend
from homarus.runtime.tool_backends.messenger import SessionMessenger
from homarus.runtime.tool_backends.sessions import SessionsBackend
from homarus.runtime.tool_backends.status import StatusBackend
from homarus.tools.services import Json, Sender, ToolServices
from homarus.tools.tool import Tool, ToolContext

if TYPE_CHECKING:
    from homarus.agent.home import Home
    from homarus.plugins.mcp.servers import McpServers
    from homarus.runtime.runtime import Runtime


class Jobs:
    """The `Scheduler` of a home; what it needs is loaded with the first call."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def act(self, context: ToolContext, action: str, job_id: str, job: Json) -> Json:
        try:
            return await self._runtime.automation.act(context, action, job_id, job)
        except ConfigError as problem:  # to a model, a job that is wrong is a call that is wrong
            raise ToolError(problem.message, cure=problem.cure) from None


class ToolBackends:
    """The backends of one home. `services` is what the tools are built from."""

    def __init__(self, runtime: Runtime) -> None:
        home = self._home = runtime.home
        sessions = SessionsBackend(home)
        self._runtime = runtime
        self._messenger = SessionMessenger(runtime, sessions)
        self._services = ToolServices(
            memory_of=home.memory,
            sessions=sessions,
            sessions_send=self._messenger,
            spawner=runtime.children,
            status=StatusBackend(runtime, sessions),
            scheduler=Jobs(runtime),
            gateway=ConfigBackend(home.config, home.env),
            vision=Vision(home.config, home.models),
        )

    def services(self) -> ToolServices:
        return replace(self._services, sender=self._sender if self._home.config.get("channels") else None)

    @cached_property
    def _sender(self) -> Sender:
        """Return the way to people in chats; a home without channels has nobody to write to."""
        from homarus.runtime.tool_backends.message import MessageBackend

        return MessageBackend(self._runtime)

    async def aclose(self) -> None:
        await self._messenger.aclose()


class Servers:
    """The MCP servers of a home as a source of tools. A home without any loads nothing for them."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._servers: McpServers | None = None

    async def tools(self) -> Sequence[Tool]:
        home = self._home
        if self._servers is None and home.config.get("mcp.servers"):
            from homarus.plugins.mcp.servers import McpServers

            self._servers = McpServers(
                home.config,
                home.env,
                clock=home.clock,
                workspace=lambda: home.workspace(home.config.default_agent.id),
                before=home.toolkit.orphans.mark,
            )
        return await self._servers.tools() if self._servers is not None else ()

    async def aclose(self) -> None:
        if self._servers is not None:
            await self._servers.aclose()
