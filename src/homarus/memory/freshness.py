"""Know without asking the disk whether a note may have changed. Where the kernel can tell, it is asked; else always yes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from homarus.memory.files import NoteSet
from homarus.memory.notices import Notices

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
        """Make the next answer yes."""
        self._doubt = True

    def maybe_changed(self) -> bool:
        """Say whether the files must be looked at now."""
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
        """Note what the last look at unchanged files cost."""
        self._cost = seconds

    def close(self) -> None:
        """Stop watching."""
        self._stop()
        self.blind = True

    def _stop(self) -> None:
        if self._notices is not None:
            self._notices.close()
            self._notices = None


def watched(notes: NoteSet, sessions: Path | None) -> list[Path]:
    """Return the folders that exist and whose changes concern a memory."""
    return [*notes.folders(), *([sessions] if sessions and sessions.is_dir() else [])]
