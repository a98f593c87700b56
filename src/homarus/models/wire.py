"""Messages as bytes, made once: a request is joined from the fragments of the one before it plus what is new."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from homarus.core.messages import Assistant, Message, Text, Thinking, User
from homarus.core.text import neutralize
from homarus.models.info import ModelInfo
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


def wrote(message: Assistant, api: str, info: ModelInfo) -> bool:
    """Say whether this very model wrote a message, over this protocol: signed reasoning may go back to nobody else."""
    return (message.api, message.provider, message.model) == (api, info.provider, info.id)


def unreasoned(message: Message) -> Message:
    """Return a message without the reasoning that stands in it."""
    if not isinstance(message, Assistant) or not any(isinstance(part, Thinking) for part in message.parts):
        return message
    return replace(message, parts=tuple(part for part in message.parts if not isinstance(part, Thinking)))


def inert(message: Message) -> Message:
    """Return a message as a request may hold it: no words of a user can pose as what the runtime says.

    The words stay in the transcript as they were written; a message without such words is returned as it is.
    """
    if not isinstance(message, User):
        return message
    parts = tuple(Text(neutralize(part.text)) if isinstance(part, Text) else part for part in message.parts)
    return message if parts == message.parts else replace(message, parts=parts)


class Fragments(Generic[F]):
    """The messages of the sessions that asked last, each encoded once. Messages are frozen, so equal ones have equal bytes."""

    def __init__(self, encode: Callable[[Message], F], size_of: Callable[[F], int]) -> None:
        self._encode = encode
        self._size_of = size_of
        # By session: the messages, a fragment of each, and the size of all.
        self._known: BoundedCache[str, tuple[tuple[Message, ...], list[F], int]] = BoundedCache(
            MAX_SESSIONS, MAX_BYTES, lambda entry: entry[2]
        )

    def of(self, request: ModelRequest) -> list[F]:
        """Return one fragment for each message of a request; only what the request before did not have is encoded."""
        session, messages = request.session_id, request.messages
        old, made, size = self._known.get(session, ((), [], 0)) if session else ((), [], 0)
        same = len(old)
        # Comparing tuples looks at identity first, so the usual case (one session that grows) costs next to nothing.
        if messages[:same] != old:
            same = next((at for at, one in enumerate(messages) if at == same or one != old[at]), len(messages))
        fresh = [self._encode(inert(message)) for message in messages[same:]]
        fragments = made[:same] + fresh
        if session:  # nothing follows a single question (a summary, a title) that could use its bytes again
            size += sum(map(self._size_of, fresh)) - sum(map(self._size_of, made[same:]))
            self._known.put(session, (messages, fragments, size))
        return fragments
