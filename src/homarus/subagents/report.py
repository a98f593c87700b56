"""A child's result on its way: one message in its parent's inbox, exactly once, however often it is tried."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from homarus.core.errors import StorageError
from homarus.core.messages import Inbound
from homarus.queue.collect import Queued
from homarus.queue.lane import SessionLane
from homarus.queue.modes import Rules
from homarus.queue.settings import Mode
from homarus.subagents.book import ChildBooks
from homarus.subagents.child import CHANNEL, ChildEnd, ChildRun, report_text

if TYPE_CHECKING:
    from homarus.subagents.run import Host

_log = logging.getLogger(__name__)
# A report joins what the parent does; where it waits, it waits with the other reports for one turn.
RULES = Rules(mode=Mode.COLLECT, debounce_ms=0, kept=True)
RETRY_FIRST, RETRY_LONGEST, RETRY_FOR = 15.0, 300.0, 1_800.0


def report_key(run_id: str) -> str:
    return f"{CHANNEL}:{run_id}"


class Reports:
    """Tells parents. `do` runs something beside everything else."""

    def __init__(self, host: Host, books: ChildBooks, do: Callable[[Any], object]) -> None:
        self._host = host
        self._home = host.home
        self._books = books
        self._do = do

    def tell(self, run: ChildRun, end: ChildEnd, lane: SessionLane | None = None) -> bool:
        """Put the report into the parent's inbox; what fails is tried again, and after a restart in any case."""
        parent = run.parent_key
        book = self._books.own(parent)
        kept = book.get(run.run_id)
        if kept is None or kept.told:
            return True
        try:
            told = self._submit(run, end, lane or self._host.lane(parent))
        except StorageError as problem:
            _log.warning("the report of sub-agent %s waits: %s", run.run_id, problem)
            self._do(self._later(run, end))
            return False
        if told:
            book.told(run.run_id)
        return told

    def _submit(self, run: ChildRun, end: ChildEnd, lane: SessionLane) -> bool:
        item = self._item(run, end)
        return not lane.submit(item).refused or lane.knows(item.key)

    def _item(self, run: ChildRun, end: ChildEnd) -> Queued:
        """Return the report. It speaks with the trust of whoever asked for the child, and brings the child's taint."""
        provenance = {"kind": "internal", "source": CHANNEL, "runId": run.run_id, "sourceSessionKey": run.child}
        inbound = Inbound(
            id=run.run_id,
            channel=run.route.channel,
            account=run.route.account,
            text=report_text(run, end, self._home.ids.short()),
            sender=run.child,
            peer=run.route.to,
            thread=run.route.thread,
            trust=run.trust,
            timestamp=end.ended_ms,
            facts={"provenance": provenance, "taint": list(end.taint)},
        )
        return Queued(report_key(run.run_id), inbound, run.route, RULES)

    async def _later(self, run: ChildRun, end: ChildEnd) -> None:
        delay, waited = RETRY_FIRST, 0.0
        while waited < RETRY_FOR:
            await self._home.clock.sleep(delay)
            waited, delay = waited + delay, min(delay * 2, RETRY_LONGEST)
            try:
                if self._submit(run, end, self._host.lane(run.parent_key)):
                    self._books.own(run.parent_key).told(run.run_id)
                    return
            except StorageError as problem:
                _log.warning("the report of sub-agent %s still waits: %s", run.run_id, problem)
