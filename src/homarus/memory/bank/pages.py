"""Read and write the pages that people and the program share: one writer at a time, never through a link, whole or not at all."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from homarus.core.errors import StorageError
from homarus.storage.atomic import ensure_dir
from homarus.storage.boundary import BoundaryError, Root

MAX_PAGE = 16 << 20


def change(workspace: Path, name: str, work: Callable[[str], str]) -> bool:
    """Replace a page by what `work` makes of its text (empty where there is none); False when that is the same.

    Two who change pages at once, in this process or another, do so one after the other: nobody's line is lost. Bytes
    that are no UTF-8 survive.
    """
    place = (workspace / name).parent
    ensure_dir(place, mode=0o755)
    with Root(workspace) as root:
        folder = root.open(Path(name).parent.as_posix(), os.O_RDONLY | os.O_DIRECTORY, follow="never")
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            before = _read(root, name)
            after = work(before.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
            if after == before:
                return False
            root.write(name, after, mode=0o644)
        finally:
            # Said, not left to closing: a process forked meanwhile holds a copy of the descriptor, and the lock with it.
            fcntl.flock(folder, fcntl.LOCK_UN)
            os.close(folder)
    return True


def _read(root: Root, name: str) -> bytes:
    try:
        fd = root.open(name, os.O_RDONLY, follow="never")
    except BoundaryError as problem:
        if problem.kind == "missing":
            return b""
        raise
    with open(fd, "rb") as handle:  # noqa: PTH123 - a descriptor, not a path
        data = handle.read(MAX_PAGE + 1)
    if len(data) > MAX_PAGE:
        raise StorageError(f"{name} is larger than {MAX_PAGE >> 20} MB", cure="move older parts into another note")
    return data
