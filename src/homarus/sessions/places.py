"""Where transcripts lie (files, archives, databases of other programs), and who may write one: one process at a time.

Finding them changes nothing. Our own lock is the kernel's and dies with its process. OpenClaw's is a file that names a pid:
it counts while that very process lives, however old it is, and no longer.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from msgspec import Struct

from homarus.core.clock import epoch_ms, iso_ms
from homarus.core.errors import Locked, Unknown
from homarus.core.patterns import late
from homarus.core.text import single_line
from homarus.sessions.codec import to_ms
from homarus.sessions.database import AgentDatabase
from homarus.sessions.log import Transcript, identify, opened, session_id_of
from homarus.storage.faults import beside
from homarus.storage.locks import POLL, OwnerLock, held_paths, holder, is_alive
from homarus.storage.record import decode

INDEX = "sessions.json"
_ARCHIVE = late(r".+\.jsonl\.(reset|deleted)\..+?(\.zst)?", re.DOTALL)
# What OpenClaw keeps beside transcripts under a name that looks like one.
_BESIDE = (".trajectory.", ".checkpoint.")
_PURPOSE = "purpose"  # only our own lock files have it
WORK = "doing"
_SAFE_ID = late(r"[^/\\\x00-\x1f]{1,200}")


class Kind(StrEnum):
    FILE = "file"
    ARCHIVE = "archive"
    DATABASE = "database"


class Place(Struct, frozen=True):
    agent_id: str
    session_id: str
    kind: Kind
    path: Path

    @property
    def label(self) -> str:
        return f"{self.path.name}#{self.session_id}" if self.kind is Kind.DATABASE else self.path.name


LABEL = "session_info"  # the entry that says what a conversation was called when it was put away
_LAST_LINE = 4096


class Called(Struct, frozen=True):
    """What an archived conversation was called: the label that a person gave it, and its key."""

    label: str = ""
    key: str = ""


def archived_as(place: Place) -> Called:
    """Return what an archived conversation was called; it is its last line. Only a plain file is looked into."""
    if place.kind is not Kind.ARCHIVE or place.path.suffix == ".zst":
        return Called()
    try:
        with place.path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_LINE))
            last = file.read().rstrip(b"\n").rpartition(b"\n")[2]
    except OSError:
        return Called()
    value: Any = decode(last)[0]
    if not isinstance(value, dict) or value.get("type") != LABEL:
        return Called()
    label, key = value.get("name"), value.get("key")
    return Called(*(single_line(text) if isinstance(text, str) else "" for text in (label, key)))


class Visits:
    """Opens one transcript after another for reading; a database that holds many of them is opened once."""

    def __init__(self) -> None:
        self._databases: dict[Path, AgentDatabase] = {}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def database(self, path: Path) -> AgentDatabase:
        if path not in self._databases:
            self._databases[path] = self._open.enter_context(AgentDatabase(path))
        return self._databases[path]

    @contextmanager
    def visit(self, place: Place) -> Iterator[Transcript]:
        if place.kind is not Kind.DATABASE:
            with opened(place.path) as source:
                yield source
            return
        import tempfile

        with tempfile.TemporaryDirectory(prefix="homarus-read-", ignore_cleanup_errors=True) as folder:
            plain = Path(folder, "transcript.jsonl")
            with plain.open("wb") as file:
                for line in self.database(place.path).lines(place.session_id):
                    file.write(line + b"\n")
            yield identify(plain)


@contextmanager
def visit(place: Place) -> Iterator[Transcript]:
    with Visits() as visits, visits.visit(place) as source:
        yield source


def transcript_name(session_id: str, thread: str = "") -> str:
    if not _SAFE_ID.fullmatch(session_id) or session_id in {".", ".."} or session_id.startswith("."):
        raise Unknown(f"{session_id!r} cannot be a session id", cure="use letters, digits and dashes")
    return f"{session_id}-topic-{quote(thread, safe='')}.jsonl" if thread else f"{session_id}.jsonl"


def transcript_path(folder: Path, session_id: str, session_file: str | None = None, thread: str = "") -> Path:
    """Return where a session's transcript lies, or will: also after the home was moved, and never outside of it."""
    fresh = folder / transcript_name(session_id, thread)
    candidates = [fresh, folder / transcript_name(session_id)]
    named = Path(session_file) if session_file else None
    if named and named.suffix == ".jsonl":
        inside = folder.parent.parent in named.parents and ".." not in named.parts
        candidates = [folder / named.name, *([named] if inside else []), *candidates]
    return next((path for path in dict.fromkeys(candidates) if path.is_file()), fresh)


