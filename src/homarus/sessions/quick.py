"""Read a line in the form that we write ourselves in one step; `None` leaves any other form to `codec`. Same result, faster."""

# No postponed annotations: these types are read at every start, and as texts each would have to be compiled for that.

from sys import intern
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from homarus.core.messages import (
    Assistant,
    Cost,
    Image,
    Message,
    Part,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    User,
)

_Moment = Annotated[int, Meta(gt=0, lt=10**16)]
_Count = Annotated[int, Meta(ge=0, lt=10**15)]
_Money = Annotated[float, Meta(ge=0, lt=1e15)]
_Name = Annotated[str, Meta(min_length=1)]
_FREE = Cost()


class _Thought(Struct, tag="thinking", gc=False):
    thinking: str = ""
    thinkingSignature: str | None = None  # noqa: N815 - the names of the file
    signature: str | None = None
    data: str | None = None
    redacted: bool | None = None


class _Picture(Struct, tag="image", gc=False):
    data: _Name
    mimeType: _Name  # noqa: N815
    source: UnsetType = UNSET


class _Call(Struct, tag="toolCall", gc=False):
    id: _Name
    name: str
    arguments: dict[str, Any]
    partialJson: UnsetType = UNSET  # noqa: N815 - what a cut stream leaves
    partialArgs: UnsetType = UNSET  # noqa: N815


_Block = Text | _Call | _Thought | _Picture
_Blocks = tuple[_Block, ...]


class _Price(Struct, gc=False):
    input: _Money = 0.0
    output: _Money = 0.0
    cacheRead: _Money = 0.0  # noqa: N815
    cacheWrite: _Money = 0.0  # noqa: N815
    total: _Money = 0.0


class _Tokens(Struct, gc=False):
    input: _Count
    output: _Count
    cacheRead: _Count = 0  # noqa: N815
    cacheWrite: _Count = 0  # noqa: N815
    cost: _Price | None = None


class _User(Struct, tag_field="role", tag="user", rename={"foreign": "__openclaw"}, gc=False):
    content: _Blocks
    timestamp: _Moment
    idempotencyKey: str | None = None  # noqa: N815
    provenance: dict[str, Any] | None = None
    foreign: UnsetType = UNSET  # what another version knows of the message
    excludeFromContext: bool | None = None  # noqa: N815

    def message(self) -> User:
        return User(_parts(self.content), self.timestamp, "", self.idempotencyKey or "", self.provenance)


class _Answer(Struct, tag_field="role", tag="assistant", gc=False):
    content: _Blocks
    timestamp: _Moment
    usage: _Tokens
    stopReason: StopReason  # noqa: N815
    api: str = ""
    provider: str = ""
    model: str = ""
    errorMessage: str | None = None  # noqa: N815
    excludeFromContext: bool | None = None  # noqa: N815

    def message(self) -> Assistant:
        return Assistant(
            _parts(self.content),
            self.timestamp,
            intern(self.api),  # the same few words in thousands of answers
            intern(self.provider),
            intern(self.model),
            _usage(self.usage),
            self.stopReason,
            self.errorMessage or "",
        )


class _Result(Struct, tag_field="role", tag="toolResult", gc=False):
    toolCallId: _Name  # noqa: N815
    toolName: _Name  # noqa: N815
    content: _Blocks
    timestamp: _Moment
    isError: bool = False  # noqa: N815
    details: dict[str, Any] | None = None
    excludeFromContext: bool | None = None  # noqa: N815

    def message(self) -> ToolResult:
        parts = _parts(self.content)
        return ToolResult(self.toolCallId, self.toolName, parts, self.timestamp, self.isError, self.details)


class Row(Struct, gc=False):
    """One line as it stands in a tree of entries, as far as this program reads it; the other fields stay in its bytes."""

    type: str
    id: str
    timestamp: str = ""
    parentId: str | UnsetType | None = UNSET  # noqa: N815
    appendMode: str | None = None  # noqa: N815
    customType: str | None = None  # noqa: N815
    targetId: str | None = None  # noqa: N815
    firstKeptEntryId: str | None = None  # noqa: N815
    message: _User | _Answer | _Result | UnsetType = UNSET

    @property
    def role(self) -> str:
        """Return the role of the message."""
        return _ROLES[type(self.message)]

    @property
    def said(self) -> Message | None:
        """Return what the line says to a model."""
        found = self.message
        return None if found is UNSET or found.excludeFromContext else found.message()


_ROLES: dict[type, str] = {_User: "user", _Answer: "assistant", _Result: "toolResult", UnsetType: ""}
_decoder = msgspec.json.Decoder(Row)


def read_row(raw: bytes) -> Row | None:
    """Return the line that these bytes are in the usual form, or None where a closer look is needed."""
    try:
        if not raw.isascii():
            raw.decode()  # also where nobody looks: a field whose name is damaged is not a field that is not there
        row = _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return None if row.message is UNSET and row.type == "message" else row


def _parts(blocks: _Blocks) -> tuple[Part, ...]:
    return tuple([block if type(block) is Text else _part(block) for block in blocks])


def _part(block: _Block) -> Part:
    if isinstance(block, _Call):
        return ToolCall(block.id, block.name, block.arguments)
    if isinstance(block, _Thought):
        signature = block.thinkingSignature or block.signature or block.data or None
        return Thinking(block.thinking, signature, bool(block.redacted))
    return Image(block.data, block.mimeType) if isinstance(block, _Picture) else block


def _usage(found: _Tokens) -> Usage:
    price = found.cost
    cost = _FREE
    if price is not None and (price.input or price.output or price.cacheRead or price.cacheWrite or price.total):
        cost = Cost(price.input, price.output, price.cacheRead, price.cacheWrite)
        if not cost.total:
            cost = Cost(0.0, price.total, 0.0, 0.0)
    return Usage(found.input, found.output, found.cacheRead, found.cacheWrite, cost)
