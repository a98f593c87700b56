"""Images leave the window after a few turns: a model has seen them, and they are dear. Pure.

The window moves only when a new user turn starts, so that the calls of one turn share their prefix.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from homarus.core.messages import Image, Message, Part, Text, User

KEEP_TURNS = 3
MARK = "[image data removed - already processed by model]"


def fade_images(messages: Sequence[Message], keep: int = KEEP_TURNS) -> tuple[Message, ...]:
    """Return the history with the images of older turns replaced by a fixed text."""
    starts = [place for place, message in enumerate(messages) if isinstance(message, User)]
    if len(starts) <= keep + 1:
        return tuple(messages)
    edge = starts[-(keep + 1)]
    return tuple(_faded(message) if place < edge else message for place, message in enumerate(messages))


def _faded(message: Message) -> Message:
    if not any(isinstance(part, Image) for part in message.parts):
        return message
    parts: tuple[Part, ...] = tuple(Text(MARK) if isinstance(part, Image) else part for part in message.parts)
    return replace(message, parts=parts)
