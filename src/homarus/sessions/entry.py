"""One line of a transcript as a typed value. Whatever a line holds that we do not know stays in it, byte for byte."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.messages import Message, Text, User
from homarus.core.patterns import late
from homarus.sessions.codec import Json, content_text, summary_text, to_message, to_ms
from homarus.storage.record import decode, encode

VERSION = 3
NEWEST_READABLE = 4
RUNTIME_CONTEXT = "openclaw.runtime-context"
MODEL_SNAPSHOT = "model-snapshot"
BOOTSTRAP_MARKER = "openclaw:bootstrap-context:full"

_MARK = late(rb'\{"type":')
_TOKEN = late(rb'[{}]|"(?:[^"\\]|\\.)*"', re.DOTALL)
_MOST_GLUED = 64
_HEAVIEST = 65_536
# What stands for a picture that the model has seen some turns ago; the context engine writes the same words.
IMAGE_GONE = "[image data removed - already processed by model]"
# Pictures of this many turns stay whole in memory: more than any context shows.
IMAGE_TURNS = 6


class Header(Struct, frozen=True):
    """The first line of a transcript."""

    id: str
    version: int
    timestamp: str = ""
    cwd: str = ""
    data: Json = {}


class Entry(Struct, frozen=True):
    """Any line after the header. `data` is the parsed line, `raw` its bytes as they stand in the file."""

    id: str
    parent_id: str | None
    timestamp: str
    data: Json
    raw: bytes = b""
    offset: int = -1

    @property
    def type(self) -> str:
        """Return the word that says what this line is."""
        return _str(self.data.get("type"))

    @property
    def time(self) -> int:
        """Return when the line was written, in milliseconds; 0 if it does not say."""
        return to_ms(self.data.get("timestamp"))

    @property
    def linked(self) -> bool:
        """Say whether the line names its parent (null included); a line that does not follows the one before it."""
        return "parentId" in self.data


class MessageEntry(Entry, frozen=True):
    """Something that a user, a model or a tool said."""

    @property
    def body(self) -> Json:
        """Return the stored message."""
        found = self.data.get("message")
        return found if isinstance(found, dict) else {}

    @property
    def role(self) -> str:
        """Return the stored role."""
        return _str(self.body.get("role"))

    @property
    def message(self) -> Message | None:
        """Return the message as a model sees it, or None when it is kept from the model or has no known role."""
        body = self.body
        return None if body.get("excludeFromContext") is True else to_message(body, self.timestamp)


class ModelChange(Entry, frozen=True):
    """From here on this model answers."""


class ThinkingChange(Entry, frozen=True):
    """From here on the model thinks this much."""


class Compaction(Entry, frozen=True):
    """Everything before `first_kept` is represented by `summary`."""

    @property
    def summary(self) -> str:
        """Return the text that stands for what was left out."""
        return _str(self.data.get("summary"))

    @property
    def first_kept(self) -> str:
        """Return the id of the oldest entry that is still shown word for word."""
        return _str(self.data.get("firstKeptEntryId"))

    @property
    def message(self) -> User:
        """Return the summary as the model reads it."""
        return User(parts=(Text(summary_text(self.summary)),), timestamp=self.time)


class BranchSummary(Entry, frozen=True):
    """What happened on a branch that was left."""

    @property
    def message(self) -> User:
        """Return the summary as the model reads it."""
        return User(parts=(Text(summary_text(_str(self.data.get("summary")))),), timestamp=self.time)


class Custom(Entry, frozen=True):
    """A note of a program to itself; no model sees it."""

    @property
    def custom_type(self) -> str:
        """Return whose note it is."""
        return _str(self.data.get("customType"))


class CustomMessage(Entry, frozen=True):
    """Text that a program put in front of the model, in the user's role."""

    @property
    def custom_type(self) -> str:
        """Return whose text it is."""
        return _str(self.data.get("customType"))

    @property
    def text(self) -> str:
        """Return the text of it."""
        return content_text(self.data.get("content"))

    @property
    def message(self) -> Message | None:
        """Return it as the model reads it."""
        return to_message({"role": "custom", "content": self.data.get("content")}, self.timestamp)


