"""A chat platform in this process: people write, and see what the agent shows them. It speaks the contract of channels."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from msgspec import Struct

from homarus.channels.channel import Channel, Host, Identity, Manifest
from homarus.core.errors import DeliveryError, DeliveryFailure
from homarus.core.messages import Inbound, Media, Outbound
from homarus.delivery.place import Piece, Place
from homarus.runtime.switchboard import Switchboard

PLACE = Place(
    dialect="discord",
    edit=True,
    delete=True,
    react=True,
    typing=True,
    threads=True,
    replies=True,
    media=True,
    repeatable=True,
)
OWNER = "7"
# A home whose owner is person 7, and who lets nobody else in.
CONFIG: dict[str, Any] = {
    "channels": {"fake": {"dmPolicy": "allowlist", "allowFrom": [OWNER]}},
    "commands": {"ownerAllowFrom": [f"fake:{OWNER}"]},
}


class Shown(Struct, frozen=True):
    to: str
    text: str
    id: str = ""
    thread: str = ""
    reply_to: str = ""
    file: str = ""
    buttons: tuple[str, ...] = ()


class Platform:
    """The server's side. `shown` is what people see, in order; a key that was shown is not shown again."""

    def __init__(self, place: Place = PLACE) -> None:
        self.manifest = Manifest(id="fake", label="Fake", entry="channel:make", place=place, retry_ms=1)
        self.shown: list[Shown] = []
        self.signs: list[tuple[str, str]] = []
        self.failures: list[DeliveryError] = []
        self.host: Host | None = None
        self.up = asyncio.Event()
        self.files: dict[str, bytes] = {}
        self.before_send: Callable[[], None] = lambda: None
        self._keys: dict[str, str] = {}
        self._number = 0

    @property
    def given(self) -> dict[str, Any]:
        """What a switchboard is built with."""
        return {"known": {"fake": self.manifest}, "opener": lambda _manifest: self.open}

    def open(self, host: Host) -> Channel:
        self.host = host
        return FakeChannel(self, host)

    @property
    def texts(self) -> list[str]:
        return [each.text for each in self.shown]

    async def says(self, text: str, sender: str = OWNER, **more: Any) -> Inbound:
        """Let somebody write; returns when the program has acknowledged it."""
        async with asyncio.timeout(120):
            await self.up.wait()
        self._number += 1
        ident = more.pop("id", f"m{self._number}")
        facts = {"peer": sender, "sender_name": f"Person {sender}", **more}
        inbound = Inbound(ident, "fake", text, sender=sender, **facts)
        assert self.host is not None
        await self.host.receive(inbound)
        return inbound

    async def sees(self, count: int, seconds: float = 120.0) -> list[Shown]:
        """Wait until people have seen so many messages."""
        async with asyncio.timeout(seconds):
            while len(self.shown) < count:
                await asyncio.sleep(0.005)
        return self.shown

    def show(self, message: Outbound, piece: Piece, key: str) -> str:
        self.before_send()
        if self.failures:
            raise self.failures.pop(0)
        if key in self._keys and self.manifest.place.repeatable:
            return self._keys[key]
        ident = f"s{len(self.shown) + 1}"
        buttons = tuple(button.value for row in piece.buttons for button in row)
        self.shown.append(Shown(message.to, piece.text, ident, message.thread, message.reply_to, piece.file, buttons))
        self._keys[key] = ident
        return ident


class FakeChannel:
    def __init__(self, platform: Platform, host: Host) -> None:
        self._platform, self._host = platform, host

    async def run(self) -> None:
        self._host.connected(Identity("bot", "Fake bot", "bot"))
        self._platform.up.set()
        try:
            await asyncio.Event().wait()
        finally:
            self._platform.up.clear()

    async def send(self, message: Outbound, piece: Piece, key: str) -> str:
        return self._platform.show(message, piece, key)

    async def edit(self, message: Outbound, sent: str, piece: Piece) -> None:
        self._platform.signs.append(("edit", f"{sent}={piece.text}"))

    async def delete(self, message: Outbound, sent: str) -> None:
        self._platform.signs.append(("delete", sent))

    async def react(self, message: Outbound, to_message: str, emoji: str, *, on: bool = True) -> None:
        self._platform.signs.append(("react" if on else "unreact", f"{to_message}{emoji}"))

    async def typing(self, message: Outbound) -> None:
        self._platform.signs.append(("typing", message.to))

    async def fetch(self, media: Media) -> AsyncIterator[bytes]:
        if media.ref == "gone":
            raise DeliveryError(DeliveryFailure.REFUSED, "the file is gone")
        yield self._platform.files.get(media.ref, media.ref.encode())

    async def probe(self) -> Identity:
        return Identity("bot", "Fake bot", "bot")

    async def directory(self, query: str) -> list[Identity]:
        people = [Identity("7", "Ann"), Identity("8", "Bob")]
        return [each for each in people if query.lower() in each.name.lower()]


@contextlib.asynccontextmanager
async def served(agent: Any, platform: Platform, kind: type[Switchboard] = Switchboard) -> AsyncIterator[Any]:
    """Put a switchboard to work in the home of an open agent, as a gateway does."""
    board = kind(agent.client, **platform.given)
    board.join()
    agent.client.runtime.recover()
    await board.start()
    try:
        yield board
    finally:
        await board.drain(5)
        await board.aclose()
