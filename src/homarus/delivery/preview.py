"""A reply that can be seen while it is written: one message that is sent and then edited, until it becomes the reply itself.

Nothing depends on it. What cannot be shown is left out, and the reply goes out like any other; only the last text counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from homarus.core.clock import Clock
from homarus.core.errors import DeliveryError, DeliveryFailure, StorageError
from homarus.core.events import ModelCalled, RunEvent, TextDelta, ToolStarted
from homarus.core.messages import Outbound
from homarus.core.redact import redacted
from homarus.core.text import single_line
from homarus.delivery.format import render
from homarus.delivery.place import Piece, Place
from homarus.delivery.settings import Mode, StreamingSettings
from homarus.delivery.stream import StreamFilter

# Platforms count edits like messages; about one in a second is what they bear.
EVERY_S = 1.0
_LONGEST_S = 60.0
THOUGHT_CHARS = 1500  # the end of a long thought
_PATIENCE_S = 15.0

USUAL = StreamingSettings()

# Sends a piece (with no id) or edits the message with that id, and returns its id.
Show = Callable[[str, Piece], Awaitable[str]]


class Preview:
    """Shows the newest text of a reply, at most once in a second. Before there are words it may say which tools are at work.

    With the mode `partial` it follows the events of the run; with `block`, whoever cuts the blocks says what is left of the text.

    `show` does what a platform does with a piece; `ready` says whether it is this message's turn in its conversation.
    """

    def __init__(
        self,
        message: Outbound,
        place: Place,
        show: Show,
        clock: Clock,
        *,
        mode: Mode = "partial",
        settings: StreamingSettings = USUAL,
        ready: Callable[[], bool] = lambda: True,
        every: float = EVERY_S,
    ) -> None:
        self.message = message
        self._place, self._show, self._clock = place, show, clock
        self._mode, self._ready, self._every = mode, ready, every
        self._tools, self._progress = mode == "progress" or settings.preview.tool_progress, settings.progress
        self._filter = StreamFilter()
        self._text = ""
        self._lines: list[str] = []
        self._thought = ""
        self._sent = ""
        self.seen: Piece | None = None
        self._over, self._showing = asyncio.Event(), False
        self._task: asyncio.Task[None] | None = None
        self._released: asyncio.Task[str] | None = None

    def take(self, event: RunEvent) -> None:
        """Take an event of the run that the reply comes from."""
        match event:
            case ModelCalled() if self._mode == "partial":
                self._filter, self._text = StreamFilter(), ""
            case TextDelta() if self._mode == "partial":
                self.update(self._text + self._filter.feed(event.text))
            case ToolStarted() if self._tools:
                about = next((str(value) for value in event.arguments.values() if isinstance(value, str | int)), "")
                self.note(f"{event.name}: {about}" if about else event.name)
            case _:
                pass

    def update(self, text: str) -> None:
        """Show this text from now on."""
        self._text = text
        if text.strip():
            self._begin()

    def think(self, text: str) -> None:
        """Show what the model thinks, for as long as there are no words."""
        self._thought = text
        if text.strip():
            self._begin()

    def note(self, line: str) -> None:
        """Say what is at work, for as long as there are no words."""
        kept = self._progress.max_lines
        self._lines = [*self._lines, single_line(redacted(line), self._progress.max_line_chars)][-kept:] if kept else []
        self._begin()

    async def release(self) -> str:
        """End the preview and return the platform's id of it, or nothing. Whoever calls edits or deletes that message."""
        self._over.set()
        if self._released is None:
            self._released = asyncio.ensure_future(self._ended())
        return await asyncio.shield(self._released)

    async def _ended(self) -> str:
        if self._task is not None:
            if self._showing:
                await asyncio.wait({self._task}, timeout=_PATIENCE_S)
            self._task.cancel()
        return self._sent

    def _begin(self) -> None:
        if self._task is None and not self._over.is_set():
            self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        """Show what is new until it is over. The first words wait too: a message that is two letters long rings as loudly."""
        pause = self._every
        while not self._over.is_set():
            await self._clock.sleep(pause)
            pause = self._every
            piece = self._piece()
            if self._over.is_set() or piece is None or piece == self.seen or not (self._sent or self._ready()):
                continue
            try:
                self._showing = True
                self._sent = await self._show(self._sent, piece)
                self.seen = piece
            except DeliveryError as error:
                if error.kind is DeliveryFailure.MARKUP and piece.text != piece.plain:
                    self._place = Place(limit=self._place.limit, unit=self._place.unit, lines=self._place.lines)
                elif error.kind in {DeliveryFailure.RATE_LIMIT, DeliveryFailure.TRANSIENT}:
                    pause = min(max(2 * self._every, error.retry_after or 0.0), _LONGEST_S)
                else:
                    self._over.set()
            except StorageError:
                self._over.set()
            finally:
                self._showing = False

    def _piece(self) -> Piece | None:
        """Return what is to be seen now: the first message of the words so far, or what is at work."""
        text = self._text
        if self._thought.strip() and not text.strip():
            text = f"💭 {redacted(self._thought.strip())[-THOUGHT_CHARS:]}"
        elif self._mode == "progress" or (not text.strip() and self._lines):
            text = "\n".join([self._progress.title, *(f"- `{line.replace('`', chr(39))}`" for line in self._lines)])
        pieces = render(text[: 2 * self._place.limit], self._place)
        return pieces[0] if pieces else None