class Label(Entry, frozen=True):
    """A name for another entry."""


class SessionInfo(Entry, frozen=True):
    """A name for the session."""


class Reset(Entry, frozen=True):
    """The conversation starts over here; nothing before it is shown, except from `first_kept` on."""

    @property
    def first_kept(self) -> str:
        """Return the id of the oldest entry that is still shown, or nothing."""
        return _str(self.data.get("firstKeptEntryId"))


class Leaf(Entry, frozen=True):
    """Moves the end of the branch to another entry; what hangs on this line hangs on its target."""

    @property
    def target(self) -> str:
        """Return the id of the new end."""
        return _str(self.data.get("targetId"))


class Unknown(Entry, frozen=True):
    """A line of a kind that this version does not know; kept, and a link in the chain if it has an id."""


_TYPES: dict[str, type[Entry]] = {
    "message": MessageEntry,
    "model_change": ModelChange,
    "thinking_level_change": ThinkingChange,
    "compaction": Compaction,
    "branch_summary": BranchSummary,
    "custom": Custom,
    "custom_message": CustomMessage,
    "label": Label,
    "session_info": SessionInfo,
    "reset": Reset,
    "leaf": Leaf,
}
KNOWN_TYPES = frozenset(_TYPES)


def to_header(data: Any) -> Header | None:
    """Return the header that a line holds, or None if it holds none."""
    if not isinstance(data, dict) or data.get("type") != "session" or not _str(data.get("id")).strip():
        return None
    version = data.get("version")
    number = version if isinstance(version, int) and not isinstance(version, bool) else 1
    return Header(data["id"], number, _str(data.get("timestamp")), _str(data.get("cwd")), data)


def to_entry(data: Any, raw: bytes = b"", offset: int = -1) -> Entry | None:
    """Return the entry that a line holds, or None for a header or for what cannot stand in a chain."""
    if not isinstance(data, dict):
        return None
    kind, ident, parent = data.get("type"), data.get("id"), data.get("parentId")
    if not isinstance(kind, str) or kind == "session" or not isinstance(ident, str) or not ident.strip():
        return None
    moment = data.get("timestamp")
    return _TYPES.get(kind, Unknown)(
        ident,
        parent if isinstance(parent, str) and parent else None,
        moment if isinstance(moment, str) else "",
        data,
        raw,
        offset,
    )


def new_entry(kind: str, ident: str, parent: str | None, timestamp: str, fields: Json) -> Entry:
    """Return a new entry with its bytes; fields that are None are left out."""
    data: Json = {"type": kind, "id": ident, "parentId": parent, "timestamp": timestamp}
    data |= {name: value for name, value in fields.items() if value is not None}
    return _TYPES.get(kind, Unknown)(ident, parent, timestamp, data, encode(data))


def new_header(session_id: str, timestamp: str, cwd: str, parent_session: str = "") -> Header:
    """Return the header of a new transcript in the form that we write."""
    data: Json = {"type": "session", "version": VERSION, "id": session_id, "timestamp": timestamp, "cwd": cwd}
    if parent_session:
        data["parentSession"] = parent_session
    return Header(session_id, VERSION, timestamp, cwd, data)


def weigh(entry: Entry) -> int:
    """Return what an entry counts against the window: one picture or one long text must not push a conversation out."""
    return min(len(entry.raw), _HEAVIEST)


def has_images(entry: Entry) -> bool:
    """Say whether a stored message carries pictures, which are by far the largest thing that a line can hold."""
    return len(entry.raw) > _HEAVIEST // 16 and b'"type":"image"' in entry.raw


def without_images(entry: Entry) -> Entry:
    """Return a message of an older turn without the bytes of its pictures, as a model is shown it; the file keeps them."""
    body = entry.data.get("message")
    if not has_images(entry) or not isinstance(body, dict) or not isinstance(content := body.get("content"), list):
        return entry
    mark = {"type": "text", "text": IMAGE_GONE}
    blocks = [mark if isinstance(block, dict) and block.get("type") == "image" else block for block in content]
    data = {**entry.data, "message": {**body, "content": blocks}}
    return replace(entry, data=data, raw=encode(data))


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
