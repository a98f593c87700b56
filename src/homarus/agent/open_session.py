"""Sessions that stay open between turns: the one writer of each, and what its turns have said so far.

Opening a session reads its tail; keeping it open makes the next turn cost what it adds. The number of open sessions is
bounded, and a session that is closed is only slower to open. `OpenSessions.opened` is the only way in: whoever comes
first lays out the agent's workspace.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from homarus.agent.places import refuse_unfit
from homarus.config.paths import Paths
from homarus.config.view import Config
from homarus.core.clock import Clock
from homarus.core.errors import HomarusError, StorageError
from homarus.core.messages import Assistant, User
from homarus.core.routes import SessionKey
from homarus.prompt.carrier import said_in_view
from homarus.sessions import taint as tainting
from homarus.sessions.entry import Compaction, Custom, Entry, MessageEntry, Reset
from homarus.sessions.index import SessionIndex
from homarus.sessions.row import SessionEntry
from homarus.sessions.store import SessionStore
from homarus.sessions.writer import SessionWriter
from homarus.workspace.agents import resolve_workspace
from homarus.workspace.bootstrap import MARKER
from homarus.workspace.seed import RecordPaths, Seeded, ensure_workspace
from homarus.workspace.settings import WorkspaceSettings

FAILED_COMPACTION = "homarus.compaction-failed"
MAX_OPEN = 32
INDEX_FLUSH_SECONDS = 2.0
_log = logging.getLogger(__name__)


class OpenSession:
    """One open session: its writer, its row in the index, and what its turns have said."""

    def __init__(self, store: SessionStore, key: SessionKey, writer: SessionWriter) -> None:
        self.store = store
        self.key = key
        self.writer = writer
        # The session's row as it was found last; other writers of the row are seen with `refresh`.
        self.entry = SessionEntry(session_id=self.writer.session_id)
        self._stamp: object = ()
        self.refresh()
        # Remembered while the session is open: see `context.window.Cycle`.
        self.flush_failures = 0
        self._said: dict[str, str] | None = None
        self._boundary: object = None
        self._counted: object = None
        self._number = 0

    def refresh(self) -> SessionEntry:
        """Read the row anew if anybody changed the index, and return it."""
        stamp = self.store.index.stamp
        if stamp != self._stamp:
            info = self.store.find(self.key)
            self.entry, self._stamp = (info.entry if info else self.entry), stamp
        return self.entry

    def update(self, **fields: Any) -> None:
        self.entry = self.store.update(self.key, **fields)
        self._stamp = self.store.index.stamp

    def note(self, **fields: Any) -> None:
        """Change the row soon, and at the latest when the session is closed: for counts, which transcripts have, too."""
        self.entry = self.store.note(self.key, **fields)

    @property
    def context_size(self) -> int:
        """Return how many tokens the newest request of this turn had that a provider counted; 0 where none did."""
        for entry in reversed(self.writer.branch):
            message = entry.message if isinstance(entry, MessageEntry) else None
            if isinstance(message, User):
                break
            if isinstance(message, Assistant) and message.usage.prompt:
                return message.usage.prompt
        return 0

    @property
    def said(self) -> dict[str, str]:
        """Return what the carriers since the last boundary told the model; after a compaction that is nothing."""
        boundary = self.writer.boundary
        mark = boundary.id if boundary else None
        if self._said is None or mark != self._boundary:
            self._said = said_in_view(self.writer.view)
            self._boundary = mark
        return self._said

    def now_said(self, said: dict[str, str]) -> None:
        self._said = said

    def go_back(self, entry: str) -> None:
        """Continue from an earlier entry; what came after it is not seen any more."""
        self.writer.move_leaf(entry)
        self._said = None

    @property
    def completed(self) -> bool:
        """Say whether the model has read the workspace files since the last boundary."""
        newest = next((entry for entry in reversed(self.writer.notes) if _ends(entry) or _marks(entry)), None)
        return newest is not None and _marks(newest)

    @property
    def is_new(self) -> bool:
        return not any(entry.type == "message" for entry in self.writer.branch)

    @property
    def occasion(self) -> str:
        """Return what begins with the next turn: a `new` session, one after a `reset`, or nothing."""
        boundary = self.writer.boundary
        if isinstance(boundary, Reset):
            said = any(entry.type == "message" for entry in self.writer.view.after)
            return "" if said else "reset"
        if not self.is_new:
            return ""
        return "reset" if self.entry.started_by == "reset" else "new"

    @property
    def compactions(self) -> int:
        """Return how often this session was compacted; the log knows of one that a crash kept out of the row."""
        boundary = self.writer.boundary
        if boundary is not self._counted:
            from homarus.context.compact import number_of

            self._counted, self._number = boundary, number_of(boundary)
        return max(self.entry.compaction_count, self._number)

    @property
    def compaction_failed_at(self) -> int | None:
        """Return the size of the history when it could last not be compacted; a boundary since then settles that."""
        newest = next((note for note in reversed(self.writer.notes) if _ends(note) or _failed(note)), None)
        data = newest.data.get("data") if isinstance(newest, Custom) else None
        tokens = data.get("tokens") if isinstance(data, dict) else None
        return tokens if isinstance(tokens, int) else None

    def note_failed_compaction(self, tokens: int | None) -> None:
        """Write down at what size the history could not be compacted, so that it is not tried and told again at each turn."""
        self.writer.append("custom", {"customType": FAILED_COMPACTION, "data": {"tokens": tokens}}, durable=False)

    @property
    def taint(self) -> tuple[str, ...]:
        """Return whose untrusted words are in this conversation, or were before they were summed up."""
        return tainting.tainted_by(self.writer.notes)

    def note_taint(self, *sources: str) -> None:
        """Write down that untrusted words come in."""
        self.writer.append("custom", tainting.note(sources), durable=False)

    def close(self) -> None:
        """Give up the right to write. What was noted of the row is there before anybody else can take the session up."""
        try:
            self.store.index.flush(self.key)
        except StorageError as problem:
            _log.warning("the index of sessions could not be brought up to date: %s", problem)
        finally:
            self.writer.close()


def _ends(note: Entry) -> bool:
    return isinstance(note, Compaction | Reset)


def _marks(note: Entry) -> bool:
    return isinstance(note, Custom) and note.custom_type == MARKER


def _failed(note: Entry) -> bool:
    return isinstance(note, Custom) and note.custom_type == FAILED_COMPACTION


class OpenSessions:
    """The open sessions of one process, the longest unused going first. One that somebody uses is never closed under them."""

    def __init__(self, open_: Callable[[SessionKey], OpenSession], limit: int = MAX_OPEN) -> None:
        self._open_one = open_
        self._limit = limit
        self._open: OrderedDict[SessionKey, OpenSession] = OrderedDict()
        self._used: dict[SessionKey, int] = {}

    def get(self, key: SessionKey) -> OpenSession | None:
        return self._open.get(key)

    @contextmanager
    def opened(self, key: SessionKey) -> Iterator[OpenSession]:
        """Open a session for writing while the context lasts; everybody who does so meanwhile shares the one writer."""
        live = self._open.get(key)
        if live is None:
            live = self._open[key] = self._open_one(key)
        self._open.move_to_end(key)
        self._used[key] = self._used.get(key, 0) + 1
        try:
            yield live
        finally:
            self._give_back(key)

    def _give_back(self, key: SessionKey) -> None:
        self._used[key] -= 1
        if not self._used[key]:
            del self._used[key]
        for old in list(self._open):
            if len(self._open) <= self._limit:
                break
            if old not in self._used:
                self._open.pop(old).close()

    def put(self, key: SessionKey, live: OpenSession) -> None:
        """Go on with a session in another transcript; the one before it is closed."""
        self.forget(key)
        self._open[key] = live

    def forget(self, key: SessionKey) -> None:
        """Close a session, because it starts over or goes away."""
        live = self._open.pop(key, None)
        if live is not None:
            live.close()

    def close(self) -> None:
        for key in list(self._open):
            self.forget(key)


class IndexFlusher:
    """Brings the indexes of sessions up to date a moment after turns have ended, once for all that ended meanwhile."""

    def __init__(self, seconds: float = INDEX_FLUSH_SECONDS) -> None:
        self._seconds = seconds
        self._noted: dict[int, SessionIndex] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def soon(self, index: SessionIndex) -> None:
        self._noted[id(index)] = index
        loop = asyncio.get_running_loop()
        if self._timer is None or self._loop is not loop:
            self._loop, self._timer = loop, loop.call_later(self._seconds, self._write)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._write()

    def _write(self) -> None:
        self._timer = None
        noted, self._noted = list(self._noted.values()), {}
        for index in noted:
            try:
                index.flush()
            except HomarusError as problem:
                # It stays noted, and goes with the next turn.
                _log.warning("the index of sessions could not be brought up to date: %s", problem)


def seed_agent(config: Config, agent_id: str, env: Mapping[str, str], clock: Clock) -> Seeded:
    """Lay out one agent's workspace; a second time nothing is written. Raises ConfigError for a folder that cannot be one."""
    refuse_unfit(config, agent_id, env)
    return ensure_workspace(
        resolve_workspace(config, agent_id, env),
        settings=config.agent(agent_id).block("", WorkspaceSettings),
        now=clock.now(),
        env=env,
        places=workspace_places(config.paths),
    )


def workspace_places(paths: Paths) -> RecordPaths:
    """Return where the facts about workspaces lie outside of them."""
    shared = paths.state_dir / "state" / "openclaw.sqlite"
    return RecordPaths(paths.own_dir, shared if shared.exists() else None)
