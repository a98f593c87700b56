"""Reading a transcript file in any form, from its tail where that is enough. Writing one is `writer`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec import Struct

from homarus.core.errors import StorageError
from homarus.sessions.branch import Node, Nodes, Tail, cut, forget_old_images, walk_tail
from homarus.sessions.codec import Json
from homarus.sessions.entry import KNOWN_TYPES, NEWEST_READABLE, Entry, Header, new_header, salvage, to_entry, to_header
from homarus.storage.faults import Missing, explained
from homarus.storage.jsonl import Line, read_lines, read_lines_reversed
from homarus.storage.record import decode

# How much of a branch without any boundary is held in memory, in characters that a model sees: no request to a model
# with 200,000 tokens holds more. A caller with a larger model asks for more.
WINDOW = 800_000
# A long window is allowed: archives of large transcripts are packed with one.
_MAX_WINDOW_LOG = 31
# How far into a file its first readable line is looked for before the file counts as damaged.
_PROBE_LINES = 64


class Form(StrEnum):
    EMPTY = "empty"
    TREE = "tree"
    HEADLESS = "headless"
    OLD = "old"
    FLAT = "flat"
    CORRUPT = "corrupt"


class Transcript(Struct, frozen=True):
    path: Path
    form: Form
    header: Header

    @property
    def native(self) -> bool:
        return self.form in {Form.TREE, Form.HEADLESS}

    @property
    def appendable(self) -> bool:
        """Say whether an entry can be appended to the file as it stands."""
        return self.form is Form.TREE and self.header.version <= NEWEST_READABLE


def identify(path: Path) -> Transcript:
    """Look at the beginning of a file and say what it is; a missing file is an empty one."""
    unnamed = new_header(session_id_of(path), "", "")
    seen = False
    try:
        for number, line in enumerate(read_lines(path)):
            seen = True
            for value in _values(line):
                if header := to_header(value):
                    return Transcript(path, Form.TREE if header.version >= 3 else Form.OLD, header)
                if "type" not in value and isinstance(value.get("role"), str):
                    return Transcript(path, Form.FLAT, unnamed)
                if str(value.get("type")) in KNOWN_TYPES or to_entry(value):
                    return Transcript(path, Form.HEADLESS if to_entry(value) else Form.OLD, unnamed)
            if number >= _PROBE_LINES:
                break
    except Missing:
        pass
    return Transcript(path, Form.CORRUPT if seen else Form.EMPTY, unnamed)


def session_id_of(path: Path) -> str:
    """Return the session id that a transcript's file name carries, archives and topics included."""
    name = path.name
    for mark in (".jsonl", ".json"):
        name = name.partition(mark)[0]
    return name.rpartition("-topic-")[0] or name


def read_entries(source: Transcript) -> Iterator[Entry]:
    """Yield every readable entry in the order of the file, branches and all."""
    if source.native:
        for line in read_lines(source.path, decoded=False):
            yield from to_entries(line)
    elif source.form in {Form.OLD, Form.FLAT}:
        from homarus.sessions.legacy import upgrade

        rows = [value for line in read_lines(source.path) for value in _values(line)]
        yield from (entry for row in upgrade(rows) if (entry := to_entry(row)))


def load_tail(source: Transcript, *, limit: int = WINDOW, lean: bool = False) -> Tail:
    """Return the newest part of the branch, as much of it as the context needs; `lean` leaves out the bytes of messages.

    The cost depends on the distance to the last boundary (or on `limit`), not on the size of the file.
    """
    if not source.native:
        held = list(read_entries(source))
        nodes, complete = cut(Nodes(held).resolve(), limit)
        return Tail(tuple(forget_old_images([held[node.index] for node in nodes])), complete)
    lines = read_lines_reversed(source.path, decoded=False)
    tail = walk_tail(_newest_first(lines, lean=lean), limit=limit)
    if tail is not None:
        return tail
    nodes, complete = cut(Nodes(read_entries(source)).resolve(), limit)
    return Tail(tuple(forget_old_images(list(_pick(source, nodes)))), complete)


