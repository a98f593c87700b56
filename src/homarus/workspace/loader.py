"""Read the standard files of a workspace: guarded, cached by fingerprint, never failing. What is shown is `inject`'s matter.

A file that cannot be read does not end a turn: it becomes a `WorkspaceFile` that says why, and one line in the log.
"""

from __future__ import annotations

import codecs
import logging
import os
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from homarus.core.clock import Clock, SystemClock, epoch_ms
from homarus.core.errors import StorageError
from homarus.core.patterns import late
from homarus.core.text import neutralize, single_line
from homarus.storage.boundary import Guarded, Root
from homarus.storage.cache import BoundedCache
from homarus.workspace import names
from homarus.workspace.settings import MAX_FILE_BYTES

# A file system's clock ticks slowly: two writes within a tick leave the same times. So a file that changed this recently
# is read again next time, whatever its fingerprint says.
_TICK_MS = 100
MAX_SECTION_CHARS = 1_800
_SECTION = late(r"(#{1,3})[ \t]+(.+?)[ \t]*#*[ \t]*")
_NULS = late("\x00+")
_log = logging.getLogger("homarus.workspace")


class WorkspaceFile(Struct, frozen=True):
    """One file as it was read: its text, or why there is none.

    `fingerprint` is of the read that gave this text. `beyond` counts bytes past the size cap, which were never read.
    `last` puts a file behind all others in a prompt, whatever its name.
    """

    name: str
    path: str
    content: str | None = None
    missing: bool = False
    unreadable: str = ""
    raw_chars: int = 0
    fingerprint: str = ""
    beyond: int = 0
    last: bool = False

    @property
    def realpath(self) -> str:
        """Return where the text really lies; a link inside the workspace may point there."""
        return self.fingerprint.rpartition("|")[0] or self.path

    @property
    def inode(self) -> tuple[str, str] | None:
        """Return device and inode, by which two names for one file are told."""
        parts = self.fingerprint.rpartition("|")[2].split(":")
        return (parts[0], parts[1]) if len(parts) > 1 else None

    def same_text(self, other: WorkspaceFile) -> bool:
        """Say whether a prompt made from either would be the same; a touched file is still the same text."""
        return self is other or replace(self, fingerprint="") == replace(other, fingerprint="")


class WorkspaceLoader:
    """Reads workspaces, and remembers texts by fingerprint and the last result by workspace."""

    def __init__(
        self,
        *,
        open_root: Callable[[Path], Root] = Root,
        warn: Callable[[str], None] = _log.warning,
        keep: int = 64,
        clock: Clock | None = None,
    ) -> None:
        self._open_root = open_root
        self._clock = clock or SystemClock()
        self._warn = warn
        self._texts: BoundedCache[str, WorkspaceFile] = BoundedCache(
            16 * keep, 64 * 1024 * 1024, lambda file: len(file.content or "")
        )
        self._snapshots: BoundedCache[str, tuple[WorkspaceFile, ...]] = BoundedCache(keep)
        self._warned: BoundedCache[str, bool] = BoundedCache(16 * keep)

    def load(self, workspace: Path) -> tuple[WorkspaceFile, ...]:
        """Return the standard files; the same tuple object as last time when no text changed."""
        found = self._read_all(workspace, names.LOADED)
        key = str(workspace)
        last = self._snapshots.get(key)
        if last is not None and len(last) == len(found) and all(map(WorkspaceFile.same_text, last, found)):
            return last
        self._snapshots.put(key, found)
        return found

    def read(self, workspace: Path, wanted: Iterable[str]) -> tuple[WorkspaceFile, ...]:
        """Return further files by their names relative to the workspace, with the same guards and the same cache."""
        with_names = tuple(wanted)
        return self._read_all(workspace, with_names) if with_names else ()

    def forget(self, workspace: Path) -> None:
        """Drop the remembered result, so that the next load is a new object: a session rolled over."""
        self._snapshots.pop(str(workspace))

    def _read_all(self, workspace: Path, wanted: tuple[str, ...]) -> tuple[WorkspaceFile, ...]:
        try:
            root = self._open_root(workspace)
        except StorageError as problem:
            return tuple(
                self._failed(name, workspace, problem)
                for name in wanted
                if name not in (names.MEMORY, names.MEMORY_LOWER)
            )
        with root:
            found = [self._read_one(root, name, f"{workspace}/{name}") for name in wanted]
            return tuple(_without_alias(found, root))

    def _failed(self, name: str, workspace: Path, problem: StorageError) -> WorkspaceFile:
        path = f"{workspace}/{name}"
        if not os.path.lexists(workspace):
            return WorkspaceFile(name, path, missing=True)
        return self._unreadable(name, path, problem.message)

    def _read_one(self, root: Root, name: str, path: str) -> WorkspaceFile:
        fresh = name == names.HEARTBEAT
        known = None if fresh else self._texts.get(path)
        if known is not None:
            if root.is_still(name, known.fingerprint):
                return known
            seen = root.fingerprint(name)
            if seen.kind == "ok" and seen.fingerprint == known.fingerprint:
                return known
        elif root.lacks(name):
            return WorkspaceFile(name, path, missing=True)
        got = root.read(name, max_bytes=MAX_FILE_BYTES)
        if got.kind == "missing":
            return WorkspaceFile(name, path, missing=True)
        if got.kind != "ok":
            return self._unreadable(name, path, got.reason)
        file = self._decoded(name, path, got)
        if fresh or self._is_young(got.fingerprint):
            self._texts.pop(path)
        else:
            self._texts.put(path, file)
        return file

    def _is_young(self, fingerprint: str) -> bool:
        changed_ms = int(fingerprint.rpartition(":")[2]) // 1_000_000
        return epoch_ms(self._clock.now()) - changed_ms < _TICK_MS

    def _decoded(self, name: str, path: str, got: Guarded) -> WorkspaceFile:
        text = decode(got)
        if b"\x00" in got.data:
            self._warn_once(path, got.fingerprint, "holds NUL bytes; each run of them shows as one \ufffd")
        elif "\ufffd" in text and "\ufffd".encode() not in got.data:
            self._warn_once(path, got.fingerprint, "is not all UTF-8; what is not shows as \ufffd")
        beyond = max(0, got.size - len(got.data)) if got.truncated else 0
        if beyond:
            self._warn_once(path, got.fingerprint, f"is over {MAX_FILE_BYTES:,} bytes; the rest is left out")
        return WorkspaceFile(name, path, text, raw_chars=len(text.rstrip()), fingerprint=got.fingerprint, beyond=beyond)

    def _unreadable(self, name: str, path: str, reason: str) -> WorkspaceFile:
        reason = single_line(reason, 300)
        self._warn_once(path, reason, f"cannot be read: {reason}")
        return WorkspaceFile(name, path, unreadable=reason)

    def _warn_once(self, path: str, state: str, text: str) -> None:
        """Log a problem once per state of the file, not once a turn."""
        key = f"{path}\n{state}\n{text}"
        if key not in self._warned:
            self._warned.put(key, True)
            self._warn(f"{single_line(path, 500)} {text}")