def files_in(folder: Path, agent_id: str) -> Iterator[Place]:
    """Yield every transcript file and archive in an agent's folder, in the order of their names."""
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    except OSError:
        return
    for name in names:
        path = folder / name
        if any(mark in name for mark in _BESIDE):
            continue
        if name.endswith(".jsonl"):
            yield Place(agent_id, session_id_of(path), Kind.FILE, path)
        elif _ARCHIVE.fullmatch(name):
            yield Place(agent_id, session_id_of(path), Kind.ARCHIVE, path)


def own(
    path: Path,
    now: datetime,
    *,
    purpose: str = "session",
    wait: float = 0.0,
    sleep: Callable[[float], None] = time.sleep,
) -> OwnerLock:
    """Take the right to write a file, or raise `Locked` with the pid of its owner and what to do about it."""
    lock = beside(path, ".lock")
    left = max(1, int(wait / POLL))
    while (pid := _foreign_owner(lock)) is not None:
        left -= 1
        if left <= 0:
            cure = f"stop process {pid} (an OpenClaw gateway?), or wait until it ends"
            raise Locked(f"{path} is being written by process {pid}", pid=pid, cure=cure, ours=False)
        sleep(POLL)
    # OpenClaw reads `createdAt` in the lock of a transcript and `startedAt` in that of the index.
    return OwnerLock.acquire(
        lock, purpose=f"{purpose} {path.name}", now=now, extra={"createdAt": iso_ms(now)}, wait=wait, sleep=sleep
    )


def owner_of(path: Path) -> int | None:
    """Return the pid of the process that may write a file now, or None when nobody holds it. Changes nothing."""
    lock = beside(path, ".lock")
    held = holder(lock)
    if held is not None:
        pid = held.get("pid")
        return pid if isinstance(pid, int) else -1
    return _foreign_owner(lock)


def work_at(path: Path) -> str:
    """Return what the owner of a file says that it does there besides turns; nothing where it says nothing."""
    held = holder(beside(path, ".lock")) or {}
    doing = held.get(WORK)
    return single_line(doing, 60) if isinstance(doing, str) else ""


def is_held_here(path: Path) -> bool:
    """Say whether it is this process that may write a file now, by whatever name its folder is reached."""
    lock = os.path.realpath(beside(path, ".lock"))
    return any(os.path.realpath(held) == lock for held in held_paths())


def _foreign_owner(lock: Path) -> int | None:
    try:
        content: Any = decode(lock.read_bytes()[:65536])[0]
    except OSError:
        return None
    if not isinstance(content, dict) or _PURPOSE in content:
        return None
    pid = content.get("pid")
    if not isinstance(pid, int) or pid <= 0 or pid == os.getpid() or not is_alive(pid):
        return None
    made = to_ms(content.get("createdAt")) or to_ms(content.get("startedAt")) or to_ms(content.get("acquiredAt"))
    started = _process_start(pid)
    # A process that began after the lock was made is another one that got the same number.
    return None if made and started and started > made + 2000 else pid


def _process_start(pid: int) -> int:
    """Return when a process began, in milliseconds since 1970; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        boot = next(
            int(line.split()[1])
            for line in Path("/proc/stat").read_text(encoding="utf-8").splitlines()
            if line.startswith("btime ")
        )
        seconds = boot + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration):
        return 0
    return epoch_ms(datetime.fromtimestamp(seconds, UTC))
