"""A cache that cannot grow without end: the least recently used entry goes first. Nothing durable lives here."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar, overload

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
D = TypeVar("D")


class BoundedCache(Generic[K, V]):
    """At most `max_entries` entries and, with `size_of`, at most `max_bytes` bytes; safe to share between threads."""

    def __init__(
        self, max_entries: int, max_bytes: int | None = None, size_of: Callable[[V], int] | None = None
    ) -> None:
        if max_entries < 1 or (max_bytes is not None and size_of is None):
            raise ValueError("a cache holds at least one entry, and a limit in bytes needs size_of")
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._size_of = size_of or (lambda _value: 0)
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: D) -> V | D: ...
    def get(self, key: K, default: D | None = None) -> V | D | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return default
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: K, value: V) -> None:
        """Keep a value; one that alone is over the limit is not kept, and its old value goes too."""
        size = self._size_of(value)
        with self._lock:
            self._drop(key)
            if self._max_bytes is not None and size > self._max_bytes:
                return
            self._entries[key] = (value, size)
            self._bytes += size
            while len(self._entries) > self._max_entries or (
                self._max_bytes is not None and self._bytes > self._max_bytes
            ):
                self._drop(next(iter(self._entries)))

    def pop(self, key: K) -> V | None:
        with self._lock:
            return self._drop(key)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._bytes = 0

    @property
    def bytes(self) -> int:
        return self._bytes

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def _drop(self, key: K) -> V | None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self._bytes -= entry[1]
        return entry[0]
