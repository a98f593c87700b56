"""What every platform must do, on WhatsApp as a linked device, with a worker that the test plays."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.channels.contract import play
from tests.channels.foes import SCENARIOS
from tests.channels.whatsapp.test_linked import GROUP, HERE, ME, FakeWorker

from homarus.channels.channel import Host, Manifest
from homarus.channels.discovery import manifests
from homarus.channels.support import Pauses
from homarus.channels.whatsapp.linked import Linked


class Phone(FakeWorker):
    """A worker that is linked, and keeps what nobody took yet."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.connect()
        for n, held in self.untaken.items():
            self.event("message", n=n, **held)
        await super().serve(reader, writer)

    def post(self, n: int, held: dict[str, Any]) -> None:
        self.untaken[n] = held
        if self._writer is not None and not self._writer.is_closing():
            self.event("message", n=n, **held)


class WhatsAppRig:
    manifest = manifests()["whatsapp"]
    features = frozenset({"group", "mention", "edit", "react", "media", "busy", "fail", "drop", "repeat", "forward"})
    wrong: dict[str, Any] = {}
    without = {
        "thread": "it has no threads",
        "login": "a device is linked, without a secret that anybody could mistype",
        "bots": "it does not say that a program writes",
    }

    def __init__(self, phone: Phone, folder: Path) -> None:
        self.phone, self._folder = phone, folder
        self._numbers = itertools.count(1)

    def opener(self, manifest: Manifest, /) -> Any:
        def made(host: Host) -> Linked:
            return Linked(host, Pauses(0.01, 0.02), [sys.executable, str(HERE / "relay.py"), str(self.phone.port)])

        return made

    def settings(self) -> dict[str, Any]:
        return {"dmPolicy": "pairing"}

    def person(self, who: str) -> str:
        return {"ada": "+15550011", "bob": "+15550012", "eve": "+15550013"}[who]

    def chat(self, who: str, to: str) -> str:
        return self.person(who) if to == "direct" else GROUP

    async def write(
        self, who: str, text: str, to: str = "direct", *, mention: bool = False, answers: str = "", file: bytes = b""
    ) -> str:
        n = next(self._numbers)
        held: dict[str, Any] = {"id": f"M{n}", "chat": self.chat(who, to), "group": to != "direct", "sender": self.person(who),
                                "mine": False, "name": who, "at": 1, "kind": "message", "text": text}  # fmt: skip
        if mention:
            held["mentions"] = [ME]
        if file:
            path = self._folder / f"in-{n}"
            path.write_bytes(file)
            held["file"] = {
                "kind": "file",
                "mime": "application/octet-stream",
                "name": "f",
                "size": len(file),
                "ref": str(path),
            }
        self._post(n, held)
        return f"M{n}:{self.person(who)}"

    def _post(self, n: int, held: dict[str, Any]) -> None:
        self._last = held
        self.phone.post(n, held)

    async def spoof(self, text: str) -> None:
        n, eve = next(self._numbers), self.person("eve")
        self._post(n, {"id": f"M{n}", "chat": eve, "group": False, "sender": eve, "mine": False, "name": self.person("ada"),
                       "at": 1, "kind": "message", "text": text})  # fmt: skip

    async def forward(self, text: str) -> None:
        n, ada = next(self._numbers), self.person("ada")
        self._post(n, {"id": f"M{n}", "chat": ada, "group": False, "sender": ada, "mine": False, "name": "ada",
                       "at": 1, "kind": "message", "text": text, "forwarded": True})  # fmt: skip

    async def bot(self, text: str) -> None:
        raise NotImplementedError

    async def react(self, who: str, message: str, emoji: str) -> None:
        self.phone.post(next(self._numbers), {
            "id": "R", "chat": self.person(who), "group": False, "sender": self.person(who), "mine": False, "kind": "reaction",
            "target": message.partition(":")[0], "author": "me", "text": emoji})  # fmt: skip

    async def repeat(self) -> None:
        self.phone.post(next(self._numbers), self._last)

    def refuse(self, status: int, *, times: int = 1, retry_after: float | None = None) -> None:
        error = {"kind": "rate_limit" if status == 429 else "transient", "message": "no"}
        self.phone.next["send"] = [error] * times

    async def drop(self) -> None:
        self.phone.end()

    def _shown(self, who: str, to: str) -> list[tuple[str, str]]:
        refused = {call["id"] for call in self.phone.refused}
        gone = {call["target"] for call in self.phone.calls if call["do"] == "delete"}
        now = {call["target"]: call["text"] for call in self.phone.calls if call["do"] == "edit"}
        found = [(f"WA{number}", call) for number, call in enumerate(self.phone.calls, 1)]
        return [(ident, now.get(ident, call["text"])) for ident, call in found
                if call["do"] == "send" and call["to"] == self.chat(who, to) and call["id"] not in refused and ident not in gone]  # fmt: skip

    def shown(self, who: str, to: str = "direct") -> list[str]:
        return [text for _, text in self._shown(who, to)]

    def ids(self, who: str, to: str = "direct") -> list[str]:
        return [f"{ident}:me" for ident, _ in self._shown(who, to)]

    def reactions(self) -> list[str]:
        return [call["emoji"] for call in self.phone.asked("react")[-1:] if call["emoji"]]


@asynccontextmanager
async def phone() -> AsyncIterator[Phone]:
    fake = Phone()
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    fake.port = server.sockets[0].getsockname()[1]
    try:
        yield fake
    finally:
        server.close()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_contract(scenario, tmp_path):
    async with phone() as fake:
        await play(scenario, WhatsAppRig(fake, tmp_path), tmp_path)
