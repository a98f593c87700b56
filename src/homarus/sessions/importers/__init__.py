"""Sessions that other programs keep elsewhere, read where they lie and never changed there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from homarus.sessions.importers.sqlite import Foreign

# The database of one agent, in its folder.
FILE = "openclaw-agent.sqlite"


class Content(Struct, frozen=True):
    """The sessions of a database, and the ids of the transcripts that they left behind."""

    sessions: tuple[Foreign, ...] = ()
    left_behind: tuple[str, ...] = ()


class Snapshot:
    """A database that may not exist, may be in use, and may be large: opening it for every question would take too long."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[tuple[int, ...], Content] | None = None

    def content(self) -> Content:
        """Return what is in it now; nothing for a file that is not there."""
        stamp = _stamp(self.path)
        if not stamp:
            return Content()
        if self._seen is None or self._seen[0] != stamp:
            # Most homes have no such database, and SQLite is not loaded for those.
            from homarus.sessions.importers.sqlite import AgentDatabase

            with AgentDatabase(self.path) as database:
                sessions = tuple(database.sessions())
                current = {one.session_id for one in sessions}
                left_behind = tuple(ident for ident in database.windows() if ident not in current)
            self._seen = (stamp, Content(sessions, left_behind))
        return self._seen[1]


def _stamp(path: Path) -> tuple[int, ...]:
    """Return what changes whenever a database does; nothing for one that is not there."""
    found: list[int] = []
    for name in (path, path.with_name(path.name + "-wal")):
        try:
            state = name.stat()
        except OSError:
            continue
        found += [state.st_ino, state.st_size, state.st_mtime_ns]
    return tuple(found) if path.is_file() else ()
