"""A progress bar on standard error, only where somebody watches: nothing is drawn into a pipe or a file."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self, TextIO

from homarus.core.text import single_line

WIDTH = 30
PAUSE = 0.1  # seconds before the first drawing and between two, so that quick work shows no bar at all


class Bar:
    """Draws `label [#####-----] 12/40 what` on one line, and removes it when the work is done."""

    def __init__(self, stream: TextIO, label: str) -> None:
        self._stream = stream
        self._label = label
        self._live = stream.isatty()
        self._drawn = False
        self._last = time.monotonic()

    def update(self, done: int, total: int, what: str = "") -> None:
        """Show how far the work is."""
        now = time.monotonic()
        if not self._live or now - self._last < PAUSE:
            return
        self._last = now
        filled = WIDTH * done // max(1, total)
        bar = "#" * filled + "-" * (WIDTH - filled)
        self._stream.write(f"\r\x1b[K{self._label} [{bar}] {done:,}/{total:,} {single_line(what, 60)}")
        self._stream.flush()
        self._drawn = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
