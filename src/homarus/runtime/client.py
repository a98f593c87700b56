"""What a person's program can do with a home: send, run, listen, answer a question, stop, list, patch, search.

`Client` is the contract. Chat, `homarus agent`, `homarus.Agent` and the slash commands stand on it and reach nothing
behind it, so each operation on sessions exists once. `runtime.local` fills it in this process, `gateway.remote` over a socket.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct

from homarus.core.events import RunEvent
from homarus.core.messages import (
    Image,
    Message,
    Trust,
)
from homarus.core.routes import SessionKey, SessionKind
from homarus.core.tools import ToolSpec
from homarus.queue.modes import Overrides
from homarus.runtime.events import Listener
from homarus.sessions.row import SessionEntry
from homarus.tools.tool import Tool

if TYPE_CHECKING:
    from homarus.commands.router import IntakeResult
    from homarus.sessions.search import Hit
    from homarus.sessions.store import SessionInfo


# Sessions in which no person talks.
_BY_ITSELF = frozenset({SessionKind.CRON, SessionKind.HOOK, SessionKind.BOOT, SessionKind.HEARTBEAT})


class RunOptions(Struct, frozen=True, kw_only=True):
    """How one message is sent. What is set here holds for this message alone; the session keeps its own choices."""

    images: tuple[Image, ...] = ()
    # Texts that go along. They are never read for commands and directives: files are no orders to the program.
    attached: str = ""
    # The names of the commands that the sender carries out itself: a slip may have meant one.
    own_commands: tuple[str, ...] = ()
    # Folders that the turn may read and change beside the workspace, and the one in which it works. The owner's word alone.
    folders: tuple[str, ...] = ()
    cwd: str = ""
    model: str = ""
    thinking: str = ""
    seconds: float | None = None
    message_id: str = ""
    run_id: str = ""
    channel: str = "terminal"
    trust: Trust = Trust.OWNER
    queue: Overrides | None = None
    # What the model is told besides, and the form that its answer must have. `needs` is what no mere notebook can do.
    instructions: str = ""
    output_schema: str = ""
    needs: tuple[str, ...] = ()
    # It is no person's word: the program says what its model's last answer lacks.
    by_program: bool = False
    # Functions of whoever sends it: a call of one ends the turn, and its result is the sender's next message. `tool_choice`
    # is empty, "none", "required" or the name of one of them; where a call is demanded, there are no other tools.
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: str = ""
    # Whose untrusted words the text holds.
    taint: tuple[str, ...] = ()
    # A turn that waits for its sub-agents is not the answer: the events go on with the turns that their reports start.
    # With `all` they also do for sub-agents that no turn waits for; a program that ends after this wants that.
    children: Literal["waited", "all"] = "waited"


class SessionStatus(Struct, frozen=True, kw_only=True):
    """How a session stands. `model` is what the next turn asks first, empty where that is found out only then."""

    row: SessionEntry = SessionEntry()
    messages: int = 0
    # In dollars, of all that its transcript holds.
    cost: float = 0.0
    model: str = ""
    window: int = 0
    used: int = 0
    busy: bool = False
    # For how many seconds a turn has been running; None where none runs.
    running: float | None = None
    waiting: int = 0
    children: int = 0


class Vocabulary(Struct, frozen=True, kw_only=True):
    """What can be typed in a session: commands with their help and arguments, skills, models."""

    commands: dict[str, str]
    arguments: dict[str, tuple[str, ...]]
    skills: dict[str, str]


class Client(Protocol):
    """A home, as a person's program sees it. A method that names a session opens it if need be."""

    def resolve(self, agent: str, session: str) -> SessionKey:
        """Return the key of the session that a key, an id, its first eight characters or a name means, else of a new one.

        Without an agent every agent's sessions count. Raises Unknown, with the candidates, where several are meant.
        """
        ...

    def run(self, session: SessionKey, text: str, options: RunOptions) -> AsyncIterator[RunEvent]:
        """Send a message and yield what happens until the turn that answers it has ended.

        The message is durable before the first event of its turn. One that meets a running turn steers it (or waits, as
        the queue's rules say), and the events are those of that turn from then on. What a turn answers that began and ended
        before it, as one that a crash cut off, is a `Notice` of the kind `earlier`. What the program says itself, as to a
        command, comes as a `Notice` of the kind `reply`. The last event is always a `RunEnded`.
        """
        ...

    async def send(self, session: SessionKey, text: str, options: RunOptions) -> IntakeResult:
        """Hand a message in and return at once; what happens then is told to those who `listen`."""
        ...

    def steer(self, session: SessionKey, text: str) -> bool:
        """Say something to the running turn; False when none runs, and then nothing was sent."""
        ...

    def abort(self, session: SessionKey, reason: str) -> bool:
        """Tell the running turn and its sub-agents to end, and forget what waits; False when there was nothing to end."""
        ...

    def listen(self, session: SessionKey, listener: Listener) -> Callable[[], None]:
        """Tell a listener everything that happens in a session; returns what takes it off again."""
        ...

    async def follow(self, session: SessionKey) -> None:
        """While another process has a session open, tell those who `listen` what is said there; returns when it is ours."""
        ...

    def is_elsewhere(self, session: SessionKey) -> bool:
        """Say whether another process has a session open."""
        ...

    def attend(self, session: SessionKey) -> Callable[[], None]:
        """Note that a person watches a session and can answer its questions; returns what notes that they left."""
        ...

    async def answer(self, approval_id: str, decision: str) -> str:
        """Answer a question of a running turn (`allow-once`, `allow-always`, `deny`); return what became of it, in words."""
        ...

    async def row(self, session: SessionKey) -> SessionEntry:
        """Return what the index says of a session, as it stands; the default where there is none yet."""
        ...

    async def status(self, session: SessionKey) -> SessionStatus: ...

    async def history(self, session: SessionKey, limit: int) -> Sequence[Message]:
        """Return the newest messages that the model still sees, oldest first."""
        ...

    async def sessions(self, agent: str) -> Sequence[SessionInfo]:
        """Return an agent's sessions, the newest first."""
        ...

    async def patch(self, session: SessionKey, **fields: Any) -> None:
        """Change a session's own choices: its label, model, levels."""
        ...

    async def search(self, text: str, limit: int) -> Sequence[Hit]:
        """Find places in all conversations."""
        ...

    async def vocabulary(self, session: SessionKey) -> Vocabulary: ...

    def add_tool(self, tool: Tool) -> None:
        """Let agents call a function of this program; the home's policy holds for it as for every tool."""
        ...

    async def aclose(self) -> None: ...


async def newest(client: Client, agent: str) -> SessionKey:
    """Return the session of an agent in which a person talked last; the main one where nobody did."""
    for info in await client.sessions(agent):
        key = client.resolve(agent, info.name)
        if key.kind not in _BY_ITSELF and not key.is_subagent and info.entry.last_interaction_at:
            return key
    return client.resolve(agent, "main")
