"""What every platform must do, on Signal."""

from __future__ import annotations

from typing import Any

import pytest
from tests.channels.contract import play
from tests.channels.foes import SCENARIOS
from tests.channels.signal.fake_daemon import ACCOUNT, BOT_UUID, GROUP, FakeDaemon, RpcError, serving

from homarus.channels.channel import Host, Manifest
from homarus.channels.discovery import manifests
from homarus.channels.signal.adapter import Signal
from homarus.channels.support import Pauses


class SignalRig:
    manifest = manifests()["signal"]
    features = frozenset({"group", "mention", "edit", "react", "media", "busy", "fail", "drop", "repeat"})
    wrong: dict[str, Any] = {}
    without = {
        "thread": "it has no threads",
        "login": "a device is linked at its daemon, which asks for no secret",
        "forward": "it does not say that words were passed on",
        "bots": "it does not say that a program writes",
    }

    def __init__(self, daemon: FakeDaemon) -> None:
        self.daemon = daemon

    def opener(self, manifest: Manifest, /) -> Any:
        def made(host: Host) -> Signal:
            return Signal(host, Pauses(0.01, 0.02))

        return made

    def settings(self) -> dict[str, Any]:
        return {"account": ACCOUNT, "accountUuid": BOT_UUID, "httpUrl": self.daemon.base}

    def person(self, who: str) -> str:
        return {"ada": "+15550011", "bob": "+15550012", "eve": "+15550013"}[who]

    def chat(self, who: str, to: str) -> str:
        return self.person(who) if to == "direct" else GROUP

    def _source(self, who: str) -> dict[str, Any]:
        return {"sourceNumber": self.person(who), "sourceUuid": f"{self.person(who)[-8:]}-0000-4000-8000-000000000000"}

    async def write(
        self, who: str, text: str, to: str = "direct", *, mention: bool = False, answers: str = "", file: bytes = b""
    ) -> str:
        more: dict[str, Any] = {}
        if mention:
            text, more["mentions"] = f"\ufffc {text}", [{"name": "Lobster", "uuid": BOT_UUID, "start": 0, "length": 1}]
        if file:
            self.daemon.files["f"] = file
            more["attachments"] = [{"id": "f", "contentType": "application/octet-stream", "size": len(file)}]
        group = "" if to == "direct" else GROUP
        stamp = await self.daemon.say(text, group=group, source=self._source(who), **more)
        self._last = (
            who,
            {"timestamp": stamp, "message": text, **more, **({"groupInfo": {"groupId": group}} if group else {})},
        )
        return f"{stamp}:{self.person(who)}"

    async def react(self, who: str, message: str, emoji: str) -> None:
        held = {
            "emoji": emoji,
            "targetAuthorNumber": ACCOUNT,
            "targetSentTimestamp": int(message.partition(":")[0]),
            "isRemove": False,
        }
        await self.daemon.say(reaction=held, source=self._source(who))

    async def spoof(self, text: str) -> None:
        named = {"source": self.person("ada"), "sourceName": self.person("ada")}
        await self.daemon.say(text, source={**self._source("eve"), **named})

    async def forward(self, text: str) -> None:
        raise NotImplementedError

    async def bot(self, text: str) -> None:
        raise NotImplementedError

    async def repeat(self) -> None:
        who, data = self._last
        await self.daemon.envelope(dataMessage=data, timestamp=data["timestamp"], **self._source(who))

    def refuse(self, status: int, *, times: int = 1, retry_after: float | None = None) -> None:
        self.daemon.next["send"] = [
            RpcError(-5, "RateLimitException") if status == 429 else status for _ in range(times)
        ]

    async def drop(self) -> None:
        await self.daemon.drop()

    def _shown(self, who: str, to: str) -> list[tuple[int, str]]:
        where = {"recipient": [self.person(who)]} if to == "direct" else {"groupId": GROUP}
        return [(stamp, held["message"]) for stamp, held in self.daemon.shown.items() if where.items() <= held.items()]

    def shown(self, who: str, to: str = "direct") -> list[str]:
        return [text for _, text in self._shown(who, to)]

    def ids(self, who: str, to: str = "direct") -> list[str]:
        return [f"{stamp}:{ACCOUNT}" for stamp, _ in self._shown(who, to)]

    def reactions(self) -> list[str]:
        return [one["emoji"] for one in self.daemon.reactions[-1:] if not one["remove"]]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_contract(scenario, tmp_path):
    async with serving() as daemon:
        await play(scenario, SignalRig(daemon), tmp_path)
