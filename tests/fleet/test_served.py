"""Platforms call a home through the edge: no account has a port of its own on a machine that many homes share."""

import asyncio
import json
import re
from typing import Any

import aiohttp
from tests.channels.telegram.bot_api import ALICE, DM, TOKEN, BotApi, Refuse, serving
from tests.fleet.test_edge import served
from tests.fleet.test_worker import SECRET, made, model, until, working  # noqa: F401 - a fixture

from homarus.fleet.directory import MAX_LETTER_BYTES, Directory
from homarus.fleet.edge import Edge
from homarus.fleet.homes import bring_in
from homarus.fleet.placement import Letter
from homarus.fleet.served import Call, packed
from homarus.fleet.settings import Fleet
from homarus.net.client import HttpClient

FLEET = Fleet(secret=SECRET, domain="agents.example")
WORD = "a-secret-word-of-the-webhook"


def telegram(api: BotApi, home: str, **more: Any) -> dict[str, Any]:
    """Return the settings of a bot that is called and answers everybody."""
    said = {
        "enabled": True,
        "botToken": TOKEN,
        "apiRoot": api.base,
        "dmPolicy": "open",
        "allowFrom": ["*"],
        "webhookUrl": f"https://{home}.agents.example/telegram-webhook",
        "webhookSecret": WORD,
        # What would be the worker's, and another home's, has no effect.
        "webhookHost": "0.0.0.0",
        "webhookPort": 1,
    }
    return {"channels": {"telegram": said | more}}


def update(number: int, text: str) -> bytes:
    message = {"message_id": number, "date": 1_790_000_000, "chat": DM, "from": ALICE, "text": text}
    return json.dumps({"update_id": 1000 + number, "message": message}).encode()


async def call(url: str, body: bytes, secret: str = WORD, path: str = "/telegram-webhook") -> int:
    headers = {"X-Telegram-Bot-Api-Secret-Token": secret, "content-type": "application/json"}
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(120)) as http,
        http.post(url + path, data=body, headers=headers) as reply,
    ):
        return reply.status


async def test_telegram_calls_two_homes_of_one_worker_through_the_edge(database, model, tmp_path):  # noqa: F811
    http = HttpClient()
    async with serving() as api, served(Edge(FLEET, Directory(database, FLEET), http)) as edge:
        for home in ("ada", "bob"):
            await made(database, home, model, tmp_path, **telegram(api, home))
        # Nobody holds the home yet: what Telegram says is kept before it is acknowledged.
        quick = Edge(FLEET, Directory(database, FLEET), http, patience=0.1)
        async with served(quick) as other:
            assert await call(f"{other}/h/ada", update(1, "word1")) == 202
        async with working(database, "one", tmp_path / "one"):
            await until(lambda: any("re: word1" in text for text in api.shown("11")))
            assert api.webhook["url"].endswith(".agents.example/telegram-webhook")
            for home, number in (("ada", 2), ("bob", 3)):
                assert await call(f"{edge}/h/{home}", update(number, f"word{number}")) in {200, 202}
            await until(lambda: all(any(f"re: word{n}" in text for text in api.shown("11")) for n in (2, 3)))
            assert await call(f"{edge}/h/ada", update(9, "word9"), "wrong") == 401
            assert await call(f"{edge}/h/ada", update(9, "word9"), path="/no-webhook") in {404, 405}
            # Sent again, as Telegram does when it heard nothing: it counts once.
            for number in (1, 2):
                assert await call(f"{edge}/h/ada", update(number, f"word{number}")) == 200
            assert await call(f"{edge}/h/ada", update(4, "word4")) == 200
            await until(lambda: any("re: word4" in text for text in api.shown("11")))
            shown = api.shown("11")
            assert [sum(f"re: word{n}" in text for text in shown) for n in (1, 2, 3, 4, 9)] == [1, 1, 1, 1, 0]
    await http.aclose()


async def test_a_home_whose_platform_is_away_is_called_again_later(database, model, tmp_path):  # noqa: F811
    http = HttpClient()
    async with serving() as api, served(Edge(FLEET, Directory(database, FLEET), http)) as edge:
        # Nobody listens there: the account is not up, and says so instead of losing what it is told.
        away = telegram(api, "ada", webhookPath="/mine", apiRoot="http://127.0.0.1:9")
        await made(database, "ada", model, tmp_path, **away)
        async with working(database, "one", tmp_path / "one") as one:
            await until(lambda: "ada" in one.worker.held)
            assert await call(f"{edge}/h/ada", update(1, "word1"), path="/mine") == 503
            # Whoever else calls the home does not wait for it.
            letters = [
                Letter("ada", f"hook:{path}:1", packed(Call("POST", f"/{path}", []))) for path in ("mine", "hooks/x")
            ]
            for letter in letters:
                assert await one.worker.mail.leave(letter)
            await until(lambda: [row["key"] for row in database.rows("select key from mail")] == ["hook:mine:1"])
            assert await call(f"{edge}/h/ada", update(1, "word1")) in {404, 405}
    await http.aclose()


async def test_what_was_kept_comes_before_what_is_said_now(database, model, tmp_path):  # noqa: F811
    http = HttpClient()
    async with serving() as api, served(Edge(FLEET, Directory(database, FLEET), http)) as edge:
        settings = telegram(api, "ada") | {"messages": {"inbound": {"debounceMs": 0}}}
        await made(database, "ada", model, tmp_path, **settings)
        api.next["getMe"] = [Refuse(500, "not yet")] * 3
        async with working(database, "one", tmp_path / "one") as one:
            await until(lambda: "ada" in one.worker.held)
            for number in range(1, 9):
                assert await call(f"{edge}/h/ada", update(number, f"word{number}")) in {200, 202}
                await asyncio.sleep(0.3)  # some come before the account is up, and some after
            told: list[str] = []

            def said() -> bool:
                told[:] = re.findall(r"word\d", "".join(api.shown("11")))
                return len(told) >= 8

            await until(said)
            assert told == [f"word{number}" for number in range(1, 9)]
    await http.aclose()


async def test_what_waits_for_a_home_is_bounded_in_bytes(database, tmp_path):
    (tmp_path / "ada" / ".openclaw").mkdir(parents=True)
    bring_in(database, None, "ada", tmp_path / "ada")
    directory = Directory(database, FLEET)
    piece = bytes(MAX_LETTER_BYTES // 4)
    kept = [await directory.leave("ada", f"hook:{number}", piece) for number in range(5)]
    assert kept == [True, True, True, True, False]
    waits = await asyncio.to_thread(database.rows, "select sum(length(body)) as size from mail")
    assert waits[0]["size"] == MAX_LETTER_BYTES
