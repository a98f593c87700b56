"""What tools need of the rest of the program, as small contracts. The composition fills them; a tool whose contract is
not filled does not exist. All of them see the caller's context, and none may do more for a model than its turn may do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from homarus.tools.exec import Granted
from homarus.tools.processes import ProcessManager
from homarus.tools.tool import Tool, ToolContext

if TYPE_CHECKING:
    from homarus.memory.memory import Memory

Json = dict[str, Any]


class SessionsView(Protocol):
    """Reading conversations, within what `tools.sessions.visibility` shows to the caller."""

    async def rows(self, context: ToolContext, query: Json) -> list[Json]:
        """Return rows, newest first: key, kind, label, updatedAt and the like."""

    async def history(
        self, context: ToolContext, session_key: str, limit: int, offset: int, *, tools: bool
    ) -> list[Json]:
        """Return messages (role, text, timestamp), oldest first; raises `Denied` for what the caller may not see."""

    async def search(self, context: ToolContext, query: str, limit: int) -> list[Json]:
        """Return places in conversations: session key, role, text, timestamp."""

    def is_tainted_id(self, agent_id: str, session_id: str) -> bool:
        """Say whether words that nobody trusted wrote may be in a transcript."""


class SessionsSend(Protocol):
    """Speaking to another session."""

    async def send(self, context: ToolContext, target: Json, message: str, timeout_seconds: float) -> Json:
        """Deliver a message; with a timeout, wait for the reply. Returns status and, where there is one, reply."""


class Spawner(Protocol):
    """Children. A child's tools, sandbox and taint are those of its parent, narrowed."""

    async def spawn(self, context: ToolContext, order: Json) -> Json:
        """Start a child and return at once: status, runId, childSessionKey."""

    async def manage(self, context: ToolContext, action: str, target: str, message: str) -> Json:
        """List, cancel or look at the caller's own children."""

    def waiting(self, context: ToolContext) -> int:
        """Return how many of the caller's children have not reported yet."""


class StatusSource(Protocol):
    """What is known of the caller's session and of the agents beside it."""

    async def status(self, context: ToolContext, session_key: str, model: str) -> str:
        """Return a status card; a model other than nothing is set for the session first."""

    async def agents(self, context: ToolContext) -> list[Json]:
        """Return the agents that the caller may start children for."""


class Sender(Protocol):
    """Messages to people. A file goes out only if the caller's turn may read it."""

    async def act(self, context: ToolContext, arguments: Json) -> Json:
        """Send, reply, react or whatever the channel offers; returns what the channel said."""


class Scheduler(Protocol):
    """Jobs that run later. A job made in a tainted turn starts disabled."""

    async def act(self, context: ToolContext, action: str, job_id: str, job: Json) -> Json:
        """List, add, change, remove or run jobs."""


class GatewayControl(Protocol):
    """The running program itself."""

    async def act(self, context: ToolContext, action: str, arguments: Json) -> Json:
        """Show or patch the configuration, or restart."""


class VisionBackend(Protocol):
    def can_look(self, agent_id: str) -> bool:
        """Say whether an agent has one; without it the image tool does not exist for the agent."""

    async def look(self, context: ToolContext, data: bytes, mime_type: str, prompt: str) -> str:
        """Return what is in an image."""


class ToolSource(Protocol):
    """Tools that come and go while the program runs. Asked before each turn, so it must be quick and must not raise."""

    async def tools(self) -> Sequence[Tool]:
        """Return what it offers now; the same tuple while nothing changed."""

    async def aclose(self) -> None: ...


class ToolServices(Struct, frozen=True, kw_only=True):
    """What the composition provides. What is None has no tools."""

    processes: ProcessManager | None = None
    grants: Granted | None = None
    # Our own environment, of which commands see only what their sandbox names.
    env: Mapping[str, str] = {}
    memory_of: Callable[[str], Memory] | None = None
    sessions: SessionsView | None = None
    sessions_send: SessionsSend | None = None
    spawner: Spawner | None = None
    status: StatusSource | None = None
    sender: Sender | None = None
    scheduler: Scheduler | None = None
    gateway: GatewayControl | None = None
    vision: VisionBackend | None = None
    # Plugins and the like; they come last, in the order given.
    more: tuple[Tool, ...] = ()