def decode(got: Guarded) -> str:
    """Return the text of a guarded read: whatever the bytes are, it is text without NUL characters and without a BOM.

    An unfinished character at the cap is left out; anywhere else it is an error that shows as a replacement.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(got.data, final=not got.truncated).removeprefix("\ufeff")
    return _NULS.sub("\ufffd", text) if "\x00" in text else text


def read_sections(workspace: Path, headings: Iterable[str], today: date) -> str:
    """Return what AGENTS.md says under these headings of the second or third level, in the order of the file, bounded."""
    wanted = {heading.strip().lstrip("#").strip().casefold() for heading in headings}
    try:
        with Root(workspace) as root:
            got = root.read(names.AGENTS, max_bytes=MAX_FILE_BYTES)
    except StorageError:
        return ""
    taken: list[str] = []
    depth, fenced = 0, False
    for line in decode(got).splitlines() if got.kind == "ok" else ():
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        heading = None if fenced else _SECTION.fullmatch(line)
        if heading and (not depth or len(heading[1]) <= depth):
            depth = len(heading[1]) if heading[2].rstrip(":").casefold() in wanted and len(heading[1]) > 1 else 0
        if depth:
            taken.append(line)
    text = neutralize("\n".join(taken).strip().replace("YYYY-MM-DD", today.isoformat()))
    return text if len(text) <= MAX_SECTION_CHARS else text[: MAX_SECTION_CHARS - 1].rstrip() + "…"


def _without_alias(found: list[WorkspaceFile], root: Root) -> list[WorkspaceFile]:
    """Leave out the absent memory files, and one of two names for the same file.

    On a disk that ignores case, `MEMORY.md` opens a file that is really called `memory.md`. The folder's own listing
    tells which of the two names is real; it is asked only when both names lead to one file.
    """
    memory = {file.name: file for file in found if file.name in (names.MEMORY, names.MEMORY_LOWER)}
    gone = {name for name, file in memory.items() if file.missing}
    if len(memory) == 2 and not gone:
        upper, lower = memory[names.MEMORY], memory[names.MEMORY_LOWER]
        if upper.inode is not None and upper.inode == lower.inode:
            gone.add(names.MEMORY_LOWER if names.MEMORY in root.listdir() else names.MEMORY)
    return [file for file in found if file.name not in gone]
