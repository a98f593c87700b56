"""Kill -9 at random moments of conversations on a real IRC server and on Telegram: every message is answered once, or the
person who wrote it sees that this is in doubt."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

import pytest

pytest.importorskip("aiogram", reason="needs aiogram: pip install 'homarus[telegram]'")

from tests.channels.irc.rig import Person
from tests.channels.telegram.bot_api import TOKEN, BotApi, serving
from tests.live.chat_servers import ngircd

ROOT = Path(__file__).resolve().parent.parent.parent
DRIVER = Path(__file__).with_name("chat_driver.py")
WAIT = 240.0  # until everything must be answered or told; a test that hangs ends with it
MARK = "⚠️"


class Telegram:
    """People who write to the bot. What they wrote stays with Telegram until it is taken."""

    name = "telegram"

    def __init__(self, api: BotApi, people: int) -> None:
        self.api, self.people = api, [str(20 + number) for number in range(people)]

    def settings(self) -> dict[str, Any]:
        rules = {"dmPolicy": "allowlist", "allowFrom": self.people}
        return {"botToken": TOKEN, "apiRoot": self.api.base, **rules}

    async def write(self, who: str, text: str) -> bool:
        person = {"id": int(who), "is_bot": False, "first_name": who}
        self.api.say(text, {"id": int(who), "type": "private"}, **{"from": person})
        return True

    def shown(self, who: str) -> list[str]:
        return self.api.shown(who)

    def quiet(self) -> bool:
        return not self.api.pending


class Irc:
    """People with terminals on ngircd, which keeps nothing for somebody who is away but says so to whoever writes."""

    name = "irc"

    def __init__(self, port: int, people: list[Person]) -> None:
        self.port, self.terminals = port, {person.nick: person for person in people}
        self.people, self._tokens = list(self.terminals), 0

    def settings(self) -> dict[str, Any]:
        server = {"host": "127.0.0.1", "port": self.port, "tls": False, "nick": "helper"}
        rules = {"dmPolicy": "allowlist", "allowFrom": [f"{nick}!~{nick}@127.0.0.1" for nick in self.people]}
        return {**server, **rules, "lineBurst": 100, "lineSeconds": 0.01}

    async def write(self, who: str, text: str) -> bool:
        """Say something to the agent; False where the server says at once that nobody is there."""
        person, token = self.terminals[who], f"t{self._tokens}"
        self._tokens += 1
        began = len(person.seen)
        person.type(f"PRIVMSG helper :{text}", f"PING {token}")
        await until(lambda: any(line.command == "PONG" and line.last == token for line in person.seen[began:]))
        return not any(line.command == "401" for line in person.seen[began:])

    def shown(self, who: str) -> list[str]:
        told = ("PRIVMSG", "NOTICE")
        return [
            line.last for line in self.terminals[who].seen if line.command in told and line.nick.startswith("helper")
        ]

    def quiet(self) -> bool:
        return True


async def until(holds: Callable[[], Any], seconds: float = WAIT) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)


class World:
    def __init__(self, folder: Path, places: list[Any], seed: int) -> None:
        self.folder, self.places, self.random = folder, places, random.Random(seed)
        # What was written and reached its server: where, by whom, what, and how much that person had seen before.
        self.sent: list[tuple[Any, str, str, int]] = []
        self.turned_away, self.pace = 0, 0.0  # pace: how long this machine takes from the start to an answer
        (folder / ".openclaw").mkdir(parents=True)
        everybody = [f"{place.name}:{who}" for place in places for who in place.settings()["allowFrom"]]
        config = {
            "agents": {"defaults": {"model": "script/model", "sandbox": {"mode": "off"}}},
            "channels": {place.name: place.settings() for place in places},
            "commands": {"ownerAllowFrom": everybody},
            "messages": {"queue": {"mode": "followup", "debounceMs": 0, "cap": 1000}},
            "session": {"dmScope": "per-channel-peer"},
        }
        (folder / ".openclaw" / "openclaw.json").write_text(json.dumps(config))

    async def __aenter__(self) -> Self:
        self._log = (self.folder / "log").open("ab")
        pipe = asyncio.subprocess.PIPE
        self._driver = await asyncio.create_subprocess_exec(
            sys.executable, str(DRIVER), str(self.folder), "real", stdin=pipe, stdout=pipe, stderr=self._log,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        )  # fmt: skip
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._driver.stdin is not None
        self._driver.stdin.close()
        await self._driver.wait()
        self._log.close()

    async def start(self) -> int:
        assert self._driver.stdin is not None
        assert self._driver.stdout is not None
        self._driver.stdin.write(b"start\n")
        return int(await self._driver.stdout.readline())

    async def kill(self, pid: int) -> None:
        assert self._driver.stdout is not None
        os.kill(pid, signal.SIGKILL)
        assert (await self._driver.stdout.readline()).strip() == b"gone"

    async def say(self, place: Any, text: str) -> None:
        who = place.people[len(self.sent) % len(place.people)]
        seen = len(place.shown(who))
        if await place.write(who, text):
            self.sent.append((place, who, text, seen))
        else:
            self.turned_away += 1

    async def all_say(self, text: str) -> None:
        """Everybody says something until they get an answer: a server may still take a line for a process that is gone."""
        pid, began = await self.start(), time.monotonic()
        everybody = [(place, who) for place in self.places for who in place.people]
        async with asyncio.timeout(WAIT):
            while waiting := [(place, who) for place, who in everybody if not self.answered(place, who, text)]:
                for place, who in waiting:
                    while not await place.write(who, text):
                        await asyncio.sleep(0.05)
                with contextlib.suppress(TimeoutError):
                    await until(lambda: any(self.answered(*each, text) for each in everybody), 15)
                    self.pace = self.pace or min(5.0, time.monotonic() - began)
                    await until(lambda: all(self.answered(*each, text) for each in everybody), 15)
        await self.kill(pid)

    async def chaos(self, kills: int) -> None:
        for number in range(kills):
            pid, pick = await self.start(), self.random
            for place in self.places:
                await asyncio.sleep(pick.uniform(0.0, self.pace / len(self.places)))
                await self.say(place, f"act {number}" if number % 4 == 0 else f"question {number}")
            await asyncio.sleep(pick.uniform(0.0, self.pace / 2))
            await self.kill(pid)
        pid = await self.start()
        await until(lambda: not self.silent() and all(place.quiet() for place in self.places))
        await self.kill(pid)
        await self.all_say("farewell")  # what would be said twice is said now

    def answered(self, place: Any, who: str, text: str, part: str = "Then more") -> int:
        return sum(shown.count(f"{part} about {text}.") for shown in place.shown(who) if MARK not in shown)

    def silent(self) -> list[str]:
        """What was neither answered nor marked: the person saw no word of doubt after they wrote it."""
        return [
            f"{place.name} {who}: {text}"
            for place, who, text, seen in self.sent
            if not self.answered(place, who, text) and not any(MARK in shown for shown in place.shown(who)[seen:])
        ]


def check(world: World) -> None:
    assert world.silent() == []
    for place, who, text, _ in world.sent:
        assert all(world.answered(place, who, text, part) <= 1 for part in ("First", "Then more")), text
        others = [one for one in place.people if one != who]
        assert not any(f"about {text}." in shown for one in others for shown in place.shown(one)), "another chat"
    acts = (world.folder / "acts").read_text().splitlines() if (world.folder / "acts").exists() else []
    # Each platform asks for each act once.
    assert all(acts.count(act) <= len(world.places) for act in acts), "a tool ran twice"


async def killed(folder: Path, names: tuple[str, ...], kills: int, seed: int) -> World:
    async with AsyncExitStack() as stack:
        # A chat gets no more than thirty messages in a minute, however often the program is started.
        people = max(4, kills // 12)
        places: list[Any] = []
        if "telegram" in names:
            places.append(Telegram(await stack.enter_async_context(serving()), people))
        if "irc" in names:
            port = await stack.enter_async_context(ngircd(folder))
            terminals = [await stack.enter_async_context(Person(port, f"p{number}")) for number in range(people)]
            places.append(Irc(port, terminals))
        world = await stack.enter_async_context(World(folder / "home", places, seed))
        await world.all_say("hello")  # whoever is known is told of gaps
        await world.chaos(kills)
        check(world)
        return world


@pytest.mark.parametrize("names", [("telegram",), ("irc",)], ids=lambda names: names[0])
async def test_twelve_kills_leave_nobody_without_an_answer_or_a_word_of_doubt(tmp_path: Path, names: Any) -> None:
    world = await killed(tmp_path, names, 12, seed=3)
    assert world.sent


@pytest.mark.deep
async def test_two_hundred_kills_leave_nobody_without_an_answer_or_a_word_of_doubt(tmp_path: Path) -> None:
    world = await killed(tmp_path, ("telegram", "irc"), 200, seed=17)
    rows = [(place.name, world.answered(place, who, text)) for place, who, text, _ in world.sent]
    told = [f"turned away because nobody was there: {world.turned_away}"]
    for name in ("telegram", "irc"):
        counts = [count for place, count in rows if place == name]
        told += [f"{name}: {len(counts)} messages, {counts.count(1)} answered once, {counts.count(0)} in doubt"]
    (tmp_path / "report.txt").write_text("\n".join(told))
