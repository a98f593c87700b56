"""Frozen messages as bytes, made once: a request is joined from the fragments of the one before it plus what is new."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from homarus.core.messages import Assistant, Message, Part, Text, User
from homarus.core.text import neutralize
from homarus.models.info import ModelInfo
from homarus.models.provider import ModelRequest
from homarus.storage.cache import BoundedCache

F = TypeVar("F")
A = TypeVar("A")
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


class Thread(ABC, Generic[F, A]):
    """The requests of one session as bytes: each adds its new messages to what was made for the one before.

    `F` is what a protocol makes of one message, and `A` what it puts around them. Messages are frozen, so an equal message
    has equal bytes.
    """

    def __init__(self) -> None:
        self.fragments: list[F] = []
        # About how much memory they hold, and how much of it is on the books of `Threads`.
        self.size = self.booked = 0
        self._messages: tuple[Message, ...] = ()
        self._asked: tuple[Any, ...] = ()

    @abstractmethod
    def encode(self, message: Message) -> F:
        """Return one message as it goes out."""

    @abstractmethod
    def size_of(self, fragment: F) -> int:
        """Return about how much memory a fragment holds."""

    @abstractmethod
    def surround(self, request: ModelRequest) -> A:
        """Return what stands around the messages; it must not depend on them."""

    @abstractmethod
    def lay(self, around: A, same: int) -> list[bytes]:
        """Return a request of all fragments, the first `same` of which the request before had too."""

    def body(self, request: ModelRequest) -> list[bytes]:
        """Return a request as byte fragments, ready to be sent without being joined."""
        # Most of what was asked is the very object of the request before, so this compares addresses.
        asked = (request.model, request.system, request.tools, request.thinking, request.max_tokens,
                 request.tool_choice, request.response_schema, request.cache, request.params)  # fmt: skip
        if asked != self._asked:
            self._around, self._asked = self.surround(request), asked
        return self.lay(self._around, self._take(request.messages))

    def _take(self, messages: tuple[Message, ...]) -> int:
        """Have one fragment per message, and return how many of them were there before."""
        old, size = self._messages, self.size
        same = len(old)
        # Comparing tuples looks at identity first, so the usual case (one session that grows) costs microseconds.
        if messages[:same] != old:
            same = next((at for at, one in enumerate(messages) if at == same or one != old[at]), len(messages))
            size -= sum(map(self.size_of, self.fragments[same:]))
        new = []
        for message in messages[same:]:
            fragment = self.encode(inert(message) if type(message) is User else message)
            size += self.size_of(fragment)
            new.append(fragment)
        self.fragments[same:] = new
        self.size, self._messages = size, messages
        return same


T = TypeVar("T", bound=Thread[Any, Any])


class Threads(Generic[T]):
    """The threads of the sessions that asked last."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._known: BoundedCache[str, T] = BoundedCache(MAX_SESSIONS, MAX_BYTES, lambda thread: thread.booked)

    def body(self, request: ModelRequest) -> list[bytes]:
        """Return a request as byte fragments."""
        session = request.session_id
        # A single question (a summary, a title) has no session: nothing follows it that could use its bytes again.
        thread = (self._known.get(session) if session else None) or self._make()
        body = thread.body(request)
        if thread.size >= thread.booked and session:
            # It is booked with room to grow, so that not every step has to correct the books.
            thread.booked = thread.size + thread.size // 8 + 1
            self._known.put(session, thread)
        return body
