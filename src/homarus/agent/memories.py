"""The memories of a home's agents: opened as the configuration says, asked before a reply where it wants that, and kept
up to date while a process stays."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from homarus.config.view import Config
from homarus.core.clock import Clock
from homarus.core.errors import ConfigError, HomarusError
from homarus.core.text import slug
from homarus.memory.settings import SERVICES, MemorySettings, database_path, keys_in
from homarus.workspace.agents import resolve_workspace
from homarus.workspace.audience import Audience

if TYPE_CHECKING:
    from datetime import tzinfo

    from homarus.agent.turn import Turn
    from homarus.memory.memory import Memory

_log = logging.getLogger(__name__)
# What `plugins.slots.memory` says for our own index, and for no memory at all; anything else is a plugin's.
OWN, NO_MEMORY = "memory-core", "none"


def settings_of(config: Config, agent_id: str, *, provider: str = "") -> MemorySettings:
    """Return an agent's settings with the embedder's key read; a key that cannot be had is said by the embedder."""
    settings = config.agent(agent_id).block("memorySearch", MemorySettings)
    key = ""
    try:
        key = config.resolve(settings.remote.api_key) if settings.remote.api_key else ""
    except ConfigError as problem:
        _log.warning("memorySearch.remote.apiKey: %s", problem)
    settings = replace(settings, remote=replace(settings.remote, api_key=key))
    if config.get("plugins.slots.memory") == NO_MEMORY:
        settings = replace(settings, enabled=False)
    return settings.with_provider(provider) if provider else settings


def memory_facts(
    config: Config, env: Mapping[str, str], agent_id: str, *, tz: tzinfo | None = None, provider: str = ""
) -> dict[str, Any]:
    """Return what an agent's memory is made of: as long as it is the same, so is the memory."""
    paths, keys = config.paths, keys_in(config.variables(env))
    settings = settings_of(config, agent_id, provider=provider)
    settings = settings.for_service(settings.provider, keys) if settings.provider in SERVICES else settings
    return {
        "workspace": resolve_workspace(config, agent_id, env),
        "database": database_path(settings, state_dir=paths.state_dir, agent_id=agent_id, home=paths.home),
        "settings": settings,
        "tz": tz,
        "sessions": paths.sessions_dir(agent_id) if settings.with_sessions else None,
        "home": paths.home,
        "models": paths.models_dir,
        "keys": keys,
    }


def open_memory(
    config: Config,
    env: Mapping[str, str],
    agent_id: str,
    *,
    clock: Clock,
    facts: dict[str, Any] | None = None,
    provider: str = "",
) -> Memory:
    """Open an agent's memory as the configuration says; nothing is read before its first use."""
    from homarus.memory.memory import Memory

    facts = memory_facts(config, env, agent_id, provider=provider) if facts is None else facts
    backend, slot = None, str(config.get("plugins.slots.memory") or OWN)
    if slot not in {OWN, NO_MEMORY}:
        from homarus.memory.backend import Chosen

        folder = config.paths.own_dir / "memory" / slug(slot) / agent_id
        backend = Chosen(slot, facts["workspace"], folder)
    return Memory(**facts, clock=clock, backend=backend)


def wants_recall(settings: MemorySettings, turn: Turn) -> bool:
    """Say whether memory is asked before this turn: the owner's own words, where nobody else reads along."""
    asked = settings.enabled and settings.pre_reply.enabled and bool(turn.text.strip())
    return asked and not turn.heartbeat and Audience(turn.session, turn.trust, turn.chat_type).sees_memory


async def recall_before(memory: Memory, turn: Turn, session_id: str) -> tuple[tuple[str, str], ...]:
    """Return what the notes say about the newest message, as (citation, text). It never fails or delays a turn for long."""
    from homarus.memory.toolset import pre_reply

    def ask() -> tuple[tuple[str, str], ...]:
        try:
            return pre_reply(memory, turn.text, session_id=session_id)
        except Exception as problem:  # noqa: BLE001 - whatever is wrong with memory, the turn goes on without
            _log.warning("memory could not be asked: %s", problem, exc_info=not isinstance(problem, HomarusError))
            return ()

    asked = asyncio.ensure_future(asyncio.to_thread(ask))
    done, _ = await asyncio.wait({asked}, timeout=memory.settings.pre_reply.timeout_seconds)
    return asked.result() if done else ()


class MemoryWatchers:
    """Watches the notes of agents, one task each. A process that answers once has none."""

    def __init__(self, memory_of: Callable[[str], Memory]) -> None:
        self._memory_of = memory_of
        self._running: dict[str, tuple[Memory, asyncio.Task[None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def watch(self, agent_id: str) -> None:
        """Watch an agent's notes from now on, if its settings want that; a second call changes nothing while they are the same."""
        memory = self._memory_of(agent_id)
        watched, task = self._running.get(agent_id, (None, None))
        if watched is not memory and task is not None:
            task.cancel()
        if watched is not memory or task is None or task.done():
            task = asyncio.get_running_loop().create_task(self._watch(memory))
            self._running[agent_id] = (memory, task)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Stop all watches and wait for the one that is just indexing."""
        running = list(self._tasks)
        self._running.clear()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _watch(self, memory: Memory) -> None:
        await asyncio.sleep(0)  # whoever started this goes first
        if not (memory.settings.enabled and memory.settings.sync.watch):
            return
        from homarus.memory.watch import watch

        try:
            await watch(memory, report=lambda problem: _log.warning("the notes could not be indexed: %s", problem))
        except (HomarusError, OSError) as problem:
            _log.warning("nobody watches the notes any more: %s", problem)
