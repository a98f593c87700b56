"""The durable inbox of one session: what was accepted is on disk before anybody is told so, until its turn is over.

One JSONL file per session, written only by the owner of that session's lane. A message that a crash left in here was
either not begun (its key is not in the transcript) or its turn was cut off (its key is).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from homarus.core.routes import SessionKey
from homarus.core.text import slug
from homarus.queue.collect import Queued
from homarus.storage.atomic import ensure_dir, write_atomic
from homarus.storage.jsonl import JsonlWriter, read_lines

MAX_BYTES = 1 << 20
MAX_SETTLED = 5000
# How often the turn of a message goes on after the process that ran it was gone. Machines fail in a row, and that is no
# fault of a turn; one that ends its process itself must not do so for ever.
MAX_RESUMES = 3


def inbox_path(folder: Path, key: SessionKey) -> Path:
    """Return a session's inbox file: readable for people, and unique by the digest of the whole key."""
    return folder / inbox_name(str(key))


@lru_cache(1024)
def inbox_name(key: str) -> str:
    return f"{slug(key, 60)}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.jsonl"


class Inbox:
    """Accepted messages of one session. A key is accepted once, also when the platform sends it again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pending: dict[str, Queued] = {}
        self._dropped: dict[str, Queued] = {}
        self._settled: dict[str, None] = {}
        self._resumed: Counter[str] = Counter()
        self._writer: JsonlWriter | None = None
        self._foreign = False
        self._least = 0  # bytes that the last clean-up could not save
        if path.exists():
            self._replay()

    @property
    def pending(self) -> tuple[Queued, ...]:
        """Return what was accepted and not settled, oldest first."""
        return tuple(self._pending.values())

    def knows(self, key: str) -> bool:
        return key in self._pending or key in self._settled or key in self._dropped

    def accept(self, item: Queued) -> bool:
        """Make a message durable and return True, or return False when it was accepted before."""
        if self.knows(item.key):
            return False
        self._append({"accepted": msgspec.to_builtins(item)}, durable=True)
        self._pending[item.key] = item
        return True

    @property
    def dropped(self) -> tuple[Queued, ...]:
        """Return what gave way to later messages and of which nobody was told yet, oldest first."""
        return tuple(self._dropped.values())

    def drop(self, *keys: str) -> None:
        """Note that messages gave way; they stay until somebody is told. A lost note only means that they are answered."""
        for key in keys:
            if (item := self._pending.pop(key, None)) is not None:
                self._dropped[key] = item
                self._append({"dropped": key}, durable=False)

    def settle(self, *keys: str) -> None:
        """Note that the turn of these messages is over (or that they were dropped, and that was said).

        The note need not be durable: losing it costs one look into the transcript, never a second answer.
        """
        for key in keys:
            if self._pending.pop(key, None) is not None or self._dropped.pop(key, None) is not None:
                self._remember(key)
                self._append({"settled": key}, durable=False)
        size = self._writer.size if self._writer is not None else 0
        if not (self._pending or self._dropped or self._foreign) and size > max(MAX_BYTES, 2 * self._least):
            self._shrink()

    def may_resume(self, *keys: str) -> bool:
        """Say whether the turn of these messages may go on: the one that came last was not cut off too often."""
        return min((self._resumed[key] for key in keys), default=0) < MAX_RESUMES

    def resume(self, *keys: str) -> bool:
        """Note durably that the turn of these messages goes on after a crash; False when it did so too often before."""
        if not self.may_resume(*keys):
            return False
        self._append({"resumed": list(keys)}, durable=True)
        self._resumed.update(keys)
        return True

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _append(self, record: dict[str, Any], *, durable: bool) -> None:
        if self._writer is None:
            ensure_dir(self._path.parent)
            self._writer = JsonlWriter.open(self._path)
        self._writer.append(record, durable=durable)

    def _remember(self, key: str) -> None:
        self._settled[key] = None
        while len(self._settled) > MAX_SETTLED:
            del self._settled[next(iter(self._settled))]

    def _replay(self) -> None:
        # By key, as it stands there: what was settled later, nearly all of it, need not be understood.
        accepted: dict[object, Any] = {}
        dropped: set[str] = set()
        for line in read_lines(self._path):
            record = line.value if isinstance(line.value, dict) else {}
            if "accepted" in record:
                item = record["accepted"]
                key = item.get("key") if isinstance(item, dict) else None
                accepted[key if isinstance(key, str) else len(accepted)] = item
            elif isinstance(record.get("settled"), str):
                accepted.pop(record["settled"], None)
                self._remember(record["settled"])
            elif isinstance(record.get("dropped"), str):
                dropped.add(record["dropped"])
            elif isinstance(record.get("resumed"), list):
                self._resumed.update(key for key in record["resumed"] if isinstance(key, str))
        for item in accepted.values():
            try:
                queued = msgspec.convert(item, Queued)
            except msgspec.ValidationError:
                self._foreign = True  # a later version's record: it stays until that version settles it
                continue
            (self._dropped if queued.key in dropped else self._pending)[queued.key] = queued

    def _shrink(self) -> None:
        """Write the file anew without history; the keys of what was settled stay, for platforms that repeat."""
        self.close()
        self._resumed.clear()
        content = b"".join(msgspec.json.encode({"settled": key}) + b"\n" for key in self._settled)
        write_atomic(self._path, content)
        self._least = len(content)
