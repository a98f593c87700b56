"""What stands in for the program when one platform's adapter is tested alone, and how such a test waits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from homarus.channels.channel import Change, Channel, Identity
from homarus.core.errors import ChannelError, StorageError
from homarus.core.messages import Inbound, Outbound
from homarus.delivery.place import Piece


class RecordingHost:
    def __init__(self, folder: Path, settings: dict[str, Any], account: str = "default") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.account = account
        self.settings = settings
        self.folder = folder
        self.commands = {"status": "Say how it goes", "new": "Begin anew", "Bad Name!": "is left out"}
        self.calls: dict[str, Any] | None = None
        self.received: list[Inbound] = []
        self.changes: list[Change] = []
        self.up: list[Identity] = []
        self.troubles: list[str] = []
        self.disk_full = 0

    async def receive(self, inbound: Inbound) -> None:
        if self.disk_full:
            self.disk_full -= 1
            raise StorageError("no space left on device")
        self.received.append(inbound)

    async def changed(self, change: Change) -> None:
        self.changes.append(change)

    def connected(self, me: Identity) -> None:
        self.up.append(me)

    def troubled(self, what: str, *, cure: str = "") -> None:
        self.troubles.append(f"{what} ({cure})" if cure else what)

    @property
    def texts(self) -> list[str]:
        return [one.text for one in self.received]

    @property
    def kinds(self) -> list[str]:
        return [change.kind for change in self.changes]


async def until(holds: Callable[[], Any], what: str = "") -> Any:
    """Wait for something that must come about, and return it; the limit is for a test that hangs, not a measure."""
    for _ in range(12_000):
        if found := holds():
            return found
        await asyncio.sleep(0.01)
    raise AssertionError(what or "it never came about")


@contextlib.asynccontextmanager
async def running(channel: Channel) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.ensure_future(channel.run())
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, ChannelError):
            await task


def outbound(to: str, channel: str, **more: Any) -> Outbound:
    return Outbound(id="out-1", channel=channel, to=to, text="", **more)


def words(text: str) -> Piece:
    return Piece(text=text, plain=text)
