"""What a running home offers to its tools: each contract of `tools.services` that can be filled here, filled.

Messages to people and jobs come with channels and a scheduler; until then their tools do not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from homarus.agent.vision import Vision
from homarus.runtime.tool_backends.config import ConfigBackend
from homarus.runtime.tool_backends.messenger import SessionMessenger
from homarus.runtime.tool_backends.sessions import SessionsBackend
from homarus.runtime.tool_backends.status import StatusBackend
from homarus.tools.services import ToolServices

if TYPE_CHECKING:
    from homarus.runtime.runtime import Runtime


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
            gateway=ConfigBackend(home.config, home.env),
            vision=Vision(home.config, home.models),
        )

    async def aclose(self) -> None:
        await self._messenger.aclose()
