"""What a client makes of the events of a turn: the texts that people see, and the facts that programs want."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from homarus.agent.budget import add_usage
from homarus.core.events import (
    MessageEnded,
    Notice,
    RunEnded,
    RunEvent,
    RunStarted,
)
from homarus.delivery.sanitize import shape


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


def footer(mode: str | None, ended: RunEnded) -> str:
    """Return the line under a reply that `/usage tokens|full` asks for; nothing where nothing was used."""
    usage = ended.usage
    if mode not in {"tokens", "full"} or not usage.total:
        return ""
    line = f"{usage.prompt:,} in · {usage.output:,} out"
    if mode == "full":
        cached = f"{100 * usage.cache_read / usage.prompt:.0f} % cached" if usage.prompt else ""
        cost = f"${usage.cost.total:.4f}" if usage.cost.total else ""
        line = " · ".join(part for part in (line, cached, cost, f"{ended.seconds:.1f} s") if part)
    return f"[{line}]"


class Collector:
    """Gathers a turn's events. `usage` is the session's wish for a line about what it cost."""

    def __init__(self, session_key: str, usage: str | None = None) -> None:
        self._key = session_key
        self._usage = usage
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
                # The turns that sub-agents' reports start belong to the same answer.
                whole, before = replace(event, usage=add_usage(self._ended.usage, event.usage)), self._ended.seconds
                self._ended = replace(whole, seconds=before + event.seconds)
                self._texts += [line] if (line := footer(self._usage, event)) else []

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
