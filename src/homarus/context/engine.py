"""The context engine as a plug-in: its contract, its registry, and the host that keeps a turn alive when an engine fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from msgspec import Struct

from homarus.core.errors import Cancelled, ConfigError
from homarus.core.messages import Assistant, Message, ToolResult, User

_log = logging.getLogger(__name__)
DEFAULT = "legacy"
COMPACT_SECONDS = 180.0
T = TypeVar("T")


class EngineInfo(Struct, frozen=True):
    """What an engine says of itself. `requires` names host abilities without which it must not run."""

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
    # For compact only.
    force: bool = False
    tokens: int = 0
    instructions: str = ""


class Assembled(Struct, frozen=True):
    """What an engine wants the model to see. `addition` goes right behind the cache line of the system prompt."""

    messages: tuple[Message, ...]
    estimated_tokens: int = 0
    addition: str = ""
    may_overflow: bool = False


class EngineCompaction(Struct, frozen=True):
    """What an engine's compaction came to."""

    ok: bool
    compacted: bool
    reason: str = ""
    summary: str = ""
    first_kept: str = ""


class ContextEngine(Protocol):
    """Owns what the model sees of a session. The session manager writes the log; an engine never does."""

    @property
    def info(self) -> EngineInfo:
        """Return who this engine is."""
        ...

    async def bootstrap(self, call: EngineCall) -> None:
        """Get ready for a session; called once per engine and session."""
        ...

    async def ingest(self, call: EngineCall) -> None:
        """Take note of new messages of a turn that was accepted; failed turns never come here."""
        ...

    async def assemble(self, call: EngineCall) -> Assembled:
        """Return what the model sees, from a history that is valid already."""
        ...

    async def compact(self, call: EngineCall) -> EngineCompaction:
        """Make the history shorter. The host bounds the time."""
        ...


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

    async def bootstrap(self, call: EngineCall) -> None:
        """Nothing to prepare."""

    async def ingest(self, call: EngineCall) -> None:
        """Nothing to note: the session has it."""

    async def assemble(self, call: EngineCall) -> Assembled:
        """Return the history unchanged."""
        return Assembled(call.messages)

    async def compact(self, call: EngineCall) -> EngineCompaction:
        """Leave it to the host."""
        return EngineCompaction(ok=False, compacted=False, reason="delegated to the runtime")


class EngineHost:
    """Chooses the engine of a turn and contains it: one that fails is out for this process, and the turn goes on."""

    def __init__(
        self, slot: str, *, abilities: frozenset[str] = frozenset(), facts: Mapping[str, Any] | None = None
    ) -> None:
        self._fallback: ContextEngine = PassThrough()
        self._quarantined = ""
        self._ready: set[str] = set()
        self._info = self._fallback.info
        self._engine = self._open(slot or DEFAULT, abilities, facts or {})

    @property
    def engine(self) -> ContextEngine:
        """Return the engine in use."""
        return self._fallback if self._quarantined else self._engine

    @property
    def info(self) -> EngineInfo:
        """Return who the engine in use is, as it said when it was made."""
        return self._fallback.info if self._quarantined else self._info

    @property
    def quarantined(self) -> str:
        """Return why the chosen engine is out of use, or nothing."""
        return self._quarantined

    async def assemble(self, call: EngineCall) -> Assembled:
        """Return what the model sees; on a failure, the history as it is."""
        if call.session_id not in self._ready:
            await self._contained("bootstrap", lambda engine: engine.bootstrap(call), None)
            self._ready.add(call.session_id)
        return await self._contained("assemble", lambda engine: _assembled(engine, call), Assembled(call.messages))

    async def ingest(self, call: EngineCall) -> None:
        """Tell the engine what an accepted turn added."""
        await self._contained("ingest", lambda engine: engine.ingest(call), None)

    async def compact(self, call: EngineCall) -> EngineCompaction:
        """Ask the engine to make the history shorter."""
        failed = EngineCompaction(ok=False, compacted=False, reason="the context engine failed")
        return await self._contained(
            "compact", lambda engine: _compacted(engine, call), failed, seconds=COMPACT_SECONDS
        )

    def _open(self, slot: str, abilities: frozenset[str], facts: Mapping[str, Any]) -> ContextEngine:
        if slot == DEFAULT:
            return self._fallback
        if slot not in _factories:
            self._quarantine("resolve", f"there is no context engine '{slot}'")
            return self._fallback
        try:
            engine = _factories[slot](facts)
            self._info = engine.info
            requires = set(engine.info.requires)
        except Exception as problem:  # noqa: BLE001 - third-party code; its failure must not end the turn
            self._quarantine("create", str(problem))
            return self._fallback
        missing = requires - abilities
        if missing:
            raise ConfigError(
                f"the context engine '{slot}' needs {', '.join(sorted(missing))}",
                cure="choose another plugins.slots.contextEngine",
            )
        return engine

    async def _contained(
        self, what: str, run: Callable[[ContextEngine], Awaitable[T]], otherwise: T, *, seconds: float = 60.0
    ) -> T:
        engine = self.engine
        try:
            async with asyncio.timeout(seconds):
                return await run(engine)
        except (Cancelled, asyncio.CancelledError):
            raise
        except Exception as problem:  # noqa: BLE001 - third-party code; its failure must not end the turn
            self._quarantine(what, f"{type(problem).__name__}: {problem}")
            return otherwise

    def _quarantine(self, operation: str, reason: str) -> None:
        self._quarantined = f"{operation}: {reason}"
        _log.error("the context engine is out of use: %s failed: %s", operation, reason)


async def _assembled(engine: ContextEngine, call: EngineCall) -> Assembled:
    """Ask an engine for the view, and believe no more of it than that it is one."""
    found: Any = await engine.assemble(call)
    if not isinstance(found, Assembled) or not isinstance(found.addition, str):
        raise TypeError(f"assemble returned {type(found).__name__}")
    if found.messages is call.messages:
        return found  # the history as it was given: nothing to doubt
    shown: Iterable[Any] = found.messages
    for message in shown:
        if not isinstance(message, User | Assistant | ToolResult):
            raise TypeError(f"assemble returned {type(message).__name__} among the messages")
    if call.messages and not found.messages:
        raise ValueError("assemble returned no messages")
    return found


async def _compacted(engine: ContextEngine, call: EngineCall) -> EngineCompaction:
    done: Any = await engine.compact(call)
    if not isinstance(done, EngineCompaction):
        raise TypeError(f"compact returned {type(done).__name__}")
    return done
