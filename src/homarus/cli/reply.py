"""What a client makes of the events of a turn: the texts that people see, and the facts that programs want."""

from __future__ import annotations

from typing import Any, TextIO

from msgspec import Struct

from homarus.core.events import MessageEnded, ModelCalled, Notice, RunEnded, RunEvent, RunStarted, TextDelta
from homarus.delivery.sanitize import shape
from homarus.delivery.stream import StreamFilter

REPLY = "reply"


class Turned(Struct, frozen=True, kw_only=True):
    """A message and what came of it."""

    run_id: str = ""
    status: str = "ok"
    error: str = ""
    texts: tuple[str, ...] = ()
    media: tuple[str, ...] = ()
    session_key: str = ""
    session_id: str = ""
    model: str = ""
    usage: dict[str, Any] = {}
    seconds: float = 0.0
    interrupted: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the result as programs that know OpenClaw's expect it."""
        provider, _, name = self.model.partition("/")
        about = {"sessionId": self.session_id, "provider": provider, "model": name, "usage": self.usage}
        payloads: list[dict[str, Any]] = [{"text": text, "mediaUrl": None} for text in self.texts]
        payloads += [{"text": "", "mediaUrl": path} for path in self.media]
        return {
            "runId": self.run_id,
            "status": self.status,
            **({"error": self.error} if self.error else {}),
            "payloads": payloads,
            "meta": {
                "durationMs": round(self.seconds * 1000),
                "sessionKey": self.session_key,
                "model": self.model,
                "usage": self.usage,
                "agentMeta": about,
                "aborted": self.status == "aborted",
            },
        }


class Collector:
    """Gathers a turn's events."""

    def __init__(self, session_key: str) -> None:
        self._key = session_key
        self._texts: list[str] = []
        self._media: list[str] = []
        self._started: RunStarted | None = None
        self._ended = RunEnded("", "ok")

    def take(self, event: RunEvent) -> None:
        """Note one event."""
        match event:
            case Notice(kind="reply"):
                self._texts.append(event.text)
            case MessageEnded():
                reply = shape(event.message.text)
                self._texts += [reply.text] if reply.text else []
                self._media += reply.directives.media
            case RunStarted():
                self._started = event
            case RunEnded():
                self._ended = event

    def done(self, *, interrupted: bool = False) -> Turned:
        """Return what the turn came to."""
        ended, started = self._ended, self._started
        usage = ended.usage
        return Turned(
            run_id=ended.run_id,
            status=ended.status,
            error=ended.error,
            texts=tuple(self._texts),
            media=tuple(self._media),
            session_key=self._key,
            session_id=started.session_id if started else "",
            model=started.model if started else "",
            usage={
                "input": usage.input,
                "output": usage.output,
                "cacheRead": usage.cache_read,
                "cacheWrite": usage.cache_write,
                "total": usage.total,
                "costUsd": round(usage.cost.total, 6),
            },
            seconds=ended.seconds,
            interrupted=interrupted,
        )


class TextStream:
    """Writes a turn's visible text as it comes; what the model says to the program never shows."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._filter = StreamFilter()
        self._shown = False

    def take(self, event: RunEvent) -> None:
        """Write what one event shows."""
        match event:
            case Notice(kind="reply"):
                self._write(event.text + "\n")
            case ModelCalled():
                # A new attempt: what an earlier one had shown stays shown, and this one begins anew.
                self._end()
            case TextDelta():
                self._write(self._filter.feed(event.text))
            case MessageEnded():
                self._write(self._filter.finish()[0])
                self._end()

    def _write(self, text: str) -> None:
        if text:
            self._shown = True
            self._out.write(text)
            self._out.flush()

    def _end(self) -> None:
        if self._shown:
            self._out.write("\n")
            self._out.flush()
        self._filter, self._shown = StreamFilter(), False
