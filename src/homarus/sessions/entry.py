"""One line of a transcript as a typed value. Whatever a line holds that we do not know stays in it, byte for byte."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from homarus.core.messages import Assistant, Image, Message, Part, Text, ToolCall, ToolResult, User
from homarus.core.patterns import late
from homarus.sessions.codec import (
    MAX_DETAILS,
    Json,
    cap_details,
    content_text,
    from_message,
    keys_of,
    summary_text,
    to_message,
    to_ms,
)
from homarus.storage.record import decode, encode

VERSION = 3
NEWEST_READABLE = 4
RUNTIME_CONTEXT = "openclaw.runtime-context"

_MARK = late(rb'\{"type":')
_TOKEN = late(rb'[{}]|"(?:[^"\\]|\\.)*"', re.DOTALL)
_MOST_GLUED = 64
# For `_weigh`: the bounds of any entry, what a line has besides its text, and what a picture stands for.
_LIGHTEST, _HEAVIEST, _FRAME, _PICTURE = 32, 65_536, 160, 8_000
# Lines shorter than this hold no picture that is worth looking for.
_SMALL = 4_096
# What stands for a picture that the model has seen some turns ago; the context engine writes the same words.
IMAGE_GONE = "[image data removed - already processed by model]"
# Pictures of this many turns stay whole in memory: more than any context shows.
IMAGE_TURNS = 6


class Header(Struct, frozen=True):
    id: str
    version: int
    timestamp: str = ""
    cwd: str = ""
    data: Json = {}


class Entry(Struct, frozen=True, gc=False):
    """Any line after the header: what navigation needs, and the bytes. All else is read from those when it is asked for.

    A writer keeps no bytes of messages (`lean=True`): the message is all that a context needs, and the file has the rest.
    Nothing in an entry can lead back to it, so the collector of cycles need not look at the thousands of them.
    """

    id: str
    parent_id: str | None
    timestamp: str
    raw: bytes
    offset: int = -1
    type: str = ""
    linked: bool = True
    """Whether the line names its parent (null included); a line that does not follows the one before it."""
    side: bool = False
    """Whether the line stands beside the branch and does not move its end."""
    weight: int = 0
    """About how many characters of a request it takes, see `_weigh`."""

    @property
    def data(self) -> Json:
        """Return the whole line, read anew each time; whoever changes it changes nothing but his own copy."""
        found = decode(self.raw)[0]
        if isinstance(found, dict):
            return found
        # Damage in a field that nobody here needs.
        return {"type": self.type, "id": self.id, "parentId": self.parent_id, "timestamp": self.timestamp}

    @property
    def time(self) -> int:
        """Return when the line was written, in milliseconds; 0 if it does not say."""
        return to_ms(self.timestamp) if self.timestamp else to_ms(self.data.get("timestamp"))


class MessageEntry(Entry, frozen=True, gc=False):
    """Something that a user, a model or a tool said."""

    role: str = ""
    message: Message | None = None
    """The message as a model sees it, or None when it is kept from the model or has no known role."""

    @property
    def data(self) -> Json:
        """Return the whole line, or what of it was kept."""
        if self.raw:
            return super().data
        body = from_message(self.message) if self.message else {"role": self.role}
        line = {"type": self.type, "id": self.id, "parentId": self.parent_id, "timestamp": self.timestamp}
        return {**line, "message": body}

    @property
    def body(self) -> Json:
        found = self.data.get("message")
        return found if isinstance(found, dict) else {}

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys of the messages that a user's entry stands for."""
        said = self.message
        if not isinstance(said, User):
            return keys_of(self.body)
        if not said.provenance:
            return (said.idempotency_key,) if said.idempotency_key else ()
        return keys_of({"idempotencyKey": said.idempotency_key, "provenance": said.provenance})


class Compaction(Entry, frozen=True, gc=False):
    """Everything before `first_kept` is represented by `summary`."""

    first_kept: str = ""
    """The id of the oldest entry that is still shown word for word."""

    @property
    def summary(self) -> str:
        return _str(self.data.get("summary"))

    @property
    def message(self) -> User:
        return User(parts=(Text(summary_text(self.summary)),), timestamp=self.time)


