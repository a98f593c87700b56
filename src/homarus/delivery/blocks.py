"""Block streaming: a reply goes out in whole pieces of text while it is still being written.

`BlockStream` is fed with the events of a run. It never sleeps: it says when it wants to be asked again.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.clock import Clock, SystemClock, chance
from homarus.core.events import MessageEnded, ModelCalled, RunEnded, RunEvent, TextDelta
from homarus.delivery.chunk import Break, Chunker
from homarus.delivery.markup import Directives
from homarus.delivery.place import Place
from homarus.delivery.settings import BlockSettings
from homarus.delivery.stream import StreamFilter

_JOINERS: dict[Break, str] = {"paragraph": "\n\n", "newline": "\n", "sentence": " "}


class Block(Struct, frozen=True):
    """Text or files to be shown as one message. `pause` is how long somebody who types would have taken before it."""

    text: str = ""
    media: tuple[str, ...] = ()
    directives: Directives = Directives()
    pause: float = 0.0


class Coalescer:
    """Joins blocks that come close together. What is joined answers the same message."""

    def __init__(self, settings: BlockSettings, emit: Callable[[str, Directives], None], clock: Clock) -> None:
        self._settings = settings
        self._emit = emit
        self._clock = clock
        self._text = ""
        self._directives = Directives()
        self._due: float | None = None

    @property
    def due(self) -> float | None:
        return self._due

    def add(self, text: str, directives: Directives) -> None:
        joiner = _JOINERS[self._settings.prefer]
        if self._text and directives != self._directives:
            self.flush()
        if self._text and len(self._text) + len(joiner) + len(text) > self._settings.join_most:
            self.flush()
        self._text = f"{self._text}{joiner}{text}" if self._text else text
        self._directives = directives
        self._due = self._clock.monotonic() + self._settings.idle_s
        if len(self._text) >= self._settings.join_most:
            self.flush()

    def tick(self) -> None:
        """Send what has waited long enough, if it is enough; else it waits on."""
        if self._due is None or self._clock.monotonic() < self._due:
            return
        if len(self._text) >= self._settings.join_least:
            self.flush()
        else:
            self._due = self._clock.monotonic() + max(self._settings.idle_s, 0.05)

    def flush(self) -> None:
        text, self._text, self._due = self._text, "", None
        if text.strip():
            self._emit(text, self._directives)


class BlockStream:
    """Turns the events of one run into blocks, in order. A block that was shown is never shown again.

    `emit` is called with each block. Whoever feeds it calls `tick` at `next_due`, a moment of the clock's `monotonic`.
    """

    def __init__(
        self,
        settings: BlockSettings,
        place: Place,
        emit: Callable[[Block], None],
        *,
        clock: Clock | None = None,
        roll: Callable[[], float] = chance,
        heartbeat: bool = False,
    ) -> None:
        self._settings = settings
        self._emit = emit
        self._roll = roll
        self._heartbeat = heartbeat
        self._chunker = Chunker(settings.least, min(settings.most, place.limit), settings.prefer)
        self._joined = Coalescer(settings, self._show, clock or SystemClock())
        self._filter = StreamFilter(heartbeat=heartbeat)
        self._shown = False
        self._media: set[str] = set()
        # Blocks of the answer that is being written, and of one that broke off: written again, they are not shown twice.
        self._current: list[str] = []
        self._begun: list[str] = []

    @property
    def waiting(self) -> str:
        """Return the visible text that belongs to no block yet, for a preview of it."""
        return self._chunker.waiting

    def next_due(self) -> float | None:
        return self._joined.due

    def tick(self) -> None:
        self._joined.tick()

    def take(self, event: RunEvent) -> None:
        """Take an event of the run; those that say nothing to a person are passed over."""
        match event:
            case ModelCalled():
                self._again()
            case TextDelta():
                seen = self._filter.feed(event.text)
                if not self._settings.at_end:
                    self._blocks(self._chunker.feed(seen))
            case MessageEnded():
                self._end(event)
            case RunEnded():
                self.finish()

    def finish(self) -> None:
        """Give out whatever is held, as at the end of a run."""
        self._again()
        self._joined.flush()

    def _again(self) -> None:
        """Forget an answer that broke off. What was shown of it stays."""
        self._chunker.clear()
        self._filter = StreamFilter(heartbeat=self._heartbeat)
        self._begun, self._current = [*self._begun, *self._current], []

    def _end(self, event: MessageEnded) -> None:
        # A model that does not stream says everything here.
        begun = "" if self._filter.raw else self._filter.feed(event.message.text)
        rest, whole = self._filter.finish(), self._filter.whole()
        text = whole.text if self._settings.at_end else begun + rest
        self._blocks([*self._chunker.feed(text), *self._chunker.flush()])
        media = tuple(path for path in whole.directives.media if path not in self._media)
        if media:
            self._joined.flush()
            self._media.update(media)
            self._emit(Block("", media, replace(whole.directives, media=()), self._pause()))
        self._current = []
        self._again()
        self._begun = []

    def _blocks(self, blocks: list[str]) -> None:
        directives = replace(self._filter.directives, media=())
        for text in blocks:
            self._current.append(text)
            if text in self._begun:
                self._begun.remove(text)
            elif self._settings.join:
                self._joined.add(text, directives)
            else:
                self._show(text, directives)

    def _show(self, text: str, directives: Directives) -> None:
        pause = self._pause()
        self._shown = True
        self._emit(Block(text, (), directives, pause))

    def _pause(self) -> float:
        return self._settings.delay.seconds(self._roll()) if self._shown or self._media else 0.0
