"""Frozen messages as bytes, made once: a request is joined from the fragments of the one before it plus what is new."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from homarus.core.messages import Message, Part, Text, User
from homarus.core.text import neutralize
from homarus.models.provider import ModelRequest
from homarus.storage.cache import BoundedCache

F = TypeVar("F")
MAX_SESSIONS, MAX_BYTES = 64, 32 * 1024 * 1024

_encode = msgspec.json.Encoder().encode


def encode(value: Any) -> bytes:
    """Return compact JSON in the order of the keys; the same value gives the same bytes in every process.

    A lone surrogate (half an emoji out of a cut file) cannot be sent: it becomes `?` instead of failing the turn for ever.
    """
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_scrub(msgspec.to_builtins(value, str_keys=True)))


def _scrub(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_scrub(key): _scrub(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_scrub(item) for item in value]
    return value


def closing(rest: dict[str, Any]) -> bytes:
    """Return what ends a request behind its last message: the closing brackets, with the remaining fields between."""
    return b"]," + encode(rest)[1:] if rest else b"]}"


def inert(message: Message) -> Message:
    """Return a message as a request may hold it: no words of a user can pose as what the runtime says.

    The words stay in the transcript as they were written; a message without such words is returned as it is.
    """
    if not isinstance(message, User):
        return message
    parts = tuple(_inert(part) for part in message.parts)
    return message if parts == message.parts else replace(message, parts=parts)


def _inert(part: Part) -> Part:
    if not isinstance(part, Text):
        return part
    text = neutralize(part.text)
    return part if text is part.text else Text(text)


class Openings:
    """What stands before the messages, made once for as long as a session asks in the same way: tools and system prompt."""

    def __init__(self, make: Callable[[ModelRequest], bytes]) -> None:
        self._make = make
        self._known: BoundedCache[str, tuple[ModelRequest, bytes]] = BoundedCache(MAX_SESSIONS)

    def of(self, request: ModelRequest) -> bytes:
        """Return the first bytes of a request."""
        asked = replace(request, messages=())
        known = self._known.get(request.session_id)
        if known is None or known[0] != asked:
            known = (asked, self._make(asked))
            self._known.put(request.session_id, known)
        return known[1]


class _Sent(msgspec.Struct, Generic[F], frozen=True):
    """A request as it went out: its messages, their fragments, and about how much memory those hold."""

    messages: tuple[Message, ...]
    fragments: list[F]
    size: int


class WireCache(Generic[F]):
    """The fragments of the newest request of each session. Messages are frozen, so an equal message has equal bytes."""

    def __init__(self, encode_message: Callable[[Message], F], size_of: Callable[[F], int]) -> None:
        self._encode = encode_message
        self._size_of = size_of
        self._last: BoundedCache[str, _Sent[F]] = BoundedCache(MAX_SESSIONS, MAX_BYTES, lambda sent: sent.size)

    def fragments(self, session: str, messages: tuple[Message, ...]) -> list[F]:
        """Return one fragment per message and encode only those that the last request of this session did not have."""
        if not session:
            # A single question (a summary, a title): nothing follows it that could use its bytes again.
            return [self._encode(inert(message)) for message in messages]
        old = self._last.get(session) or _Sent((), [], 0)
        same = _common(old.messages, messages)
        new = [self._encode(inert(message)) for message in messages[same:]]
        kept = old.size - sum(map(self._size_of, old.fragments[same:]))
        made = old.fragments[:same] + new
        self._last.put(session, _Sent(messages, made, kept + sum(map(self._size_of, new))))
        return made


def _common(old: tuple[Message, ...], new: tuple[Message, ...]) -> int:
    size = min(len(old), len(new))
    # Comparing tuples looks at identity first, so the usual case (one session that grows) costs microseconds.
    if old[:size] == new[:size]:
        return size
    return next(i for i in range(size) if old[i] is not new[i] and old[i] != new[i])
