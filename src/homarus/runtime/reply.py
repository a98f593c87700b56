"""The events of a turn folded into a reply: what people see of it, and the facts that programs want. The one place for that."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from homarus.agent.budget import add_usage
from homarus.core.events import MessageEnded, Notice, RunEnded, RunEvent, RunStarted
from homarus.core.messages import Usage
from homarus.core.redact import redacted
from homarus.delivery.markup import Directives
from homarus.delivery.sanitize import shape

# The kind of a `Notice` in which the program itself answers, as it does to a command.
REPLY = "reply"


T = TypeVar("T")


class Reply(Struct, Generic[T], frozen=True, kw_only=True):
    """What a message came to. `text` is what a person may see in the end; `raw` is what the model wrote.

    `output` is the answer as a value, where a type was asked for.
    """

    output: T

    text: str = ""
    status: str = "ok"
    error: str = ""
    raw: str = ""
    # Everything that a person may see, in order: also what was said between the calls of tools.
    texts: tuple[str, ...] = ()
    media: tuple[str, ...] = ()
    directives: Directives = Directives()
    usage: Usage = Usage()
    seconds: float = 0.0
    run_id: str = ""
    model: str = ""
    session_id: str = ""

    @property
    def ok(self) -> bool:
        """Say whether the turn came to its own end."""
        return self.status == "ok"

    def to_json(self, session_key: str) -> dict[str, Any]:
        """Return the reply as programs that know OpenClaw's expect it."""
        provider, _, name = self.model.partition("/")
        usage = {
            "input": self.usage.input,
            "output": self.usage.output,
            "cacheRead": self.usage.cache_read,
            "cacheWrite": self.usage.cache_write,
            "total": self.usage.total,
            "costUsd": round(self.usage.cost.total, 6),
        }
        payloads: list[dict[str, Any]] = [{"text": text, "mediaUrl": None} for text in self.texts]
        payloads += [{"text": "", "mediaUrl": path} for path in self.media]
        return {
            "runId": self.run_id,
            "status": self.status,
            **({"error": self.error} if self.error else {}),
            "payloads": payloads,
            "meta": {
                "durationMs": round(self.seconds * 1000),
                "sessionKey": session_key,
                "model": self.model,
                "usage": usage,
                "agentMeta": {"sessionId": self.session_id, "provider": provider, "model": name, "usage": usage},
                "aborted": self.status == "aborted",
            },
        }


class ReplyFold:
    """Takes the events of a message one by one. `footer` is the session's wish for a line about what each turn cost."""

    def __init__(self, footer: str | None = None) -> None:
        self._footer = footer
        self._notices: list[str] = []
        self._texts: list[str] = []
        self._media: list[str] = []
        self._raw = ""
        self._started: RunStarted | None = None
        self._ended = RunEnded("", "ok")

    def take(self, event: RunEvent) -> None:
        match event:
            case Notice(kind="reply"):
                self._notices.append(event.text)
                self._texts.append(event.text)
            case MessageEnded():
                said = shape(event.message.text)
                self._texts += [said.text] if said.text else []
                self._media += said.directives.media
            case RunStarted():
                self._started = event
            case RunEnded():
                # Of several turns, as those that sub-agents' reports start, the last one that says something answers.
                self._raw = event.text if shape(event.text).text or not self._raw else self._raw
                usage, seconds = add_usage(self._ended.usage, event.usage), self._ended.seconds + event.seconds
                self._ended = replace(event, usage=usage, seconds=seconds)
                self._texts += [line] if (line := footer(self._footer, event)) else []

    def reply(self) -> Reply[None]:
        """Return what the message came to."""
        ended, started, shaped = self._ended, self._started, shape(self._raw)
        return Reply(
            output=None,
            text="\n\n".join([*self._notices, *([shaped.text] if shaped.text else [])]),
            status=ended.status,
            error=redacted(ended.error),  # it may repeat what a server or a file said
            raw=self._raw,
            texts=tuple(self._texts),
            media=tuple(self._media),
            directives=shaped.directives,
            usage=ended.usage,
            seconds=ended.seconds,
            run_id=ended.run_id,
            model=started.model if started else "",
            session_id=started.session_id if started else "",
        )


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
