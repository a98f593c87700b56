"""Know without asking the disk whether a note may have changed. Where the kernel can tell (inotify), it is asked; else always yes."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec import Struct

from homarus.core.errors import installing
from homarus.memory.files import NoteSet

_EVENTS = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800  # modify … move_self, create, delete
_FOLDERS = 0x40000000 | 0x4000 | 0x8000 | 0x400 | 0x800  # is a folder, overflow, watch gone, self gone, self moved
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_MAX_WATCHES = 100_000  # the kernel's own limit is usually lower, and then it says so
NOBODY = f"nobody ({installing('homarus[memory]')} brings watchfiles); every search looks at the files itself"


class News(Struct):
    """What was queued: names of files, and whether folders came, went or may have."""

    names: set[str]
    folders: bool = False

    def __bool__(self) -> bool:
        return bool(self.names) or self.folders


class Notices:
    """An open watch over some folders, not over what lies below them. `fd` is readable when there is news."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def open(cls, folders: Sequence[Path]) -> Notices | None:
        """Watch these folders; None where the kernel cannot, or would not hear of every change."""
        library = _libc()
        if library is None or not folders or len(folders) > _MAX_WATCHES or any(map(_remote, folders[:1])):
            return None
        fd = library.inotify_init1(_FLAGS)
        if fd < 0:
            return None
        for folder in folders:
            if library.inotify_add_watch(fd, os.fsencode(folder), _EVENTS) < 0:
                os.close(fd)
                return None
        return cls(fd)

    def read(self) -> News:
        """Return all that is queued; never waits."""
        news = News(set())
        try:
            while data := os.read(self.fd, 65536):
                _take(data, news)
        except BlockingIOError:
            pass
        return news

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def way(folders: Sequence[Path]) -> str:
    """Say how a process that stays hears of changes in these folders: `kernel`, `watchfiles`, or why it does not."""
    if not folders:
        return "nobody: there is no folder with notes yet"
    notices = Notices.open(folders)
    if notices is not None:
        notices.close()
        return "kernel"
    return "watchfiles" if find_spec("watchfiles") else NOBODY


def _take(data: bytes, news: News) -> None:
    at = 0
    while at + 16 <= len(data):
        _, mask, _, length = struct.unpack_from("iIII", data, at)
        name = os.fsdecode(data[at + 16 : at + 16 + length].rstrip(b"\0"))
        news.names.add(name)
        news.folders = news.folders or bool(mask & _FOLDERS)
        at += 16 + length


def _libc() -> Any:
    if sys.platform != "linux":
        return None
    import ctypes

    try:
        library = ctypes.CDLL(None, use_errno=True)
        library.inotify_add_watch.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
    except (OSError, AttributeError):
        return None
    return library


def _remote(folder: Path) -> bool:
    """Say whether a folder lies on a file system that other machines can change without this kernel noticing."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return True
    place = os.path.realpath(folder)
    best, kind = "", ""
    for line in mounts:
        fields = line.split(" ")
        point = fields[1].replace("\\040", " ") if len(fields) > 2 else ""
        if point and (place == point or place.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind.startswith(("nfs", "cifs", "smb", "fuse", "9p", "afs", "ceph", "gluster", "virtiofs", "vboxsf"))


# Changes through a hard link or a memory map give no notice, so now and then the files are looked at without one: after a
# second, or where there are so many that a look takes long, when that costs a fiftieth of the time.
_LOOK_AGAIN, _PATIENCE = 1.0, 50


class Freshness:
    """Answers `maybe_changed`. Never says no when something changed on a local disk; may say yes for nothing.

    The kernel queues a notice while the write call still runs, so a note written by this process is seen at once.
    Watching starts with the second question: a program that asks once pays for nothing.
    """

    def __init__(self, notes: NoteSet, sessions: Path | None, monotonic: Callable[[], float]) -> None:
        self._notes = notes
        self._monotonic = monotonic
        self._looked = monotonic()
        self._sessions = sessions
        self._asked = 0
        self._cost = 0.0
        self._doubt = True
        self._notices: Notices | None = None
        self.blind = False  # nobody tells of changes, so every question looks

    def doubt(self) -> None:
        self._doubt = True

    def maybe_changed(self) -> bool:
        self._asked += 1
        if self._asked == 1 or self.blind:
            return True
        if self._notices is None:
            # From here on nothing is missed, and what happened before is looked at now.
            self._notices = Notices.open(watched(self._notes, self._sessions))
            self.blind = self._notices is None
            return True
        late = self._monotonic() - self._looked >= max(_LOOK_AGAIN, _PATIENCE * self._cost)
        news = self._notices.read()
        if news.folders:
            self._stop()  # new or moved folders: watching starts over
        elif not news and not self._doubt and not late:
            return False
        self._doubt = False
        self._looked = self._monotonic()
        return True

    def took(self, seconds: float) -> None:
        self._cost = seconds

    def close(self) -> None:
        self._stop()
        self.blind = True

    def _stop(self) -> None:
        if self._notices is not None:
            self._notices.close()
            self._notices = None


def watched(notes: NoteSet, sessions: Path | None) -> list[Path]:
    """Return the folders that exist and whose changes concern a memory."""
    return [*notes.folders(), *([sessions] if sessions and sessions.is_dir() else [])]
