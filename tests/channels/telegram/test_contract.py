"""What every platform must do, on Telegram."""

from __future__ import annotations

import html
import math
import re
from typing import Any

import pytest

pytest.importorskip("aiogram", reason="needs aiogram: pip install 'homarus[telegram]'")

from tests.channels.contract import EVERYTHING, play
from tests.channels.foes import SCENARIOS
from tests.channels.telegram.bot_api import FORUM, GROUP, TOKEN, BotApi, Refuse, serving

from homarus.channels.discovery import load_entry, manifests

TOPIC = 5


class TelegramRig:
    manifest = manifests()["telegram"]
    features = EVERYTHING
    wrong = {"botToken": "4242:wr0ng-word-wr0ng-word-wr0ng-word-wr0ng"}
    without: dict[str, str] = {}
    opener = staticmethod(load_entry)

    def __init__(self, api: BotApi) -> None:
        self.api = api

    def settings(self) -> dict[str, Any]:
        return {"botToken": TOKEN, "apiRoot": self.api.base}

    def person(self, who: str) -> str:
        return {"ada": "11", "bob": "12", "eve": "13"}[who]

    def chat(self, who: str, to: str) -> str:
        return {"direct": self.person(who), "group": str(GROUP["id"]), "thread": str(FORUM["id"])}[to]

    async def write(
        self, who: str, text: str, to: str = "direct", *, mention: bool = False, answers: str = "", file: bytes = b""
    ) -> str:
        person = {"id": int(self.person(who)), "is_bot": False, "first_name": who}
        chat = {"direct": {"id": person["id"], "type": "private"}, "group": GROUP, "thread": FORUM}[to]
        more: dict[str, Any] = {"from": person}
        if mention:
            text, more["entities"] = f"@LobsterBot {text}", [{"type": "mention", "offset": 0, "length": 11}]
        if to == "thread":
            more |= {"message_thread_id": TOPIC, "is_topic_message": True}
        if file:
            self.api.files["photos/f1.jpg"] = file
            more |= {"document": {"file_id": "f1", "file_unique_id": "f1", "file_name": "f.bin"}, "caption": text}
        self.api.say("" if file else text, chat, **more)
        self._last = self.api.pending[-1]
        return str(self._last["message"]["message_id"])

    async def react(self, who: str, message: str, emoji: str) -> None:
        person = {"id": int(self.person(who)), "is_bot": False, "first_name": who}
        self.api.update(message_reaction={
            "chat": {"id": person["id"], "type": "private"}, "message_id": int(message), "date": 1, "user": person,
            "old_reaction": [], "new_reaction": [{"type": "emoji", "emoji": emoji}]})  # fmt: skip

    async def spoof(self, text: str) -> None:
        owner, eve = self.person("ada"), int(self.person("eve"))
        posing = {"id": eve, "is_bot": False, "first_name": owner, "last_name": owner, "username": owner}
        chat = {"id": eve, "type": "private"}
        self.api.say(text, chat, **{"from": posing, "sender_chat": None, "author_signature": owner})

    async def forward(self, text: str) -> None:
        eve, ada = ({"id": int(self.person(who)), "is_bot": False, "first_name": who} for who in ("eve", "ada"))
        origin = {"type": "user", "date": 1, "sender_user": eve}
        self.api.say(text, {"id": ada["id"], "type": "private"}, **{"from": ada, "forward_origin": origin})

    async def bot(self, text: str) -> None:
        bob = {"id": int(self.person("bob")), "is_bot": True, "first_name": "bob"}
        self.api.say(text, GROUP, **{"from": bob})

    async def repeat(self) -> None:
        self.api.update(message=self._last["message"])

    def refuse(self, status: int, *, times: int = 1, retry_after: float | None = None) -> None:
        more = {} if retry_after is None else {"retry_after": math.ceil(retry_after)}
        self.api.next["sendMessage"] = [
            Refuse(status, "Too Many Requests" if status == 429 else "Service Unavailable", **more)
            for _ in range(times)
        ]

    async def drop(self) -> None:
        self.api.polling.abort()

    def _shown(self, who: str, to: str) -> list[tuple[int, str]]:
        found = []
        for (chat, number), held in self.api.messages.items():
            if chat == self.chat(who, to) and (held.get("message_thread_id") == TOPIC) == (to == "thread"):
                text = held["shown"]
                found.append(
                    (number, html.unescape(re.sub(r"</?[^>]*>", "", text)) if held.get("parse_mode") else text)
                )
        return found

    def shown(self, who: str, to: str = "direct") -> list[str]:
        return [text for _, text in self._shown(who, to)]

    def ids(self, who: str, to: str = "direct") -> list[str]:
        return [str(number) for number, _ in self._shown(who, to)]

    def reactions(self) -> list[str]:
        asked = self.api.asked("setMessageReaction")
        return [one["emoji"] for one in asked[-1].get("reaction") or []] if asked else []


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_contract(scenario, tmp_path):
    async with serving() as api:
        await play(scenario, TelegramRig(api), tmp_path)
