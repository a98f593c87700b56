"""Models that are asked to put their reasoning and their answer between tags: both told apart as they arrive.

What stands in `<think>` is reasoning, what stands in `<final>` is the answer. Where no `<final>` comes, the answer is what
stands outside of `<think>`. What is told on and stored has no tags.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

from msgspec.structs import replace

from homarus.core.events import ModelCalled, Notice, TextDelta, ThinkingDelta
from homarus.core.messages import Assistant, Part, Text, Thinking
from homarus.core.patterns import late
from homarus.models.provider import Stop, StreamEvent

Event = StreamEvent | ModelCalled | Notice
_TAG = late(r"<\s{0,3}(/?)\s{0,3}(think|final)\s{0,3}>", re.IGNORECASE)
_BEGUN = late(r"<\s{0,3}/?\s{0,3}[a-z]{0,5}\s{0,3}\Z", re.IGNORECASE)


class TagReader:
    """Reads one text in pieces; `feed` and `finish` return what is sure by now, as (reasoning, answer)."""

    def __init__(self) -> None:
        self._inside = ""
        self._rest = ""  # may become a tag
        self._loose = ""  # the answer, if no `<final>` comes
        self._answered = False

    def feed(self, text: str) -> tuple[str, str]:
        text = self._rest + text
        begun = _BEGUN.search(text)
        text, self._rest = (text[: begun.start()], begun[0]) if begun else (text, "")
        thought, said, at = "", "", 0
        for tag in [*_TAG.finditer(text), None]:
            piece = text[at : tag.start() if tag else None]
            if self._inside == "think":
                thought += piece
            elif self._inside == "final":
                said += piece
            else:
                self._loose += piece
            if tag is None:
                return thought, said
            at, self._inside = tag.end(), "" if tag[1] else tag[2].lower()
            self._answered = self._answered or self._inside == "final"
        raise AssertionError("the last piece has no tag behind it")

    def finish(self) -> tuple[str, str]:
        rest, self._rest = self._rest, ""
        thought, said = (rest if self._inside == name else "" for name in ("think", "final"))
        self._loose += "" if self._inside else rest
        return thought, said if self._answered else self._loose.strip()


async def told_apart(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
    """Hand on what a model streams, with its text told apart."""
    reader = TagReader()
    async for event in events:
        if isinstance(event, TextDelta):
            for delta in _deltas(reader.feed(event.text)):
                yield delta
        elif isinstance(event, Stop):
            for delta in _deltas(reader.finish()):
                yield delta
            yield replace(event, message=_parted(event.message))
        else:
            reader = TagReader() if isinstance(event, ModelCalled) else reader
            yield event


def _deltas(found: tuple[str, str]) -> list[TextDelta | ThinkingDelta]:
    thought, said = found
    return [*([ThinkingDelta(thought)] if thought else []), *([TextDelta(said)] if said else [])]


def _parted(message: Assistant) -> Assistant:
    whole = TagReader()
    parts: list[Part] = []
    for part in message.parts:
        if not isinstance(part, Text):
            parts.append(part)
            continue
        thought, said = map("".join, zip(whole.feed(part.text), whole.finish(), strict=True))
        parts += [Thinking(thought.strip())] if thought.strip() else []
        parts += [Text(said.strip())] if said.strip() else []
        whole = TagReader()
    return replace(message, parts=tuple(parts))
