"""Append-only files of one JSON record per line: one writer, readers from either end. What a record means is not known here."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import msgspec

from homarus.core.errors import StorageError
from homarus.storage.faults import (
    explain,
    explained,
    let_go,
    open_folder,
    refuse_special,
    shown,
    sync_data,
    sync_folder,
    write_all,
)
from homarus.storage.locks import wait_for
from homarus.storage.record import decode, encode
from homarus.storage.volume import NOWHERE, kept

MAX_LINE = 64 << 20
_BLOCK = 1 << 18
_BYTES = bytes | bytearray | memoryview
_NEWLINE = ord("\n")


class Line(msgspec.Struct, frozen=True):
    """One line as it stands in the file. `value` is None and `problem` says why when it is not a JSON record.

    With `decoded=False` a reader leaves both empty, for those who read the bytes in their own way.

    `torn` marks a last line without its newline: a crash cut it, or it is being written right now.
    """

    offset: int
    raw: bytes
    value: Any | None
    torn: bool = False
    problem: str = ""


class JsonlWriter:
    """The one writer of a file. A record is whole and (if asked) durable when `append` returns, or absent when it raised."""

    def __init__(self, path: Path, fd: int) -> None:
        self._path = path
        self._name = os.fspath(path)
        self._fd = fd
        self._lock = threading.Lock()
        found = os.fstat(fd)
        self._inode = found.st_dev, found.st_ino
        self._size = -1  # nothing known about the tail yet
        self._mode = found.st_mode & 0o7777
        self._elsewhere = kept(os.path.realpath(self._name))

    @classmethod
    def open(cls, path: Path, *, mode: int = 0o600, create: bool = True) -> JsonlWriter:
        """Open for appending in constant time, whatever the size. Nothing in the file changes by this."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        with explained("open", path):
            created = False
            try:
                fd = os.open(path, flags)
            except FileNotFoundError:
                if not create:
                    raise
                fd = os.open(path, flags | os.O_CREAT, mode)
                created = True
            try:
                refuse_special(os.fstat(fd), path)
                if created:
                    os.fchmod(fd, mode)  # whatever the umask says
                if os.fstat(fd).st_size == 0:  # new, or its creator was killed before its name was durable
                    with open_folder(os.path.dirname(os.path.realpath(path))) as folder:
                        sync_folder(folder)
                return cls(path.absolute(), fd)
            except BaseException:
                let_go(fd)
                raise

    @property
    def size(self) -> int:
        """Bytes in the file now."""
        if self._size >= 0:
            return self._size
        with explained("read", self._path):
            return os.fstat(self._fd).st_size

    def fileno(self) -> int:
        return self._fd

    @property
    def is_named(self) -> bool:
        try:
            named = os.stat(self._name)  # noqa: PTH116 - the path as text: this runs before every append
        except FileNotFoundError:
            return False
        return (named.st_dev, named.st_ino) == self._inode

    def append(self, record: Any, *, durable: bool = True) -> int:
        """Add one record (an object, or its JSON as bytes) and return the offset of its line."""
        return self._put(_line(record), durable)

    def append_many(self, records: Iterable[Any], *, durable: bool = True) -> list[int]:
        """Add records in one write: if it fails, none of them stays. Return the offsets of their lines."""
        lines = [_line(record) for record in records]
        if not lines:
            return []
        offsets, offset = [], self._put(b"".join(lines), durable)
        for line in lines:
            offsets.append(offset)
            offset += len(line)
        return offsets

    def _put(self, data: bytes, durable: bool) -> int:
        """Write whole lines at the end of the file, all or none, and return where they begin."""
        with self._lock:
            try:
                before = self._check()
                torn = before not in (0, self._size) and os.pread(self._fd, 1, before - 1) != b"\n"
                if torn:
                    data = b"\n" + data
                if self._elsewhere is NOWHERE:
                    self._write(data, before, durable)
                else:
                    with self._elsewhere as elsewhere:
                        elsewhere.append(before, data, self._mode, durable=durable)
                        self._write(data, before, False)  # durable it is there; this disk may forget
            except OSError as error:
                raise explain(error, "append to", self._path) from error
            self._size = before + len(data)
            return before + torn

    def _write(self, data: bytes, before: int, sync: bool) -> None:
        try:
            write_all(self._fd, data)
            if sync:
                sync_data(self._fd)
        except BaseException:
            self._take_back(before, len(data))
            raise

    def close(self) -> None:
        with self._lock, explained("close", self._path):
            fd, self._fd = self._fd, -1
            if fd >= 0:
                os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take_back(self, before: int, length: int) -> None:
        """Remove what a failed append left. Bytes beyond it are somebody else's and stay."""
        self._size = -1
        if os.fstat(self._fd).st_size <= before + length:
            os.ftruncate(self._fd, before)

    def _check(self) -> int:
        """Return the size, after making sure that the name still leads to this file: bytes in an orphan are lost bytes."""
        if self._fd < 0:
            raise StorageError(f"{shown(self._path)} was closed", cure="open it again")
        try:
            named = os.stat(self._name)  # noqa: PTH116 - the path as text: this runs before every append
        except FileNotFoundError:
            named = None
        if named is None or (named.st_dev, named.st_ino) != self._inode:
            what = "removed" if named is None else "replaced"
            raise StorageError(f"{shown(self._path)} was {what} while it was open", cure="open it again")
        return named.st_size


