"""Bring the indexes of sessions up to date a moment after turns have ended, once for all that ended meanwhile."""

from __future__ import annotations

import asyncio
import logging

from homarus.core.errors import HomarusError
from homarus.sessions.index import SessionIndex

SECONDS = 0.5

_log = logging.getLogger(__name__)


class Rows:
    """The indexes with something noted, and the timer that writes it down."""

    def __init__(self) -> None:
        self._noted: dict[int, SessionIndex] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def soon(self, index: SessionIndex) -> None:
        """Write an index in a moment."""
        self._noted[id(index)] = index
        loop = asyncio.get_running_loop()
        if self._timer is None or self._loop is not loop:
            self._loop, self._timer = loop, loop.call_later(SECONDS, self._write)

    def close(self) -> None:
        """Write at once."""
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
