"""A turn's text on a stream, as it comes."""

from __future__ import annotations

from typing import TextIO

from homarus.core.events import MessageEnded, ModelCalled, Notice, RunEnded, RunEvent, TextDelta, ToolStarted
from homarus.core.text import printable
from homarus.delivery.stream import StreamFilter
from homarus.runtime.reply import footer


class TextStream:
    """Writes a turn's visible text as it comes; what the model says to the program never shows."""

    def __init__(self, out: TextIO, usage: str | None = None, verbose: str | None = None) -> None:
        self._out = out
        self._usage = usage
        self._verbose = verbose in {"on", "full"}
        self._filter = StreamFilter()
        self._shown = False

    def take(self, event: RunEvent) -> None:
        """Write what one event shows."""
        match event:
            case Notice(kind="reply"):
                self._write(event.text)
                self._end()
            case ModelCalled():
                # A new attempt: what an earlier one had shown stays shown, and this one begins anew.
                self._end()
            case TextDelta():
                self._write(self._filter.feed(event.text))
            case MessageEnded():
                self._write(self._filter.finish()[0])
                self._end()
            case ToolStarted() if self._verbose:
                self._write(f"[{event.name}]\n")
                self._shown = False
            case RunEnded():
                if line := footer(self._usage, event):
                    self._write(f"{line}\n")

    def _write(self, text: str) -> None:
        if text := printable(text):
            self._shown = True
            self._out.write(text)
            self._out.flush()

    def _end(self) -> None:
        if self._shown:
            self._out.write("\n")
            self._out.flush()
        self._filter, self._shown = StreamFilter(), False
