"""What a tool is, and what one call of it may know. How a call is admitted and bounded is `execute`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct, field

from homarus.core.cancel import Cancel
from homarus.core.clock import Clock, Ids
from homarus.core.messages import Part, Text, Trust
from homarus.core.routes import Route, SessionKey
from homarus.core.tools import Risk, ToolSpec
from homarus.sandbox.spec import SandboxSpec
from homarus.tools.exec_settings import ExecRequest


class ToolOutput(Struct, frozen=True):
    """What a tool gives back. The model sees `parts` only; `details` are for people, logs and tests."""

    parts: tuple[Part, ...]
    details: dict[str, Any] | None = None
    is_error: bool = False


def said(text: str, *, is_error: bool = False, **details: Any) -> ToolOutput:
    return ToolOutput((Text(text),), details or None, is_error)


@cache
def _specs() -> dict[str, ToolSpec]:
    found = msgspec.json.decode(Path(__file__).with_name("specs.json").read_bytes(), type=list[ToolSpec])
    return {spec.name: spec for spec in found}


def spec(name: str) -> ToolSpec:
    """Return what a model is told about one of our tools: `specs.json`, in the order of prompts."""
    return _specs()[name]


def allowing(spec: ToolSpec, **more: dict[str, Any]) -> dict[str, Any]:
    """Return what a call may say besides: few models do, and the others are not charged for it with every turn."""
    return {**spec.parameters, "properties": {**spec.parameters["properties"], **more}}


class Taint:
    """Whether this turn has read text that nobody trusted wrote. It only grows while the turn lasts."""

    def __init__(self, sources: tuple[str, ...] = ()) -> None:
        self._sources = list(sources)
        self._told: Callable[[str], None] | None = None

    def tell(self, told: Callable[[str], None] | None) -> None:
        """Name who is told of each new source, before anything of it is stored."""
        self._told = told

    def __bool__(self) -> bool:
        return bool(self._sources)

    @property
    def sources(self) -> tuple[str, ...]:
        """Return where the untrusted text came from, oldest first."""
        return tuple(self._sources)

    def add(self, source: str) -> None:
        if source not in self._sources and len(self._sources) < 50:
            self._sources.append(source)
            if self._told is not None:
                self._told(source)


class ToolContext(Struct, frozen=True, kw_only=True):
    """What one turn's calls may know and use. A tool gets its services when it is made, never from here."""

    agent_id: str
    session: SessionKey
    session_id: str
    run_id: str
    route: Route
    trust: Trust
    workspace: Path
    cwd: Path
    sandbox: SandboxSpec
    env: Mapping[str, str]
    overflow_dir: Path
    clock: Clock
    ids: Ids
    cancel: Cancel
    taint: Taint
    # How many parents stand above this session, how many generations there may be, and whose they are: the agents
    # above, the root first, and the session that a person attends to.
    depth: int = 0
    max_depth: int = 1
    lineage: tuple[str, ...] = ()
    root: SessionKey | None = None
    # What the turn runs with: a child gets no more than that.
    tools: tuple[str, ...] = ()
    model: str = ""
    thinking: str = ""
    call_id: str = ""
    progress: Callable[[str, str], None] = lambda _call_id, _text: None
    # What to hold while a person is asked: the run's time does not pass meanwhile.
    waiting: Callable[[], AbstractContextManager[None]] = nullcontext
    vision: bool = False
    # Whether a command may go on after its call: only where the process tool is there to look after it.
    background: bool = True
    # What the session asks for its commands, as far as policy grants it.
    wish: ExecRequest = ExecRequest()
    # `tools.fs.workspaceOnly` of the agent, beside what holds for everyone.
    workspace_only: bool = False
    # `tools.exec.applyPatch.workspaceOnly`, of everyone above the session.
    patch_workspace_only: bool = True
    window_tokens: int = 200_000
    # Values among `env` that no result may show: keys that the run's commands were given.
    hidden: tuple[str, ...] = ()
    # What the owner wrote to begin this turn; empty where anybody or anything else began it.
    said: str = ""
    # The links of pages that the owner named there: they may be followed, as they stand, also after untrusted text was read.
    links: set[str] = field(default_factory=set)
    # Why a person must be asked before this very call, where a plugin wants that.
    asks: str = ""

    @property
    def shared(self) -> bool:
        """Say whether several people read what comes of this turn: a child's report goes to its root's readers."""
        return self.session.is_shared or (self.root is not None and self.root.is_shared)

    @property
    def restricted(self) -> bool:
        """Say whether this turn follows words that are not the owner's: files that shape the agent are closed to it."""
        return bool(self.taint) or self.trust is not Trust.OWNER


class RunTool(Protocol):
    """Does the work of one call. It may raise `ToolError`, `Denied` or `Cancelled`; anything else is a bug of ours."""

    def __call__(self, context: ToolContext, arguments: dict[str, Any]) -> Awaitable[ToolOutput]: ...


class Tool(Struct, frozen=True, kw_only=True, dict=True):
    """One tool, with all that policy, prompt and registry need to know of it; none of them keeps a list of its own.

    `risk` is the most that any call of it can do. Where it stands in prompts is `spec.order`.
    """

    spec: ToolSpec
    risk: Risk
    run: RunTool
    group: str
    # What arguments are checked against, where that says more than the model is told.
    schema: dict[str, Any] | None = None
    # Argument names that other programs use, and so their models.
    aliases: dict[str, str] = {}
    # Never beside another call of its batch.
    sequential: bool = False
    # The turn ends after the batch in which it ran.
    ends_turn: bool = False
    # For the owner alone, whatever a policy says.
    owner_only: bool = False
    # Which sub-agents have it: all, those that may have children of their own, or none.
    children: Literal["all", "parents", "none"] = "all"
    # Which agents have it, by id: one that needs what an agent may lack says so here.
    exists_for: Callable[[str], bool] = lambda _agent_id: True
    # What it returns was written by strangers.
    taints: bool = False
    # Not of this program: a plugin's or a server's. What it says of itself opens nothing for anybody but the owner.
    foreign: bool = False
    # A person is asked before each call of it.
    asks: bool = False

    @cached_property
    def name(self) -> str:
        return self.spec.name

    @cached_property
    def replay_safe(self) -> bool:
        """Say whether a call that a crash interrupted may simply run again."""
        return self.risk is Risk.READ
