"""Messages for a session that another process of ours holds: one durable file each.

A process that stays, such as a chat, takes all letters for the sessions that it holds. Any other takes its own once it
gets the session, and those of senders that are gone. A letter is on disk before its sender is told so, and it goes away
only when it is in the session's inbox. Its key makes it count once, so a crash between the two costs nothing.
"""

from __future__ import annotations

import hashlib
import os
import time
from functools import cached_property
from pathlib import Path

import msgspec

from homarus.core.clock import Ids
from homarus.core.routes import SessionKey
from homarus.queue.collect import Queued
from homarus.storage.atomic import create_new, ensure_dir, remove

# Among the facts of a letter: it is a command, which is carried out and answered and never becomes a turn as it stands.
COMMAND = "command"
# And so is who left it: somebody there waits for what comes of it.
LEFT_BY = "leftBy"
ANSWER = ".answer"
_FRESH_NS = 2_000_000_000


class Letters:
    """The letters of one home, all sessions in one folder, the oldest first."""

    def __init__(self, folder: Path, ids: Ids) -> None:
        self._folder = folder
        self._ids = ids
        self._seen: object = None

    @cached_property
    def mark(self) -> str:
        """Return what tells the messages that were left from here from all others."""
        return self._ids.uuid()

    def is_of_another(self, item: Queued) -> bool:
        """Say whether somebody else left a message here, who may wait for its answer."""
        left_by = item.facts.get(LEFT_BY)
        return left_by is not None and left_by != self.mark

    def put(self, item: Queued) -> None:
        """Make a message durable for the process that holds its session."""
        ensure_dir(self._folder)
        create_new(self._path(item), msgspec.json.encode(item))

    def lies(self, item: Queued) -> bool:
        """Say whether a letter of this process still lies where it was put: nobody has taken it."""
        return self._path(item).exists()

    def withdraw(self, item: Queued) -> bool:
        """Take a letter of this process back; False when somebody has taken it."""
        return taken(self._path(item))

    def answer(self, letter: Path, answer: object) -> None:
        """Leave the sender of a command what came of it; what nobody will fetch any more goes."""
        for old in self._folder.glob(f"*{ANSWER}"):
            if _is_left(old):
                remove(old)
        create_new(letter.with_suffix(ANSWER), msgspec.json.encode(answer))

    def answer_to(self, item: Queued) -> bytes | None:
        """Return what came of a command of this process, once; None as long as nothing did."""
        path = self._path(item).with_suffix(ANSWER)
        try:
            found = path.read_bytes()
        except FileNotFoundError:
            return None
        remove(path)
        return found

    def _path(self, item: Queued) -> Path:
        digest = hashlib.sha256(item.key.encode()).hexdigest()[:16]
        return self._folder / f"{item.inbound.timestamp:015d}-{digest}.{os.getpid()}.json"

    def changed(self) -> bool:
        """Say whether letters may have come since this was asked last: one look at the folder."""
        try:
            state = self._folder.stat().st_mtime_ns
        except FileNotFoundError:
            return False
        # Clocks of disks are coarse: a second change may have come in the same moment as the first.
        changed, self._seen = state != self._seen or time.time_ns() - state < _FRESH_NS, state
        return changed

    def waiting(self) -> list[tuple[Path, Queued]]:
        """Return all letters. One that cannot be read is left alone: a later version may have written it."""
        found = []
        for path in sorted(self._folder.glob("*.json")) if self._folder.is_dir() else ():
            try:
                found.append((path, msgspec.json.decode(path.read_bytes(), type=Queued)))
            except (OSError, ValueError):
                continue
        return found

    def of(self, key: SessionKey, *, everyone: bool) -> list[tuple[Path, Queued]]:
        """Return the letters for one session: all of them, or only those that nobody else will take care of.

        Commands are among them in any case: they are about what this process does there, and nobody else can carry them out.
        """
        found = [(path, item) for path, item in self.waiting() if item.route.session_key == key]
        return [each for each in found if everyone or each[1].facts.get(COMMAND) or _is_ours(each[0])]


def taken(letter: Path) -> bool:
    """Take a letter away; False when somebody else was quicker."""
    return remove(letter)


def _is_ours(path: Path) -> bool:
    """Say whether this process wrote a letter, or a process that is gone."""
    pid = path.stem.rpartition(".")[2]
    return not pid.isdecimal() or int(pid) == os.getpid() or _is_left(path)


def _is_left(path: Path) -> bool:
    """Say whether the process that wrote a letter is gone."""
    pid = path.stem.rpartition(".")[2]
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return True
    except OSError:
        return False
    return False
