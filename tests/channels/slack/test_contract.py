"""What every platform must do, on Slack."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("slack_sdk", reason="needs slack_sdk: pip install 'homarus[slack]'")
pytest.importorskip("aiohttp", reason="needs aiohttp: pip install 'homarus[slack]'")

from tests.channels.contract import EVERYTHING, play
from tests.channels.foes import SCENARIOS
from tests.channels.slack.fake_slack import APP_TOKEN, BOT_TOKEN, GENERAL, ME, FakeSlack, Refuse, serving

from homarus.channels.channel import Host, Manifest
from homarus.channels.discovery import manifests
from homarus.channels.slack.adapter import Slack
from homarus.channels.support import Pauses

THREAD = "1700000000.000001"


class SlackRig:
    manifest = manifests()["slack"]
    features = EVERYTHING
    wrong = {"botToken": "xoxb-wr0ng-word"}
    without: dict[str, str] = {}

    def __init__(self, fake: FakeSlack) -> None:
        self.fake = fake

    def opener(self, manifest: Manifest, /) -> Any:
        def made(host: Host) -> Slack:
            return Slack(host, Pauses(0.01, 0.02), base=f"{self.fake.base}/api/", ping_seconds=0.1)

        return made

    def settings(self) -> dict[str, Any]:
        return {"botToken": BOT_TOKEN, "appToken": APP_TOKEN}

    def person(self, who: str) -> str:
        return f"U0{who.upper()}"

    def chat(self, who: str, to: str) -> str:
        return self.person(who) if to == "direct" else GENERAL

    def _room(self, who: str, to: str) -> str:
        return f"D0{who.upper()}" if to == "direct" else GENERAL

    async def write(
        self, who: str, text: str, to: str = "direct", *, mention: bool = False, answers: str = "", file: bytes = b""
    ) -> str:
        more: dict[str, Any] = {"user": self.person(who)}
        if to == "thread":
            more["thread_ts"] = THREAD
        if file:
            self.fake.files["f.bin"] = file
            held = {
                "id": "F9",
                "name": "f.bin",
                "mimetype": "application/octet-stream",
                "url_private_download": f"{self.fake.base}/files/f.bin",
            }
            more |= {"subtype": "file_share", "files": [held]}
        return await self.fake.say(f"<@{ME}> {text}" if mention else text, self._room(who, to), **more)

    async def react(self, who: str, message: str, emoji: str) -> None:
        item = {"type": "message", "channel": self._room(who, "direct"), "ts": message}
        await self.fake.event({"type": "reaction_added", "user": self.person(who), "reaction": "heart", "item": item})

    async def spoof(self, text: str) -> None:
        owner = self.person("ada")
        profile = {"display_name": owner, "real_name": owner}
        room = self._room("eve", "direct")
        await self.fake.say(text, room, user=self.person("eve"), username=owner, user_profile=profile)

    async def forward(self, text: str) -> None:
        """What is shared on Slack hangs below the sharer's own words, as an attachment."""
        shared = [{"is_share": True, "author_id": self.person("eve"), "text": text, "fallback": text}]
        await self.fake.say("look", self._room("ada", "direct"), user=self.person("ada"), attachments=shared)

    async def bot(self, text: str) -> None:
        await self.fake.say(text, GENERAL, user=self.person("bob"), bot_id="B9")

    async def repeat(self) -> None:
        await self.fake.event(self.fake.last)

    def refuse(self, status: int, *, times: int = 1, retry_after: float | None = None) -> None:
        headers = {} if retry_after is None else {"Retry-After": str(math.ceil(retry_after))}
        self.fake.next["chat.postMessage"] = [
            Refuse("ratelimited" if status == 429 else "", status, headers) for _ in range(times)
        ]

    async def drop(self) -> None:
        await self.fake.drop()

    def _shown(self, who: str, to: str) -> list[tuple[str, str]]:
        return [(stamp, held["text"]) for stamp, held in self.fake.messages.items()
                if held["channel"] == self._room(who, to) and (held.get("thread_ts") == THREAD) == (to == "thread")]  # fmt: skip

    def shown(self, who: str, to: str = "direct") -> list[str]:
        return [text for _, text in self._shown(who, to)]

    def ids(self, who: str, to: str = "direct") -> list[str]:
        return [stamp for stamp, _ in self._shown(who, to)]

    def reactions(self) -> list[str]:
        return ["👍" if name == "+1" else name for name in self.fake.reactions]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_contract(scenario, tmp_path):
    async with serving() as fake:
        await play(scenario, SlackRig(fake), tmp_path)
