"""Know without asking the disk whether a note may have changed. Where the kernel can tell, it is asked; else always yes."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from homarus.memory.files import NoteSet

_EVENTS = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800  # modify … move_self, create, delete
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_MAX_WATCHES = 4_000
_LOOK_AGAIN = 1.0  # seconds: changes through a hard link or a memory map give no notice


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
        self._doubt = True
        self._fd = -1
        self._watches: dict[int, str] = {}
        self._failed = sys.platform != "linux"

    def doubt(self) -> None:
        """Make the next answer yes."""
        self._doubt = True

    def maybe_changed(self) -> bool:
        """Say whether the files must be looked at now."""
        self._asked += 1
        if self._asked == 1 or self._failed:
            return True
        if self._fd < 0:
            self._watch()  # from here on nothing is missed, and what happened before is looked at now
            return True
        late = self._monotonic() - self._looked >= _LOOK_AGAIN
        if not self._drain() and not self._doubt and not late:
            return False
        self._doubt = False
        self._looked = self._monotonic()
        return True

    def close(self) -> None:
        """Stop watching."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._watches.clear()
        self._failed = True

    def _watch(self) -> None:
        library = _libc()
        if library is None:
            self._failed = True
            return
        self._fd = library.inotify_init1(_FLAGS)
        self._failed = self._fd < 0
        folders = [*self._notes.folders(), *([self._sessions] if self._sessions and self._sessions.is_dir() else [])]
        if len(folders) > _MAX_WATCHES or not folders or _remote(folders[0]):
            self._failed = True
        for folder in folders if not self._failed else ():
            number = library.inotify_add_watch(self._fd, os.fsencode(folder), _EVENTS)
            if number < 0:
                self._failed = True
                break
            self._watches[number] = os.fspath(folder)
        if self._failed:
            self.close()

    def _drain(self) -> bool:
        """Read all queued notices; new or moved folders mean that watching starts over."""
        seen = False
        try:
            while data := os.read(self._fd, 65536):
                seen = True
                if _touches_folders(data):
                    os.close(self._fd)
                    self._fd = -1
                    self._watches.clear()
                    return True
        except BlockingIOError:
            pass
        return seen


def _touches_folders(data: bytes) -> bool:
    """Say whether any notice is about a folder, or that notices were lost."""
    at = 0
    while at + 16 <= len(data):
        _, mask, _, length = struct.unpack_from("iIII", data, at)
        if mask & (
            0x40000000 | 0x4000 | 0x8000 | 0x400 | 0x800
        ):  # is a folder, overflow, watch gone, self gone, self moved
            return True
        at += 16 + length
    return False


def _libc() -> Any:
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
