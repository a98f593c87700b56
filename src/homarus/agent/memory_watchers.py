"""Let memory follow the notes while a process stays. A process that answers once has none of this."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from homarus.core.errors import HomarusError

if TYPE_CHECKING:
    from homarus.memory.memory import Memory

_log = logging.getLogger(__name__)


class Followers:
    """The watches over the notes of agents, one for each; only a process that stays has any."""

    def __init__(self, memory_of: Callable[[str], Memory]) -> None:
        self._memory_of = memory_of
        self._running: dict[str, asyncio.Task[None]] = {}

    def follow(self, agent_id: str) -> None:
        """Watch an agent's notes from now on, if its settings want that; nothing happens when they are watched already."""
        task = self._running.get(agent_id)
        if task is None or task.done():
            self._running[agent_id] = asyncio.get_running_loop().create_task(self._follow(agent_id))

    async def aclose(self) -> None:
        """Stop all watches and wait for the one that is just indexing."""
        running = list(self._running.values())
        self._running.clear()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _follow(self, agent_id: str) -> None:
        await asyncio.sleep(0)  # whoever started this goes first
        memory = self._memory_of(agent_id)
        if not (memory.settings.enabled and memory.settings.sync.watch):
            return
        from homarus.memory.watch import watch

        try:
            await watch(memory, report=lambda problem: _log.warning("the notes could not be indexed: %s", problem))
        except (HomarusError, OSError) as problem:
            _log.warning("nobody watches the notes any more: %s", problem)
