"""Wait for a sender who types in pieces, before the queue. A state machine that is told the time and never sleeps."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.messages import Inbound
from homarus.queue.settings import InboundSettings

MAX_HELD = 1000


class _Held(Struct):
    first: Inbound
    texts: list[str]
    due: float


class InboundDebounce:
    """Joins the text messages of one sender in one conversation that come closer together than the delay.

    Media, and anything that is a command, is never held: it flushes what waited and passes at once.
    """

    def __init__(self, settings: InboundSettings) -> None:
        self.settings = settings  # those that hold now
        self._held: dict[tuple[str, ...], _Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def offer(self, inbound: Inbound, now: float, *, command: bool = False) -> list[Inbound]:
        """Take a message in and return what is ready to go on, oldest first."""
        delay = self.settings.delay_ms(inbound.channel) / 1000
        key = (inbound.channel, inbound.account, inbound.peer, inbound.thread, inbound.sender)
        if command:
            return [inbound]
        if delay <= 0 or inbound.images or inbound.media or len(self._held) >= MAX_HELD:
            return [*self._flush(key), inbound]
        held = self._held.get(key)
        if held is None:
            self._held[key] = _Held(inbound, [inbound.text], now + delay)
        else:
            held.texts.append(inbound.text)
            held.first = replace(inbound, text=held.first.text)
            held.due = now + delay
        return []

    def next_due(self) -> float | None:
        """Return when the next held message is ready, or None when nothing is held."""
        return min((held.due for held in self._held.values()), default=None)

    def due(self, now: float) -> list[Inbound]:
        """Return what is ready by now, in the order in which it began to wait."""
        ready = [key for key, held in self._held.items() if held.due <= now]
        return [inbound for key in ready for inbound in self._flush(key)]

    def flush(self) -> list[Inbound]:
        """Return everything that is held, as at shutdown."""
        return [inbound for key in list(self._held) for inbound in self._flush(key)]

    def _flush(self, key: tuple[str, ...]) -> list[Inbound]:
        held = self._held.pop(key, None)
        return [replace(held.first, text="\n".join(held.texts))] if held else []
