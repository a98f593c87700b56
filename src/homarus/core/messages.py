"""Messages: what a user, a model and a tool say, in a form that belongs to no provider.

Everything here is frozen. A message never changes after it was made; a changed history is a new list. So nothing in a
message can lead back to it, and the collector of cycles is told to pass it by (`gc=False`): a history is thousands of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Literal

from msgspec import Struct


class Text(Struct, frozen=True, tag="text", omit_defaults=True, gc=False):
    text: str


class Thinking(Struct, frozen=True, tag="thinking", omit_defaults=True, gc=False):
    """A model's reasoning. `signature` is opaque and goes back to the provider that made it, unchanged."""

    text: str
    signature: str | None = None
    redacted: bool = False


class Image(Struct, frozen=True, tag="image", gc=False):
    """A picture as base64 text."""

    data: str
    mime_type: str


class ToolCall(Struct, frozen=True, tag="toolCall", gc=False):
    """A model asks for a tool. Only complete calls become one of these; a cut stream makes none."""

    id: str
    name: str
    arguments: dict[str, Any]


Part = Text | Thinking | Image | ToolCall


class Cost(Struct, frozen=True, omit_defaults=True, gc=False):
    """Money, in US dollars."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0

    @property
    def total(self) -> float:
        return self.input + self.output + self.cache_read + self.cache_write


class Usage(Struct, frozen=True, omit_defaults=True, gc=False):
    """Tokens that a provider reported. `input` excludes what was read from or written to its cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: Cost = Cost()

    @property
    def total(self) -> int:
        """Return all tokens that this call put into or took out of the window."""
        return self.input + self.output + self.cache_read + self.cache_write

    @property
    def prompt(self) -> int:
        """Return the tokens of the request alone."""
        return self.input + self.cache_read + self.cache_write


class StopReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"
    TOOL_USE = "toolUse"
    ERROR = "error"
    ABORTED = "aborted"


# The kind of a message that no person wrote: a program tells its model what the last answer lacks.
BY_PROGRAM = "program"
# In a message's provenance: the further keys of a turn that answers several messages at once.
COLLECTED = "collectedKeys"


class User(Struct, frozen=True, tag="user", tag_field="role", omit_defaults=True, gc=False):
    """What a person (or a program in a person's place) said.

    `context` is the volatile text that rode on this turn: date, sender, recall. It is stored with the message and
    replayed byte for byte, so that the request for the next turn starts with the bytes of this one.
    """

    parts: tuple[Part, ...]
    timestamp: int = 0
    context: str = ""
    idempotency_key: str = ""
    provenance: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        return join_text(self.parts)

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys of the messages that it stands for; several, where they were collected."""
        more = (self.provenance or {}).get(COLLECTED)
        return (self.idempotency_key, *(more if isinstance(more, list) else ()))


class Assistant(Struct, frozen=True, tag="assistant", tag_field="role", omit_defaults=True, gc=False):
    parts: tuple[Part, ...]
    timestamp: int = 0
    api: str = ""
    provider: str = ""
    model: str = ""
    usage: Usage = Usage()
    stop_reason: StopReason = StopReason.STOP
    error: str = ""

    @property
    def text(self) -> str:
        return join_text(self.parts)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple([part for part in self.parts if isinstance(part, ToolCall)])


class ToolResult(Struct, frozen=True, tag="toolResult", tag_field="role", omit_defaults=True, gc=False):
    """What a tool gave back. `details` is for people and logs; a model never sees it."""

    call_id: str
    tool_name: str
    parts: tuple[Part, ...]
    timestamp: int = 0
    is_error: bool = False
    details: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        return join_text(self.parts)


Message = User | Assistant | ToolResult


class Trust(StrEnum):
    """Who is speaking, from most to least trusted. Decided by the channel's admission, never by the text."""

    OWNER = "owner"
    PAIRED = "paired"
    GROUP = "group"
    EXTERNAL = "external"


def least_trusted(trusts: Iterable[Trust]) -> Trust:
    """Return whose word counts where several speak: the least trusted one's. Where nobody speaks, it is the program."""
    return max(trusts, key=list(Trust).index, default=Trust.OWNER)


# Among the facts of a message: its sender shares no session with others unless the settings say so.
APART = "apart"


class Media(Struct, frozen=True, omit_defaults=True):
    """A file that came with a message. `ref` is the platform's own handle; `path` is where it lies once it was fetched."""

    kind: Literal["image", "audio", "voice", "video", "file"] = "file"
    mime_type: str = ""
    name: str = ""
    size: int = 0
    ref: str = ""
    path: str = ""


class Quote(Struct, frozen=True, omit_defaults=True):
    """The message that this one answers. `ours` when the agent wrote it."""

    id: str
    text: str = ""
    sender: str = ""
    ours: bool = False


class Inbound(Struct, frozen=True, omit_defaults=True):
    """One message that a channel took in. `id` is the platform's own, and dedupes retries.

    `sender` is the platform's stable id of a person, never a name that they can choose; `trust` is set by admission alone.
    """

    id: str
    channel: str
    text: str
    sender: str = ""
    sender_name: str = ""
    account: str = "default"
    peer: str = ""
    chat_type: str = "direct"
    thread: str = ""
    trust: Trust = Trust.EXTERNAL
    timestamp: int = 0
    images: tuple[Image, ...] = ()
    reply_to: str = ""
    mentioned: bool = False
    facts: dict[str, Any] | None = None
    # What admission and routing look at besides. `space` is a Discord guild or a Slack team, `parent` the chat that a
    # thread hangs under where it has an id of its own, `command` a platform's own command (`/status`), typed or tapped.
    handle: str = ""
    from_bot: bool = False
    from_self: bool = False
    forwarded: bool = False
    quote: Quote | None = None
    media: tuple[Media, ...] = ()
    space: str = ""
    roles: tuple[str, ...] = ()
    parent: str = ""
    command: str = ""


class Poll(Struct, frozen=True, omit_defaults=True):
    """A question to a chat, for platforms that have polls of their own."""

    question: str
    options: tuple[str, ...]
    multiple: bool = False


class Outbound(Struct, frozen=True, omit_defaults=True):
    """One message to be made visible. `id` is the idempotency key: sending it twice shows it once."""

    id: str
    channel: str
    to: str
    text: str
    account: str = "default"
    thread: str = ""
    reply_to: str = ""
    media: tuple[str, ...] = ()
    as_voice: bool = False
    silent: bool = False
    # Things to tap below it, label and what comes back as the `command` of a message; left out where there are no buttons.
    buttons: tuple[tuple[str, str], ...] = ()
    # Its text asks the same, for platforms without polls.
    poll: Poll | None = None


def join_text(parts: tuple[Part, ...]) -> str:
    return "".join([part.text for part in parts if isinstance(part, Text)])


def sources(trust: Trust, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Return whose untrusted words a message brings: its sender's, and those that the program says it holds."""
    told = facts.get("taint")
    held = [str(source) for source in told] if isinstance(told, list | tuple) else []
    return (*(() if trust is Trust.OWNER else (f"sender:{trust}",)), *held)
