"""A line in the form that we write ourselves, read and written in one typed step. Any other form is left to `codec`."""

# No postponed annotations: these types are read at every start, and as texts each would have to be compiled for that.

from math import isfinite
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
from homarus.storage.record import encode

_MOMENTS, _COUNTS, _MONEY = 10**16, 10**15, 1e15
_Moment = Annotated[int, Meta(gt=0, lt=_MOMENTS)]
_Count = Annotated[int, Meta(ge=0, lt=_COUNTS)]
_Money = Annotated[float, Meta(ge=0, lt=_MONEY)]
_Name = Annotated[str, Meta(min_length=1)]
_FREE = Usage().cost

# The fields stand in the order in which they are written, and what is unset is not written.


class _Thought(Struct, tag="thinking", gc=False):
    thinking: str = ""
    thinkingSignature: str | UnsetType | None = UNSET  # noqa: N815 - the names of the file
    signature: str | UnsetType | None = UNSET
    data: str | UnsetType | None = UNSET
    redacted: bool | UnsetType | None = UNSET


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
    totalTokens: Any = 0  # noqa: N815 - for other readers; the four counts say it
    cost: _Price | None = None


class _User(Struct, tag_field="role", tag="user", rename={"foreign": "__openclaw"}, gc=False):
    content: _Blocks
    timestamp: _Moment
    idempotencyKey: str | UnsetType | None = UNSET  # noqa: N815
    provenance: dict[str, Any] | UnsetType | None = UNSET
    foreign: UnsetType = UNSET  # what another version knows of the message
    excludeFromContext: bool | UnsetType | None = UNSET  # noqa: N815

    def message(self) -> User:
        return User(_parts(self.content), self.timestamp, "", self.idempotencyKey or "", _given(self.provenance))


class _Answer(Struct, tag_field="role", tag="assistant", kw_only=True, gc=False):
    content: _Blocks
    api: str = ""
    provider: str = ""
    model: str = ""
    usage: _Tokens
    stopReason: StopReason  # noqa: N815
    errorMessage: str | UnsetType | None = UNSET  # noqa: N815
    timestamp: _Moment
    excludeFromContext: bool | UnsetType | None = UNSET  # noqa: N815

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


class _Result(Struct, tag_field="role", tag="toolResult", kw_only=True, gc=False):
    toolCallId: _Name  # noqa: N815
    toolName: _Name  # noqa: N815
    content: _Blocks
    details: dict[str, Any] | UnsetType | None = UNSET
    isError: bool = False  # noqa: N815
    timestamp: _Moment
    excludeFromContext: bool | UnsetType | None = UNSET  # noqa: N815

    def message(self) -> ToolResult:
        parts = _parts(self.content)
        return ToolResult(self.toolCallId, self.toolName, parts, self.timestamp, self.isError, _given(self.details))


class Row(Struct, gc=False):
    """One line as it stands in a tree of entries, as far as this program reads it; the other fields stay in its bytes."""

    type: str
    id: str
    parentId: str | UnsetType | None = UNSET  # noqa: N815
    timestamp: str = ""
    message: _User | _Answer | _Result | UnsetType = UNSET
    appendMode: str | UnsetType | None = UNSET  # noqa: N815
    customType: str | UnsetType | None = UNSET  # noqa: N815
    targetId: str | UnsetType | None = UNSET  # noqa: N815
    firstKeptEntryId: str | UnsetType | None = UNSET  # noqa: N815

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
_NOTHING = _Price()
_decoder = msgspec.json.Decoder(Row)
_encode = msgspec.json.Encoder().encode


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


def _given(value: dict[str, Any] | UnsetType | None) -> dict[str, Any] | None:
    return None if value is UNSET else value


def new_line(
    ident: str, parent: str | None, written: str, message: Message, moment: int
) -> tuple[bytes, Message | None]:
    """Return the line of a new message, and the message as reading that line gives it: None where only reading tells.

    `moment` is when it was said, and `written` when the line was.
    """
    row = Row("message", ident, parent, written, _stored(message, moment))
    try:
        return _encode(row), as_read(message, moment)
    except UnicodeEncodeError:  # half of a surrogate pair: what can be written is not what was said
        return encode(row), None


def from_message(message: Message) -> dict[str, Any]:
    """Return the JSON under which a message is stored; absent values are left out."""
    body: dict[str, Any] = msgspec.to_builtins(_stored(message, message.timestamp))
    body["content"] = list(body["content"])
    return body


