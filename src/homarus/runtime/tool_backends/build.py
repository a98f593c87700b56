"""What a running home offers to its tools: each contract of `tools.services` that can be filled here, filled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from homarus.agent.vision import Vision
from homarus.core.errors import ConfigError, ToolError
from homarus.runtime.tool_backends.config import ConfigBackend
from homarus.runtime.tool_backends.messenger import SessionMessenger
from homarus.runtime.tool_backends.sessions import SessionsBackend
from homarus.runtime.tool_backends.status import StatusBackend
from homarus.tools.services import Json, Sender, ToolServices
from homarus.tools.tool import ToolContext

if TYPE_CHECKING:
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


def _sender(runtime: Runtime) -> Sender | None:
    """Return the way to people in chats; a home without channels has nobody to write to."""
    if not runtime.home.config.get("channels"):
        return None
    from homarus.runtime.tool_backends.message import MessageBackend

    return MessageBackend(runtime)


class ToolBackends:
    """The backends of one home. `services` is what the tools are built from."""

    def __init__(self, runtime: Runtime) -> None:
        home = runtime.home
        sessions = SessionsBackend(home)
        self._messenger = SessionMessenger(runtime, sessions)
        self.services = ToolServices(
            memory_of=home.memory,
            sessions=sessions,
            sessions_send=self._messenger,
            spawner=runtime.children,
            status=StatusBackend(runtime, sessions),
            sender=_sender(runtime),
            scheduler=Jobs(runtime),
            gateway=ConfigBackend(home.config, home.env),
            vision=Vision(home.config, home.models),
        )

    async def aclose(self) -> None:
        await self._messenger.aclose()
