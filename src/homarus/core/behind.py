"""Where writes become durable a little later than they return: whatever leaves the program waits for them. On one machine nothing does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar

# Waits until all that was written before is durable. Tasks and threads have it from whoever began them.
settled: ContextVar[Callable[[], Awaitable[None]] | None] = ContextVar("settled", default=None)


async def durable() -> None:
    """Return when everything that was written so far can be relied on; say nothing to the world before. Raises StorageError."""
    wait = settled.get()
    if wait is not None:
        await wait()
