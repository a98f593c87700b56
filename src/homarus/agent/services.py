"""What a turn needs resolved before it runs. The composition root fills `TurnServices`; the types here are its words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import force_setattr

from homarus.agent.budget import Meter
from homarus.agent.deadline import Deadline
from homarus.config.view import Config
from homarus.context.host import EngineHost
from homarus.core.cancel import Cancel
from homarus.core.clock import Clock
from homarus.core.prompt import SystemPrompt
from homarus.core.routes import SessionKey
from homarus.core.tools import ToolSpec
from homarus.models.client import ModelClient
from homarus.models.rotation import Pin
from homarus.models.select import Chain
from homarus.prompt.sections.tooling import told_to
from homarus.sessions.row import SessionEntry
from homarus.sessions.store import SessionStore
from homarus.skills.snapshot import Snapshot
from homarus.tools.execute import Toolbox
from homarus.tools.tool import ToolContext

if TYPE_CHECKING:
    from homarus.agent.ports import Emit
    from homarus.agent.turn import Turn
    from homarus.tools.loopguard import LoopGuard


class Prepared(Struct, frozen=True, kw_only=True):
    """What one turn runs with: its models, its tools, and the rules for both."""

    client: ModelClient
    chain: Chain
    box: Toolbox
    context: ToolContext
    # The skills of this turn, as the prompt lists them and as its commands get their variables.
    skills: Snapshot
    guard: LoopGuard
    meter: Meter
    thinking: str = "off"
    window_tokens: int = 200_000
    params: dict[str, Any] = {}
    pin: Pin | None = None
    # Ends the run when its time is over.
    limit: Deadline
    # How many failed attempts a run may make in all, whatever else is left to try.
    retries: int = 32
    steer_boundary: Literal["tool", "model"] = "tool"
    steer_all: bool = False
    # The chain of a model that a setting names for a purpose of its own; `ConfigError` where it names none.
    chain_of: Callable[[str], Chain] = lambda _name: Chain((), "")
    # What memory says about the newest message, if it is asked before each reply: (citation, text).
    recalled: tuple[tuple[str, str], ...] = ()
    # What the model is told about its tools, in the fixed order that keeps the provider's cache warm.
    specs: tuple[ToolSpec, ...] = ()

    def __post_init__(self) -> None:
        """List the tools; a box holds them in order."""
        force_setattr(self, "specs", told_to(self.window_tokens, [tool.spec for tool in self.box.tools.values()]))


class ComposeRequest(Struct, frozen=True, kw_only=True):
    """What a prompt is composed for."""

    agent_id: str
    session: SessionKey
    session_id: str
    prepared: Prepared
    entry: SessionEntry
    after_compaction: bool = False
    occasion: str = ""
    heartbeat: bool = False
    interactive: bool = True
    chat_type: str = ""
    levels: dict[str, str] = {}
    # Standing instructions of the owner that hold in this session.
    pins: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()


class Speech(Struct, frozen=True):
    """What the model is told: the system prompt, and a way to say what changed since it was last said."""

    system: SystemPrompt
    carrier: Callable[[Mapping[str, str]], tuple[str, dict[str, str]]]
    carried: bool = False
    # Given the report that the session keeps, returns the one of this run: the same object where nothing changed.
    report: Callable[[Any], Any] = lambda kept: kept
    skills: dict[str, Any] | None = None


class Prepare(Protocol):
    """Resolves what one turn runs with."""

    def __call__(self, turn: Turn, entry: SessionEntry, cancel: Cancel, emit: Emit) -> Awaitable[Prepared]:
        """Return it, or raise an error that says what is missing."""
        ...


class Tell(Protocol):
    """Tells the hooks what happens in a session. It never raises for what a hook does."""

    def __call__(self, moment: str, session: SessionKey, facts: Mapping[str, Any]) -> Awaitable[list[str]]:
        """Tell them of a moment (`session:compact:before`) and return what they want the user to be told."""
        ...


class TurnServices(Struct, frozen=True, kw_only=True):
    """The world of a turn."""

    config: Config
    clock: Clock
    store: Callable[[str], SessionStore]
    workspace: Callable[[str], Path]
    prepare: Prepare
    compose: Callable[[ComposeRequest], Speech]
    engines: Callable[[str], EngineHost]
    today: Callable[[str], date]
    tell: Tell
