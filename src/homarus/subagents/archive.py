"""Where the sessions of children go when they are over: out of the index, their transcripts kept as archives.

A child with `cleanup: delete` goes at once, and with it the files that hold the whole of its long results; any other goes
after a while. With a child go its own children's sessions. What a
crash kept from going goes when its parent is opened again, and at the latest when it is old.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from homarus.core.clock import epoch_ms
from homarus.core.errors import ConfigError, HomarusError, StorageError
from homarus.core.routes import SessionKey
from homarus.sessions.maintenance import drop_results
from homarus.subagents.book import ChildBook, ChildBooks
from homarus.subagents.child import ChildEnd, ChildRun, SubagentSettings

if TYPE_CHECKING:
    from homarus.subagents.run import Host

_log = logging.getLogger(__name__)
# What a session's row says of a run that ended; a child that stays is `open`.
OPEN = "open"
_ROW = {"ok": "done", "timeout": "timeout", "unknown": "interrupted"}
_OVER = frozenset({*_ROW.values(), "failed"})
MAX_SWEPT = 20
SWEEP_MS = 60_000


class ChildArchive:
    """Puts sessions away. `do` runs something beside everything else, `quiet` waits until nothing runs in a session."""

    def __init__(
        self,
        host: Host,
        books: ChildBooks,
        do: Callable[[Coroutine[Any, Any, None]], object],
        quiet: Callable[[SessionKey], Coroutine[Any, Any, None]],
    ) -> None:
        self._host = host
        self._home = host.home
        self._books = books
        self._do = do
        self._quiet = quiet
        self._swept: dict[str, int] = {}

    def put_away(self, run: ChildRun, end: ChildEnd) -> None:
        """Do with a child's session what its order says, and tell the context engine that it ended."""
        self._tell_engine(run.parent_key.agent_id, run.child, "released" if end.quiet else "completed")
        self._put(run, end)

    def _put(self, run: ChildRun, end: ChildEnd) -> None:
        key = SessionKey.parse(run.child)
        store = self._home.store(key.agent_id)
        if store.index.get(key) is None:
            return
        if not run.keep:
            self._do(self._delete(key, "deleted"))
            return
        try:
            store.update(key, status=OPEN if run.lasting else _ROW.get(end.status, "failed"))
        except StorageError as problem:
            _log.warning("the row of %s stays as it is: %s", key, problem)

    def resume(self, book: ChildBook) -> None:
        """Put away what a crash kept from going."""
        for kept in book:
            if kept.end is not None and not kept.run.keep:
                self._put(kept.run, kept.end)

    def sweep(self, agent_id: str) -> None:
        """Put the sessions of children away that ended long ago; a few at a time, now and then."""
        now = epoch_ms(self._home.clock.now())
        if now - self._swept.get(agent_id, 0) < SWEEP_MS:
            return
        self._swept[agent_id] = now
        settings = self._home.config.agent(agent_id).block("subagents", SubagentSettings)
        limit = now - settings.archive_after_minutes * 60_000
        if settings.archive_after_minutes <= 0:
            return
        old = [name for name, row in self._home.store(agent_id).index.rows().items() if _is_old(name, row, limit)]
        for name in old[:MAX_SWEPT]:
            self._do(self._delete(SessionKey.parse(name), "swept"))

    def _tell_engine(self, agent_id: str, child: str, reason: str) -> None:
        host = self._home.engine(agent_id)
        if host.has("on_subagent_ended"):
            self._do(host.child_ended(child, reason))

    async def _delete(self, key: SessionKey, reason: str) -> None:
        await self._quiet(key)
        for kept in self._books.look(key):
            below = SessionKey.parse(kept.run.child)
            if self._home.store(below.agent_id).index.get(below) is not None:
                await self._delete(below, reason)
        self._books.forget(key)
        self._host.drop_lane(key)
        self._home.sessions.forget(key)
        store = self._home.store(key.agent_id)
        info = store.find(key)
        parent = SessionKey.parse(info.entry.spawned_by) if info and info.entry.spawned_by else key
        try:
            store.delete(key)
        except HomarusError as problem:
            _log.warning("%s was not put away: %s", key, problem)
            return
        if info is not None and reason == "deleted":
            drop_results(self._home.config.paths.own_dir / "overflow", info.entry.session_id)
        self._tell_engine(parent.agent_id, str(key), reason)


def _is_old(name: str, row: dict[str, Any], limit: int) -> bool:
    if ":subagent:" not in name or row.get("status") not in _OVER or not isinstance(row.get("updatedAt"), int):
        return False
    try:
        return bool(SessionKey.parse(name).is_subagent and row["updatedAt"] < limit)
    except ConfigError:
        return False
