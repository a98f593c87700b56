"""What gives way when a queue is full, and how the model is told about it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from homarus.core.messages import Trust, least_trusted
from homarus.core.text import single_line
from homarus.queue.settings import Drop

T = TypeVar("T")
LINE_CHARS = 160


class Gone(Protocol):
    """A message that gave way."""

    @property
    def key(self) -> str: ...

    @property
    def text(self) -> str: ...

    @property
    def trust(self) -> Trust: ...

    @property
    def taint(self) -> tuple[str, ...]: ...


class Overflow(Struct, frozen=True):
    """What was dropped since the last drain: how many, and one line for each of the newest."""

    count: int = 0
    lines: tuple[str, ...] = ()
    # Whose words the lines are: who tells the model of them acts with no more trust.
    trust: Trust = Trust.OWNER
    taint: tuple[str, ...] = ()
    # What it tells of: settled when the notice is in the transcript, so that no crash makes them disappear unsaid.
    keys: tuple[str, ...] = ()

    def add(self, gone: Gone, cap: int) -> Overflow:
        """Remember one more dropped message; at most `cap` lines are kept."""
        return Overflow(
            self.count + 1,
            (*self.lines, single_line(gone.text, LINE_CHARS))[-cap:],
            least_trusted((self.trust, gone.trust)),
            tuple(dict.fromkeys((*self.taint, *gone.taint))),
            (*self.keys, gone.key),
        )

    @property
    def text(self) -> str:
        """Return the block that the next drain begins with, or nothing."""
        if not self.count:
            return ""
        head = f"[Queue overflow] Dropped {self.count} message(s) due to cap."
        return "\n".join([head, *(f"- {line}" for line in self.lines)])


class Admission(Struct, Generic[T], frozen=True):
    """The queue after a newcomer knocked: `dropped` left it, and `refused` says the newcomer did not get in."""

    queue: tuple[T, ...]
    dropped: tuple[T, ...] = ()
    refused: bool = False


def admit(queue: Sequence[T], item: T, *, cap: int, drop: Drop) -> Admission[T]:
    """Put an item at the end of a queue of at most `cap`, by the drop policy."""
    if len(queue) < cap:
        return Admission((*queue, item))
    if drop is Drop.NEW:
        return Admission(tuple(queue), (item,), refused=True)
    keep = queue[len(queue) - cap + 1 :] if cap > 1 else ()
    return Admission((*keep, item), tuple(queue[: len(queue) - len(keep)]))
