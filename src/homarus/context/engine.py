"""The context engine as a plug-in: its contract, its registry, and the engine that is there without one. `host` contains them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct

from homarus.core.errors import ConfigError
from homarus.core.messages import Message

if TYPE_CHECKING:
    from homarus.context.rewrite import Rewriter, Rewritten


DEFAULT = "legacy"
Committed = Literal["committed", "duplicate"]
Rollback = Callable[[], Awaitable[None]]


class EngineInfo(Struct, frozen=True):
    """What an engine says of itself. `requires` names host abilities without which it must not run.

    `background` maintenance runs beside the next turn instead of before it.
    """

    id: str
    name: str
    version: str = ""
    owns_compaction: bool = False
    maintenance: Literal["foreground", "background"] = "foreground"
    requires: tuple[str, ...] = ()


class EngineCall(Struct, frozen=True, kw_only=True):
    """What an engine is told about the turn it works for; one that knows less ignores the rest."""

    session_id: str
    session_key: str
    session_file: Path
    messages: tuple[Message, ...] = ()
    token_budget: int = 0
    tools: tuple[str, ...] = ()
    citations: str = "auto"
    model: str = ""
    prompt: str = ""
    heartbeat: bool = False
    # For compact only: how far to go is up to the window's budget, or just below the threshold again.
    force: bool = False
    tokens: int = 0
    instructions: str = ""
    target: Literal["budget", "threshold"] = "budget"
    # For after_turn: how many of the messages were there before the turn, and the summary if it was compacted in it.
    before: int = 0
    summary: str = ""
    # For commit_turn: the same turn has the same key, also when a crash makes it come again.
    key: str = ""


class SpawnCall(Struct, frozen=True, kw_only=True):
    parent: str
    child: str
    mode: Literal["isolated", "fork"] = "isolated"
    # How long its session stays after its end; 0 is for ever.
    ttl_ms: int = 0


class Assembled(Struct, frozen=True):
    """What an engine wants the model to see. `addition` goes right behind the cache line of the system prompt.

    `authority` says which history the check before a call measures: the one that the engine assembled, or, where that one
    may still overflow, also the one it was made from.
    """

    messages: tuple[Message, ...]
    estimated_tokens: int = 0
    addition: str = ""
    authority: Literal["assembled", "preassembly_may_overflow"] = "assembled"


class EngineCompaction(Struct, frozen=True):
    ok: bool
    compacted: bool
    reason: str = ""
    summary: str = ""
    first_kept: str = ""
    # The engine does not compact: the runtime may do it in its own way.
    delegated: bool = False


# What an engine returns from `compact` to leave it to the runtime.
DELEGATED = EngineCompaction(ok=False, compacted=False, reason="delegated to the runtime", delegated=True)


class ContextEngine(Protocol):
    """Owns what the model sees of a session: the part of the contract that every engine has.

    The session manager writes the log; an engine never does.
    """

    @property
    def info(self) -> EngineInfo: ...

    async def ingest(self, call: EngineCall) -> None:
        """Take note of the new messages of a turn that was accepted, all at once; failed turns never come here."""
        ...

    async def assemble(self, call: EngineCall) -> Assembled:
        """Return what the model sees, from a history that is valid already."""
        ...

    async def compact(self, call: EngineCall) -> EngineCompaction:
        """Make the history shorter. The host bounds the time."""
        ...


class FullEngine(ContextEngine, Protocol):
    """All that an engine may have besides. Each method is looked for by its name, and one that is not there costs nothing."""

    async def bootstrap(self, call: EngineCall) -> None:
        """Get ready for a session; called once per engine and session, before its first view."""
        ...

    async def after_turn(self, call: EngineCall) -> None:
        """Look at the whole history after a turn that was accepted."""
        ...

    async def commit_turn(self, call: EngineCall) -> Committed:
        """Take over the messages of an accepted turn, once for each `key`."""
        ...

    async def maintain(self, call: EngineCall, rewriter: Rewriter) -> Rewritten | None:
        """Tidy up between turns. The rewriter is the only way to change what is in view, and it loses nothing."""
        ...

    async def prepare_subagent_spawn(self, call: SpawnCall) -> Rollback | None:
        """Get ready for a sub-agent; what is returned is called if it could not be started after all."""
        ...

    async def on_subagent_ended(self, child: str, reason: Literal["completed", "released", "deleted", "swept"]) -> None:
        """Let go of a sub-agent: it ended, was stopped, or its session was put away, as ordered or by age."""
        ...

    async def dispose(self) -> None:
        """Let go of everything; the process ends."""
        ...


# What a factory is given: `config`, `agentDir` and `workspaceDir`.
Factory = Callable[[Mapping[str, Any]], ContextEngine]
_factories: dict[str, Factory] = {}


def register_context_engine(engine_id: str, factory: Factory) -> None:
    """Make an engine known. A second one of the same name is a mistake of whoever registers it."""
    if engine_id in _factories:
        raise ConfigError(f"a context engine '{engine_id}' is registered already", cure="choose another id")
    _factories[engine_id] = factory


class PassThrough:
    """The default engine: the history as the session holds it. Compaction is the host's own."""

    info = EngineInfo(DEFAULT, "the session as it is")

    async def ingest(self, call: EngineCall) -> None:
        """Nothing to note: the session has it."""

    async def assemble(self, call: EngineCall) -> Assembled:
        """Return the history unchanged."""
        return Assembled(call.messages)

    async def compact(self, call: EngineCall) -> EngineCompaction:
        """Leave it to the host."""
        return DELEGATED


def find_factory(engine_id: str) -> Factory | None:
    return _factories.get(engine_id)
