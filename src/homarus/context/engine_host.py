"""The host of context engines: it chooses one, calls it at its moments, and keeps a turn alive when the engine fails.

Everything that an engine does is bounded in time. One that raises, lies or takes too long is out of use for this process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from homarus.context.engine import (
    DEFAULT,
    Assembled,
    ContextEngine,
    EngineCall,
    EngineCompaction,
    EngineInfo,
    PassThrough,
    Rollback,
    SpawnCall,
    find_factory,
)
from homarus.context.rewrite import Rewriter, Rewritten
from homarus.core.errors import Cancelled, ConfigError
from homarus.core.messages import Assistant, Message, ToolResult, User

_log = logging.getLogger(__name__)
# What an engine may name in `requires`.
ABILITIES = frozenset({"after_turn", "bootstrap", "commit_turn", "compact", "maintain", "rewrite", "subagents"})
T = TypeVar("T")


class EngineTimeouts(Struct, frozen=True):
    """How many seconds an engine may take: for one call, for a compaction, and for ending."""

    call: float = 60.0
    compact: float = 180.0
    dispose: float = 5.0


class EngineHost:
    def __init__(
        self,
        slot: str,
        *,
        abilities: frozenset[str] = ABILITIES,
        facts: Mapping[str, Any] | None = None,
        limits: EngineTimeouts | None = None,
    ) -> None:
        self._limits = limits or EngineTimeouts()
        self._fallback: ContextEngine = PassThrough()
        self._quarantined = ""
        self._ready: set[str] = set()
        self._maintaining: dict[str, asyncio.Task[None]] = {}
        self._info = self._fallback.info
        self._engine = self._open(slot or DEFAULT, abilities, facts or {})

    @property
    def engine(self) -> ContextEngine:
        return self._fallback if self._quarantined else self._engine

    @property
    def info(self) -> EngineInfo:
        """Return who the engine in use is, as it said when it was made."""
        return self._fallback.info if self._quarantined else self._info

    @property
    def is_default(self) -> bool:
        """Say whether there is nobody to ask: the session is shown as it is."""
        return self.engine is self._fallback

    @property
    def quarantined(self) -> str:
        return self._quarantined

    async def assemble(self, call: EngineCall) -> Assembled:
        """Return what the model sees; on a failure, the history as it is."""
        if self.is_default:
            return Assembled(call.messages)
        if call.session_id not in self._ready:
            await self._optional("bootstrap", call)
            self._ready.add(call.session_id)
        return await self._contained("assemble", lambda engine: _assembled(engine, call), Assembled(call.messages))

    async def compact(self, call: EngineCall) -> EngineCompaction:
        failed = EngineCompaction(ok=False, compacted=False, reason="the context engine failed")
        return await self._contained(
            "compact", lambda engine: _compacted(engine, call), failed, seconds=self._limits.compact
        )

    async def accept(self, added: tuple[Message, ...], call: EngineCall, rewriter: Callable[[], Rewriter]) -> None:
        """Tell the engine of a turn that came to a good end. `call` has the whole history; `added` is the turn's part."""
        if self.is_default:
            return
        turn = replace(call, messages=added)
        await self._contained("ingest", lambda engine: engine.ingest(turn), None)
        await self._optional("after_turn", call)
        await self._optional("commit_turn", turn, check=lambda said: said in ("committed", "duplicate"))
        await self._maintain(call, rewriter())

    async def prepare_spawn(self, call: SpawnCall) -> Rollback:
        """Let the engine get ready for a sub-agent; returns what takes that back."""
        rollback = await self._optional(
            "prepare_subagent_spawn", call, check=lambda said: said is None or callable(said)
        )

        async def undo() -> None:
            if rollback is not None:
                await self._contained("rollback", lambda _engine: rollback(), None)

        return undo

    async def child_ended(self, child: str, reason: str) -> None:
        await self._optional("on_subagent_ended", child, reason)

    def has(self, method: str) -> bool:
        return not self.is_default and callable(getattr(self.engine, method, None))

    async def aclose(self) -> None:
        """End the maintenance that runs beside the turns, and dispose of the engine."""
        tasks = list(self._maintaining.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._optional("dispose", seconds=self._limits.dispose)

    async def _maintain(self, call: EngineCall, rewriter: Rewriter) -> None:
        if not self.has("maintain"):
            return
        work = self._optional(
            "maintain", call, rewriter, check=lambda said: said is None or isinstance(said, Rewritten)
        )
        if self.info.maintenance == "foreground":
            await work
        elif call.session_id in self._maintaining:
            work.close()  # the one before is still at it
        else:
            task = asyncio.get_running_loop().create_task(work)
            self._maintaining[call.session_id] = task
            task.add_done_callback(lambda _done: self._maintaining.pop(call.session_id, None))

    def _open(self, slot: str, abilities: frozenset[str], facts: Mapping[str, Any]) -> ContextEngine:
        if slot == DEFAULT:
            return self._fallback
        factory = find_factory(slot)
        if factory is None:
            self._quarantine("resolve", f"there is no context engine '{slot}'")
            return self._fallback
        try:
            engine = factory(facts)
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

    async def _optional(
        self, what: str, *given: Any, check: Callable[[Any], bool] | None = None, seconds: float = 0
    ) -> Any:
        """Call a method that an engine may lack, and believe its answer only if it is one."""
        if not self.has(what):
            return None

        async def ask(engine: ContextEngine) -> Any:
            answer = await getattr(engine, what)(*given)
            if check is not None and not check(answer):
                raise TypeError(f"{what} returned {type(answer).__name__}")
            return answer

        return await self._contained(what, ask, None, seconds=seconds)

    async def _contained(
        self, what: str, run: Callable[[ContextEngine], Awaitable[T]], otherwise: T, *, seconds: float = 0
    ) -> T:
        engine = self.engine
        if engine is self._fallback:
            return await run(engine)  # our own, which takes no time
        try:
            async with asyncio.timeout(seconds or self._limits.call):
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
