"""What must be remembered to refuse repeats, floods and bots that answer each other. Everything here is bounded."""

from __future__ import annotations

import hashlib
from collections import OrderedDict, deque
from pathlib import Path

from msgspec import Struct

from homarus.channels.groups import ChatRules
from homarus.channels.settings import Account, ChannelDefaults, LoopGuard
from homarus.core.messages import Inbound
from homarus.storage.atomic import ensure_dir, write_atomic
from homarus.storage.jsonl import JsonlWriter, read_lines
from homarus.storage.record import encode

MAX_SEEN = 20_000
MAX_WATCHED = 2_000
FLOOD_EVENTS, FLOOD_SECONDS, FLOOD_PAUSE = 30, 10.0, 60.0
_LOOP = LoopGuard(True, 20, 60.0, 60.0)


def digest(inbound: Inbound) -> str:
    """Return what tells a message apart from every other, short and without anything of it."""
    parts = (inbound.channel, inbound.account, inbound.peer, inbound.thread, inbound.id)
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=12).hexdigest()


class Seen:
    """The messages that were taken in before, also by a process that is gone. Its file holds digests alone."""

    def __init__(self, path: Path, most: int = MAX_SEEN) -> None:
        self._path = path
        self._most = most
        self._known: OrderedDict[str, None] = OrderedDict()
        self._lines = 0
        self._writer: JsonlWriter | None = None
        self._loaded = False

    def knows(self, key: str) -> bool:
        self._load()
        return key in self._known

    def add(self, key: str, *, lasting: bool) -> None:
        """Remember a message; what is not lasting is forgotten with the process."""
        self._load()
        if key in self._known:
            return
        self._known[key] = None
        while len(self._known) > self._most:
            self._known.popitem(last=False)
        if not lasting:
            return
        if self._lines >= 2 * self._most:
            self._shrink()
        if self._writer is None:
            ensure_dir(self._path.parent)
            self._writer = JsonlWriter.open(self._path)
        # The inbox holds what was accepted; losing this line to a power cut costs one look there.
        self._writer.append(key, durable=False)
        self._lines += 1

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        if not self._path.exists():
            return
        for line in read_lines(self._path):
            self._lines += 1
            if isinstance(line.value, str):
                self._known[line.value] = None
                if len(self._known) > self._most:
                    self._known.popitem(last=False)

    def _shrink(self) -> None:
        self.close()
        write_atomic(self._path, b"".join(encode(key) + b"\n" for key in self._known))
        self._lines = len(self._known)


class _Watched(Struct):
    events: deque[float]
    until: float = 0.0


class Pace:
    """Counts events in a sliding window, and closes for a while when there are too many."""

    def __init__(self, most: int = MAX_WATCHED) -> None:
        self._most = most
        self._watched: OrderedDict[tuple[str, ...], _Watched] = OrderedDict()

    def __len__(self) -> int:
        return len(self._watched)

    def passes(self, key: tuple[str, ...], now: float, events: int, seconds: float, pause: float) -> tuple[bool, bool]:
        """Count one event and return whether it passes, and whether it is the one that closed the door."""
        held = self._watched.setdefault(key, _Watched(deque()))
        self._watched.move_to_end(key)
        if len(self._watched) > self._most:
            self._watched.popitem(last=False)
        if now < held.until:
            return False, False
        while held.events and now - held.events[0] >= seconds:
            held.events.popleft()
        held.events.append(now)
        if len(held.events) <= events:
            return True, False
        held.events.clear()
        held.until = now + pause
        return False, True


def loop_rules(account: Account, rules: ChatRules, defaults: ChannelDefaults) -> LoopGuard:
    """Return the guard against bots that answer each other: key by key, the narrowest word counts."""
    own = rules.last(lambda chat: chat.bot_loop_protection)
    layers = [*([own] if own else []), account.settings.bot_loop_protection, defaults.bot_loop_protection, _LOOP]
    return LoopGuard(
        next(layer.enabled for layer in layers if layer.enabled is not None),
        next(layer.max_events_per_window for layer in layers if layer.max_events_per_window is not None),
        next(layer.window_seconds for layer in layers if layer.window_seconds is not None),
        next(layer.cooldown_seconds for layer in layers if layer.cooldown_seconds is not None),
    )
