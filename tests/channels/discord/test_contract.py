"""What every platform must do, on Discord. A thread there is a channel of its own, under another."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("hikari", reason="needs hikari: pip install 'homarus[discord]'")

from tests.channels.contract import EVERYTHING, play
from tests.channels.discord.fake_discord import ALICE, BOT, GENERAL, THREAD, TOKEN, FakeDiscord, Refuse, serving
from tests.channels.foes import SCENARIOS

from homarus.channels.channel import Host, Manifest
from homarus.channels.discord.adapter import Discord
from homarus.channels.discovery import manifests
from homarus.channels.support import Pauses


class DiscordRig:
    manifest = manifests()["discord"]
    features = EVERYTHING
    wrong = {"token": "MTAw.wr0ng.word"}
    without: dict[str, str] = {}

    def __init__(self, fake: FakeDiscord) -> None:
        self.fake = fake

    def opener(self, manifest: Manifest, /) -> Any:
        def made(host: Host) -> Discord:
            return Discord(host, Pauses(0.01, 0.02), rest_url=f"{self.fake.base}/api")

        return made

    def settings(self) -> dict[str, Any]:
        return {"token": TOKEN}

    def person(self, who: str) -> str:
        return {"ada": "11", "bob": "12", "eve": "13"}[who]

    def chat(self, who: str, to: str) -> str:
        return self.person(who) if to == "direct" else self._room(who, to)

    def _room(self, who: str, to: str) -> str:
        return {"direct": f"9{self.person(who)}", "group": GENERAL, "thread": THREAD}[to]

    def _author(self, who: str, **more: Any) -> dict[str, Any]:
        return ALICE | {"id": self.person(who), "username": who, "global_name": who} | more

    async def write(
        self, who: str, text: str, to: str = "direct", *, mention: bool = False, answers: str = "", file: bytes = b""
    ) -> str:
        more: dict[str, Any] = {"author": self._author(who)}
        if mention:
            text, more["mentions"] = f"<@100> {text}", [BOT]
        if file:
            self.fake.files["f"] = file
            more["attachments"] = [
                {
                    "id": "1",
                    "filename": "f.bin",
                    "size": len(file),
                    "url": f"{self.fake.base}/files/f",
                    "proxy_url": "x",
                }
            ]
        self._last = await self.fake.say(text, self._room(who, to), **more)
        return str(self._last["id"])

    async def react(self, who: str, message: str, emoji: str) -> None:
        held = {
            "user_id": self.person(who),
            "channel_id": self._room(who, "direct"),
            "message_id": message,
            "type": 0,
            "burst": False,
        }
        await self.fake.event("MESSAGE_REACTION_ADD", {**held, "emoji": {"id": None, "name": emoji}})

    async def spoof(self, text: str) -> None:
        owner = self.person("ada")
        await self.fake.say(
            text, self._room("eve", "direct"), author=self._author("eve", username=owner, global_name=owner)
        )

    async def forward(self, text: str) -> None:
        inner = {"type": 0, "content": text, "embeds": [], "attachments": [], "timestamp": "2026-11-16T04:00:00+00:00",
                 "edited_timestamp": None, "mentions": [], "mention_roles": [], "flags": 0, "components": []}  # fmt: skip
        link = {"type": 1, "message_id": "1", "channel_id": "2"}
        more = {"message_reference": link, "message_snapshots": [{"message": inner}], "author": self._author("ada")}
        await self.fake.say("", self._room("ada", "direct"), **more)

    async def bot(self, text: str) -> None:
        await self.fake.say(text, GENERAL, author=self._author("bob", bot=True))

    async def repeat(self) -> None:
        await self.fake.event("MESSAGE_CREATE", self._last)

    def refuse(self, status: int, *, times: int = 1, retry_after: float | None = None) -> None:
        more = {} if retry_after is None else {"retry_after": retry_after, "global": False}
        self.fake.next["send"] = [Refuse(status, "no", **more) for _ in range(times)]

    async def drop(self) -> None:
        await self.fake.drop()

    def _shown(self, who: str, to: str) -> list[dict[str, Any]]:
        return [held for held in self.fake.shown.values() if held["channel_id"] == self._room(who, to)]

    def shown(self, who: str, to: str = "direct") -> list[str]:
        return [held["content"] for held in self._shown(who, to)]

    def ids(self, who: str, to: str = "direct") -> list[str]:
        return [held["id"] for held in self._shown(who, to)]

    def reactions(self) -> list[str]:
        return self.fake.reactions


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_contract(scenario, tmp_path):
    async with serving() as fake:
        await play(scenario, DiscordRig(fake), tmp_path)
