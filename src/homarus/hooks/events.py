"""What a hook is told: one event, named by its type and its action. Delivering it is the registry's work."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct, field

from homarus.core.clock import epoch_ms

# What this program emits. A hook may listen to a whole key or to its first words (`command`, `session:compact`).
KEYS: tuple[str, ...] = (
    "command:new",
    "command:reset",
    "command:stop",
    "agent:prepare",
    "agent:bootstrap",
    "agent:reply",
    "agent:end",
    "prompt:build",
    "model:resolve",
    "model:input",
    "model:output",
    "model:call:started",
    "model:call:ended",
    "answer:final",
    "run:before",
    "write:before",
    "tool:persist",
    "tool:after",
    "session:start",
    "session:end",
    "session:compact:before",
    "session:compact:after",
    "session:auto-reset",
    "session:patch",
    "gateway:startup",
    "gateway:pre-restart",
    "gateway:shutdown",
    "message:claim",
    "message:dispatch",
    "message:received",
    "message:transcribed",
    "message:preprocessed",
    "message:reply",
    "message:sending",
    "message:sent",
    "subagent:spawned",
    "subagent:ended",
    "cron:added",
    "cron:updated",
    "cron:removed",
    "cron:started",
    "cron:finished",
    "install:before",
)
# In a context that was changed: who among those that changed it nobody has to trust. Their words taint what they get into.
UNTRUSTED = "untrusted"


class HookEvent(Struct):
    """One moment. `context` is what the handlers may read and change; the emitter looks at it again afterwards.

    `messages` is text for the user that handlers add; whoever emitted a `command` event sends it. `options` is the
    hook's own entry of the configuration, set for each handler alone. `failed` names those that failed: who asks for leave
    and not only tells takes that for a no.
    """

    type: str
    action: str
    timestamp: datetime
    session_key: str = ""
    context: dict[str, Any] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        return f"{self.type}:{self.action}"

    def to_json(self) -> dict[str, Any]:
        """Return the form in which the event's scalar facts go into a log; the context stays behind."""
        return {
            "type": self.type,
            "action": self.action,
            "sessionKey": self.session_key,
            "timestamp": epoch_ms(self.timestamp),
            "messages": list(self.messages),
        }


def event(key: str, timestamp: datetime, *, session_key: str = "", context: dict[str, Any] | None = None) -> HookEvent:
    """Return an event by its full name, so that an emitter can write the key as it stands in the list above."""
    kind, _, action = key.partition(":")
    return HookEvent(kind, action, timestamp, session_key=session_key, context={} if context is None else context)


def family(key: str) -> str:
    """Return the name that a listener is kept under: `command:*` and `command` are the same family."""
    return key.strip().removesuffix(":*")


def listening_order(key: str) -> tuple[str, ...]:
    """Return the names whose listeners hear this key, widest family first: `session`, `session:compact`, …"""
    words = key.split(":")
    return tuple(":".join(words[: count + 1]) for count in range(len(words)))


def unheard(key: str) -> str:
    """Return why a listener under this name hears nothing, in words; empty where something that is emitted reaches it."""
    name = family(key)
    if any(name in listening_order(known) for known in KEYS):
        return ""
    return f"nothing ever emits '{key}'"