class BranchSummary(Entry, frozen=True, gc=False):
    @property
    def message(self) -> User:
        return User(parts=(Text(summary_text(_str(self.data.get("summary")))),), timestamp=self.time)


class Custom(Entry, frozen=True, gc=False):
    """A note of a program to itself; no model sees it. `custom_type` says whose note it is."""

    custom_type: str = ""


class CustomMessage(Entry, frozen=True, gc=False):
    """Text that a program put in front of the model, in the user's role. `custom_type` says whose text it is."""

    custom_type: str = ""

    @property
    def text(self) -> str:
        return content_text(self.data.get("content"))

    @property
    def message(self) -> Message | None:
        return to_message({"role": "custom", "content": self.data.get("content")}, self.timestamp)


class Reset(Entry, frozen=True, gc=False):
    """The conversation starts over here; nothing before it is shown, except from `first_kept` on."""

    first_kept: str = ""


class Leaf(Entry, frozen=True, gc=False):
    """Moves the end of the branch to another entry; what hangs on this line hangs on its target."""

    target: str = ""


class UnknownEntry(Entry, frozen=True, gc=False):
    """A line of a kind that this version does not know; kept, and a link in the chain if it has an id."""


_ROLES: dict[type[Message], str] = {User: "user", Assistant: "assistant", ToolResult: "toolResult"}
_TYPES: dict[str, type[Entry]] = {
    **dict.fromkeys(("model_change", "thinking_level_change", "label", "session_info"), Entry),
    "message": MessageEntry,
    "compaction": Compaction,
    "branch_summary": BranchSummary,
    "custom": Custom,
    "custom_message": CustomMessage,
    "reset": Reset,
    "leaf": Leaf,
}
KNOWN_TYPES = frozenset(_TYPES)
# Entries that name something: what makes one, and the field of the line in which the name stands.
_NAMING: dict[str, tuple[Callable[..., Entry], str]] = {
    "compaction": (Compaction, "firstKeptEntryId"),
    "reset": (Reset, "firstKeptEntryId"),
    "custom": (Custom, "customType"),
    "custom_message": (CustomMessage, "customType"),
    "leaf": (Leaf, "targetId"),
}


def to_header(data: Any) -> Header | None:
    if not isinstance(data, dict) or data.get("type") != "session" or not _str(data.get("id")).strip():
        return None
    version = data.get("version")
    number = version if isinstance(version, int) and not isinstance(version, bool) else 1
    return Header(data["id"], number, _str(data.get("timestamp")), _str(data.get("cwd")), data)


def to_entry(data: Any, raw: bytes = b"", offset: int = -1, *, lean: bool = False) -> Entry | None:
    """Return the entry that a line holds in any form, or None for a header or for what cannot stand in a chain.

    A `lean` one has no bytes of its message, except where the message does not say it all: a picture may have to be taken out of
    them later, a time may stand there in another form, or an answer may have a key.
    """
    if not isinstance(data, dict):
        return None
    kind, ident, parent = data.get("type"), data.get("id"), data.get("parentId")
    if not isinstance(kind, str) or kind == "session" or not isinstance(ident, str) or not ident.strip():
        return None
    moment, above = _str(data.get("timestamp")), _str(parent) or None
    side, raw = data.get("appendMode") == "side", raw or encode(data)
    body = data.get("message") if kind == "message" else None
    body = body if isinstance(body, dict) else {}
    said = None if body.get("excludeFromContext") is True else to_message(body, moment)
    role, weight = _str(body.get("role")), _weigh(kind, raw, said)
    if lean and said is not None and role == _ROLES[type(said)] and moment and not _pictured(raw):
        raw = b"" if isinstance(said, User) or not keys_of(body) else raw
    common = (ident, above, moment, raw, offset, kind, "parentId" in data, side, weight)
    if kind == "message":
        return MessageEntry(*common, role, said)
    if kind in _NAMING:
        make, field = _NAMING[kind]
        return make(*common, _str(data.get(field)))
    return _TYPES.get(kind, UnknownEntry)(*common)