# Below, `type(x) is X` stands where `isinstance` would do: each line that is written passes here, and asking a struct
# whether it is of another kind costs as much as making one.


def _stored(message: Message, moment: int) -> _User | _Answer | _Result:
    content: Any = message.parts  # texts and calls are written as they are
    for part in content:
        if type(part) is not Text and type(part) is not ToolCall:
            content = [_block(part) for part in content]
            break
    if type(message) is ToolResult:
        return _Result(
            toolCallId=message.call_id,
            toolName=message.tool_name,
            content=content,
            details=UNSET if message.details is None else message.details,
            isError=message.is_error,
            timestamp=moment,
        )
    if type(message) is Assistant:
        return _Answer(
            content=content,
            api=message.api,
            provider=message.provider,
            model=message.model,
            usage=_tokens(message.usage),
            stopReason=message.stop_reason,
            errorMessage=message.error or UNSET,
            timestamp=moment,
        )
    assert isinstance(message, User)
    provenance = UNSET if message.provenance is None else message.provenance
    return _User(content, moment, message.idempotency_key or UNSET, provenance)


def _block(part: Part) -> Part | _Thought | _Picture:
    if isinstance(part, Image):
        return _Picture(part.data, part.mime_type)
    if isinstance(part, Thinking):
        signature = UNSET if part.signature is None else part.signature
        return _Thought(part.text, signature, redacted=part.redacted or UNSET)
    return part


def _tokens(usage: Usage) -> _Tokens:
    cost = usage.cost
    price = (
        _NOTHING if cost == _FREE else _Price(cost.input, cost.output, cost.cache_read, cost.cache_write, cost.total)
    )
    return _Tokens(usage.input, usage.output, usage.cache_read, usage.cache_write, usage.total, price)


def as_read(message: Message, moment: int) -> Message | None:
    """Return a message as reading its line gives it, or None where only reading tells. So what is written is not read.

    What could change in other hands (arguments, details) is copied, as reading copies it.
    """
    parts = _parts_as_read(message.parts)
    if parts is None or not 0 < moment < _MOMENTS:
        return None
    if type(message) is ToolResult:
        details = None if message.details is None else _copy(message.details)
        if details is _ODD or not message.call_id or not message.tool_name:
            return None
        return ToolResult(message.call_id, message.tool_name, parts, moment, message.is_error, details)
    if type(message) is Assistant:
        if not _is_counted(message.usage):
            return None
        api, provider, model = intern(message.api), intern(message.provider), intern(message.model)
        return Assistant(parts, moment, api, provider, model, message.usage, message.stop_reason, message.error)
    assert isinstance(message, User)
    provenance = None if message.provenance is None else _copy(message.provenance)
    return None if provenance is _ODD else User(parts, moment, "", message.idempotency_key, provenance)


def _parts_as_read(parts: tuple[Part, ...]) -> tuple[Part, ...] | None:
    found: list[Part] = []
    for part in parts:
        if type(part) is ToolCall:
            arguments = _copy(part.arguments)
            if arguments is _ODD or not part.id:
                return None
            part = ToolCall(part.id, part.name, arguments)
        elif (type(part) is Image and not (part.data and part.mime_type)) or (
            type(part) is Thinking and part.signature == ""
        ):
            return None
        found.append(part)
    return tuple(found)


def _is_counted(usage: Usage) -> bool:
    """Say whether these counts are read as they are written."""
    if usage.input < 0 or usage.output < 0 or usage.cache_read < 0 or usage.cache_write < 0 or usage.total >= _COUNTS:
        return False
    cost = usage.cost
    if cost == _FREE:
        return True
    return min(cost.input, cost.output, cost.cache_read, cost.cache_write) >= 0 and 0 < cost.total < _MONEY


_ODD: Any = object()
_ATOMS = frozenset({str, int, bool, type(None)})
_DEEPEST = 16


def _copy(value: Any, depth: int = 0) -> Any:
    """Return a copy of a value that JSON gives back as it was; `_ODD` for any other."""
    kind = type(value)
    if kind in _ATOMS or (kind is float and isfinite(value)):
        return value
    if depth > _DEEPEST:
        return _ODD
    if kind is list:
        items = [_copy(item, depth + 1) for item in value]
        return _ODD if _ODD in items else items
    if kind is not dict:
        return _ODD
    copied: dict[str, Any] = value.copy()
    for name, item in value.items():
        if type(name) is not str:
            return _ODD
        if type(item) not in _ATOMS:
            copied[name] = item = _copy(item, depth + 1)
            if item is _ODD:
                return _ODD
    return copied
