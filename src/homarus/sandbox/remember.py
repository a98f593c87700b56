"""Whether bubblewrap works here, remembered between processes: trying it costs more than the rest of a short turn.

Only a yes is remembered, for one program file, kernel and user, and for a day. If it is wrong, commands fail to start,
and nothing runs outside of a sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from homarus.core.clock import Clock
from homarus.core.errors import StorageError
from homarus.sandbox import bwrap
from homarus.sandbox.spec import Backend
from homarus.storage.atomic import ensure_dir, write_atomic

KEPT_SECONDS = 24 * 3600


def remembered(file: Path, available: Callable[[Backend], bool], clock: Clock) -> Callable[[Backend], bool]:
    """Return a check like `available` that looks into the file first."""

    def check(backend: Backend) -> bool:
        if backend is not Backend.BWRAP:
            return available(backend)
        state = _state()
        if state and _known(file, clock) == state:
            return True
        found = available(backend)
        if found and state:
            try:
                ensure_dir(file.parent)
                write_atomic(file, state.encode())
            except StorageError:
                return True  # then it is tried again next time
        return found

    return check


def _state() -> str:
    """Return what the answer depends on, as far as it can be seen without trying."""
    program = bwrap.program()
    if program is None:
        return ""
    try:
        found = Path(program).stat()
    except OSError:
        return ""
    return f"{program} {found.st_size} {found.st_mtime_ns} {found.st_mode} {os.uname().release} {os.getuid()}"


def _known(file: Path, clock: Clock) -> str:
    try:
        age = clock.now().timestamp() - file.stat().st_mtime
        return file.read_text() if 0 <= age < KEPT_SECONDS else ""
    except (OSError, ValueError):
        return ""