def append_shared(path: Path, *records: Any, mode: int = 0o600, durable: bool = True) -> None:
    """Add records to a file that several processes append to, and make it if need be.

    All of them come here, so that an append that fails takes back its own bytes only. Whoever replaces such a file does
    it inside `alone_with`.
    """
    while True:
        with JsonlWriter.open(path, mode=mode) as writer:
            wait_for(writer.fileno(), path)
            if writer.is_named:
                writer.append_many(records, durable=durable)
                return


@contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """Keep `append_shared` of every process out while this one reads what is in a file and replaces it."""
    while True:
        with JsonlWriter.open(path) as writer:
            wait_for(writer.fileno(), path)
            if writer.is_named:
                yield
                return


def _line(record: Any) -> bytes:
    raw = record if type(record) is bytes else bytes(record) if isinstance(record, _BYTES) else encode(record)
    if _NEWLINE in raw or not raw or raw.isspace():
        raise ValueError("a record in a JSONL file is one line that is not blank")
    if len(raw) > MAX_LINE:
        raise StorageError(f"a record of {len(raw)} bytes is longer than a line may be", cure="keep it in its own file")
    return raw + b"\n"


def _open_for_reading(path: Path) -> int:
    with explained("read", path):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            refuse_special(os.fstat(fd), path)
        except BaseException:
            let_go(fd)
            raise
        return fd


def _make(offset: int, raw: bytes, length: int, torn: bool, max_line: int, decoded: bool) -> Line | None:
    """Build a line from its bytes, or say that it was too long to load; blank lines are none."""
    if length > max_line:
        return Line(offset, b"", None, torn, f"a line of {length} bytes, longer than {max_line}")
    if not raw or raw.isspace():
        return None
    value, problem = decode(raw) if decoded else (None, "")
    return Line(offset, raw, value, torn, problem)


def read_lines(
    path: Path, *, start: int = 0, end: int | None = None, max_line: int = MAX_LINE, decoded: bool = True
) -> Generator[Line, None, None]:
    """Yield lines oldest first, from the line that begins at `start`, as if the file ended at `end`.

    Memory stays bounded by the longest line, and that by `max_line`: a longer one is reported, never loaded.
    """
    fd = _open_for_reading(path)
    try:
        offset = position = start  # of the current line, and of the next byte to read
        pieces: list[bytes] = []
        held = 0
        while True:
            want = _BLOCK if end is None else min(_BLOCK, end - position)
            with explained("read", path):
                block = os.pread(fd, want, position) if want > 0 else b""
            if not block:
                break
            position += len(block)
            *whole, rest = block.split(b"\n")
            for part in whole:
                pieces.append(part)
                length = held + len(part)
                line = _make(offset, b"".join(pieces) if length <= max_line else b"", length, False, max_line, decoded)
                pieces, held, offset = [], 0, offset + length + 1
                if line:
                    yield line
            held += len(rest)
            pieces.append(rest)
            if held > max_line:
                pieces.clear()
        last = _make(offset, b"".join(pieces) if held <= max_line else b"", held, True, max_line, decoded)
        if last:
            yield last
    finally:
        let_go(fd)


def read_lines_reversed(
    path: Path, *, end: int | None = None, block: int = 65536, max_line: int = MAX_LINE, decoded: bool = True
) -> Generator[Line, None, None]:
    """Yield the same lines newest first, reading blocks from the tail: the first line costs one block, not one file."""
    fd = _open_for_reading(path)
    try:
        size = os.fstat(fd).st_size
        position = size if end is None else min(end, size)
        finish = position  # where the current line ends
        torn = True  # until a newline is seen, the bytes at the end belong to a line without one
        pieces: list[bytes] = []  # of the current line, newest first
        held = 0
        while position > 0:
            want = min(block, position)
            with explained("read", path):
                chunk = os.pread(fd, want, position - want)
            if len(chunk) < want:
                raise StorageError(f"{shown(path)} was cut while it was read", cure="read it again")
            position -= want
            first, *whole = chunk.split(b"\n")
            for part in reversed(whole):
                held += len(part)
                pieces.append(part)
                raw = b"".join(reversed(pieces)) if held <= max_line else b""
                line = _make(finish - held, raw, held, torn, max_line, decoded)
                finish, pieces, held, torn = finish - held - 1, [], 0, False
                if line:
                    yield line
            held += len(first)
            pieces.append(first)
            if held > max_line:
                pieces.clear()
        line = _make(0, b"".join(reversed(pieces)) if held <= max_line else b"", held, torn, max_line, decoded)
        if line:
            yield line
    finally:
        let_go(fd)
