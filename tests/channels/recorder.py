"""A `Host` that writes down what an adapter hands over, and can refuse to keep it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from homarus.channels.channel import Change, Channel, Identity
from homarus.core.errors import StorageError
from homarus.core.messages import Inbound, Outbound
from homarus.delivery.place import Piece


class Recorder:
    def __init__(self, folder: Path, settings: dict[str, Any], account: str = "default") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.account = account
        self.settings = settings
        self.folder = folder
        self.commands: dict[str, str] = {}
        self.inbound: list[Inbound] = []
        self.changes: list[Change] = []
        self.identities: list[Identity] = []
        self.troubles: list[str] = []
        self.full = 0  # how many more messages the disk refuses

    async def receive(self, inbound: Inbound) -> None:
        if self.full:
            self.full -= 1
            raise StorageError("the disk is full")
        self.inbound.append(inbound)

    async def changed(self, change: Change) -> None:
        self.changes.append(change)

    def connected(self, me: Identity) -> None:
        self.identities.append(me)

    def troubled(self, what: str, *, cure: str = "") -> None:
        self.troubles.append(f"{what} ({cure})" if cure else what)

    @property
    def texts(self) -> list[str]:
        return [one.text for one in self.inbound]

    def changed_kinds(self) -> list[str]:
        return [change.kind for change in self.changes]


async def until(check: Callable[[], Any], what: str = "", *, seconds: float = 30.0) -> Any:
    """Wait for something that will be so; what it waits for is looked at, never timed."""
    async with asyncio.timeout(seconds):
        while not (found := check()):
            await asyncio.sleep(0.01)
    return found


@contextlib.asynccontextmanager
async def running(channel: Channel) -> AsyncIterator[asyncio.Task[None]]:
    """An adapter at work, however it ends."""
    task = asyncio.create_task(channel.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def outbound(to: str, channel: str, **more: Any) -> Outbound:
    return Outbound(id="out-1", channel=channel, to=to, text="", **more)


def words(text: str) -> Piece:
    return Piece(text=text, plain=text)


class Running:
    """An adapter at work: `async with Running(channel)`. What ends it is raised at the end."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    async def __aenter__(self) -> asyncio.Task[None]:
        self._task = asyncio.create_task(self.channel.run())
        return self._task

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        done = await asyncio.gather(self._task, return_exceptions=True)
        if isinstance(done[0], Exception):
            raise done[0]
