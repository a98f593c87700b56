"""What a session remembers of its compactions: the counts in its row, and the failures as long as it is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from homarus.agent.open_session import Live
from homarus.core.clock import epoch_ms

if TYPE_CHECKING:
    from homarus.tools.loopguard import LoopGuard


class Counts:
    """The counts of a session that make saving memory happen once in each cycle; those in its row live across restarts."""

    def __init__(self, live: Live, guard: LoopGuard) -> None:
        self._live = live
        self._guard = guard

    @property
    def compactions(self) -> int:
        """Return how often the session was compacted."""
        return self._live.compactions

    @property
    def flushed_at(self) -> int | None:
        """Return the count at the last time memory was saved."""
        return self._live.entry.flushed_at_compaction

    @property
    def failed_at(self) -> int | None:
        """Return the size of the history when it could last not be compacted."""
        return self._live.compaction_failed_at

    @failed_at.setter
    def failed_at(self, tokens: int | None) -> None:
        self._live.compaction_failed_at = tokens

    @property
    def flush_failures(self) -> int:
        """Return how often saving memory failed in this cycle."""
        return self._live.flush_failures

    @flush_failures.setter
    def flush_failures(self, count: int) -> None:
        self._live.flush_failures = count

    def compacted(self, tokens_after: int) -> None:
        """Count one more; where it left an entry in the log, that says which one it was."""
        number = max(self._live.entry.compaction_count + 1, self._live.compactions)
        self._live.update(compaction_count=number, total_tokens=tokens_after)
        self._guard.compacted()

    def flushed(self) -> None:
        """Note the cycle."""
        now = epoch_ms(self._live.store.clock.now())
        self._live.update(memory_flush_at=now, memory_flush_compaction_count=self.compactions)
