"""Where the sessions of children go when they are over: out of the index, their transcripts kept as archives.

A child with `cleanup: delete` goes at once, any other after a while; with a child go its own children's sessions. What a
crash kept from going goes when its parent is opened again, and at the latest when it is old.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from homarus.agent.childbook import ChildBook, ChildBooks
from homarus.agent.subagents import ChildEnd, ChildRun, SubagentSettings
from homarus.core.clock import epoch_ms
from homarus.core.errors import ConfigError, HomarusError, StorageError
from homarus.core.routes import SessionKey

if TYPE_CHECKING:
    from homarus.gateway.app import Runtime

_log = logging.getLogger(__name__)
# What a session's row says of a run that ended; a child that stays is `open`.
OPEN = "open"
_ROW = {"ok": "done", "timeout": "timeout", "unknown": "interrupted"}
_OVER = frozenset({*_ROW.values(), "failed"})
MAX_SWEPT = 20
SWEEP_MS = 60_000


class Attic:
    """Puts sessions away. `do` runs something beside everything else, `quiet` waits until nothing runs in a session."""

    def __init__(
        self,
        runtime: Runtime,
        books: ChildBooks,
        do: Callable[[Coroutine[Any, Any, None]], object],
        quiet: Callable[[SessionKey], Coroutine[Any, Any, None]],
    ) -> None:
        self._runtime = runtime
        self._books = books
        self._do = do
        self._quiet = quiet
        self._swept: dict[str, int] = {}

    def put_away(self, run: ChildRun, end: ChildEnd) -> None:
        """Do with a child's session what its order says."""
        key = SessionKey.parse(run.child)
        store = self._runtime.store(key.agent_id)
        if store.index.get(key) is None:
            return
        if not run.keep:
            self._do(self._delete(key))
            return
        try:
            store.update(key, status=OPEN if run.lasting else _ROW.get(end.status, "failed"))
        except StorageError as problem:
            _log.warning("the row of %s stays as it is: %s", key, problem)

    def resume(self, book: ChildBook) -> None:
        """Put away what a crash kept from going."""
        for kept in book:
            if kept.end is not None and not kept.run.keep:
                self.put_away(kept.run, kept.end)

    def sweep(self, agent_id: str) -> None:
        """Put the sessions of children away that ended long ago; a few at a time, now and then."""
        now = epoch_ms(self._runtime.clock.now())
        if now - self._swept.get(agent_id, 0) < SWEEP_MS:
            return
        self._swept[agent_id] = now
        settings = self._runtime.config.agent(agent_id).block("subagents", SubagentSettings)
        limit = now - settings.archive_after_minutes * 60_000
        if settings.archive_after_minutes <= 0:
            return
        old = [name for name, row in self._runtime.store(agent_id).index.rows().items() if _is_old(name, row, limit)]
        for name in old[:MAX_SWEPT]:
            self._do(self._delete(SessionKey.parse(name)))

    async def _delete(self, key: SessionKey) -> None:
        await self._quiet(key)
        for kept in self._books.look(key):
            below = SessionKey.parse(kept.run.child)
            if self._runtime.store(below.agent_id).index.get(below) is not None:
                await self._delete(below)
        self._books.forget(key)
        self._runtime.lanes.drop(key)
        self._runtime.turns.open.forget(key)
        try:
            self._runtime.store(key.agent_id).delete(key)
        except HomarusError as problem:
            _log.warning("%s was not put away: %s", key, problem)


def _is_old(name: str, row: dict[str, Any], limit: int) -> bool:
    if ":subagent:" not in name or row.get("status") not in _OVER or not isinstance(row.get("updatedAt"), int):
        return False
    try:
        return bool(SessionKey.parse(name).is_subagent and row["updatedAt"] < limit)
    except ConfigError:
        return False
