"""Files that are too large for memory, on their way from a home's folder into the object store."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from homarus.core.errors import StorageError
from homarus.fleet.transfer import pieces_of
from homarus.storage.faults import shown

STREAMED = 8 << 20  # what is larger is never held in memory as a whole


class Objects(Protocol):
    """Large contents by their SHA-256. `put` of what is there already does nothing."""

    def put(self, name: str, data: bytes) -> None: ...
    def get(self, name: str) -> bytes: ...
    def put_pieces(self, name: str, pieces: Iterable[bytes]) -> None: ...
    def get_pieces(self, name: str) -> Iterable[bytes]: ...


class Uploads:
    """Sends large files. What was sent ahead, while nobody waited, is not sent again as long as the file is the same."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._ahead: dict[str, tuple[tuple[int, ...], bytes | StorageError]] = {}
        self._lock = threading.Lock()

    def ahead(self, folder: Path, paths: Iterable[str]) -> None:
        """Send files before their home stands still for it. That one could not be sent is said when its row is asked for."""
        for path in paths:
            try:
                fd = os.open(folder / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
            except OSError:
                continue
            try:
                before = os.fstat(fd)
                found: bytes | StorageError
                try:
                    found = self._send(path, fd, before.st_size)
                except StorageError as problem:
                    found = problem
                if _state(before) == _state(os.fstat(fd)):
                    with self._lock:
                        self._ahead[path] = (_state(before), found)
            finally:
                os.close(fd)

    def digest(self, path: str, fd: int, found: os.stat_result) -> bytes:
        """Return the SHA-256 of an open file whose content is in the store now."""
        with self._lock:
            state, sent = self._ahead.pop(path, ((), b""))
        if state != _state(found):
            return self._send(path, fd, found.st_size)
        if isinstance(sent, StorageError):
            raise sent
        return sent

    def done(self) -> None:
        """Forget what was sent ahead and is not wanted any more."""
        with self._lock:
            self._ahead.clear()

    def _send(self, path: str, fd: int, size: int) -> bytes:
        # It is read twice, and must be the same both times.
        digest, second = hashlib.sha256(), hashlib.sha256()
        for piece in pieces_of(fd, size):
            digest.update(piece)

        def reread() -> Iterator[bytes]:
            for piece in pieces_of(fd, size):
                second.update(piece)
                yield piece
            if second.digest() != digest.digest():  # nothing is kept then, and it is tried again
                raise StorageError(f"{shown(path)} changes while it is read")

        self._objects.put_pieces(digest.hexdigest(), reread())
        return digest.digest()


def _state(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