def new_entry(kind: str, ident: str, parent: str | None, timestamp: str, fields: Json) -> Entry:
    """Return a new entry with its bytes; fields that are None are left out."""
    data: Json = {"type": kind, "id": ident, "parentId": parent, "timestamp": timestamp}
    return _read_back(encode(data | {name: value for name, value in fields.items() if value is not None}))


def new_message(ident: str, parent: str | None, written: str, message: Message, moment: int) -> tuple[bytes, Entry]:
    """Return the line of a new message and its entry, the same that a writer reads from this line after a restart."""
    line: Json = {"type": "message", "id": ident, "parentId": parent, "timestamp": written}
    raw = encode({**line, "message": from_message(message, moment)})
    if len(raw) > MAX_DETAILS and isinstance(message, ToolResult) and (cut := cap_details(message)) is not message:
        raw = encode({**line, "message": from_message(cut, moment)})
    return raw, _read_back(raw, lean=True)


def _read_back(raw: bytes, *, lean: bool = False) -> Entry:
    made = to_entry(decode(raw)[0], raw, lean=lean)
    assert made is not None, "a new entry has a type and an id"
    return made


def new_header(session_id: str, timestamp: str, cwd: str, parent_session: str = "") -> Header:
    data: Json = {"type": "session", "version": VERSION, "id": session_id, "timestamp": timestamp, "cwd": cwd}
    if parent_session:
        data["parentSession"] = parent_session
    return Header(session_id, VERSION, timestamp, cwd, data)


def _weigh(kind: str, raw: bytes, said: Message | None) -> int:
    """Estimate how many characters of a request a line takes, rather too few than too many; four make a token.

    One picture or one very long text counts no more than some turns do: it must not push a conversation out.
    """
    if kind == "message":
        size = sum(map(_seen, said.parts)) if said else 0
    else:
        size = len(raw) - _FRAME if kind == "custom_message" else len(raw) // 8
    return max(_LIGHTEST, min(size, _HEAVIEST))


def _seen(part: Part) -> int:
    if isinstance(part, Image):
        return _PICTURE
    if isinstance(part, ToolCall):
        return len(part.name) + sum([len(value) for value in part.arguments.values() if isinstance(value, str)])
    return len(part.text)


def has_images(entry: Entry) -> bool:
    """Say whether a stored message carries pictures, which are by far the largest thing that a line can hold."""
    return _pictured(entry.raw)


def _pictured(raw: bytes) -> bool:
    return len(raw) > _SMALL and b'"type":"image"' in raw


def without_images(entry: Entry) -> Entry:
    """Return a message of an older turn without the bytes of its pictures, as a model is shown it; the file keeps them."""
    if not has_images(entry) or not isinstance(entry, MessageEntry):
        return entry
    data, body = entry.data, entry.body
    if not isinstance(content := body.get("content"), list):
        return entry
    mark = {"type": "text", "text": IMAGE_GONE}
    blocks = [mark if isinstance(block, dict) and block.get("type") == "image" else block for block in content]
    data["message"] = {**body, "content": blocks}
    return to_entry(data, offset=entry.offset) or entry


def salvage(raw: bytes) -> list[Json]:
    """Return the whole records inside a damaged line: behind a gap of zero bytes, or glued to a cut one."""
    value = decode(raw.strip(b"\0 \t\r\n"))[0]
    if isinstance(value, dict):
        return [value]
    found: list[Json] = []
    at = _MARK.search(raw)
    while at and len(found) < _MOST_GLUED:
        end = at.end()
        if (piece := _whole_record(raw, at.start())) is not None:
            value = decode(piece)[0]
            # A block inside a message has a type too, but neither a moment nor a parent.
            if isinstance(value, dict) and ("parentId" in value or "timestamp" in value):
                found.append(value)
                end = at.start() + len(piece)
        at = _MARK.search(raw, end)
    return found


def _whole_record(raw: bytes, start: int) -> bytes | None:
    """Return the bytes of the object that begins here, found by counting braces outside of strings."""
    depth = 0
    for token in _TOKEN.finditer(raw, start):
        if token[0] == b"{":
            depth += 1
        elif token[0] == b"}":
            depth -= 1
            if depth == 0:
                return raw[start : token.end()]
    return None


def _str(value: Any) -> str:
    return value if isinstance(value, str) else ""
