"""What waits for a running turn: the queue puts messages in, the loop takes them out at its launch boundaries.

It lies between two packages that must not know each other. A message leaves it exactly once: into the run, or back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Mailbox(Generic[T]):
    """A one-way door into a run. After `close` nothing can enter, and what was not taken goes back to the caller."""

    def __init__(self) -> None:
        self._waiting: deque[T] = deque()
        self._open = True

    @property
    def is_open(self) -> bool:
        return self._open

    @property
    def waiting(self) -> tuple[T, ...]:
        """Return what waits, oldest first; it stays where it is."""
        return tuple(self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)

    def offer(self, item: T) -> bool:
        """Put something in; False when the run takes no more input and the caller must find another way."""
        if self._open:
            self._waiting.append(item)
        return self._open

    def take(self, *, everything: bool = False) -> list[T]:
        """Take the oldest item, or all of them; nothing when none waits."""
        count = len(self._waiting) if everything else min(1, len(self._waiting))
        return [self._waiting.popleft() for _ in range(count)]

    def take_more(self, wanted: Callable[[T], bool]) -> list[T]:
        taken = []
        while self._waiting and wanted(self._waiting[0]):
            taken.append(self._waiting.popleft())
        return taken

    def remove(self, unwanted: Callable[[T], bool]) -> bool:
        """Take out what is not to be heard any more; False when there is nothing of that kind."""
        kept = [item for item in self._waiting if not unwanted(item)]
        found = len(kept) < len(self._waiting)
        self._waiting = deque(kept)
        return found

    def close(self) -> list[T]:
        """End the input and give back what the run did not take."""
        self._open = False
        return self.take(everything=True)
