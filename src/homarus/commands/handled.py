"""What became of a message that was taken in."""

from __future__ import annotations

from msgspec import Struct

from homarus.queue.collect import Queued

REFUSED = "the message was refused: it came twice, or the queue is full"


class Handled(Struct, frozen=True):
    """What became of a message: replies of the program, and the item in the lane if the model is to answer.

    Nothing of both means that it was ignored, as a command of somebody who may not give one; `refused` says why the lane
    did not take it.
    """

    replies: tuple[str, ...] = ()
    item: Queued | None = None
    refused: str = ""

    @property
    def text(self) -> str:
        """Return what the program says, as one text."""
        return "\n\n".join(self.replies)
