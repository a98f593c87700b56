"""How waiting messages become turns: one by one, or several as one prompt. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from msgspec import Struct

from homarus.core.messages import Image, Inbound, Trust, least_trusted, sources
from homarus.core.routes import Route
from homarus.queue.modes import Rules
from homarus.queue.overflow import Overflow
from homarus.queue.settings import Mode

COLLECTED = "[Queued messages while agent was busy]"


def message_key(inbound: Inbound) -> str:
    """Return the key under which a message counts once. An id is unique in its chat, and several chats may share a session."""
    chat = "".join(f":{part}" for part in (inbound.peer, inbound.thread) if part)
    return f"{inbound.channel}:{inbound.account}{chat}:{inbound.id}"


def message_id(key: str) -> str:
    """Return the id in a key, for whoever chose one without a colon: what stands before it may be known elsewhere only."""
    return key.rpartition(":")[2]


class Queued(Struct, frozen=True):
    """One accepted message: durable in the inbox until its turn is in the transcript. `key` makes it count once."""

    key: str
    inbound: Inbound
    route: Route
    rules: Rules = Rules()

    @property
    def text(self) -> str:
        return self.inbound.text

    @property
    def images(self) -> tuple[Image, ...]:
        return self.inbound.images

    @property
    def trust(self) -> Trust:
        return self.inbound.trust

    @property
    def facts(self) -> dict[str, Any]:
        return self.inbound.facts or {}

    @property
    def taint(self) -> tuple[str, ...]:
        """Return whose untrusted words it brings."""
        return sources(self.trust, self.facts)

    @property
    def kept(self) -> bool:
        """Say whether it is a report, of which a turn takes all that wait."""
        return self.rules.kept


class Batch(Struct, frozen=True):
    """What one turn answers: its text, and the messages that it settles. An overflow notice settles what was dropped."""

    text: str
    items: tuple[Queued, ...]
    images: tuple[Image, ...] = ()
    # What it tells of messages that were dropped.
    overflow: Overflow = Overflow()

    @property
    def trust(self) -> Trust:
        """Return on whose word the turn acts: of several who speak at once, the least trusted counts."""
        return least_trusted((self.overflow.trust, *(item.trust for item in self.items)))

    @property
    def taint(self) -> tuple[str, ...]:
        """Return whose untrusted words are in it."""
        return tuple(dict.fromkeys((*self.overflow.taint, *(source for item in self.items for source in item.taint))))

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys of what it answers, and of what it says was dropped."""
        return (*(item.key for item in self.items), *self.overflow.keys)

    @property
    def newest(self) -> Queued | None:
        """Return the message whose run settings hold for the turn."""
        return self.items[-1] if self.items else None


def single(item: Queued) -> Batch:
    """Return a turn for one message, exactly as it was written."""
    return Batch(item.inbound.text, (item,), item.inbound.images)


def plan(queue: Sequence[Queued], overflow: Overflow, *, apart: AbstractSet[str] = frozenset()) -> list[Batch]:
    """Return the turns for everything that waits, in order.

    Messages of different routes are never merged, not even the neighbours among them: a mixed batch is drained one by
    one to its end, so that no answer goes to the wrong place. `apart` names the keys of such a batch.
    """
    if not queue:
        return []
    mergeable = (
        all(item.rules.mode is Mode.COLLECT and item.key not in apart for item in queue)
        and len({item.route for item in queue}) == 1
    )
    if not mergeable:
        notice = [Batch(overflow.text, (), overflow=overflow)] if overflow.count else []
        return notice + [single(item) for item in queue]
    if len(queue) == 1 and not overflow.count:
        return [single(queue[0])]
    parts = [COLLECTED]
    if overflow.count:
        parts.append(overflow.text)
    parts += [f"---\nQueued #{number}\n{item.inbound.text}" for number, item in enumerate(queue, 1)]
    images = tuple(image for item in queue for image in item.inbound.images)
    return [Batch("\n\n".join(parts), tuple(queue), images, overflow)]
