"""Whether those to whom an edge passes things on still own the homes they do it for: a machine that stopped closes no connection."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from homarus.core.errors import StorageError
from homarus.fleet.settings import Quota

_log = logging.getLogger(__name__)
LOOK_SECONDS = 0.5
MISSES = 3  # looks in a row that find no owner: after a short absence of the database nobody has been heard yet


class Place(Struct, frozen=True):
    """A home as the edge sees it: what it may use, and where it is; `address` is empty while nobody holds it."""

    quota: Quota
    address: str = ""
    epoch: int = 0  # of the lease: another one is another owner, also at the same address


class Moved(Exception):
    """The owner that something was passed on to is none any more."""


class Passage(Struct, eq=False):
    place: Place
    limit: asyncio.Timeout
    misses: int = 0


class Watch:
    """Everything that is open through one edge. One question for all homes, again and again, while anything is."""

    def __init__(
        self, places: Callable[[Sequence[str]], Awaitable[Mapping[str, Place]]], *, every: float = LOOK_SECONDS
    ) -> None:
        self._places, self.every = places, every
        self._open: dict[str, list[Passage]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def over(self, home: str, place: Place) -> AsyncIterator[None]:
        """Let something go on with the owner of a home. Raises Moved in the middle of it when that is another one now."""
        limit = asyncio.timeout(None)
        passage = Passage(place, limit)
        try:
            async with limit:
                self._open.setdefault(home, []).append(passage)
                self._wait()
                yield
        except TimeoutError:
            if limit.expired():
                raise Moved from None
            raise
        finally:
            self._forget(home, passage)

    def _forget(self, home: str, passage: Passage) -> None:
        left = [each for each in self._open.get(home, ()) if each is not passage]
        if left:
            self._open[home] = left
        else:
            self._open.pop(home, None)

    def _wait(self) -> None:
        if self._timer is None and self._looking is None:
            self._timer = asyncio.get_running_loop().call_later(self.every, self._begin)

    def _begin(self) -> None:
        self._timer = None
        if self._open:
            self._looking = asyncio.ensure_future(self._look())
            self._looking.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._looking = None
        if not task.cancelled() and (problem := task.exception()) is not None:
            _log.error("the edge looks again for homes that moved", exc_info=problem)
        if self._open and not task.cancelled():
            self._wait()

    async def _look(self) -> None:
        asked = {home: list(passages) for home, passages in self._open.items()}
        try:
            found = await self._places(list(asked))
        except StorageError:
            return  # who owns what cannot change meanwhile
        for home, passages in asked.items():
            now = found.get(home)
            for passage in passages:
                if now is not None and (now.address, now.epoch) == (passage.place.address, passage.place.epoch):
                    passage.misses = 0
                    continue
                passage.misses += 1
                lost = now is None or now.address or passage.misses >= MISSES
                if lost and passage in self._open.get(home, ()):
                    self._forget(home, passage)
                    passage.limit.reschedule(asyncio.get_running_loop().time())