def load_branch(source: Transcript) -> Iterator[Entry]:
    """Yield the whole active branch, oldest entry first; of a healthy file one entry at a time is in memory."""
    if source.native:
        yield from _pick(source, Nodes(read_entries(source)).resolve())
    else:
        held = list(read_entries(source))
        yield from (held[node.index] for node in Nodes(held).resolve())


def damaged_lines(path: Path) -> Iterator[Line]:
    return (line for line in read_lines(path) if not isinstance(line.value, dict))


@contextmanager
def opened(path: Path) -> Iterator[Transcript]:
    """Identify a transcript that may be compressed; a compressed one is unpacked beside nothing of the user's."""
    if path.suffix != ".zst":
        yield identify(path)
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="homarus-read-", ignore_cleanup_errors=True) as folder:
        plain = Path(folder, path.name.removesuffix(".zst"))
        unpack(path, plain)
        yield identify(plain)


def unpack(path: Path, target: Path) -> None:
    """Write the plain content of a `.zst` file; a damaged one is an error, never half a transcript."""
    zstd = _zstd()
    with explained("unpack", path), path.open("rb") as packed, target.open("wb") as plain:
        try:
            left = b""
            while block := left or packed.read(1 << 20):
                frame = decompressor()
                while block:
                    plain.write(frame.decompress(block))
                    block = b"" if frame.eof else packed.read(1 << 20)
                if not frame.eof:
                    raise StorageError(f"cannot unpack {path}: its end is missing", cure="restore it from a backup")
                left = frame.unused_data
        except zstd.ZstdError as error:
            raise StorageError(f"cannot unpack {path}: {error}", cure="restore this archive from a backup") from error


def decompressor() -> Any:
    """Return a decompressor of one frame of Zstandard: `decompress(block)`, `eof` and `unused_data`."""
    zstd = _zstd()
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _MAX_WINDOW_LOG})


def decompress_whole(data: bytes) -> bytes:
    """Return the content of data that is one frame; raise `ValueError` where it is damaged or cut."""
    frame = decompressor()
    try:
        plain: bytes = frame.decompress(data)
    except _zstd().ZstdError as error:
        raise ValueError(str(error)) from error
    if not frame.eof:
        raise ValueError("its end is missing")
    return plain


def _zstd() -> Any:
    # In the standard library from Python 3.14 on, and from its backport before that.
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def _values(line: Line) -> list[Json]:
    if isinstance(line.value, dict):
        return [line.value]
    return salvage(line.raw) if line.value is None else []


def to_entries(line: Line, *, lean: bool = False) -> list[Entry]:
    """Return the entries in a line of a tree: one, none, or what is whole in a damaged line."""
    value = decode(line.raw)[0]
    if isinstance(value, dict):
        entry = to_entry(value, line.raw, line.offset, lean=lean)
        return [entry] if entry else []
    found = salvage(line.raw) if value is None else []
    return [entry for value in found if (entry := to_entry(value, offset=line.offset))]


def _newest_first(lines: Iterable[Line], *, lean: bool) -> Iterator[Entry]:
    for line in lines:
        yield from reversed(to_entries(line, lean=lean))


def _pick(source: Transcript, path: list[Node]) -> Iterator[Entry]:
    """Read the entries of these nodes, in the order of the nodes."""
    ordered = all(before.offset < after.offset for before, after in pairwise(path))
    wanted = {(node.offset, node.id) for node in path}
    start = min((node.offset for node in path), default=0)
    found = (
        entry
        for line in read_lines(source.path, start=start, decoded=False)
        for entry in to_entries(line)
        if (entry.offset, entry.id) in wanted
    )
    if ordered:
        yield from found
    else:
        held = {(entry.offset, entry.id): entry for entry in found}
        yield from (held[node.offset, node.id] for node in path if (node.offset, node.id) in held)
