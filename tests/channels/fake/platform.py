"""A chat platform in memory: a server that people write on, and the adapter that fills `Channel` for it.

It keeps an update until the adapter acknowledged it, knows each send by its key, and fails when it is told to.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self

from msgspec import Struct
from tests.channels.contract import EVERYTHING, To

from homarus.channels.channel import Change, Host, Identity
from homarus.channels.discovery import read_manifests
from homarus.core.errors import ChannelError, DeliveryError, DeliveryFailure
from homarus.core.messages import Inbound, Media, Outbound, Quote, Trust
from homarus.delivery.place import Piece

MANIFEST = read_manifests(Path(__file__).parents[1])["fake"]
SERVERS: dict[str, FakeServer] = {}
ME = Identity("me-1", "Homarus", "homarus_bot")


class Shown(Struct):
    """One visible message of the agent."""

    id: str
    chat: str
    text: str
    thread: str = ""
    reply_to: str = ""
    file: bytes = b""


class FakeServer:
    def __init__(self, name: str, token: str = "sesame") -> None:
        self.name, self.token = name, token
        self.updates: list[tuple[int, Inbound | Change]] = []
        self.shown: list[Shown] = []
        self.keys: dict[str, str] = {}
        self.reactions: list[tuple[str, str, bool]] = []
        self.typed = 0
        self.files: dict[str, bytes] = {}
        self.refusals: list[DeliveryError] = []  # what the next requests get
        self.requests = 0
        self.stirred = asyncio.Event()
        self.drops = 0
        self.asleep = False  # takes the connection and says nothing
        self.hung = 0
        self._ids = itertools.count(1)
        SERVERS[name] = self

    def post(self, update: Inbound | Change) -> int:
        number = next(self._ids)
        self.updates.append((number, update))
        self.stirred.set()
        return number

    def drop(self) -> None:
        """Cut the connection that is there."""
        self.drops += 1
        self.stirred.set()

    def request(self) -> None:
        self.requests += 1
        if self.refusals:
            raise self.refusals.pop(0)


class FakeChannel:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._server = SERVERS[str(host.settings["server"])]
        self._done = host.folder / "offset"

    async def run(self) -> None:
        if self._host.settings.get("token") != self._server.token:
            raise ChannelError("the token is wrong", fatal=True, cure="set channels.fake.token")
        while True:
            await self._connection()
            self._host.troubled("the connection was lost")

    async def _connection(self) -> None:
        drops = self._server.drops
        if self._server.asleep:
            self._server.hung += 1
            await asyncio.Event().wait()
        self._host.connected(ME)
        while drops == self._server.drops:
            offset = int(self._done.read_text()) if self._done.exists() else 0
            fresh = [(number, update) for number, update in self._server.updates if number > offset]
            for number, update in fresh:
                if isinstance(update, Change):
                    await self._host.changed(update)
                else:
                    await self._host.receive(update)
                self._done.write_text(str(number))
            if not fresh:
                self._server.stirred.clear()
                await self._server.stirred.wait()

    async def send(self, message: Outbound, piece: Piece, key: str) -> str:
        self._server.request()
        if key in self._server.keys:
            return self._server.keys[key]
        data = Path(piece.file).read_bytes() if piece.file else b""
        shown = Shown(f"m{len(self._server.shown) + 1}", message.to, piece.text, message.thread, message.reply_to, data)
        self._server.shown.append(shown)
        self._server.keys[key] = shown.id
        return shown.id

    def _find(self, sent: str) -> Shown:
        found = next((shown for shown in self._server.shown if shown.id == sent), None)
        if found is None:
            raise DeliveryError(DeliveryFailure.REFUSED, "there is no such message")
        return found

    async def edit(self, message: Outbound, sent: str, piece: Piece) -> None:
        self._server.request()
        self._find(sent).text = piece.text

    async def delete(self, message: Outbound, sent: str) -> None:
        self._server.request()
        self._server.shown.remove(self._find(sent))

    async def react(self, message: Outbound, to_message: str, emoji: str, *, on: bool = True) -> None:
        self._server.request()
        self._server.reactions.append((to_message, emoji, on))

    async def typing(self, message: Outbound) -> None:
        self._server.typed += 1

    async def fetch(self, media: Media) -> AsyncIterator[bytes]:
        data = self._server.files[media.ref]
        for start in range(0, len(data), 1000):
            yield data[start : start + 1000]

    async def probe(self) -> Identity:
        if self._server.asleep:
            raise DeliveryError(DeliveryFailure.TRANSIENT, "no answer")
        return ME

    async def directory(self, query: str) -> list[Identity]:
        people = {
            update.sender: update.sender_name for _, update in self._server.updates if isinstance(update, Inbound)
        }
        return [Identity(who, name) for who, name in people.items() if query.lower() in f"{who} {name}".lower()]


def make(host: Host) -> FakeChannel:
    return FakeChannel(host)


class FakeRig:
    """The fake platform as the contract's scenarios use it."""

    manifest = MANIFEST
    features = EVERYTHING
    wrong: dict[str, object] = {"token": "wr0ng-word"}
    without: dict[str, str] = {}

    def __init__(self) -> None:
        self.server = FakeServer(f"contract-{id(self)}")
        self._ids = itertools.count(1)
        self._last: Inbound | None = None

    def opener(self, _manifest: object) -> object:
        return make

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        SERVERS.pop(self.server.name, None)

    def settings(self) -> dict[str, object]:
        return {"server": self.server.name, "token": self.server.token}

    def person(self, who: str) -> str:
        return f"u-{who}"

    def chat(self, who: str, to: To) -> str:
        return f"u-{who}" if to == "direct" else "room-1"

    async def write(
        self, who: str, text: str, to: To = "direct", *, mention: bool = False, answers: str = "", file: bytes = b""
    ) -> str:
        number = next(self._ids)
        media: tuple[Media, ...] = ()
        if file:
            ref = f"f{number}"
            self.server.files[ref] = file
            media = (Media("file", "application/octet-stream", "a file.bin", len(file), ref),)
        self._post(
            Inbound(
                id=f"in{number}",
                channel="fake",
                text=text,
                sender=self.person(who),
                sender_name=who.title(),
                handle=who,
                peer=self.chat(who, to),
                chat_type="direct" if to == "direct" else "group",
                thread="t1" if to == "thread" else "",
                mentioned=mention,
                quote=Quote(answers, "…", ME.id, ours=True) if answers else None,
                media=media,
            )
        )
        return f"in{number}"

    def _post(self, inbound: Inbound) -> None:
        self._last = inbound
        self.server.post(inbound)

    async def spoof(self, text: str) -> None:
        eve, ada = self.person("eve"), self.person("ada")
        posing = {"sender_name": ada, "handle": ada, "trust": Trust.OWNER, "facts": {"owner": True}}
        self._post(Inbound(id=f"in{next(self._ids)}", channel="fake", text=text, sender=eve, peer=eve, **posing))

    async def forward(self, text: str) -> None:
        ada = self.person("ada")
        held = {"text": text, "command": text, "forwarded": True}
        self._post(Inbound(id=f"in{next(self._ids)}", channel="fake", sender=ada, peer=ada, **held))

    async def bot(self, text: str) -> None:
        where = {"peer": "room-1", "chat_type": "group", "from_bot": True}
        self._post(Inbound(id=f"in{next(self._ids)}", channel="fake", text=text, sender=self.person("bob"), **where))

    async def react(self, who: str, message: str, emoji: str) -> None:
        self.server.post(Change("reacted", "fake", self.chat(who, "direct"), message, self.person(who), emoji))

    async def repeat(self) -> None:
        assert self._last is not None
        self.server.post(self._last)

    def refuse(self, status: int, *, times: int = 1, retry_after: float | None = None) -> None:
        kind = DeliveryFailure.RATE_LIMIT if status == 429 else DeliveryFailure.TRANSIENT
        error = DeliveryError(kind, f"status {status}", retry_after=retry_after)
        self.server.refusals += [error] * times

    async def drop(self) -> None:
        self.server.drop()

    def shown(self, who: str, to: To = "direct") -> list[str]:
        thread = "t1" if to == "thread" else ""
        chat = self.chat(who, to)
        return [item.text for item in self.server.shown if item.chat == chat and item.thread == thread]

    def ids(self, who: str, to: To = "direct") -> list[str]:
        return [item.id for item in self.server.shown if item.chat == self.chat(who, to)]

    def reactions(self) -> list[str]:
        return [emoji for _, emoji, on in self.server.reactions if on]
